"""CheckedEnv: between an environment and a script, stops what would otherwise go on unseen."""

from typing import Any

import gymnasium as gym

from cleanrl_scripts.common.stop import stop


class CheckedEnv(gym.Wrapper):
    """Plays as the environment does, and ends a script that was told to stop while the environment swallowed that."""

    def reset(self, **options: Any) -> tuple[Any, dict]:
        observation, info = self.env.reset(**options)
        stop.check()
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        transition = self.env.step(action)
        stop.check()
        return transition
