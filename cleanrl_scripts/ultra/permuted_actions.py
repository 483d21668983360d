"""PermutedActions: the control for critical states as code: the same states, other actions."""

from typing import Any, cast

import numpy as np
from gymnasium.spaces import Discrete

from llmwrappers import CriticalFunction
from llmwrappers.errors import UserError


class PermutedActions(CriticalFunction):
    """Suggests another action than the LLM's function, in the same critical states.

    On a Discrete space each action is replaced by another one, always the same one. On a Box the components of the action, in
    units of their ranges, are permuted and mirrored; a component that this changes by less than a quarter of its range moves by
    half of it, around its end.
    """

    def __init__(self, source: str, action_space: Any, is_trusted: bool, filename: str, moved_to: np.ndarray):
        super().__init__(source, action_space, is_trusted, filename)
        self.moved_to = moved_to

    @classmethod
    def of(cls, function: CriticalFunction, rng: np.random.Generator) -> "PermutedActions":
        """The control for a function.

        Raises:
            UserError: a Box without bounds
        """
        space: Any = function.action_space
        if not isinstance(space, Discrete) and not space.is_bounded("both"):
            raise UserError(f"--arm random: the control for code needs bounded actions, got {space}")
        size = int(space.n) if isinstance(space, Discrete) else int(np.prod(space.shape))
        order, moved_to = rng.permutation(size), np.empty(size, int)
        moved_to[order] = np.roll(order, 1)  # one cycle through all of them: every one moves
        return cls(function.source, space, function.is_trusted, function.filename, moved_to)

    def consult(self, observation: Any) -> tuple[int, tuple[Any, float] | None]:
        """The entry of the LLM's function, and the action that replaces its action."""
        entry, advice = super().consult(observation)
        if advice is None:
            return entry, advice
        (action, reward), space = advice, cast(Any, self.action_space)
        if isinstance(space, Discrete):
            return entry, (int(self.moved_to[action - space.start] + space.start), reward)
        low, span = space.low.astype(float), space.high.astype(float) - space.low
        unit = np.ravel((action - low) / np.where(span > 0.0, span, 1.0))
        moved = 1.0 - unit[self.moved_to]
        moved = np.where(np.abs(moved - unit) < 0.25, (moved + 0.5) % 1.0, moved)
        moved = low + moved.reshape(space.shape) * span
        return entry, (np.clip(moved, space.low, space.high).astype(space.dtype), reward)

    def __reduce__(self):
        parts = self.source, self.action_space, self.is_trusted, self.filename, self.moved_to
        return PermutedActions, parts, {"faults": self.faults}
