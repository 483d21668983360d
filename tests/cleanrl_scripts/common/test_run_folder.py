"""cleanrl_scripts/common/run_folder.py: what a run folder tells."""

import json
import subprocess

import gymnasium as gym
import numpy as np

from cleanrl_scripts.common import run_folder
from cleanrl_scripts.common.arguments import RunArgs


def test_a_run_is_of_a_commit_though_committed_curves_grow(tmp_path, monkeypatch):
    code, curves = tmp_path / "cleanrl_scripts" / "common" / "script.py", tmp_path / "benchmarks" / "comparisons" / "curves.csv"
    for path in (code, curves):
        path.parent.mkdir(parents=True)
        path.write_text("as committed")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "Begin"]):
        subprocess.run([*git, *command], check=True)
    monkeypatch.setattr(run_folder, "__file__", str(code))

    def commit() -> str:
        return run_folder.describe(RunArgs(exp_name="name"), gym.make("Pendulum-v1"), {})["git_commit"]

    clean = commit()
    assert len(clean) == 40
    curves.write_text("and more")
    assert commit() == clean
    code.write_text("not as committed")
    assert commit() == f"{clean}-dirty"


def test_arguments_of_any_kind_are_described(tmp_path):
    env = gym.make("Pendulum-v1")
    env.unwrapped.spec.kwargs["layout"] = {(0, 0): "wall", "doors": [{1: np.float32}]}
    run_folder.write_description(tmp_path, run_folder.describe(RunArgs(exp_name="name"), env, {}))
    layout = json.loads((tmp_path / "args.json").read_text())["env_spec"]["kwargs"]["layout"]
    assert layout == {"(0, 0)": "wall", "doors": [{"1": str(np.float32)}]}
