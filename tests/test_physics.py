"""llmwrappers/physics.py: across which versions of MuJoCo returns are comparable, and who says so."""

import json

import pytest

from cleanrl_scripts.common.arguments import RunArgs, resumed_args
from llmwrappers.physics import moved_between, note_on_returns


@pytest.mark.parametrize(
    ("env_id", "before", "now", "moved"),
    [
        ("Hopper-v4", "3.4.0", "3.5.0", "3.5"), ("Hopper-v5", "3.5.0", "4.0.0", ""), ("Ant-v4", "3.5.0", "4.0.0", "4.0"),
        ("Ant-v4", "3.1.6", "4.0.0", "4.0"), ("Ant-v4", "4.0.0", "3.4.0", "4.0"), ("Ant-v4", "3.4.0", "3.4.0", ""),
        ("Walker2d-v4", "3.1.0", "4.0.0", ""), ("Hopper-v4", None, "4.0.0", ""), ("my_package:Ant-v0", "3.4.0", "4.0.0", ""),
        ("Ant-v4", "3.10.0", "3.11.0", ""),
    ],
)  # fmt: skip
def test_moved_between(env_id, before, now, moved):
    assert moved_between(env_id, before, now) == moved


def test_the_note_names_the_environments():
    note = note_on_returns(["Hopper-v4", "Walker2d-v4"], "3.4.0", "4.0.0")
    assert note.endswith("returns with mujoco 3.4.0 and 4.0.0 are not comparable: Hopper-v4 (MuJoCo 3.5)")
    assert note_on_returns(["Walker2d-v4"], "3.4.0", "4.0.0") == ""


def test_a_resumed_run_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda package: "4.0.0")
    saved = {"args": vars(RunArgs(exp_name="name", env_id="Ant-v4")), "versions": {"mujoco": "3.3.0"}}
    (tmp_path / "args.json").write_text(json.dumps(saved))
    resumed_args(RunArgs(exp_name="name", resume=str(tmp_path)), ["--resume", str(tmp_path)], lambda args: {}, lambda args: {})
    assert "returns with mujoco 3.3.0 and 4.0.0 are not comparable: Ant-v4 (MuJoCo 4.0)" in capsys.readouterr().out
