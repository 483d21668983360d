"""The whole way, with an agent that goes on learning: no trial is made up here."""

import json
import shutil

import pytest
from scripted import GOOD, OPTIONS, ROUND_2, Scripted, play

from llmwrappers import CriticalStates, Trajectories
from local_llm import find_critical_states as command
from local_llm.find_critical_states import main
from local_llm.models.recorded import Recorded
from local_llm.selection import trial as module

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date.*:DeprecationWarning")


@pytest.fixture(scope="module")
def trajectories():
    return play("Pendulum-v1")


@pytest.fixture
def saved(tmp_path, trajectories, monkeypatch):
    """The file of the trajectories, in the working directory."""
    monkeypatch.chdir(tmp_path)
    trajectories.save(tmp_path / "trajectories.npz")
    return tmp_path / "trajectories.npz"


@pytest.fixture(scope="module")
def pretrained(ppo_ultra, tmp_path_factory):
    """The folder of an agent for Pendulum-v1 with its episodes."""

    runs = tmp_path_factory.mktemp("pretrained")
    ppo_ultra.main(
        ["--env-id", "Pendulum-v1", "--pretrain-timesteps", "2048", "--update-epochs", "1", "--eval-episodes", "1",
         "--trajectory-episodes", "3", "--no-cuda", "--runs-dir", str(runs)]
    )  # fmt: skip
    (run_dir,) = runs.iterdir()
    return run_dir


class TestTrial:
    ROUNDS = ("--rounds", "2", "--round-timesteps", "2048")
    TEXTS = (*GOOD[:3], ROUND_2[3], *ROUND_2)  # code that is true now and then in its episodes

    def run(self, monkeypatch, pretrained, backend, *arguments):
        monkeypatch.setattr(command, "make_backend", lambda args: backend)
        return main(["--trajectories", str(pretrained / "trajectories.npz"), *OPTIONS, *self.ROUNDS, *arguments])

    def test_the_table_is_tried_once_and_both_rounds_are_rebuilt(self, pretrained, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)

        def ask(*arguments):
            backend = Recorded(Scripted(*self.TEXTS), "recordings")
            return self.run(monkeypatch, pretrained, backend, "--recordings", "recordings", *arguments)

        folder = tmp_path / "tables" / "Pendulum-v1"
        assert ask() == 0
        rows = json.loads((folder / "entries.json").read_text())
        first = CriticalStates.load(folder / "table-1.json")
        assert [(r["entry"], r["action"], r["reward"]) for r in rows] == [
            (i, first.actions[i].tolist(), first.rewards[i]) for i in range(3)
        ]
        assert sum(r["played"] for r in rows) > 0
        assert sum(r["withheld"] for r in rows) > 0
        assert len(Trajectories.load(folder / "trajectories-2.npz")) == 3
        assert CriticalStates.load(folder / "table.json").notes[0]["rationale"] == "It stalls (0, 11)."
        (trial,) = folder.glob("trial-*")
        (run_dir,) = trial.glob("*/")
        description = json.loads((run_dir / "args.json").read_text())["args"]
        assert (description["arm"], description["control_probability"], description["total_timesteps"]) == ("a", 0.5, 2048)

        tables = {name: (folder / name).read_bytes() for name in ("table.json", "table-1.json", "critical.py")}
        monkeypatch.setattr(module, "train", None)  # the trial is there
        assert ask() == 0
        assert {name: (folder / name).read_bytes() for name in tables} == tables
        shutil.copy(pretrained / "trajectories.npz", folder)
        assert main(["--replay", str(folder), "--output", "again"]) == 0
        assert "byte for byte" in capsys.readouterr().out
        for path in (*folder.glob("prompt-*"), *folder.glob("reply-*"), *folder.glob("*-1.*")):
            assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()

        assert ask("--rounds", "1") == 0
        assert (folder / "table.json").read_bytes() == tables["table-1.json"]
        assert not {path.name for path in folder.iterdir()} & {"table-1.json", "entries.json", "prompt-states-2.txt"}

    def test_what_is_missing_or_fails_is_named(self, saved, pretrained, monkeypatch, tmp_path, capsys):
        monkeypatch.chdir(tmp_path)
        backend = Scripted(*self.TEXTS[:4])
        assert self.run(monkeypatch, saved.parent, backend) == 1
        assert f"{saved.with_name('agent.pt')} must be there" in capsys.readouterr().err
        assert len(backend.texts) == 4
        shutil.copytree(pretrained, tmp_path / "damaged")
        (tmp_path / "damaged" / "agent.pt").write_bytes(b"")
        assert self.run(monkeypatch, tmp_path / "damaged", backend, "--output", "short") == 1
        error = capsys.readouterr().err
        assert "the trial of the table failed: the first run, Pendulum-v1 a seed 0, did not start: exit code 1" in error
        assert "agent.pt is no agent.pt of this script" in error
        assert (tmp_path / "short" / "table.json").exists()
