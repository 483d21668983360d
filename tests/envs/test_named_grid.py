"""NamedGrid: what its numbers say of grids that are set by hand, and that they are the facts' entries."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from llmwrappers.envs.named_grid import NamedGrid
from local_llm.prompting.facts import load_facts

IDS = [f"llmwrappers/{name}-v0" for name in ("DoorKey", "KeyCorridor", "LockedRoom", "MultiRoom", "ObstructedMaze")]
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE = range(6)


def room(*things, slots=None):
    """A room of 5 x 5 free cells, the agent in the middle and facing right, with things at columns and rows."""
    import minigrid  # noqa: F401

    env = gym.make("MiniGrid-Empty-Random-6x6-v0", disable_env_checker=True).unwrapped
    env.reset(seed=0)
    grid = type(env.grid)(7, 7)
    grid.wall_rect(0, 0, 7, 7)
    for thing, x, y in things:
        grid.set(x, y, thing)
    env.grid, env.agent_pos, env.agent_dir = grid, (3, 3), 0
    return NamedGrid(env, **({} if slots is None else {"slots": slots}))


def named(env):
    return dict(zip(env.names, env.observation(None).tolist(), strict=True))


def test_things_lie_where_they_are_seen_from_the_agent():
    from minigrid.core.world_object import Ball, Box, Door, Goal, Key

    env = room(
        (Key("blue"), 5, 2), (Ball("red"), 1, 3), (Box("grey"), 3, 5), (Goal(), 4, 3), (Door("blue", is_locked=True), 6, 3)
    )
    seen = named(env)
    assert [seen[name] for name in ("x", "y", "heading x", "heading y", "kind ahead")] == [3, 3, 1, 0, 8]
    assert [seen[f"key 1 {name}"] for name in ("there", "ahead", "to the right", "colour")] == [1, 2, -1, 3]
    assert [seen[f"ball 1 {name}"] for name in ("there", "ahead", "to the right")] == [1, -2, 0]
    assert [seen[f"box 1 {name}"] for name in ("there", "ahead", "to the right")] == [1, 0, 2]
    assert [seen[f"locked door 1 {name}"] for name in ("there", "ahead", "to the right", "colour")] == [1, 3, 0, 3]
    assert [seen[f"key 2 {name}"] for name in ("there", "ahead", "to the right", "colour")] == [0, 0, 0, 0]
    assert [seen[f"free cells {way}"] for way in ("ahead", "to the right", "behind", "to the left")] == [2, 1, 1, 2]
    env.unwrapped.agent_dir = 1  # down
    seen = named(env)
    assert [seen["heading x"], seen["heading y"], seen["kind ahead"]] == [0, 1, 0]
    assert [seen["key 1 ahead"], seen["key 1 to the right"]] == [-1, -2]
    assert [seen["ball 1 ahead"], seen["ball 1 to the right"]] == [0, 2]


def test_what_is_done_to_things_shows():
    from minigrid.core.world_object import Door, Key

    env = room((Key("blue"), 4, 3), (Door("blue", is_locked=True), 3, 0))
    env.step(PICKUP)
    seen = named(env)
    assert [seen["carried kind"], seen["carried colour"], seen["key 1 there"], seen["kind ahead"]] == [1, 3, 0, 0]
    for action in (LEFT, FORWARD, FORWARD, TOGGLE):
        env.step(action)
    seen = named(env)
    assert [seen["kind ahead"], seen["locked door 1 there"], seen["open door 1 there"], seen["carried kind"]] == [4, 0, 1, 1]
    env.step(TOGGLE)
    assert named(env)["closed door 1 ahead"] == 1


def test_things_come_in_the_order_of_the_steps_to_them():
    from minigrid.core.world_object import Door, Wall

    # The near door is behind a wall and takes 6 steps, the far one 3; one is cut off.
    things = [(Door("red"), 3, 6), (Door("green"), 0, 3)]
    walls = [(Wall(), x, 4) for x in range(2, 6)]
    env = room(*things, *walls, slots={"closed door": 2})
    seen = named(env)
    assert [seen["closed door 1 ahead"], seen["closed door 2 to the right"]] == [-3, 3]
    env = room(*things, *walls, (Wall(), 1, 4), (Door("grey"), 3, 5), slots={"closed door": 3})
    assert [named(env)[f"closed door {i} to the right"] for i in (1, 2, 3)] == [0, 2, 3]


@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
@pytest.mark.parametrize("env_id", IDS)
def test_ids_are_environments_with_facts_that_name_their_numbers(env_id):
    env = gym.make(env_id)
    check_env(env, skip_render_check=True)
    facts = load_facts(env)
    assert facts is not None
    assert [entry.name for entry in facts.observation] == env.get_wrapper_attr("names")
    assert [entry.name for entry in facts.action] == ["left", "right", "forward", "pickup", "drop", "toggle", "done"]
    assert env.spec.max_episode_steps == env.unwrapped.max_steps == facts.episode_steps
    rebuilt = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    np.testing.assert_array_equal(rebuilt.reset(seed=5)[0], env.reset(seed=5)[0])
    env.action_space.seed(0)
    for _ in range(500):
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        assert env.observation_space.contains(observation)
        np.testing.assert_array_equal(observation, observation.round())
        if terminated or truncated:
            env.reset()


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match="serves environments of the package minigrid, got .*Pendulum"):
        NamedGrid(gym.make("Pendulum-v1"))
    with pytest.raises(ValueError, match="slots must be of the kinds key, .*; got dragon"):
        room(slots={"dragon": 1})
    with pytest.raises(ValueError, match="whole numbers of at least 0, got {'key': -1}"):
        room(slots={"key": -1})
