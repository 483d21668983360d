"""evaluate: the same episodes every time, each another, and the environment's own return."""

import gymnasium as gym
import numpy as np

from cleanrl_scripts.common.evaluation import evaluate


def test_an_evaluation_begins_differently_each_episode_and_alike_each_time():
    seen = []

    def act(observation):
        seen.append(observation)
        return np.zeros(2, np.float32)

    for _ in range(2):
        evaluate(gym.make("llmwrappers-tests/Reach-v0"), act, seed=1, episodes=3)
    first = np.array(seen[::25])  # of each episode's 25
    assert len(np.unique(first[:3], axis=0)) == 3
    np.testing.assert_array_equal(first[:3], first[3:])
