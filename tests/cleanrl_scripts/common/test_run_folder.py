"""cleanrl_scripts/common/run_folder.py: what a run folder tells."""

import errno
import json
import random
import subprocess

import gymnasium as gym
import numpy as np
import pytest

from cleanrl_scripts.common import run_folder
from cleanrl_scripts.common.arguments import RunArgs
from llmwrappers.errors import UserError


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


def test_runs_that_start_in_the_same_second_have_folders_and_ids_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder.time, "time", lambda: 1000.5)
    args, folders = RunArgs(exp_name="name", runs_dir=str(tmp_path)), []
    for _ in range(3):
        with run_folder.run_folder(args, "arm", gym.make("Pendulum-v1"), {}) as run_dir:
            folders.append(run_dir)
    assert [folder.name for folder in folders] == [f"Hopper-v4__name__arm__1__{second}" for second in (1000, 1001, 1002)]
    assert len({json.loads((folder / "args.json").read_text())["wandb_id"] for folder in folders}) == 3


@pytest.mark.parametrize(
    ("error", "is_of_the_disk"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (PermissionError(errno.EACCES, "Permission denied", "{run_dir}/videos/a.mp4"), True),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), False),
        (TimeoutError("timed out"), False),
        (FileNotFoundError(errno.ENOENT, "No such file", "map.json"), False),
    ],
)
def test_an_error_of_the_environment_is_not_called_one_of_the_disk(tmp_path, error, is_of_the_disk):
    def run():
        with run_folder.run_folder(RunArgs(runs_dir=str(tmp_path)), "arm", gym.make("Pendulum-v1"), {}) as run_dir:
            if error.filename:
                error.filename = error.filename.format(run_dir=run_dir)
            raise error

    with pytest.raises(UserError if is_of_the_disk else type(error)) as raised:
        run()
    assert ("What was written before is kept" in str(raised.value)) == is_of_the_disk


def test_environments_that_draw_from_the_global_streams_repeat():
    def drawn(seed):
        run_folder.prepare_torch(False, seed)
        return random.random(), np.random.random()  # noqa: NPY002

    before, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002
    assert drawn(1) == drawn(1) != drawn(2)
    random.setstate(before)
    np.random.set_state(numpys)  # noqa: NPY002
