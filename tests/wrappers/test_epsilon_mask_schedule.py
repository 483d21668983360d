"""EpsilonMaskSchedule: the value at every step, and when the mask sees it."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import InvalidBound
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from llmwrappers import EpsilonMaskSchedule, LLMActionMask


class Mask(gym.Wrapper):
    """Stands in for a mask: keeps the epsilon that it finds whenever a real one would draw its gate."""

    def __init__(self):
        super().__init__(gym.make("llmwrappers-tests/Echo-v0", steps=1000))
        self.mask_epsilon = 0.123
        self.drawn = []

    def reset(self, **kwargs):
        self.drawn.append(self.mask_epsilon)
        return super().reset(**kwargs)

    def step(self, action):
        self.drawn.append(self.mask_epsilon)
        return super().step(action)


class CountingPrior:
    calls = 0

    def __call__(self, observation):
        self.calls += 1
        return np.zeros(2)


def steps(env, n):
    return [env.step(np.zeros(2, np.float32)) for _ in range(n)]


@pytest.mark.parametrize(("total", "fraction"), [(20, 0.5), (10, 0.25), (7, 1.0), (1, 1.0), (20, 0.0), (3, 0.01)])
def test_the_gate_of_the_observation_at_t_is_drawn_with_epsilon_t(total, fraction):
    env = EpsilonMaskSchedule(Mask(), total_timesteps=total, mask_fraction=fraction)
    env.reset(seed=0)
    steps(env, total + 3)
    expected = [max(1 - t / (fraction * total), 0) if fraction else 0 for t in range(total + 4)]
    assert env.env.drawn == pytest.approx(expected)
    assert env.get_wrapper_attr("mask_epsilon") == 0.0
    assert env.elapsed_steps == total + 3


def test_the_default_fades_over_the_first_fifth():
    env = EpsilonMaskSchedule(Mask(), total_timesteps=100)
    env.reset()
    steps(env, 10)
    assert env.get_wrapper_attr("mask_epsilon") == 0.5
    steps(env, 10)
    assert env.get_wrapper_attr("mask_epsilon") == 0.0


def test_a_reset_does_not_start_it_again():
    env = EpsilonMaskSchedule(Mask(), total_timesteps=100, mask_fraction=0.1)
    env.reset(seed=0)
    steps(env, 4)
    env.reset(seed=0)
    assert env.env.drawn[-1] == pytest.approx(0.6)


def test_elapsed_steps_continues_a_run():
    env = EpsilonMaskSchedule(Mask(), total_timesteps=100, mask_fraction=0.5)
    env.elapsed_steps = 40
    assert env.get_wrapper_attr("mask_epsilon") == pytest.approx(0.2)
    env.reset()
    steps(env, 5)
    assert (env.elapsed_steps, env.get_wrapper_attr("mask_epsilon")) == (45, pytest.approx(0.1))
    env.elapsed_steps = 1000
    assert env.get_wrapper_attr("mask_epsilon") == 0.0
    env.elapsed_steps = 0
    assert env.get_wrapper_attr("mask_epsilon") == 1.0


def test_a_finished_schedule_leaves_a_value_set_by_hand_alone():
    env = EpsilonMaskSchedule(Mask(), total_timesteps=10, mask_fraction=0.2)
    env.reset()
    steps(env, 5)
    env.set_wrapper_attr("mask_epsilon", 1.0, force=False)
    steps(env, 5)
    assert env.env.drawn[-5:] == [1.0] * 5


def test_the_prior_rests_once_the_mask_has_faded():
    prior = CountingPrior()
    env = EpsilonMaskSchedule(LLMActionMask(Mask().env, prior), total_timesteps=100, mask_fraction=0.1)
    env.reset(seed=0)
    active = [info["mask_active"] for *_, info in steps(env, 30)]
    assert 0 < sum(active[:9]) < 9
    assert not any(active[9:])
    assert prior.calls == 31  # once for every observation of the episode, in which the mask may open again
    env.reset()
    steps(env, 30)
    assert prior.calls == 31


def test_mask_fraction_0_never_calls_the_prior():
    prior = CountingPrior()
    env = EpsilonMaskSchedule(LLMActionMask(Mask().env, prior), total_timesteps=100, mask_fraction=0)
    env.reset(seed=0)
    steps(env, 5)
    assert prior.calls == 0


def test_everything_else_passes_through():
    def make():
        return LLMActionMask(Mask().env, CountingPrior())

    env, plain = EpsilonMaskSchedule(make(), total_timesteps=1000, mask_fraction=1.0), make()
    assert (env.observation_space, env.action_space) == (plain.observation_space, plain.action_space)
    (observation, info), (expected, expected_info) = env.reset(seed=3), plain.reset(seed=3)
    np.testing.assert_array_equal(observation, expected)
    np.testing.assert_equal(info, expected_info)
    np.testing.assert_equal(env.step(np.float32([0.5, -1.0])), plain.step(np.float32([0.5, -1.0])))


@pytest.mark.parametrize(("mode", "counted"), [(AutoresetMode.SAME_STEP, 6), (AutoresetMode.NEXT_STEP, 4)])
def test_each_environment_of_a_vector_counts_its_own_steps(mode, counted):
    """The step of NEXT_STEP that only resets is none: of six, two where episodes take two."""

    def make(steps):
        env = LLMActionMask(gym.make("llmwrappers-tests/Echo-v0", steps=steps), CountingPrior())
        return lambda: EpsilonMaskSchedule(env, total_timesteps=20 / 2, mask_fraction=1.0)

    envs = SyncVectorEnv([make(2), make(1000)], autoreset_mode=mode)
    envs.reset(seed=0)
    for _ in range(6):
        envs.step(np.zeros((2, 2), np.float32))
    assert envs.get_attr("elapsed_steps") == (counted, 6)
    assert envs.get_attr("mask_epsilon") == pytest.approx((1 - counted / 10, 0.4))
    envs.set_attr("elapsed_steps", [0, 9])
    assert envs.get_attr("mask_epsilon") == pytest.approx((1.0, 0.1))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"total_timesteps": 0}, ValueError, "total_timesteps must be at least 1 and finite, got 0"),
        ({"total_timesteps": float("nan")}, ValueError, "total_timesteps .*got nan"),
        ({"total_timesteps": float("inf")}, ValueError, "total_timesteps .*got inf"),
        ({"mask_fraction": -0.1}, InvalidBound, r"mask_fraction must lie in \[0, 1\], got -0.1"),
        ({"mask_fraction": 1.1}, InvalidBound, "mask_fraction .*got 1.1"),
        ({"mask_fraction": float("nan")}, InvalidBound, "mask_fraction .*got nan"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        EpsilonMaskSchedule(Mask(), **{"total_timesteps": 100, **arguments})


@pytest.mark.parametrize("inside", [lambda: Mask().env, lambda: Mask().unwrapped], ids=["wrapped", "bare"])
def test_an_environment_without_a_mask_is_refused(inside):
    with pytest.raises(ValueError, match=r"must wrap an environment with a mask, such as LLMActionMask, got <"):
        EpsilonMaskSchedule(inside(), total_timesteps=100)


def stepped(env, steps):
    env.reset(seed=0)
    for _ in range(steps):
        env.step(np.zeros(1, np.float32))
    return env


def make_pendulum():
    return EpsilonMaskSchedule(LLMActionMask(gym.make("Pendulum-v1"), prior=lambda obs: obs[:1]), total_timesteps=100)


def test_a_schedule_that_begins_while_another_goes_on_is_taken_for_that_of_an_evaluation():
    trained, evaluated = stepped(make_pendulum(), 30), stepped(make_pendulum(), 3)
    with pytest.warns(UserWarning, match=r"one had counted 30 when the other began. .* mask_epsilon=0.0\) and no schedule"):
        trained.step(np.zeros(1, np.float32))
    trained.step(np.zeros(1, np.float32))  # it says it once
    evaluated.step(np.zeros(1, np.float32))


def test_runs_one_after_another_and_vectors_are_not():
    first = stepped(make_pendulum(), 50)
    second = stepped(make_pendulum(), 50)
    envs = SyncVectorEnv([make_pendulum] * 3)
    envs.reset(seed=0)
    for _ in range(50):
        envs.step(np.zeros((3, 1), np.float32))
    assert (first.elapsed_steps, second.elapsed_steps) == (50, 50)
