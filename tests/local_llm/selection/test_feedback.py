"""local_llm/selection/feedback.py: a model is told what happened and what to improve, and no more than it can use."""

import re
from pathlib import Path

import gymnasium as gym
import pytest
from conftest import Endless

from llmwrappers import load_prior
from llmwrappers.making import make
from llmwrappers.priors.measurement import Measurement, measure, random_actions
from local_llm.selection.choose import Candidate
from local_llm.selection.feedback import report_text


@pytest.fixture(scope="module")
def random() -> Measurement:
    """What random actions return on Pendulum-v1."""
    env = make("Pendulum-v1")
    return measure(env, random_actions(env.action_space, seed=0), episodes=2, seed=0)


def test_it_says_what_happened_and_what_to_improve(random):
    candidate = Candidate(2, "", Path(), lambda obs: [2.0])
    measurement = measure(make("Pendulum-v1"), candidate.policy, episodes=2, seed=0)
    text = report_text("Pendulum-v1", candidate, measurement, random)
    assert "action components at a bound: 100%" in text
    assert "- 100% of the action components are at a bound: lower the gains" in text
    assert re.search(r"^return: -\d+ \+- [\d.]+ \(random actions: -\d+ \+- [\d.]+\)$", text, re.MULTILINE)
    assert "The worst episode:" in text
    states = re.findall(r"^(\d+) \| \[.*\] \| \[2\] \| -[\d.]+$", text, re.MULTILINE)
    assert (states[0], states[-1], len(states)) == ("0", "199", 8)


def test_integers_are_shown_as_the_policy_gets_them(random):
    candidate = Candidate(1, "", Path(), lambda obs: 0)
    text = report_text("Taxi-v4", candidate, measure(make("Taxi-v4"), candidate.policy, episodes=2, seed=0), random)
    assert re.search(r"^0 \| \[\d{1,3}\] \| \[0\] \| -\d+$", text, re.MULTILINE)


def test_a_fall_is_named():
    policy = load_prior("Hopper-v5", 1)
    measurement = measure(make("Hopper-v5"), policy, episodes=2, seed=0)
    text = report_text("Hopper-v5", Candidate(1, "", Path(), policy), measurement, measurement)
    assert "terminated by the environment: 2 of 2 episodes" in text
    assert "- The environment ended 2 of 2 episodes, after 19" in text
    assert "the environment ended it (terminated)" in text
    assert re.search(r"Its reward, mean a step: reward_forward -?[\d.]+, reward_ctrl -[\d.]+, reward_survive 0.99", text)
    assert len(text.split()) < 1500


@pytest.mark.filterwarnings("ignore:an episode of Ending-v0 was cut")
@pytest.mark.parametrize(
    ("own_end", "limit", "ending"),
    [
        (9, 20, "in 9 steps, the environment ended it (truncated)."),
        (9, None, "in 9 steps, the environment ended it (truncated)."),
        (None, 20, "in 20 steps, the time limit ended it."),
        (None, None, "in 10000 steps, at which it was cut: nothing else ended it."),
    ],
)
def test_who_cut_an_episode_is_said(own_end, limit, ending, monkeypatch):
    gym.register("Ending-v0", Endless, max_episode_steps=limit)
    monkeypatch.setitem(gym.registry, "Ending-v0", gym.registry.pop("Ending-v0"))  # and so it is gone afterwards
    candidate, kwargs = Candidate(1, "", Path(), lambda obs: [0.0]), {"own_end": own_end}
    measurement = measure(make("Ending-v0", **kwargs), candidate.policy, episodes=1, seed=0)
    assert ending in report_text("Ending-v0", candidate, measurement, measurement, env_kwargs=kwargs)


def test_the_episode_is_the_worst_of_those_measured():
    def policy(obs):
        return [-2.0 * obs[1] - 0.5 * obs[2]]

    measurement = measure(make("Pendulum-v1"), policy, episodes=3, seed=5)
    text = report_text("Pendulum-v1", Candidate(1, "", Path(), policy), measurement, measurement, seed=5)
    (shown,) = re.findall(r"The worst episode: return (-[\d.]+) in 200 steps, the time limit ended it", text)
    assert float(shown) == pytest.approx(min(measurement.returns), abs=0.5)


def test_faults_come_first():
    def fails(obs):
        raise ZeroDivisionError("division by zero")

    measurement = measure(make("Pendulum-v1"), fails, episodes=2, seed=0)
    text = report_text("Pendulum-v1", Candidate(1, "", Path(), fails), measurement, measurement)
    advice = re.findall(r"^- (.*)$", text, re.MULTILINE)
    assert advice[0].startswith("400 calls failed (ZeroDivisionError: division by zero): return finite numbers")


@pytest.mark.parametrize(
    ("measurement", "advice"),
    [
        ({"distances": [-1.0]}, "It does not move forward at all."),
        ({"distances": [9.0], "steadiness": 0.2}, "Its forward speed is not steady"),
        ({"chatter": 0.5}, "The action jumps from one step to the next"),
        ({"microseconds": 2500.0}, "Nothing is broken"),  # the machine may be busy
        ({"returns": [-9999.0]}, "It is no better than random actions"),
        ({}, "Nothing is broken"),
    ],
)
def test_advice_follows_the_numbers(random, measurement, advice):
    candidate = Candidate(1, "", Path(), lambda obs: [-2.0 * obs[1] - 0.5 * obs[2]])
    fine = {"returns": [0.0], "steps": [200], "survival": 1.0, "saturation": 0.1, "chatter": 0.01, "microseconds": 9.0}
    text = report_text("Pendulum-v1", candidate, Measurement(**{**fine, **measurement}), random)
    found = re.findall(r"^- (.*)$", text, re.MULTILINE)
    assert len(found) == 1
    assert found[0].startswith(advice)


def test_large_observations_stay_compact(monkeypatch):
    policy = load_prior("Ant-v5", 2)
    measurement = measure(make("Ant-v5"), policy, episodes=2, seed=0)
    text = report_text("Ant-v5", Candidate(2, "", Path(), policy), measurement, measurement)
    assert len(text.split()) < 1500


def test_a_rejected_candidate_has_no_report():
    with pytest.raises(ValueError, match="candidate 4 has no policy to report on, it was rejected: no code"):
        report_text("Pendulum-v1", Candidate(4, "", Path(), rejected="no code"), Measurement(), Measurement())
