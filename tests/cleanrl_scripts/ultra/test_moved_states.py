"""random_states: a table's actions and rewards at other states of the same episodes."""

import numpy as np
import pytest

from cleanrl_scripts.ultra.moved_states import random_states
from llmwrappers import CriticalStates, Trajectories
from llmwrappers.critical_states.table import spread


def test_random_states_are_as_many_with_the_same_actions_and_rewards():
    rng, n = np.random.default_rng(0), 400
    observations = rng.normal(size=(n, 3)).astype(np.float32)
    trajectories = Trajectories(
        "Pendulum-v1", observations, np.zeros((n, 1)), np.zeros(n), [100] * 4, [False] * 4, np.zeros((4, 3)), [0] * 4
    )
    actions, rewards = np.linspace(-2, 2, 10)[:, None], np.linspace(-1, 1, 10)
    calibration = {"table_episodes": 2}
    table = CriticalStates(observations[:200:20], actions, rewards, spread(observations), 0.5, calibration=calibration)
    moved = random_states(table, trajectories, np.random.default_rng(0))
    assert np.array_equal(moved.actions, table.actions)
    assert np.array_equal(moved.rewards, table.rewards)
    shown, held_out = trajectories.split(2)
    assert all((np.abs(shown.observations - state) < 1e-6).all(axis=1).any() for state in moved.observations)
    assert not np.array_equal(moved.observations, table.observations)
    assert moved.hit_rate(held_out.observations) == pytest.approx(table.hit_rate(held_out.observations), abs=0.01)
