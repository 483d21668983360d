"""llmwrappers/priors/probe.py: what keeps a policy from being used, and what does not."""

import time

import numpy as np
import pytest
from gymnasium.spaces import Box

from llmwrappers.containment.errors import PolicyRejected
from llmwrappers.containment.policy import ContainedPolicy
from llmwrappers.priors.probe import vet_policy

ANGLES, ACTIONS = Box(-np.pi, np.pi, (8,)), Box(-1.0, 1.0, (1,))
WRAPPING = """
import math
def wrap(angle):
    while angle > math.pi:
        angle -= 2 * math.pi
    while angle < -math.pi:
        angle += 2 * math.pi
    return angle
def policy(obs):
    return [-0.5 * sum(wrap(angle) for angle in obs)]
"""


def test_angles_that_are_wrapped_in_loops_are_not_too_slow():
    """As LLMs write it; of angles near a million it would take a hundred thousand turns."""
    assert vet_policy(WRAPPING, ANGLES, ACTIONS)(np.full(8, 4.0)).item() == pytest.approx(-0.5 * 8 * (4.0 - 2 * np.pi))


def test_time_in_which_others_compute_does_not_count(monkeypatch):
    """On a busy machine a call waits for its turn."""
    batch = ContainedPolicy.batch

    def waits(self, observations):
        time.sleep(0.2)
        return batch(self, observations)

    monkeypatch.setattr(ContainedPolicy, "batch", waits)
    monkeypatch.setattr("llmwrappers.priors.probe.SLOWEST_CALL", 0.002)
    vet_policy("def policy(obs):\n    return [0.0]\n", ANGLES, ACTIONS)


def test_a_policy_that_is_too_slow_is_rejected():
    slow = "def policy(obs):\n    return [sum(i % 7 for i in range(2_000_000)) * 0.0]\n"
    with pytest.raises(PolicyRejected, match="a call takes longer than the 20 ms that are allowed|in time; it was killed"):
        vet_policy(slow, ANGLES, ACTIONS)
