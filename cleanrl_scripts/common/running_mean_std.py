"""RunningMeanStd: mean and variance, one sample at a time, as gymnasium's normalisers keep them."""

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
        self.mean, self.count, self.sum_squares = np.zeros(shape), 1e-4, np.full(shape, 1e-4)
        self._set_inverse_std()

    def update(self, sample) -> None:
        self.count += 1.0
        delta = sample - self.mean
        self.mean += delta / self.count
        self.sum_squares += delta * delta * ((self.count - 1.0) / self.count)
        self._set_inverse_std()

    def _set_inverse_std(self) -> None:
        self.inverse_std = 1.0 / np.sqrt(self.sum_squares / self.count + 1e-8)

    def state_dict(self) -> dict:
        return {"mean": torch.from_numpy(self.mean), "sum_squares": torch.from_numpy(self.sum_squares), "count": self.count}

    def load_state_dict(self, state: dict) -> None:
        self.mean, self.sum_squares = (state[name].double().cpu().numpy().copy() for name in ("mean", "sum_squares"))
        self.count = float(state["count"])
        self._set_inverse_std()
