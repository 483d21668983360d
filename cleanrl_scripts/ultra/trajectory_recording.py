"""record: episodes of an agent, for an LLM to read."""

import gymnasium as gym
import numpy as np

from cleanrl_scripts.learning.actor_critic import ActorCritic
from cleanrl_scripts.ultra.critical_state_sources import SourceArgs
from llmwrappers import Trajectories

NOISE_STREAM = 6  # default_rng(seed) alone would repeat the environment's own stream


def record(env: gym.Env, args: SourceArgs, agent: ActorCritic) -> Trajectories:
    """Episodes of the agent with sampled actions, as in training. Closes the environment."""
    steps, lengths, terminations, final_observations = [], [], [], []
    seeds = [args.seed + 20_000 + episode for episode in range(args.trajectory_episodes)]
    for episode_seed in seeds:
        rng, length, done = np.random.default_rng((episode_seed, NOISE_STREAM)), 0, False
        observation, _ = env.reset(seed=episode_seed)
        while not done:
            observation = np.array(observation)  # a copy: env may write the next one over it
            action = agent.act(observation, rng)
            next_observation, reward, terminated, truncated, _ = env.step(action)
            steps.append((observation, action, float(reward)))
            observation, length, done = next_observation, length + 1, terminated or truncated
        lengths.append(length)
        terminations.append(terminated)  # pyright: ignore[reportPossiblyUnbound]
        final_observations.append(np.array(observation))
    env.close()
    observations, actions, rewards = zip(*steps, strict=True)
    return Trajectories(
        env_id=args.env_id,
        env_kwargs=args.env_kwargs,
        observations=np.array(observations),
        actions=np.array(actions, agent.policy.dtype),
        rewards=np.array(rewards, np.float32),
        lengths=np.array(lengths, np.int64),
        terminations=np.array(terminations, bool),
        final_observations=np.array(final_observations),
        seeds=np.array(seeds, np.int64),
    )
