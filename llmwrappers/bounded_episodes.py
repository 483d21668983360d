"""BoundedEpisodes: makes every episode end, also in environments without a time limit."""

import warnings
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

MAX_EPISODE_STEPS = 10_000


class BoundedEpisodes(gym.Wrapper, RecordConstructorArgs):
    """Truncates an episode after 10 000 steps, and counts how often; for environments without their own time limit.

    ``gymnasium.wrappers.TimeLimit`` does the same, and also changes ``spec.max_episode_steps``: this bound is ours, no fact
    about the environment.

    Attributes:
        cut_episodes: episodes that the bound has ended

    Example:
        >>> from gymnasium.envs.classic_control import PendulumEnv
        >>> env = BoundedEpisodes(PendulumEnv(), max_episode_steps=2)
        >>> observation, info = env.reset(seed=0)
        >>> with warnings.catch_warnings(action="ignore"):  # the cut is said
        ...     env.step([0.0])[3], env.step([0.0])[3], env.cut_episodes
        (False, True, 1)
    """

    def __init__(self, env: gym.Env, max_episode_steps: int = MAX_EPISODE_STEPS):
        RecordConstructorArgs.__init__(self, max_episode_steps=max_episode_steps)  # for gym.make(env.spec)
        gym.Wrapper.__init__(self, env)
        self.max_episode_steps, self.steps, self.cut_episodes = max_episode_steps, 0, 0

    def reset(self, **options: Any) -> tuple[Any, dict]:
        self.steps = 0
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        if self.steps >= self.max_episode_steps and not (terminated or truncated):
            truncated = True
            self.cut_episodes += 1
            if self.cut_episodes == 1:
                name = self.spec.id if self.spec else type(self.unwrapped).__name__
                warnings.warn(
                    f"an episode of {name} was cut after {self.steps} steps: the environment has no time limit "
                    "(max_episode_steps sets one)",
                    stacklevel=2,
                )
        return observation, reward, terminated, truncated, info


def bounded(env: gym.Env) -> gym.Env:
    """Returns the environment, with ``BoundedEpisodes`` around it if it has no time limit.

    Example:
        >>> env = gym.make("Pendulum-v1")
        >>> bounded(env) is env
        True
    """
    return env if env.spec is not None and env.spec.max_episode_steps is not None else BoundedEpisodes(env)
