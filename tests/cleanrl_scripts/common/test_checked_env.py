"""CheckedEnv: what is no number ends a script with the step and the entry."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict

from cleanrl_scripts.common.checked_env import CheckedEnv
from llmwrappers.errors import UserError


class Scripted(gym.Env):
    """Returns one observation and reward at every step from the second on."""

    action_space = Box(-1, 1, (1,))

    def __init__(self, observation=0.0, reward=1.0):
        self.observation_space = Dict(speed=Box(-1, 1, (2,)), lidar=Box(-1, 1, (2, 2)))
        self.late, self.reward, self.steps = observation, reward, 0

    def observation(self, value=0.0):
        return {"speed": np.zeros(2, np.float32), "lidar": np.array([[0, 0], [0, value]], np.float32)}

    def reset(self, *, seed=None, options=None):
        return self.observation(), {}

    def step(self, action):
        self.steps += 1
        late = self.steps > 1
        return self.observation(self.late if late else 0.0), self.reward if late else 1.0, False, False, {}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"observation": np.nan},
            r"--env-id X-v0: step 2 of an episode returned NaN or Inf in observation\['lidar'\]\[1\]\[1\]",
        ),
        ({"observation": -np.inf}, r"step 2 of an episode returned NaN or Inf in observation\['lidar'\]\[1\]\[1\].*nan_to_num"),
        ({"reward": float("nan")}, r"step 2 of an episode returned nan in reward"),
        ({"reward": np.array([np.inf])}, r"step 2 of an episode returned inf in reward"),
        ({"reward": np.array([1.0, 2.0])}, r"--env-id X-v0: rewards must be numbers, got array.*LinearReward"),
    ],
)
def test_what_is_no_number_ends_it(values, message):
    env = CheckedEnv(Scripted(**values), "X-v0")
    env.reset()
    env.step(np.zeros(1))
    with pytest.raises(UserError, match=message):
        env.step(np.zeros(1))


def test_an_action_that_is_no_number_is_not_the_environments_fault():
    env = CheckedEnv(Scripted(reward=float("nan")), "X-v0")
    env.reset()
    env.step(np.zeros(1))
    with pytest.raises(UserError, match=r"X-v0: step 2 of an episode got NaN or Inf in action\[0\] from the agent"):
        env.step(np.array([np.nan]))


@pytest.mark.parametrize("reward", [1, True, np.float32(1), np.array([1.0]), np.array(1)])
def test_a_reward_of_one_number_is_a_float(reward):
    env = CheckedEnv(Scripted(reward=reward), "X-v0")
    env.reset()
    rewards = [env.step(np.zeros(1))[1] for _ in range(2)]
    assert rewards == [1.0, 1.0]
    assert type(rewards[1]) is float


def test_a_list_from_a_box_is_an_array():
    class Lists(Scripted):
        def observation(self, value=0.0):
            return [0.5, value]

    lists = Lists()
    lists.observation_space = Box(-1, 1, (2,), np.float32)
    env = CheckedEnv(lists, "X-v0")
    for observation in (env.reset()[0], env.step(np.zeros(1))[0]):
        assert (observation.tolist(), observation.dtype) == ([0.5, 0.0], np.float32)


def test_numbers_whose_squares_overflow_are_numbers():
    env = CheckedEnv(Scripted(observation=1e38), "X-v0")
    env.reset()
    env.step(np.zeros(1))
    assert env.step(np.zeros(1))[0]["lidar"][1, 1] == np.float32(1e38)


def test_a_script_ends_with_the_sentence(ppo_ultra, tmp_path):
    gym.register("Nan-v0", lambda: gym.wrappers.TransformReward(gym.make("Pendulum-v1"), lambda _: float("nan")))
    with pytest.raises(UserError, match="--env-id Nan-v0: step 1 of an episode returned nan in reward"):
        ppo_ultra.main(["--env-id", "Nan-v0", "--arm", "none", "--agent", "none", "--runs-dir", str(tmp_path)])
    del gym.registry["Nan-v0"]


def test_an_environment_that_counts_its_own_episodes_can_be_counted():
    counting = gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))  # as Meta-World's are made
    env = gym.wrappers.RecordEpisodeStatistics(CheckedEnv(counting, "CartPole-v1"))
    env.reset(seed=0)
    while not (step := env.step(0))[2]:
        pass
    assert step[4]["episode"]["r"] == env.episode_returns > 0
