"""scalar_reward: the reward as one number, or an error with the way out if it is several numbers."""

from typing import Any

import numpy as np


def scalar_reward(reward: Any) -> float:
    """Returns a reward as a float.

    Raises:
        ValueError: it is a vector, as in multi-objective environments

    Example:
        >>> scalar_reward(np.float32(0.5))
        0.5
    """
    if not isinstance(reward, float) and np.size(reward) != 1:  # it is mostly a float, and np.size is slow
        raise ValueError(
            f"rewards must be numbers, got {reward!r}: register the environment with a wrapper that makes one number of them, "
            "such as mo_gymnasium.wrappers.LinearReward"
        )
    return float(np.reshape(reward, ())) if isinstance(reward, np.ndarray) else float(reward)
