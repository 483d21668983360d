"""Measuring a policy: what cannot be measured is said in a sentence."""

import gymnasium as gym
import numpy as np
import pytest

from llmwrappers.making import make
from llmwrappers.priors.measurement import measure


def test_rewards_that_are_vectors_are_one_sentence():
    env = gym.wrappers.TransformReward(make("llmwrappers-tests/OneStep-v0"), lambda reward: np.array([reward, 1.0]))
    with pytest.raises(ValueError, match=r"rewards must be numbers, got array.*mo_gymnasium\.wrappers\.LinearReward"):
        measure(env, lambda obs: [0.0], episodes=1, seed=0)
