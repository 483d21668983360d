"""ActionBoundsObservation: what it appends is what info says."""

import re

import gymnasium as gym
import numpy as np
import pytest
from conftest import Echo, Turns
from gymnasium.spaces import Box, MultiBinary
from gymnasium.spaces import Dict as DictSpace
from gymnasium.wrappers import TransformObservation

from llmwrappers import ActionBoundsObservation, EpsilonMaskSchedule, LLMActionMask, transition_info


def sine(observation):
    return 4 * np.sin(observation[1:])


def rollout(env, steps=8, seed=0):
    """Returns (observation, info) of a reset and of the steps after it, over several episodes."""
    env.action_space.seed(seed)
    pairs = [env.reset(seed=seed)]
    for _ in range(steps):
        observation, _, terminated, truncated, info = env.step(env.action_space.sample())
        pairs.append((observation, info))
        if terminated or truncated:
            pairs.append(env.reset())
    return pairs


def box_stack(epsilon=0.6, **kwargs):
    env = Echo(**kwargs)
    shape = env.action_space.shape
    return LLMActionMask(env, lambda observation: np.reshape(sine(observation), shape), mask_epsilon=epsilon)


@pytest.mark.parametrize("shape", [(2,), (2, 3), ()])
def test_a_vector_gets_the_flattened_bounds_of_the_next_action(shape):
    env = ActionBoundsObservation(box_stack(low=-2.0, high=5.0, shape=shape))
    n = int(np.prod(shape))
    assert env.observation_space.shape == (1 + 3 * n,)
    assert (env.observation_space.low[1 + n :].tolist(), env.observation_space.high[1 + n :].tolist()) == (
        [-2.0] * 2 * n,
        [5.0] * 2 * n,
    )
    plain = rollout(box_stack(low=-2.0, high=5.0, shape=shape))
    for (observation, info), (below, _) in zip(rollout(env), plain, strict=True):
        expected = np.concatenate([below, np.ravel(info["action_low"]), np.ravel(info["action_high"])])
        np.testing.assert_array_equal(observation, expected)
        assert observation in env.observation_space


def test_a_dict_gets_further_keys():
    def with_dict():
        env = TransformObservation(Echo(), lambda observation: {"echo": observation}, DictSpace(echo=Echo().observation_space))
        return LLMActionMask(env, lambda observation: sine(observation["echo"]), mask_epsilon=0.6)

    env = ActionBoundsObservation(with_dict())
    assert set(env.observation_space.spaces) == {"echo", "action_low", "action_high"}
    for (observation, info), (below, _) in zip(rollout(env), rollout(with_dict()), strict=True):
        expected = {**below, "action_low": info["action_low"], "action_high": info["action_high"]}
        np.testing.assert_equal(observation, expected)
        assert observation in env.observation_space


def test_a_discrete_action_space_gives_the_action_mask():
    env = ActionBoundsObservation(LLMActionMask(Turns(), lambda observation: {int(5 * observation[0]) % 4}))
    assert env.observation_space == Box(0.0, 1.0, (5,), np.float32)
    for observation, info in rollout(env):
        assert observation[1:].tolist() == info["action_mask"].tolist()
        assert observation.dtype == np.float32
        assert observation in env.observation_space


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_of_the_observation_stays(dtype):
    space = Box(-9.0, 9.0, (3,), dtype)
    below = TransformObservation(Echo(), lambda observation: observation.astype(dtype), space)
    env = ActionBoundsObservation(LLMActionMask(below, sine))
    observation, _ = env.reset()
    assert env.observation_space.dtype == observation.dtype == dtype


@pytest.mark.parametrize("form", [list, lambda observation: np.round(observation).astype(int)], ids=["list", "integers"])
def test_an_observation_of_another_form_than_its_space_is_taken(form):
    below = TransformObservation(Echo(), form, Box(-9.0, 9.0, (3,), np.float32))
    observation, info = ActionBoundsObservation(LLMActionMask(below, lambda observation: [0.5, 0.5])).reset(seed=0)
    assert observation.dtype == np.float32
    np.testing.assert_allclose(observation[3:], [*info["action_low"], *info["action_high"]])


