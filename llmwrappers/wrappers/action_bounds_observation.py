"""ActionBoundsObservation: appends the current action bounds to the observation."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.spaces import Dict as DictSpace
from gymnasium.utils import RecordConstructorArgs


class ActionBoundsObservation(gym.Wrapper, RecordConstructorArgs):
    """Appends the bounds of the next action to the observation, so that a learner unaware of masks sees a stationary problem.

    A Box observation of shape (n,) becomes ``concatenate([obs, action_low, action_high])``, or ``[obs, action_mask]`` on a
    Discrete action space; a Dict observation gets them as additional keys. Bounds are in native units and flattened.

    It reads ``info``, so it must be outside LLMActionMask (and outside EpsilonMaskSchedule).

    Args:
        env: an environment whose info carries ``action_low`` and ``action_high``, or ``action_mask``

    Raises:
        ValueError: there is no LLMActionMask below, or the Dict has these keys already
        TypeError: an observation space that is neither a one-dimensional Box of floats nor a Dict

    Example:
        >>> from llmwrappers import LLMActionMask
        >>> env = LLMActionMask(gym.make("Pendulum-v1"), prior=lambda obs: np.array([0.5]), radius=0.25)
        >>> obs, info = ActionBoundsObservation(env).reset(seed=0)
        >>> obs.shape, obs[3:].tolist()
        ((5,), [0.0, 1.0])

    Change log:
        * v0.1.0 - added
    """

    def __init__(self, env: gym.Env):
        if not env.has_wrapper_attr("native_action_space"):
            raise ValueError(f"ActionBoundsObservation must wrap an environment with LLMActionMask in its stack, got {env}")
        space = env.observation_space
        is_vector = isinstance(space, Box) and len(space.shape) == 1 and np.issubdtype(space.dtype, np.floating)
        if not (is_vector or isinstance(space, DictSpace)):
            raise TypeError(f"ActionBoundsObservation needs observations that are vectors of floats or a Dict, got {space}")
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)

        native = env.get_wrapper_attr("native_action_space")
        if isinstance(native, Discrete):
            ones = np.ones(native.n, dtype=np.int8)
            self._bounds = {"action_mask": Box(0 * ones, ones, dtype=np.int8)}
        else:
            low, high = native.low.ravel(), native.high.ravel()
            self._bounds = {key: Box(low, high, dtype=native.dtype.type) for key in ("action_low", "action_high")}
        if isinstance(space, DictSpace):
            if taken := sorted(self._bounds.keys() & space.spaces.keys()):
                raise ValueError(f"ActionBoundsObservation adds {taken}, keys that the observation has already, got {space}")
            self.observation_space = DictSpace({**space.spaces, **self._bounds})
        else:
            assert isinstance(space, Box)
            self.observation_space = Box(
                np.concatenate([space.low, *(box.low for box in self._bounds.values())]).astype(space.dtype),
                np.concatenate([space.high, *(box.high for box in self._bounds.values())]).astype(space.dtype),
                dtype=space.dtype.type,
            )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Resets and appends the bounds of the first action."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._append(observation, info), info

    def step(self, action):
        """Steps and appends the bounds of the next action."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._append(observation, info), reward, terminated, truncated, info

    def _append(self, observation, info):
        bounds = {key: np.array(info[key]).ravel() for key in self._bounds}
        if isinstance(observation, dict):
            return {**observation, **bounds}
        return np.concatenate([observation, *bounds.values()], dtype=self.observation_space.dtype)
