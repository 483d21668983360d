"""evaluate: the mean return of a policy over the same seeded episodes every time."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

EVALUATION_STREAM = 4  # of a run's random numbers; 0 is the environment's own


def evaluate(env: gym.Env, act: Callable[[Any], Any], seed: int, episodes: int, video_name: str = "") -> float:
    """Mean return of a policy, by the environment's own rewards: without an LLM's.

    In an environment without a time limit it prints how many episodes were cut.

    Args:
        act: observation -> action of ``env``
        seed: of the run; the episodes' seeds follow from it
        video_name: the name of a recorded episode
    """
    if video_name and env.has_wrapper_attr("name_prefix"):
        env.set_wrapper_attr("name_prefix", video_name, force=False)
    bounded = env.has_wrapper_attr("cut_episodes")
    cut_before = env.get_wrapper_attr("cut_episodes") if bounded else 0
    returns = []
    for episode_seed in np.random.default_rng((seed, EVALUATION_STREAM)).integers(2**31, size=episodes):
        observation, _ = env.reset(seed=int(episode_seed))
        episodic_return, done = 0.0, False
        while not done:
            observation, reward, terminated, truncated, info = env.step(act(observation))
            episodic_return += float(reward) - float(info.get("llm_reward", 0.0))
            done = terminated or truncated
        returns.append(episodic_return)
    if env.has_wrapper_attr("stop_recording") and env.get_wrapper_attr("recording"):
        env.get_wrapper_attr("stop_recording")()  # else the next reset would stop it, which is too late for the film
    if bounded and (cut := env.get_wrapper_attr("cut_episodes") - cut_before):
        print(f"note: {cut} of {episodes} episodes of the evaluation were cut (--max-episode-steps)", flush=True)
    return float(np.mean(returns))
