"""refuse_divergence: ends a run whose networks hold NaN or Inf, before a checkpoint keeps them."""

import math
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from llmwrappers.errors import UserError


@torch.no_grad()
def refuse_divergence(numbers: Iterable[Tensor | np.ndarray]) -> None:
    """Ends the run if there is NaN or Inf in weights, or in actions; a network with one such weight puts out NaN."""
    if not all(math.isfinite(array.sum()) for array in numbers):
        raise UserError(
            "the learner diverged: its networks hold NaN or Inf. A smaller --learning-rate helps most often; --resume would "
            "diverge again"
        )
