"""PermutedActions: the control for critical states as code: the same states, other actions."""

from typing import Any, cast

import numpy as np
from gymnasium.spaces import Discrete

from llmwrappers import CriticalFunction


class PermutedActions(CriticalFunction):
    """Suggests another action than the LLM's function, in the same critical states.

    On a Discrete space each action is replaced by another one, always the same one. On a Box the components of the action are
    permuted and mirrored about the middle of their ranges.
    """

    def __init__(self, source: str, action_space: Any, is_trusted: bool, moved_to: np.ndarray):
        super().__init__(source, action_space, is_trusted)
        self.moved_to = moved_to

    @classmethod
    def of(cls, function: CriticalFunction, rng: np.random.Generator) -> "PermutedActions":
        """The control for a function."""
        space: Any = function.action_space
        size = int(space.n) if isinstance(space, Discrete) else int(np.prod(space.shape))
        order, moved_to = rng.permutation(size), np.empty(size, int)
        moved_to[order] = np.roll(order, 1)  # one cycle through all of them: every one moves
        return cls(function.source, space, function.is_trusted, moved_to)

    def consult(self, observation: Any) -> tuple[int, tuple[Any, float] | None]:
        """The entry of the LLM's function, and the action that replaces its action."""
        entry, advice = super().consult(observation)
        if advice is None:
            return entry, advice
        (action, reward), space = advice, cast(Any, self.action_space)
        if isinstance(space, Discrete):
            return entry, (int(self.moved_to[action - space.start] + space.start), reward)
        moved = np.ravel(space.low + space.high - action)[self.moved_to].reshape(space.shape)
        return entry, (np.clip(moved, space.low, space.high).astype(space.dtype), reward)

    def __reduce__(self):
        return PermutedActions, (self.source, self.action_space, self.is_trusted, self.moved_to), {"faults": self.faults}
