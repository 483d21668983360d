"""BoxMask: the interval of the next action of a Box, and the map of an action into it."""

import math
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from llmwrappers.action_masks.intervals import center_and_half_width, interval_around, scale
from llmwrappers.action_spaces import transformed_actions
from llmwrappers.priors.contract import native_action

Interval = tuple[NDArray, NDArray]


class BoxMask:
    """Keeps the interval of the next action, and maps a normalized action into it.

    Args:
        space: the native action space, floats with finite bounds
        mapping: "rescale": x in [-1, 1] spans the interval; "clip": it spans the space, and is clipped into the interval

    Raises:
        TypeError: a Box that is not of floats
        ValueError: bounds that are not finite

    Example:
        >>> mask = BoxMask(Box(-2, 2, (1,)), mapping="clip")
        >>> info = {}
        >>> mask.set((np.float32([0.0]), np.float32([1.0])), info)
        True
        >>> mask.confine([-0.5]).tolist(), info["action_high"].tolist()
        ([0.0], [1.0])
    """

    def __init__(self, space: Box, mapping: str):
        if not np.issubdtype(space.dtype, np.floating):
            raise TypeError(f"LLMActionMask needs a Box action space of floats, got {space}; {transformed_actions(space)}")
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isfinite(space.high - space.low).all():
                raise ValueError(
                    f"LLMActionMask needs an action space with finite bounds, got {space}; give it some with "
                    "gymnasium.wrappers.TransformAction(env, func=lambda action: action, action_space=Box(low, high))"
                )
        self.space, self.mapping = space, mapping
        self.normalized_space = Box(-1.0, 1.0, space.shape, space.dtype.type)
        # A replay buffer or a saved agent has only the space: this tells it what -1 and 1 mean without the mask.
        self.normalized_space.native_space = space  # pyright: ignore[reportAttributeAccessIssue]
        self.no_action = np.full_like(space.low, np.nan)  # what ``info["executed_action"]`` holds at reset
        self._whole = self._interval = (space.low, space.high, *center_and_half_width(space.low, space.high))

    def set(self, interval: Interval | None, info: dict[str, Any]) -> bool:
        """Sets the interval of the next action (None: the whole space), writes it into the info; returns if there is one."""
        self._interval = self._whole if interval is None else (*interval, *center_and_half_width(*interval))
        info["action_low"], info["action_high"] = np.array(self._interval[0]), np.array(self._interval[1])
        return interval is not None

    def confine(self, action: Any) -> NDArray:
        """Returns the native action within the interval for a normalized one."""
        action = np.asarray(action, dtype=self.space.dtype)
        if action.shape != self.space.shape:
            raise ValueError(f"action must have shape {self.space.shape}, got {action.shape}")
        low, high, center, half_width = self._interval
        if self.mapping == "clip":
            _, _, center, half_width = self._whole
        executed = scale(action, center, half_width, low, high)
        if math.isnan(np.vdot(executed, executed)):  # in half the time of np.isnan(executed).any()
            raise ValueError(f"action must hold no NaN, got {action!r}")
        return executed

    def around(self, answer: Any, radius: float) -> Interval:
        """Returns the interval around a prior's answer, ``radius`` a fraction of half the action range.

        Raises:
            ValueError: an answer of another shape than the action space, or one with NaN or Inf
        """
        low, high, _, half_width = self._whole
        # Clip before the cast, in which a large number would overflow.
        center = native_action(answer, low, high).astype(self.space.dtype)
        return interval_around(center, radius * half_width, low, high)

    def part_within(self, low: Any, high: Any) -> Interval:
        """Returns the part of an interval that lies in the space.

        Raises:
            ValueError: another shape than the space has, NaN, or nothing in common with it
        """
        space = self.space
        inside = np.maximum(low, space.low).astype(space.dtype), np.minimum(high, space.high).astype(space.dtype)
        if np.shape(low) != space.shape or np.shape(high) != space.shape or not (inside[0] <= inside[1]).all():
            raise ValueError(
                f"bounds must return low <= high of shape {space.shape}, in part within {space}; got {low}, {high}"
            )
        return inside
