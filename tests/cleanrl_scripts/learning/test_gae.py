"""gae: against the sum of discounted errors that defines it."""

import numpy as np
import pytest

from cleanrl_scripts.learning.gae import gae


def test_advantages_are_the_discounted_sum_of_the_errors_ahead():
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, 20, 2)).astype(np.float32)
    dones, next_values = rng.random((20, 2)) < 0.2, rng.normal(size=2)
    advantages = gae(rewards, values, dones, next_values, gamma=0.9, gae_lambda=0.7)
    values = np.concatenate([values, next_values[None]])
    for i in range(2):
        for t in range(20):
            expected, weight = 0.0, 1.0
            for s in range(t, 20):
                alive = not dones[s, i]
                expected += weight * (rewards[s, i] + 0.9 * alive * values[s + 1, i] - values[s, i])
                weight *= 0.9 * 0.7
                if not alive:
                    break
            assert advantages[t, i] == pytest.approx(expected, abs=1e-4)
