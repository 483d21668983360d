"""The prompts about episodes: each stands alone, and shows what its budget allows."""

import dataclasses
import json
import re

import gymnasium as gym
import numpy as np
import pytest
from conftest import Turns
from corridor import CORRIDOR, FACTS, NAMES
from scripted import GOOD, find, play

from llmwrappers import CriticalStates
from local_llm.prompting import facts as local_facts
from local_llm.prompting.episode_prompts import Case, Episodes, Settings
from local_llm.selection.trial import Trial

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date.*:DeprecationWarning")


@pytest.fixture(scope="module")
def trajectories():
    return play("Pendulum-v1")


@pytest.fixture
def env():
    return gym.make("Pendulum-v1")


def test_each_prompt_stands_alone(trajectories, env, tmp_path):
    _, backend = find(trajectories, env, tmp_path, *GOOD)
    for prompt in backend.prompts:
        assert "environment `Pendulum-v1`" in prompt
        assert "The goal: swing the pendulum up" in prompt
        assert "## Rewards" in prompt  # of the documentation
        assert "angular velocity [rad/s]" in prompt  # of the legend
        assert not re.search(r"<<|>>|\{[a-z_]+\}|None", prompt)
    states, actions, rewards, code = backend.prompts
    assert "episode 0, step 0 to 199; episode 1, step 0 to 199" in states
    assert "Name 1 to 2 states for each episode" in states
    for prompt in (actions, rewards):
        assert prompt.count("\n--> step ") == 3
        assert "\nstep 32: " in prompt
        assert "\nAt step 33: cos(theta) = " in prompt
        assert "\nEpisode 1: 200 steps, return " in prompt
        assert "It swings (1, 33)." in prompt
    assert "a list of length 1: numbers in the order of the entries of the action, each in [-2, 2]" in actions
    assert "Suggested action: [0.5]. Push 1." in rewards
    assert "Push" not in actions
    assert "Reward for being here: 0.5. Case 2." in code
    assert f"obs = {[float(f'{x:.3g}') for x in trajectories.observations[120]]}" in code
    assert "true in about 5% of the agent's steps" in code


def test_the_example_of_each_format_passes_its_own_schema(trajectories, env, tmp_path):
    _, backend = find(trajectories, env, tmp_path, *GOOD)
    for prompt, schema in zip(backend.prompts[:3], backend.schemas[:3], strict=True):
        (example,) = re.findall(r"```json\n(\{.*?\n\})\n```", prompt, re.DOTALL)
        value = json.loads(example)
        assert list(value) == schema["required"]
        key = schema["required"][-1]
        item = schema["properties"][key]["items"]
        assert list(value[key][0]) == item["required"] == list(item["properties"])


def test_more_budget_shows_more(trajectories, env):
    few, many = (
        Episodes(trajectories, env, Settings(2, 2, budget)).states_prompt().count("\nstep ") for budget in (1000, 4000)
    )
    assert 5 < few < many <= 400


class Digits:
    """A model with a token for each character."""

    model, revision = "digits", None

    def count_tokens(self, text):
        return len(text)


def test_a_budget_is_in_tokens_of_the_model_where_they_can_be_counted(trajectories, env):
    texts = [
        Episodes(trajectories, env, Settings(2, 2, 3000), backend).states_prompt().partition("# Episodes of the agent\n")[2]
        for backend in (None, Digits())
    ]
    by_estimate, by_tokens = (len(text.partition("\n\n# Task")[0]) for text in texts)
    assert 6000 < by_estimate <= 9000 + 100
    assert 2000 < by_tokens <= 3000 + 100


@pytest.fixture
def corridor(tmp_path, monkeypatch):
    """Episodes of random actions in a corridor with facts of its own, and the corridor."""
    (tmp_path / "Corridor-v0.toml").write_text(FACTS)
    monkeypatch.setattr(local_facts, "FACTS_FOLDER", tmp_path)
    return play(CORRIDOR), gym.make(CORRIDOR)


