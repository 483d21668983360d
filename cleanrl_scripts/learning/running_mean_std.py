"""RunningMeanStd: mean and variance, one sample at a time, as gymnasium's normalisers keep them."""

import math

import numpy as np
import torch


class RunningMeanStd:
    """Running mean and variance of samples of one shape.

    Example:
        >>> statistics = RunningMeanStd()
        >>> for sample in (1.0, 3.0):
        ...     statistics.update(sample)
        >>> round(float(statistics.mean), 3)
        2.0
    """

    def __init__(self, *shape: int):
        # Of numbers it keeps Python's floats: NumPy takes ten times as long on one.
        self.mean, self.count, self.sum_squares = (np.zeros(shape), 1e-4, np.full(shape, 1e-4)) if shape else (0.0, 1e-4, 1e-4)
        self._set_inverse_std()

    def update(self, sample) -> None:
        self.count += 1.0
        delta = sample - self.mean
        self.mean += delta / self.count
        delta *= delta
        self.sum_squares += delta * ((self.count - 1.0) / self.count)
        self._set_inverse_std()

    def set_unit_variance(self, where: np.ndarray) -> None:
        """Sets the variance of some entries to 1: of one that was constant it is near 0, and any change would be huge."""
        assert isinstance(self.sum_squares, np.ndarray)
        self.sum_squares[where] = self.count
        self._set_inverse_std()

    def _set_inverse_std(self) -> None:
        variance = self.sum_squares / self.count + 1e-8
        self.inverse_std = 1.0 / (math.sqrt(variance) if isinstance(variance, float) else np.sqrt(variance))

    def state_dict(self) -> dict:
        return {name: torch.tensor(getattr(self, name), dtype=torch.float64) for name in ("mean", "sum_squares", "count")}

    def load_state_dict(self, state: dict) -> None:
        for name in ("mean", "sum_squares", "count"):
            value = torch.as_tensor(state[name], dtype=torch.float64).cpu()
            setattr(self, name, value.numpy().copy() if value.ndim else value.item())
        self._set_inverse_std()
