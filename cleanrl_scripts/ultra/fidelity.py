"""fidelity: StateMask's test of whether critical states are critical."""

import gymnasium as gym
import numpy as np

from cleanrl_scripts.learning.actor_critic import ActorCritic
from llmwrappers.critical_states.guidance import Guidance
from llmwrappers.priors.contract import begin_episode


def fidelity(env: gym.Env, agent: ActorCritic, guidance: Guidance, info_key: str | None, episodes: int, seed: int) -> str:
    """The loss of return by random actions in the critical states, and in as many random states, as a table.

    The three episodes of a seed begin in the same state. A seed's random states have the same rate as its critical states.
    The interval is a 95 % bootstrap over seeds.

    Args:
        info_key: the key of the info that the guidance matches, if that is not the observation
    """
    losses, rates = [], []
    for episode_seed in range(seed + 30_000, seed + 30_000 + episodes):
        returns, rate = [], 0.0
        for blinded in ("never", "critical", "random"):
            rng, coin = np.random.default_rng(episode_seed), np.random.default_rng((episode_seed, 1))
            env.action_space.seed(episode_seed)
            observation, info = env.reset(seed=episode_seed)
            begin_episode(guidance)
            episodic_return, length, hits, done = 0.0, 0, 0, False
            while not done:
                action = agent.act(observation, rng)
                if blinded == "critical":
                    blind = guidance(info[info_key] if info_key else observation) is not None
                else:
                    blind = blinded == "random" and coin.random() < rate
                observation, reward, terminated, truncated, info = env.step(env.action_space.sample() if blind else action)
                episodic_return, length, hits = episodic_return + float(reward), length + 1, hits + blind
                done = terminated or truncated
            if blinded == "critical":
                rate = hits / length
            returns.append(episodic_return)
        rates.append(rate)
        losses.append((returns[0], returns[0] - returns[1], returns[0] - returns[2]))
    plain, critical, random = np.array(losses).T
    draws = np.random.default_rng(0).integers(0, len(plain), (10_000, len(plain)))

    def interval(values: np.ndarray) -> str:
        low, high = np.percentile(values[draws].mean(axis=1), (2.5, 97.5))
        return f"{values.mean():.1f} [{low:.1f}, {high:.1f}]"

    return (
        f"fidelity over {len(plain)} episodes, 95 % intervals; random actions at {100 * np.mean(rates):.1f} % of the steps\n"
        f"  return of the agent                       {interval(plain)}\n"
        f"  lost by random actions at critical states {interval(critical)}\n"
        f"  lost by random actions at random states   {interval(random)}\n"
        f"  difference                                {interval(critical - random)}"
    )
