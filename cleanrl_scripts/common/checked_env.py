"""CheckedEnv: wraps a script's environment, and ends the script on errors that would otherwise pass unseen."""

import math
from typing import Any

import gymnasium as gym
import numpy as np

from cleanrl_scripts.common.stop import stop
from llmwrappers.errors import UserError
from llmwrappers.priors.prior_input import as_array
from llmwrappers.scalar_reward import scalar_reward


class CheckedEnv(gym.Wrapper):
    """Makes rewards floats, and ends the script on NaN, on Inf, and when the script was told to stop.

    Raises:
        UserError: a reward that is a vector; NaN or Inf in a reward or an observation
        KeyboardInterrupt, SystemExit: the script was told to stop, and the environment swallowed that
    """

    def __init__(self, env: gym.Env, env_id: str):
        super().__init__(env)
        self.env_id, self.steps = env_id, 0

    def reset(self, **options: Any) -> tuple[Any, dict]:
        observation, info = self.env.reset(**options)
        observation, self.steps = as_array(observation, self), 0
        self.check(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        observation, self.steps = as_array(observation, self), self.steps + 1
        try:
            reward = scalar_reward(reward)
        except ValueError as error:
            raise UserError(f"--env-id {self.env_id}: {error}") from None
        self.check(observation, reward, action)
        info.pop("episode", None)  # of the environment's own RecordEpisodeStatistics, with which the script's would raise
        return observation, reward, terminated, truncated, info

    def check(self, observation: Any, reward: float = 0.0, action: Any = None) -> None:
        stop.check()
        entry = "reward" if not math.isfinite(reward) else not_finite(observation, "observation")
        if entry and (wrong := not_finite(action, "action")):
            raise UserError(f"--env-id {self.env_id}: step {self.steps} of an episode got NaN or Inf in {wrong} from the agent")
        if entry:
            value = reward if entry == "reward" else "NaN or Inf"
            raise UserError(
                f"--env-id {self.env_id}: step {self.steps} of an episode returned {value} in {entry}, with which nothing can "
                "be learned; register the environment with a wrapper that replaces it, such as "
                "gymnasium.wrappers.TransformObservation or TransformReward with numpy.nan_to_num"
            )


def not_finite(observation: Any, name: str) -> str:
    """Returns the name of the first entry that is NaN or Inf, or "".

    Example:
        >>> not_finite({"speed": np.zeros(2), "lidar": np.array([1.0, np.inf])}, "observation")
        "observation['lidar'][1]"
    """
    if isinstance(observation, np.ndarray):
        # The sum of squares takes a tenth of the time of a test of every entry.
        if observation.dtype.kind != "f" or math.isfinite(np.vdot(observation, observation)):
            return ""
        where = np.argwhere(~np.isfinite(observation))
        return f"{name}{''.join(f'[{i}]' for i in where[0])}" if len(where) else ""
    if isinstance(observation, float | np.floating):
        return "" if math.isfinite(observation) else name
    parts = observation.items() if isinstance(observation, dict) else ()
    parts = enumerate(observation) if isinstance(observation, tuple | list) else parts
    return next(filter(None, (not_finite(part, f"{name}[{key!r}]") for key, part in parts)), "")
