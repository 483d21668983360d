"""local_llm/selection/training.py: what runs are given, and what they cost."""

import pytest

from llmwrappers.errors import UserError
from local_llm.selection import training as module
from local_llm.selection.training import Trained, TrainingFailed, least_steps, plan, train, training_settings


def test_learned_is_the_mean_over_the_last_third():
    run = Trained(1, 0, "", steps=[0, 60, 80, 120], returns=[1.0, 2.0, 4.0, 8.0])
    assert run.learned() == 6.0


@pytest.mark.parametrize("rollouts", [2, 3, 5, 6, 14, 100])
def test_a_run_is_a_clone_and_rollouts_and_about_12_evaluations(rollouts):
    settings = training_settings(rollouts * 2048, 200)
    assert 1000 <= settings["clone_steps"] <= min(20_000, settings["total_timesteps"] - 2048)
    assert (settings["total_timesteps"] - settings["clone_steps"]) % settings["num_steps"] == 0
    assert settings["total_timesteps"] / settings["eval_every"] == pytest.approx(min(rollouts, 12), rel=0.01)


def test_a_run_is_long_enough_to_play_its_prior():
    """Two episodes of the candidate and of random actions, one of doing nothing, and one that it is cloned in."""
    assert training_settings(least_steps(1000), 1000)["clone_steps"] >= 6 * 1000
    assert training_settings(least_steps(5000), 5000)["clone_steps"] >= 6 * 5000
    assert training_settings(10 * least_steps(5000), 5000)["clone_steps"] >= 6 * 5000


@pytest.mark.parametrize(("candidates", "rungs"), [(0, [1]), (1, [1]), (2, [2, 1]), (3, [3, 2, 1])])
def test_a_plan_stays_within_the_budget(candidates, rungs):
    planned, runs_of_rungs, steps = plan(candidates, 100_000, time_limit=200)
    runs = sum(size + 1 for size in rungs[:-1]) + 6
    assert (planned, sum(runs_of_rungs)) == (rungs, runs)
    assert 100_000 - 2048 * runs < runs * steps <= 100_000
    assert steps % 2048 == 0


@pytest.mark.parametrize("changed", ["ppo_camel.py", "common/logger.py", "learning/gae.py"])
def test_a_run_of_other_code_is_another_run(tmp_path, monkeypatch, changed):
    """Whatever of the code a run executes: its folder is another one."""
    folders = []

    def no_training(runs):
        folders.append(runs[0].folder)
        raise UserError("that is all")

    monkeypatch.setattr(module, "SCRIPT", tmp_path / "ppo_camel.py")
    for name in ("ppo_camel.py", "common/logger.py", "learning/gae.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("pass\n")
    for code in ("pass\n", "pass\n", "other = 1\n"):
        (tmp_path / changed).write_text(code)
        with pytest.raises(TrainingFailed, match="that is all"):
            train("Pendulum-v1", {}, 1, {"total_timesteps": 2048}, {None: None}, range(1), tmp_path / "runs", no_training)
    first, again, other = folders
    assert first == again != other


def test_a_run_of_a_changed_environment_is_another_run(tmp_path):
    """The user mends the environment and gives the same command: old runs would decide about new policies."""
    folders = []

    def no_training(runs):
        folders.append(runs[0].folder)
        raise UserError("that is all")

    for fingerprint in (1, 1, 2):
        with pytest.raises(TrainingFailed, match="that is all"):
            train("Pendulum-v1", {}, fingerprint, {"total_timesteps": 2048}, {None: None}, range(1), tmp_path, no_training)
    first, again, other = folders
    assert first == again != other