def test_the_notes_of_the_facts_stand_in_every_prompt(corridor):
    prompts = Episodes(*corridor, Settings(2, 2, 2000))
    cases = [Case(0, 3, "It is locked in.", action=2)]
    note = {"rationale": "It was.", "reasoning": "It does."}
    table = CriticalStates(corridor[0].observations[:1].astype(float), [2], [0.0], np.ones(len(NAMES)), 1.0, notes=[note])
    trial = Trial([{"entry": 0, "played": 0, "withheld": 0, "low": None}], corridor[0])
    texts = [prompts.states_prompt(), prompts.round_prompt(table, trial, 0.0)]
    for text in [*texts, *(prompts.cases_prompt(name, cases) for name in ("actions", "rewards", "code"))]:
        facts, _, rest = text.partition("# Facts\n")[2].partition("\n\n# How to read what follows\n")
        assert facts.endswith(
            "An episode lasts at most 300 steps.\n- Only whoever carries the key opens the door.\n"
            "- Forward into a wall, a key or a closed door does nothing."
        )
        assert rest


@pytest.mark.parametrize("env_id", ["Hopper-v4", "CartPole-v1"])
def test_other_environments_have_prompts(env_id):
    prompt = Episodes(play(env_id), gym.make(env_id), Settings(2, 2, 2000)).states_prompt()
    assert f"environment `{env_id}`" in prompt
    assert ("torso height" in prompt) == (env_id == "Hopper-v4")
    assert len(prompt) / 3 < 2000 + 6000


class Leaving(Turns):
    """Observes the step, which soon leaves the declared bounds."""

    def _observe(self):
        return np.array([self.t], np.float32)


class DictLeaving(Leaving):
    def __init__(self, **options):
        super().__init__(**options)
        self.observation_space = gym.spaces.Dict(time=self.observation_space)

    def _observe(self):
        return {"time": super()._observe()}


@pytest.mark.parametrize(
    ("kind", "wrap", "entry"),
    [
        (Leaving, lambda env: env, "Each entry of the observation lies in "),
        (DictLeaving, gym.wrappers.FlattenObservation, "`obs[0:1]`: time, array of shape (1,), each entry in "),
    ],
)
def test_bounds_that_observations_leave_are_no_facts(kind, wrap, entry, monkeypatch):
    gym.register("Leaving-v0", kind, kwargs={"steps": 9}, disable_env_checker=True)
    monkeypatch.setitem(gym.registry, "Leaving-v0", gym.registry.pop("Leaving-v0"))  # and so it is gone afterwards
    prompt = Episodes(play("Leaving-v0", wrap=wrap), wrap(gym.make("Leaving-v0")), Settings(2, 2, 2000)).states_prompt()
    said = "[0, 9] in episodes of random and of constant actions; the declared bounds, from 0 to 1, do not hold"
    assert entry + said in prompt
    assert "An episode lasts 9 steps: each of 5 that were played" in prompt


@pytest.mark.parametrize(
    ("env_id", "actions", "message"),
    [
        ("Pendulum-v1", lambda a: a * 2, r"actions of shape \(1,\) from -3\.\d+ to 3\.\d+, got the environment's Box\(-2"),
        ("Pendulum-v1", lambda a: np.repeat(a, 2, axis=1), r"actions of shape \(2,\)"),
        ("Pendulum-v1", lambda a: np.zeros(len(a), np.int64), r"actions of shape \(\) from 0 to 0"),
        (
            "CartPole-v1",
            lambda a: a + 1,
            r"from 1 to 2, got the environment's Discrete\(2\); record what the environment executed",
        ),
        ("CartPole-v1", lambda a: a[:, None] * 0.5, r"actions of shape \(1,\)"),
    ],
)
def test_actions_that_the_environment_does_not_take_are_refused(env_id, actions, message):
    """As of an agent that acts in [-1, 1], or from 0 on: the model would read of what was never done."""
    played = play(env_id)
    Episodes(played, gym.make(env_id), Settings(2, 2, 2000))
    with pytest.raises(ValueError, match=message):
        Episodes(dataclasses.replace(played, actions=actions(played.actions)), gym.make(env_id), Settings(2, 2, 2000))
