"""evaluate: what a policy returns, over the same seeded episodes every time."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from cleanrl_scripts.common.errors import UserError
from llmwrappers.scalar_reward import scalar_reward


def evaluate(env: gym.Env, act: Callable[[Any], Any], seed: int, episodes: int, video_name: str = "") -> float:
    """Mean return of a policy, the environment's own: without what an LLM added to the rewards.

    Args:
        act: observation -> action of ``env``
        seed: of the run; the episodes' seeds follow from it
        video_name: how a recorded episode is called

    Raises:
        UserError: rewards that are vectors
    """
    if video_name and env.has_wrapper_attr("name_prefix"):
        env.set_wrapper_attr("name_prefix", video_name, force=False)
    returns = []
    for episode in range(episodes):
        observation, _ = env.reset(seed=seed + 10_000 + episode)
        episodic_return, done = 0.0, False
        while not done:
            observation, reward, terminated, truncated, info = env.step(act(observation))
            try:
                episodic_return += scalar_reward(reward) - float(info.get("llm_reward", 0.0))
            except ValueError as error:  # found here by every script, before it trains
                raise UserError(str(error)) from None
            done = terminated or truncated
        returns.append(episodic_return)
    return float(np.mean(returns))
