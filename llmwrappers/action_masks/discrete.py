"""DiscreteMask: which actions of a Discrete space are allowed next, and what replaces the others."""

import operator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from llmwrappers.action_spaces import transformed_actions
from llmwrappers.priors.contract import allowed_actions


class DiscreteMask:
    """Keeps the mask (n,) of the next action, and replaces an action that it does not allow.

    Args:
        space: the action space
        env: its ``info["action_mask"]`` and its method ``action_masks()`` say which actions are legal

    Raises:
        TypeError: a space that is not Discrete

    Example:
        >>> mask, info = DiscreteMask(Discrete(4)), {}
        >>> mask.set(mask.allowed({0, 3}), info)
        True
        >>> mask.confine(1), mask.confine(3), info["action_mask"].tolist()
        (3, 3, [1, 0, 0, 1])
    """

    def __init__(self, space: Any, env: gym.Env | None = None):
        if not isinstance(space, Discrete):
            raise TypeError(f"LLMActionMask serves Box and Discrete action spaces, got {space}; {transformed_actions(space)}")
        self.space = space
        self.no_action = np.array(0)  # what ``info["executed_action"]`` holds at reset
        self.mask, self.is_active = np.ones(space.n, dtype=np.int8), False
        self._action_masks = None
        if env is not None and env.has_wrapper_attr("action_masks") and callable(masks := env.get_wrapper_attr("action_masks")):
            self._action_masks = masks

    def allowed(self, answer: Any) -> NDArray[np.int8]:
        """Returns the mask (n,) of the actions that a prior allows (see ``allowed_actions``)."""
        return allowed_actions(answer, self.space)

    def set(self, mask: NDArray[np.int8] | None, info: dict[str, Any]) -> bool:
        """Sets the mask of the next action to what prior and environment both allow, and writes it into the info.

        Returns whether the prior's mask applies: there is one, and both allow at least one common action.
        """
        legal = np.ones_like(self.mask)
        if "action_mask" in info:
            legal &= self.legal(info["action_mask"])
        if self._action_masks is not None:
            legal &= self.legal(self._action_masks())
        self.is_active = mask is not None and bool((mask & legal).any())
        self.mask = mask & legal if mask is not None and self.is_active else legal
        info["action_mask"] = self.mask.copy()
        return self.is_active

    def legal(self, action_mask: Any) -> NDArray[np.int8]:
        """Returns the environment's own mask.

        Raises:
            ValueError: it is not a vector of n truth values, such as a list of the legal actions
        """
        mask = np.asarray(action_mask)
        if mask.shape != (self.space.n,) or not ((mask == 0) | (mask == 1)).all():
            raise ValueError(
                f"the environment's info['action_mask'], or its action_masks(), must hold {self.space.n} truth values, 1 for a "
                f"legal action, got {action_mask!r}"
            )
        return mask.astype(np.int8)

    def confine(self, action: Any) -> int:
        """Returns the action, or ``allowed[(action - start) % len(allowed)]`` for one that the mask does not allow."""
        start = int(self.space.start)
        try:
            index = operator.index(action) - start
        except TypeError:  # 1.9 is no action 1
            index = -1
        if not 0 <= index < self.space.n:
            raise ValueError(f"action must be in {self.space}, got {action!r}")
        # If the mask is off, the environment handles the actions that it does not allow.
        if self.is_active and not self.mask[index]:
            allowed = np.flatnonzero(self.mask)
            index = int(allowed[index % len(allowed)])
        return index + start
