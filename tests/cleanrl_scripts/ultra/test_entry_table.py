"""What is told of an entry after a rollout: one mean an episode, so that no long episode outvotes the others."""

import numpy as np

from cleanrl_scripts.ultra.entry_table import record_rollout


class Told(list):
    def record(self, *mean):
        self.append(mean)


def test_an_episode_counts_once_however_often_an_entry_matched_in_it():
    """Two environments side by side; the first ends an episode after two steps, in its last two the entry goes in a circle."""
    entries = np.array([[0, -1], [0, 1], [0, 1], [0, 0]])
    overridden = np.array([[True, False], [False, True], [True, True], [True, True]])
    advantages = np.array([[6.0, 9.0], [1.0, 2.0], [-1.0, 4.0], [-3.0, 5.0]], np.float32)
    dones = np.array([[0, 0], [1, 0], [0, 0], [0, 0]], np.float32)
    record_rollout(told := Told(), entries, overridden, advantages, dones)
    assert sorted(told) == [(0, False, 1.0), (0, True, -2.0), (0, True, 5.0), (0, True, 6.0), (1, True, 3.0)]
