"""Tests of cleanrl_scripts.common.environments: environments as the scripts make them."""

import dataclasses
from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, Text, Tuple

from cleanrl_scripts.common.arguments import RunArgs
from cleanrl_scripts.common.environments import (
    flattened,
    make_env,
    note_endless_episodes,
    note_far_actions,
    refuse_action_space,
)
from llmwrappers.errors import UserError


def arguments(env_id, env_kwargs="{}"):
    return RunArgs(exp_name="test", env_id=env_id, env_kwargs=env_kwargs)


def test_an_environment_is_made_with_its_arguments():
    assert make_env(arguments("Pendulum-v1", '{"g": 1.62}')).unwrapped.g == 1.62


def test_an_episode_is_cut_where_the_user_says_so():
    env = make_env(dataclasses.replace(arguments("Pendulum-v1"), max_episode_steps=3))
    env.reset(seed=0)
    assert [env.step(env.action_space.sample())[3] for _ in range(3)] == [False, False, True]


def test_a_discrete_action_space_is_sent_to_the_script_that_takes_it():
    with pytest.raises(UserError, match=r"got Discrete\(2\); ppo_camel.py takes it"):
        refuse_action_space("CartPole-v1", "TD3", Discrete(2), discrete=False, bounded=True)
    refuse_action_space("CartPole-v1", "this PPO", Discrete(2), discrete=True, bounded=False)
    with pytest.raises(UserError, match=r"and Discrete\(6\), which numbers the combinations: .*; ppo_camel.py takes it"):
        refuse_action_space("X-v0", "TD3", MultiDiscrete([2, 3]), discrete=False, bounded=True)


@pytest.mark.parametrize(
    ("env_kwargs", "message"),
    [
        ("g=1.62", "--env-kwargs must be a JSON object, such as '{\"obs_type\": \"ram\"}', got 'g=1.62'"),
        ("[1.62]", "--env-kwargs must be a JSON object"),
        ('{"h": 1.62}', """--env-id Pendulum-v1 --env-kwargs '{"h": 1.62}': TypeError: """),
    ],
)
def test_arguments_that_cannot_be_are_one_sentence(env_kwargs, message):
    with pytest.raises(UserError) as error:
        make_env(arguments("Pendulum-v1", env_kwargs))
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("space", "way_out"),
    [
        (MultiDiscrete([2, 3]), r"Discrete\(6\), which numbers the combinations: lambda i: "),
        (MultiBinary(3), r"Discrete\(8\), which numbers the combinations: lambda i: "),
        (Dict(a=Discrete(2)), r"Discrete\(n\), .*, or a Box of floats that holds the parts one after the other"),
        (Tuple((Discrete(2),)), r"Discrete\(n\), .*, or a Box of floats that holds the parts one after the other"),
        (Box(0, 5, (2,), np.int64), "a Box of floats with finite bounds, which are rounded: lambda action: "),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_action_space_that_is_not_served_names_the_way_out(space, way_out):
    wrap = rf"register the environment with gymnasium\.wrappers\.TransformAction and {way_out}"
    with pytest.raises(UserError, match=rf"--env-id X-v0: this PPO needs a Box .*; {wrap}"):
        refuse_action_space("X-v0", "this PPO", space, discrete=True, bounded=False)


def test_the_way_out_of_a_multi_discrete_space_trains(ppo_ultra, tmp_path):
    gym.register("Numbered-v0", numbered)
    ppo_ultra.main(
        ["--env-id", "Numbered-v0", "--arm", "none", "--agent", "none", "--total-timesteps", "256", "--num-steps", "128",
         "--num-minibatches", "4", "--eval-episodes", "1", "--runs-dir", str(tmp_path)]
    )  # fmt: skip
    del gym.registry["Numbered-v0"]
    assert list(tmp_path.glob("*/summary.json"))


def test_a_render_that_shows_nothing_is_said(tmp_path):
    gym.register("Blind-v0", Blind)
    with pytest.raises(UserError, match=r"--env-id Blind-v0 --capture-video: ValueError: render\(\) returned None"):
        make_env(arguments("Blind-v0"), tmp_path)
    del gym.registry["Blind-v0"]


def test_what_the_first_observation_lacks_is_said_once(tmp_path):
    def blank(**kwargs):
        return gym.wrappers.TransformObservation(Blind(**kwargs), lambda _: np.full(1, np.nan), None)

    gym.register("Blank-v0", blank)
    with pytest.raises(UserError, match="^--env-id Blank-v0: step 0 of an episode returned NaN or Inf in observation"):
        make_env(arguments("Blank-v0"), tmp_path)
    del gym.registry["Blank-v0"]


class Combined(gym.Env):
    """Its reward is the number of the combination of its two actions."""

    observation_space, action_space = Box(-1, 1, (1,)), MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), float(np.ravel_multi_index(tuple(action), (2, 3))), False, True, {}


