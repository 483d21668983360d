"""local_llm/selection/training.py: what runs are given, and what they cost."""

import pytest

from local_llm.selection.training import Trained, least_steps, plan, training_settings


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
