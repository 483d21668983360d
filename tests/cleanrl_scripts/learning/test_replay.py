"""cleanrl_scripts/learning/replay.py: what is sampled, and what a file of it holds."""

from typing import Any, NamedTuple

import numpy as np
import torch

from cleanrl_scripts.learning.replay import Replay


class Transition(NamedTuple):
    observation: Any
    reward: Any


def test_a_full_replay_keeps_the_latest_and_a_file_of_it_goes_on(tmp_path):
    replay = Replay(4, Transition(observation=2, reward=1))
    for k in range(10):
        replay.add(Transition([k, -k], reward=k))
        if k in (2, 9):  # before and after it was full
            replay.save(tmp_path / "replay.bin")
    batch = torch.empty(64, replay.width)
    replay.sample(np.random.default_rng(0), out=batch)
    assert set(replay.columns(batch).reward.ravel().tolist()) == {6, 7, 8, 9}
    assert torch.equal(batch[:, 0], -batch[:, 1])

    again = Replay(4, Transition(observation=2, reward=1))
    again.load(tmp_path / "replay.bin", 10)
    np.testing.assert_array_equal(again.rows, replay.rows)
    assert again.added == 10


def test_a_file_that_holds_more_is_cut_to_the_checkpoint(tmp_path):
    """What was written after the checkpoint that a run goes on from will come again."""
    replay = Replay(8, Transition(observation=2, reward=1))
    for k in range(6):
        replay.add(Transition([k, -k], k))
    replay.save(tmp_path / "replay.bin")
    again = Replay(8, Transition(observation=2, reward=1))
    again.load(tmp_path / "replay.bin", 4)
    again.add(Transition([40, -40], 40))
    again.save(tmp_path / "replay.bin")
    assert np.fromfile(tmp_path / "replay.bin", np.float32).reshape(-1, 3)[:, 2].tolist() == [0, 1, 2, 3, 40]
