"""evaluate: what a policy returns, over the same seeded episodes every time."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np


def evaluate(env: gym.Env, act: Callable[[Any], Any], seed: int, episodes: int, video_name: str = "") -> float:
    """Mean return of a policy, the environment's own: without what an LLM added to the rewards.

    Says how many episodes were cut where the environment has no time limit.

    Args:
        act: observation -> action of ``env``
        seed: of the run; the episodes' seeds follow from it
        video_name: how a recorded episode is called
    """
    if video_name and env.has_wrapper_attr("name_prefix"):
        env.set_wrapper_attr("name_prefix", video_name, force=False)
    bounded = env.has_wrapper_attr("cut_episodes")
    cut_before = env.get_wrapper_attr("cut_episodes") if bounded else 0
    returns = []
    for episode in range(episodes):
        observation, _ = env.reset(seed=seed + 10_000 + episode)
        episodic_return, done = 0.0, False
        while not done:
            observation, reward, terminated, truncated, info = env.step(act(observation))
            episodic_return += float(reward) - float(info.get("llm_reward", 0.0))
            done = terminated or truncated
        returns.append(episodic_return)
    if env.has_wrapper_attr("stop_recording") and env.get_wrapper_attr("recording"):
        env.get_wrapper_attr("stop_recording")()  # else the next reset would, and the film be written by then
    if bounded and (cut := env.get_wrapper_attr("cut_episodes") - cut_before):
        print(f"note: {cut} of {episodes} episodes of the evaluation were cut (--max-episode-steps)", flush=True)
    return float(np.mean(returns))