@pytest.mark.parametrize(("below", "prior"), [(Echo, lambda observation: np.zeros(2)), (Turns, lambda observation: {1})])
def test_an_integer_observation_is_refused(below, prior):
    """The memory of a game is such an observation; the first reset would be too late to say that it does not fit."""
    bytes_ = Box(0, 255, (1,), np.uint8)
    masked = LLMActionMask(TransformObservation(below(), lambda observation: observation[:1].astype(np.uint8), bytes_), prior)
    with pytest.raises(TypeError, match=f"vectors of floats or a Dict, got {re.escape(str(bytes_))}"):
        ActionBoundsObservation(masked)


def test_nothing_is_shared_with_info_or_with_an_earlier_observation():
    space = DictSpace(echo=Echo().observation_space)
    below = TransformObservation(Echo(), lambda observation: {"echo": observation}, space)
    env = ActionBoundsObservation(LLMActionMask(below, lambda observation: sine(observation["echo"])))
    arrays = []
    for observation, info in rollout(env, steps=2):
        arrays += [value for value in (*observation.values(), *info.values()) if isinstance(value, np.ndarray)]
    for index, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in arrays[:index])


def test_a_key_that_is_there_already_is_refused():
    env = LLMActionMask(gym.make("llmwrappers-tests/DictOneStep-v0"), lambda obs: np.zeros(1))
    env.observation_space = DictSpace({"action_low": Box(-1.0, 1.0, (1,))})
    with pytest.raises(ValueError, match=r"adds \['action_low'\], keys that the observation has already"):
        ActionBoundsObservation(env)


def test_it_stands_outside_the_schedule():
    env = ActionBoundsObservation(EpsilonMaskSchedule(box_stack(), total_timesteps=10, mask_fraction=0.3))
    pairs = rollout(env, steps=4)
    assert pairs[0][0][3:].tolist() == pairs[0][1]["action_low"].tolist() + pairs[0][1]["action_high"].tolist()
    assert pairs[-1][0][3:].tolist() == [-1.0, -1.0, 1.0, 1.0]


def test_final_obs_of_a_vector_carries_final_bounds():
    envs = gym.vector.SyncVectorEnv(
        [lambda steps=steps: ActionBoundsObservation(box_stack(steps=steps)) for steps in (2, 3)],
        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
    )
    observations, infos = envs.reset(seed=0)
    finished = 0
    for _ in range(6):
        np.testing.assert_allclose(observations[:, 3:], np.hstack([infos["action_low"], infos["action_high"]]))
        observations, _, _, _, infos = envs.step(np.zeros((2, 2), np.float32))
        final = np.hstack([transition_info(infos, "action_low"), transition_info(infos, "action_high")])
        for row in np.flatnonzero(infos.get("_final_obs", [])):
            np.testing.assert_allclose(infos["final_obs"][row][3:], final[row])
            finished += 1
    assert finished == 5


def test_an_environment_without_a_mask_is_refused():
    for env in (Echo(), gym.make("llmwrappers-tests/Echo-v0")):
        with pytest.raises(ValueError, match=r"must wrap an environment with LLMActionMask in its stack, got <"):
            ActionBoundsObservation(env)


@pytest.mark.parametrize("space", [MultiBinary(3), Box(0.0, 1.0, (4, 4)), Box(0.0, 1.0, ())], ids=str)
def test_an_observation_space_that_it_cannot_extend_is_refused(space):
    env = TransformObservation(Echo(), lambda observation: space.sample(), space)
    with pytest.raises(TypeError, match=r"needs observations that are vectors of floats or a Dict, got (MultiBinary|Box)"):
        ActionBoundsObservation(LLMActionMask(env, sine))
