"""What is told of an entry after a rollout: one mean an episode, so that no long episode outvotes the others."""

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from cleanrl_scripts.ultra.entry_table import EpisodeAdvantages, entry_table
from llmwrappers import CriticalFunction, EntryWorth


class Told(list):
    def record(self, *mean):
        self.append(mean)


def test_an_episode_counts_once_however_often_an_entry_matched_in_it():
    """Two environments side by side; the first ends an episode after two steps, in its last two the entry goes in a circle."""
    entries = np.array([[0, -1], [0, 1], [0, 1], [0, 0]])
    overridden = np.array([[True, False], [False, True], [True, True], [True, True]])
    advantages = np.array([[6.0, 9.0], [1.0, 2.0], [-1.0, 4.0], [-3.0, 5.0]], np.float32)
    dones = np.array([[0, 0], [1, 0], [0, 0], [0, 0]], bool)
    episodes, told = EpisodeAdvantages(), Told()
    assert episodes.add(told, entries, overridden, advantages, dones) == {
        "ultra/advantage_played": pytest.approx(13 / 6),
        "ultra/advantage_withheld": 1.0,
    }
    assert sorted(told) == [(0, False, 1.0), (0, True, 6.0)]
    episodes.end(told)
    assert sorted(told) == [(0, False, 1.0), (0, True, -2.0), (0, True, 5.0), (0, True, 6.0), (1, True, 3.0)]
    episodes.end(told)
    assert len(told) == 5


def test_an_episode_of_many_rollouts_counts_once():
    episodes, told = EpisodeAdvantages(), Told()
    for advantage, done in ((1.0, False), (2.0, False), (6.0, True), (8.0, False)):
        episodes.add(told, np.array([[0]]), np.array([[True]]), np.array([[advantage]]), np.array([[done]]))
    assert told == [(0, True, 3.0)]


def test_an_entry_has_its_own_line_whatever_ends_the_lines_before_it():
    above = "\ufeffimport math\r\n\x0c# \u2028\r"
    source = above + "def critical(obs):\n    if obs[0] > 0:\n        return True, 1, 0.0\n    return None\n"
    code = CriticalFunction(source, Discrete(2))
    rows = entry_table(EntryWorth(len(code)), code)
    code.close()
    assert [(row["line"], row["code"]) for row in rows] == [(5, "return True, 1, 0.0"), (6, "return None")]
