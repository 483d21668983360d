"""HopperBeyond: Hopper rewarded for nothing but being beyond a line, which falling forward does not reach."""

from typing import Any

import gymnasium as gym


class HopperBeyond(gym.Wrapper):
    """Plays MuJoCo's Hopper with a reward of 1 in each step in which it is beyond x = ``line``, and 0 before.

    The observation is Hopper's with the position in front: float64 (12,). Else it is ``Hopper-v5``.

    Args:
        line: in metres; the hopper begins at 0, and an episode ends where it falls
        render_mode: as for ``Hopper-v5``

    Example:
        >>> env = gym.make("llmwrappers/HopperBeyond-v0")
        >>> observation, info = env.reset(seed=0)
        >>> observation.shape, env.step(env.action_space.sample())[1]
        ((12,), 0.0)

    Change log:
        * v0.1.0 - added
    """

    def __init__(self, line: float = 1.0, render_mode: str | None = None):
        hopper: Any = gym.make(
            "Hopper-v5", render_mode=render_mode, exclude_current_positions_from_observation=False, disable_env_checker=True
        )
        super().__init__(hopper.unwrapped)
        self.line = line

    def step(self, action):
        """Steps; the reward is 1 beyond the line."""
        observation, _, terminated, truncated, info = self.env.step(action)
        return observation, float(observation[0] > self.line), terminated, truncated, info
