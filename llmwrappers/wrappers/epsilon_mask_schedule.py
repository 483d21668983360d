"""EpsilonMaskSchedule: anneals how often an action mask applies (CAMEL, arXiv 2502.11896)."""

import math
import warnings
from typing import Any

import gymnasium as gym
from gymnasium.error import InvalidBound
from gymnasium.utils import RecordConstructorArgs


class EpsilonMaskSchedule(gym.Wrapper, RecordConstructorArgs):
    """Anneals the probability that a mask applies linearly from 1 to 0 over the first fraction of the training steps.

    Spaces, observations, rewards and actions do not change. It sets the attribute ``mask_epsilon`` of the LLMActionMask
    below, and so replaces the value that was given there.

    ``epsilon_t = max(1 - t / (mask_fraction * total_timesteps), 0)`` (CAMEL, arXiv 2502.11896, as annealing), where t counts
    the steps of this environment. In a vector of n environments each counts its own, so give ``total_timesteps / n``.
    The attribute ``elapsed_steps`` holds t. Set it to continue a run, or set it to ``math.inf`` to turn the mask off.

    Args:
        env: an environment with an attribute ``mask_epsilon``, such as LLMActionMask
        total_timesteps: steps of the whole training run, at least 1
        mask_fraction: the fraction of these steps, in [0, 1], over which the mask fades; with 0 the mask never applies

    Raises:
        ValueError: ``env`` has no ``mask_epsilon``, or ``total_timesteps`` is below 1
        gymnasium.error.InvalidBound: ``mask_fraction`` outside [0, 1]

    Example:
        >>> from llmwrappers import LLMActionMask
        >>> env = LLMActionMask(gym.make("Pendulum-v1"), prior=lambda obs: obs[:1])
        >>> env = EpsilonMaskSchedule(env, total_timesteps=100, mask_fraction=0.5)
        >>> obs, info = env.reset(seed=0)
        >>> for _ in range(20):
        ...     obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        >>> env.get_wrapper_attr("mask_epsilon")
        0.6

    Reference:
        Zhao, Qian, Shan and Qin, arXiv 2502.11896.

    Change log:
        * v0.1.0 - added
    """

    _last_begun = (0, "")  # number and environment of the schedule of this process that began last

    def __init__(self, env: gym.Env, total_timesteps: int, mask_fraction: float = 0.2):
        if not 1 <= total_timesteps < math.inf:
            raise ValueError(f"total_timesteps must be at least 1 and finite, got {total_timesteps!r}")
        if not 0 <= mask_fraction <= 1:
            raise InvalidBound(f"mask_fraction must lie in [0, 1], got {mask_fraction!r}")
        if not (isinstance(env, gym.Wrapper) and env.has_wrapper_attr("mask_epsilon")):
            raise ValueError(f"EpsilonMaskSchedule must wrap an environment with a mask, such as LLMActionMask, got {env}")
        # A spec can only hold JSON's types.
        total_timesteps, mask_fraction = int(total_timesteps), float(mask_fraction)
        RecordConstructorArgs.__init__(self, total_timesteps=total_timesteps, mask_fraction=mask_fraction)
        gym.Wrapper.__init__(self, env)
        self.mask_fraction = mask_fraction
        self._masked_steps, self._last_seen = mask_fraction * total_timesteps, EpsilonMaskSchedule._last_begun
        self.elapsed_steps = 0

    @property
    def elapsed_steps(self) -> float:
        """Steps taken so far, an integer or infinity; setting it also sets the mask's probability."""
        return self._elapsed_steps

    @elapsed_steps.setter
    def elapsed_steps(self, value: float):
        if not value >= 0:
            raise ValueError(f"elapsed_steps must not be negative, got {value!r}")
        self._elapsed_steps = value
        remaining = self._masked_steps - value
        self.env.set_wrapper_attr("mask_epsilon", remaining / self._masked_steps if remaining > 0 else 0.0, force=False)

    def step(self, action) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Sets the next step's probability, then steps: the mask draws the gate of the next action inside this step."""
        if self._elapsed_steps == 0:
            EpsilonMaskSchedule._last_begun = self._last_seen = (EpsilonMaskSchedule._last_begun[0] + 1, str(self))
        elif self._last_seen != EpsilonMaskSchedule._last_begun:
            self._warn_of_another()
        if self._elapsed_steps < self._masked_steps:
            self.elapsed_steps += 1
        else:
            self._elapsed_steps += 1
        return self.env.step(action)

    def _warn_of_another(self) -> None:
        """Warns if another schedule began while this one was running: most likely one of them is for evaluation."""
        self._last_seen = EpsilonMaskSchedule._last_begun
        # The schedules of a vector begin within a few steps of each other; trials before training take a few steps, too.
        if 10 < self._elapsed_steps < math.inf and self._last_seen[1] == str(self):
            warnings.warn(
                f"two EpsilonMaskSchedules of {self} run side by side, and each counts its own steps: one had counted "
                f"{self._elapsed_steps} when the other began. If one of these environments is for evaluation, give it "
                "LLMActionMask(..., mask_epsilon=0.0) and no schedule",
                stacklevel=3,
            )
