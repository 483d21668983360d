"""statemask: the states that a learned mask network calls critical (StateMask, as RICE states it, arXiv 2405.03064)."""

import dataclasses
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete
from tqdm import tqdm

from cleanrl_scripts.learning.actor_critic import ActorCritic
from cleanrl_scripts.ultra.moved_states import placed, split
from llmwrappers import CriticalStates, Trajectories


class Blinded(gym.Wrapper):
    """The mask network's task: its action 1 replaces the agent's action with a random one.

    Action 1 earns a bonus, so the mask network learns to take it wherever the return does not suffer. Where it does not take
    it, the agent's action matters.
    """

    def __init__(self, env: gym.Env, agent: ActorCritic, rng: np.random.Generator, bonus: float):
        super().__init__(env)
        self.agent, self.rng, self.bonus = agent, rng, bonus
        self.native_action_space, self.action_space = env.action_space, Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.native_action_space.seed(int(self.rng.integers(2**31)))
        self.observation, info = self.env.reset(seed=seed, options=options)
        return self.observation, info

    def step(self, action):
        native = self.native_action_space.sample() if action else self.agent.act(self.observation, self.rng)
        self.observation, reward, terminated, truncated, info = self.env.step(native)
        return self.observation, float(reward) + self.bonus * action, terminated, truncated, info


def importance(
    args: Any, env: gym.Env, agent: ActorCritic, reward: float, rng: np.random.Generator, learner: Callable[..., Any]
) -> Callable[[np.ndarray], np.ndarray]:
    """A function of states: how much the agent's action matters there, as the mask network's logit of keeping that action.

    Args:
        args: a script's, with which its PPO trains for ``statemask_timesteps``
        reward: how large the environment's rewards are
        learner: that PPO, (args, envs, agent, rng) -> learner
    """
    blinded = Blinded(env, agent, rng, bonus=0.01 * reward)
    mask = ActorCritic(blinded.observation_space, blinded.action_space, rng, agent.device)
    args = dataclasses.replace(args, num_steps=2048, num_minibatches=32, update_epochs=10, compile="off")
    ppo = learner(args, [gym.wrappers.RecordEpisodeStatistics(blinded)], mask, rng)
    ppo.reset()
    iterations = max(args.statemask_timesteps // 2048, 1)
    for iteration in tqdm(range(iterations), desc="mask network", dynamic_ncols=True, disable=None):
        ppo.collect()
        ppo.update(args.learning_rate * (1 - iteration / iterations))

    def of_states(observations: np.ndarray) -> np.ndarray:
        logits, _ = mask.numpy(np.array([mask.normalized(observation) for observation in observations]))
        return logits[:, 0] - logits[:, 1]

    return of_states


def statemask(
    args: Any,
    env: gym.Env,
    agent: ActorCritic,
    table: CriticalStates,
    trajectories: Trajectories,
    rng: np.random.Generator,
    learner: Callable[..., Any],
) -> CriticalStates:
    """As many states as the table has: those where the mask network is surest to keep the agent's action."""
    shown, held_out = split(table, trajectories)
    matters = importance(args, env, agent, float(np.abs(trajectories.rewards).mean() or 1.0), rng, learner)
    return placed(table, shown, held_out, np.argsort(-matters(shown.observations), kind="stable"))
