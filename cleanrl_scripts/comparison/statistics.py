"""Interquartile means, probabilities of improvement and their bootstrap intervals over seeds.

They take the scores of an arm, (seeds,), or of two arms, (2, seeds). Only the probability combines environments, because it
has no unit. An interquartile mean over environments would leave out those that differ from the rest.
"""

from typing import NamedTuple

import numpy as np
import scipy.stats


def iqm(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    """Interquartile mean: the mean of the middle half of the scores; with fewer than four scores, the mean of all."""
    return scipy.stats.trim_mean(scores, 0.25, axis=axis)


def difference(pair: np.ndarray, axis: int = -1) -> np.ndarray:
    """Interquartile mean of the second arm minus that of the first."""
    return iqm(pair[1], axis=axis) - iqm(pair[0], axis=axis)


def improvement(*pairs: np.ndarray, axis: int = -1) -> np.ndarray:
    """Probability that a run of the second arm beats one of the first: Mann-Whitney's U / (n m), mean over environments."""
    probabilities = []
    for first, second in pairs:
        larger = second[..., :, None] - first[..., None, :]
        probabilities.append(np.mean((np.sign(larger) + 1) / 2, axis=(-2, -1)))
    return np.mean(probabilities, axis=0)


class Estimate(NamedTuple):
    value: np.ndarray
    low: np.ndarray | None = None  # no interval from fewer than three seeds
    high: np.ndarray | None = None


def estimate(statistic, *samples: np.ndarray, n_resamples: int = 10_000) -> Estimate:
    """A statistic with its 95 % interval: percentile bootstrap over seeds, stratified by environment, the same every time."""
    value = statistic(*samples)
    if min(sample.shape[-1] for sample in samples) < 3:
        return Estimate(value)
    largest = max(sample.size * sample.shape[-1] for sample in samples)
    interval = scipy.stats.bootstrap(
        samples, statistic, axis=-1, vectorized=True, method="percentile", n_resamples=n_resamples,
        batch=max(1, 4_000_000 // largest), rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    return Estimate(value, interval.low, interval.high)


def better_than(*pairs: np.ndarray) -> Estimate:
    """The probability of improvement; without an interval if no resampling changes it (0, 1, or all returns are equal)."""
    found = estimate(improvement, *pairs)
    return Estimate(found.value) if found.low == found.high else found
