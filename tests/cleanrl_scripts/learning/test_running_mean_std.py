"""RunningMeanStd: against gymnasium's, and as a checkpoint keeps it."""

import gymnasium as gym
import numpy as np

from cleanrl_scripts.learning.running_mean_std import RunningMeanStd


def test_mean_and_spread_are_gymnasiums():
    rng = np.random.default_rng(0)
    statistics, reference = RunningMeanStd(3), gym.wrappers.utils.RunningMeanStd(shape=(3,))
    for sample in rng.normal(size=(50, 3)) * [1, 5, 0.1] + [0, 2, -3]:
        statistics.update(sample)
        reference.update(sample[None])
        np.testing.assert_allclose(statistics.mean, reference.mean, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(statistics.inverse_std, 1 / np.sqrt(reference.var + 1e-8), rtol=1e-3)


def test_a_copy_goes_on_alike_and_by_itself():
    first, second = RunningMeanStd(2), RunningMeanStd(2)
    first.update(np.array([1.0, 2.0]))
    second.load_state_dict(first.state_dict())
    for statistics in (first, second):
        statistics.update(np.array([3.0, -1.0]))
    assert first.count == second.count
    assert np.array_equal(first.mean, second.mean)
    assert np.array_equal(first.inverse_std, second.inverse_std)