def numbered():
    shape = Combined.action_space.nvec
    return gym.wrappers.TransformAction(
        Combined(), lambda n: np.array(np.unravel_index(n, shape)), Discrete(int(np.prod(shape)))
    )


class Blind(Combined):
    metadata: ClassVar = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def render(self):
        return None


class Mission(gym.Space):
    """As minigrid's: of a kind that Gymnasium does not flatten."""

    def __init__(self):
        super().__init__(dtype=str)


class Observing(gym.Env):
    action_space = Discrete(2)

    def __init__(self, space):
        self.observation_space = space


def test_what_cannot_be_flattened_names_the_way_out():
    space = Dict(image=Box(0, 1, (2, 2)), mission=Mission(), place=Discrete(3))
    with pytest.raises(UserError) as error:
        flattened(Observing(space), "X-v0")
    assert str(error.value) == (
        "--env-id X-v0: cannot make numbers of 'mission' in the observation; register the environment with "
        "gymnasium.wrappers.FilterObservation, which leaves out entries"
    )
    flattened(gym.wrappers.FilterObservation(Observing(space), ["image", "place"]), "X-v0")


@pytest.mark.parametrize("space", [Tuple((Box(0, 1, (2,)), Mission())), Graph(Discrete(2), None)])
def test_what_has_no_entries_to_leave_out_is_shown(space):
    with pytest.raises(UserError) as error:
        flattened(Observing(space), "X-v0")
    assert str(error.value) == f"--env-id X-v0: cannot flatten {space} to a vector"


def test_what_can_be_flattened_is():
    for space, size in ((Box(-1, 1, (10, 5)), 50), (Discrete(3), 3), (Dict(a=Discrete(2), b=Tuple((Box(0, 1, (2,)),))), 4)):
        assert flattened(Observing(space), "X-v0").observation_space.shape == (size,)
    assert flattened(Observing(Text(3)), "X-v0").observation_space.shape == (3,)  # Gymnasium numbers the characters


@pytest.mark.parametrize("images", [True, False])
def test_a_board_of_three_axes_is_a_vector(images):
    for space in (Box(0, 9, (5, 5, 3), np.uint8), Box(0, 1, (4, 4, 16), np.uint8), Box(-1, 1, (2, 3, 4))):
        assert flattened(Observing(space), "X-v0", images).observation_space.shape == (np.prod(space.shape),)


def test_an_image_is_one_to_the_network_that_takes_it():
    image = Box(0, 255, (2, 80, 80), np.uint8)
    assert flattened(Observing(image), "X-v0", images=True).observation_space == image
    with pytest.raises(UserError, match=r"images must be uint8 of shape \(channels, 80, 80\), got Box\(0, 255, \(96, 96, 3\)"):
        flattened(Observing(Box(0, 255, (96, 96, 3), np.uint8)), "X-v0", images=True)


def test_an_image_is_none_to_a_network_of_vectors():
    with pytest.raises(UserError, match=r"td3_camel\.py has no network for images, got Box\(0, 255, \(2, 80, 80\), uint8\)"):
        flattened(Observing(Box(0, 255, (2, 80, 80), np.uint8)), "X-v0")


@pytest.mark.parametrize("images", [True, False])
def test_an_image_in_a_dict_is_not_flattened_in_silence(images):
    space = Dict(camera=Box(0, 255, (240, 320, 3), np.uint8), speed=Box(-1, 1, (2,)))
    with pytest.raises(UserError) as error:
        flattened(Observing(space), "X-v0", images)
    assert str(error.value) == (
        "--env-id X-v0: the image 'camera' in the observation would be 230400 numbers of a vector; register the environment "
        "with gymnasium.wrappers.FilterObservation, which leaves out entries, or with a wrapper that makes the image smaller "
        "than 32 x 32"
    )
    assert flattened(gym.wrappers.FilterObservation(Observing(space), ["speed"]), "X-v0").observation_space.shape == (2,)


def test_an_environment_without_a_registered_limit_may_have_one_of_its_own(capsys):
    note_endless_episodes(gym.make("Pendulum-v1"), "Pendulum-v1")
    assert capsys.readouterr().out == ""
    note_endless_episodes(gym.make("llmwrappers-tests/OneStep-v0"), "OneStep-v0")
    assert capsys.readouterr().out.startswith("note: OneStep-v0 is registered without max_episode_steps; ")


@pytest.mark.parametrize(
    ("low", "high", "is_far"),
    [
        (-2, 2, False),
        (-10, 10, False),
        (0, 1, False),
        (-0.002, 0.002, False),
        (100, 104, True),
        (-2000, 2000, True),
        (1, 1.1, True),
        (100, 100, False),  # clipping does it
    ],
)
def test_an_action_range_that_a_network_is_slow_to_reach_is_noted(low, high, is_far, capsys):
    env = Observing(Box(-1, 1, (2,)))
    env.action_space = Box(low, high, (2,))
    note_far_actions(env, "X-v0")
    assert capsys.readouterr().out.startswith("note: X-v0: the actions are in Box(") == is_far
