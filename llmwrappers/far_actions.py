"""far_actions: what to do about an action range far from 0, which a network whose outputs are actions is slow to reach."""

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box

FAR = 10.0
"""An action range is far from 0 if it reaches beyond this, or if its middle is so many half ranges away."""


def far_actions(space: gym.Space) -> str:
    """Says of an action range far from 0 that a network whose outputs are native actions is slow to reach it; else "".

    Example:
        >>> far_actions(Box(-2.0, 2.0, (1,))), far_actions(Box(0.0, 2000.0, (1,)))[:48]
        ('', 'the actions are in Box(0.0, 2000.0, (1,), float3')
    """
    if not (isinstance(space, Box) and space.is_bounded("both")):
        return ""
    low, high = space.low[space.low < space.high], space.high[space.low < space.high]
    if np.all(np.maximum(-low, high) <= FAR) and np.all(np.abs(high + low) <= FAR * (high - low)):
        return ""
    return (
        f"the actions are in {space}. The network's outputs are actions, begin near 0, and are slow to get far from it. "
        "Rescale the actions to [-1, 1] with gymnasium.wrappers.RescaleAction (for a script, in the environment's "
        "registration); a prior then returns such actions"
    )
