"""require_action_space: which action spaces are served, and the wrapper to use for the others; native_action_space."""

import math

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

# The most combinations of a MultiDiscrete or MultiBinary space to number as one Discrete.
MOST_COMBINATIONS = 4096


def require_action_space(space: gym.Space) -> None:
    """Refuses action spaces that nothing here supports; the error names the wrapper to use.

    Raises:
        ValueError: the space is neither Discrete nor a Box of floats with finite bounds

    Example:
        >>> require_action_space(MultiDiscrete([3, 2]))
        Traceback (most recent call last):
        ...
        ValueError: needs a Discrete action space or a Box of floats with finite bounds, got MultiDiscrete([3 2]); register \
the environment with gymnasium.wrappers.TransformAction and Discrete(6), which numbers the combinations: \
lambda i: np.array(np.unravel_index(i, (3, 2)))
    """
    is_bounded = isinstance(space, Box) and np.issubdtype(space.dtype, np.floating) and space.is_bounded("both")
    if not (is_bounded or isinstance(space, Discrete)):
        served = "a Discrete action space or a Box of floats with finite bounds"
        raise ValueError(f"needs {served}, got {space}; {transformed_actions(space)}")


def native_action_space(env: gym.Env) -> gym.Space:
    """Returns the environment's own action space, also above an LLMActionMask, which normalizes the actions.

    Example:
        >>> native_action_space(gym.make("Pendulum-v1"))
        Box(-2.0, 2.0, (1,), float32)
    """
    is_masked = env.has_wrapper_attr("native_action_space")
    return env.get_wrapper_attr("native_action_space") if is_masked else env.action_space


def transformed_actions(space: gym.Space) -> str:
    """Returns advice for an action space that nothing here supports: the wrapper to use.

    Example:
        >>> print(transformed_actions(Box(0, 5, (2,), np.int64)))
        register the environment with gymnasium.wrappers.TransformAction and a Box of floats with finite bounds, which are \
rounded: lambda action: np.rint(action).astype(np.int64)
    """
    if isinstance(space, Box):
        way_out = "a Box of floats with finite bounds"
        if not np.issubdtype(space.dtype, np.floating):
            way_out += f", which are rounded: lambda action: np.rint(action).astype(np.{space.dtype})"
    else:
        counts: tuple[int, ...] = ()
        if isinstance(space, MultiDiscrete) and not space.start.any():
            counts = tuple(space.nvec.ravel().tolist())
        elif isinstance(space, MultiBinary):
            counts = (2,) * math.prod(space.shape)
        way_out = "Discrete(n), which numbers the actions to choose among"
        if counts and math.prod(counts) <= MOST_COMBINATIONS:
            number = f"Discrete({math.prod(counts)}), which numbers the combinations"
            dtype = "" if space.dtype == np.int64 else f", np.{space.dtype}"
            shape = f".reshape{space.shape}" if len(space.shape or ()) > 1 else ""
            way_out = f"{number}: lambda i: np.array(np.unravel_index(i, {counts}){dtype}){shape}"
        elif isinstance(space, Tuple | Dict):
            way_out += ", or a Box of floats that holds the parts one after the other"
    return f"register the environment with gymnasium.wrappers.TransformAction and {way_out}"
