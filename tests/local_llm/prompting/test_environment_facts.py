"""Tests of local_llm.prompting.environment_facts: what is stated is true, and what is not sure is not stated."""

import enum
from dataclasses import dataclass
from types import SimpleNamespace

import ale_py  # noqa: F401  it registers ALE/Breakout-v5
import gymnasium as gym
import minigrid
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from local_llm.prompting.environment_facts import action_names, control_step, grid_words, model_xml, step_limit
from local_llm.prompting.render import render_prompt


class Knowing(gym.Env):
    """Has what its attributes say."""

    observation_space, action_space = Box(-1.0, 1.0, (2,)), Discrete(2)

    def __init__(self, **attributes):
        vars(self).update(attributes)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}


@dataclass
class Mapped:
    """Numbers actions as Tetris does."""

    left: int
    right: int


@pytest.mark.parametrize(
    ("dt", "frames_a_second", "stated"), [(0.01, 10, None), (0.1, 10, 0.1), (0.02, None, None), (None, 10, None)]
)
def test_a_time_step_is_stated_where_the_frames_agree_with_it(dt, frames_a_second, stated):
    assert control_step(Knowing(dt=dt, metadata={"render_fps": frames_a_second})) == stated


@pytest.mark.parametrize(
    ("attributes", "steps"),
    [
        ({"max_steps": 100}, 100),
        ({"config": {"duration": 40, "policy_frequency": 5}}, 200),
        ({"max_path_length": 500}, 500),
        ({"_env": Knowing(_step_limit=float("inf"))}, None),
        ({"_env": Knowing(_step_limit=1000.0)}, 1000),
        ({}, None),
    ],
)
def test_the_environments_own_limit_is_known(attributes, steps):
    assert step_limit(Knowing(**attributes)) == steps


def test_the_least_of_all_limits_holds():
    assert step_limit(gym.wrappers.TimeLimit(Knowing(max_steps=100), 30)) == 30
    assert step_limit(gym.wrappers.TimeLimit(Knowing(max_steps=100), 300)) == 100


def test_actions_have_the_names_that_the_environment_gives_them():
    assert action_names(gym.make("ALE/Breakout-v5")) == "0 NOOP, 1 FIRE, 2 RIGHT, 3 LEFT"
    assert action_names(gym.make("MiniGrid-Empty-5x5-v0")).startswith("0 left, 1 right, 2 forward, 3 pickup")
    assert action_names(Knowing(action_type=Knowing(actions={0: "LEFT", 1: "IDLE"}))) == "0 LEFT, 1 IDLE"
    assert action_names(Knowing(action_type=Knowing(actions={0: "LEFT"}))) is None  # not all of them
    assert action_names(Knowing(actions=Mapped(left=1, right=0))) == "0 right, 1 left"
    assert action_names(Knowing(actions=Mapped(left=1, right=2))) is None
    assert action_names(Knowing(actions=enum.Enum("Actions", {"left": 0, "right": 1}))) == "0 left, 1 right"
    assert action_names(Knowing(actions=enum.Enum("Actions", {"left": "l", "right": "r"}))) is None
    assert "- The actions are: 0 NOOP, 1 FIRE, 2 RIGHT, 3 LEFT.\n" in render_prompt("ALE/Breakout-v5")


class Task:
    """Walks."""

    def __init__(self):
        self._move_speed = 1

    def get_observation(self, physics):
        return {"height": physics.height()}

    def get_reward(self, physics):
        return physics.height() > _STAND_HEIGHT


class Physics:
    model = SimpleNamespace(ptr=None)

    def height(self):
        return 2.0


_STAND_HEIGHT, _FLY_HEIGHT = 1.2, 9.9


def test_a_task_of_dm_control_shows_what_it_observes_and_rewards():
    of_dm_control = type("Environment", (SimpleNamespace,), {"__module__": "dm_control.rl.control"})
    adapted = of_dm_control(task=Task(), physics=Physics(), control_timestep=lambda: 0.025, _step_limit=1000.0)
    gym.register("llmwrappers-tests/Adapted-v0", entry_point=lambda: Knowing(_env=adapted))
    prompt = render_prompt("llmwrappers-tests/Adapted-v0")
    assert "```python\n_STAND_HEIGHT = 1.2\n\nclass Task:" in prompt
    assert '        return {"height": physics.height()}' in prompt
    assert "    def height(self):\n        return 2.0" in prompt
    assert "Its attribute _move_speed is 1." in prompt
    assert "_FLY_HEIGHT" not in prompt
    assert "- Control time step: 0.025 s. An episode lasts at most about 1000 steps.\n" in prompt


@pytest.mark.parametrize("held", [{"task": "push"}, {"control_timestep": 0.05}, {"physics": "bullet", "task": "push"}], ids=str)
def test_another_adapters_attributes_are_not_taken_for_those_of_dm_control(held):
    env_id = "llmwrappers-tests/Simulating-v0"
    gym.registry.pop(env_id, None)
    gym.register(env_id, entry_point=lambda: Knowing(_env=SimpleNamespace(**held)))
    assert "# Facts" in render_prompt(env_id)


def test_a_grids_image_is_described_as_its_package_makes_it():
    """Found out from an observation: the key, which lies to the right of the agent, and what the agent carries."""
    env = gym.make("MiniGrid-DoorKey-5x5-v0")
    words = grid_words(env)
    assert "the agent is at i = 3, j = 6 and looks towards j = 0; i grows to its right" in words
    assert "Objects: 0 unseen, 1 empty, 2 wall, 3 floor, 4 door, 5 key" in words
    observation, _ = env.reset(seed=0)  # the agent looks to the left, the key lies above it: to its right
    base = env.unwrapped
    assert (observation["direction"], tuple(base.agent_pos)) == (2, (1, 3))
    assert base.grid.get(1, 2).type == "key"
    assert observation["image"][4, 6, 0] == 5
    for action in (1, 3):  # turn right, pick up
        observation, *_ = env.step(action)
    assert observation["direction"] == 3
    assert observation["image"][3, 6, 0] == 5
    with pytest.warns(UserWarning, match="text is left out of the observation: mission"):
        assert f"- The image: {words}\n" in render_prompt("MiniGrid-DoorKey-5x5-v0")


def test_another_image_is_not_described():
    """Of the same shape as the view, but the whole grid."""
    env = minigrid.wrappers.FullyObsWrapper(gym.make("MiniGrid-Empty-8x8-v0", agent_view_size=7))
    assert grid_words(gym.wrappers.FilterObservation(env.env, ["image"]))
    assert grid_words(env) is None
    assert grid_words(Knowing(agent_view_size=7)) is None


def test_what_a_model_includes_is_put_in_its_place(tmp_path):
    import mujoco

    (tmp_path / "part.xml").write_text('<mujoco><worldbody><body name="hand"><geom size="1"/></body></worldbody></mujoco>')
    path = tmp_path / "whole.xml"
    path.write_text('<mujoco><include file="part.xml"/></mujoco>')
    model = mujoco.MjModel.from_xml_path(str(path))
    for env in (Knowing(fullpath=str(path), model=model), Knowing(model=model)):
        text = model_xml(env, {})
        assert 'body name="hand"' in text
        assert "<include" not in text
    assert model_xml(Knowing(), {}) is None
