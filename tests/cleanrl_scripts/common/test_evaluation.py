"""cleanrl_scripts/common/evaluation.py: the episodes of an evaluation."""

import gymnasium as gym
import numpy as np
import pytest

from cleanrl_scripts.common.errors import UserError
from cleanrl_scripts.common.evaluation import evaluate


def test_an_evaluation_begins_differently_each_episode_and_alike_each_time():
    env, seen = gym.make("llmwrappers-tests/Reach-v0"), []

    def act(observation):
        seen.append(observation)
        return np.zeros(2, np.float32)

    for _ in range(2):
        evaluate(env, act, seed=1, episodes=3)
    first = np.array(seen[::25])  # of each episode's 25
    assert len(np.unique(first[:3], axis=0)) == 3
    np.testing.assert_array_equal(first[:3], first[3:])


def test_what_an_llm_added_to_the_rewards_is_not_counted():
    class Paid(gym.Wrapper):
        def step(self, action):
            observation, reward, *rest, info = self.env.step(action)
            return observation, reward + 0.5, *rest, {**info, "llm_reward": 0.5}

    env = gym.make("llmwrappers-tests/OneStep-v0")  # the reward is -(action - 0.8)^2
    assert evaluate(Paid(env), lambda observation: np.array([0.8], np.float32), seed=1, episodes=2) == 0.0


def test_rewards_that_are_vectors_are_one_sentence():
    env = gym.wrappers.TransformReward(gym.make("llmwrappers-tests/OneStep-v0"), lambda reward: np.array([reward, 1.0]))
    with pytest.raises(UserError, match=r"rewards must be numbers, got array.*mo_gymnasium\.wrappers\.LinearReward"):
        evaluate(env, lambda observation: np.array([0.8], np.float32), seed=1, episodes=2)
