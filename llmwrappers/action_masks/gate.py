"""Gate: whether a mask applies, drawn with a probability at every step (CAMEL) or once per episode."""

import warnings

import numpy as np

# Mixed into the seed: default_rng(seed) alone would repeat the environment's own stream.
STREAM = 1


class Gate:
    """Draws whether the mask applies, from its own random stream.

    Args:
        every: "step" or "episode", how often it is drawn

    Example:
        >>> gate = Gate("episode")
        >>> gate.begin_episode(probability=1.0, seed=0)
        >>> gate.is_open(probability=0.0)  # it was drawn when the episode began
        True
    """

    def __init__(self, every: str):
        if every not in ("step", "episode"):
            raise ValueError(f"gate must be 'step' or 'episode', got {every!r}")
        self.every = every
        self._rng, self._is_open = np.random.default_rng(), False
        self.was_open = self.had_effect = False

    def begin_episode(self, probability: float, seed: int | None = None) -> None:
        """Draws at the beginning of an episode; ``seed`` restarts the stream."""
        if seed is not None:
            self._rng = np.random.default_rng((seed, STREAM))
        if self.every == "episode":
            self._is_open = self._draw(probability)

    def is_open(self, probability: float) -> bool:
        """Returns whether the mask applies to the next action; call it once per step."""
        is_open = self._draw(probability) if self.every == "step" else self._is_open
        self.was_open |= is_open
        return is_open

    def warn_of_no_effect(self, faults: int) -> None:
        """Warns once if the gate was open, but the mask never had an effect: ``had_effect`` was not set."""
        if self.was_open and not self.had_effect:
            self.had_effect = True
            why = f"the prior failed, {faults} times in all" if faults else "the environment allowed none of its actions"
            warnings.warn(f"LLMActionMask was never active: {why}", stacklevel=3)

    def _draw(self, probability: float) -> bool:
        return probability > 0 and self._rng.random() < probability
