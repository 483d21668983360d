"""Teacher: a prior that plays episodes by itself and says, in any state, what it would do."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

from llmwrappers import LLMActionMask, PriorPolicy
from llmwrappers.prior_input import native_action
from llmwrappers.priors.measurement import play


@dataclass
class Episode:
    """An episode, whoever played it: what a prior was handed and the agent observed in each state, and the rewards."""

    handed: list[Any] = field(default_factory=list)
    observations: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    last_observation: np.ndarray | None = None
    faults: int = 0

    @property
    def episodic_return(self) -> float:
        return sum(self.rewards)

    def add(self, handed: Any, observation: np.ndarray, reward: float) -> None:
        """Takes in a step; copies, for environments may write into what they return."""
        self.handed.append(np.array(handed) if isinstance(handed, np.ndarray) else handed)
        self.observations.append(np.array(observation))
        self.rewards.append(float(reward))

    def end(self, last_observation: np.ndarray, terminated: bool) -> None:
        """Takes in how it ended."""
        self.last_observation, self.terminated = np.array(last_observation), terminated

    def returns(self, gamma: float, scale: float, last_value: float) -> np.ndarray:
        """Discounted returns of every step, the rewards scaled; where time cut the episode off it goes on with a value."""
        returns, value = [], 0.0 if self.terminated else last_value
        for reward in reversed(self.rewards):
            value = reward * scale + gamma * value
            returns.append(value)
        return np.array(returns[::-1], np.float32)


class Teacher:
    """A prior on an environment of raw observations and native actions.

    Args:
        observe: a raw observation -> what the agent observes
        prior_input: what the prior is handed, if not the raw observation (see LLMActionMask)
    """

    def __init__(self, env: gym.Env, policy: PriorPolicy, observe: Callable, prior_input: str | None, radius: float):
        self.env, self.policy, self.observe, self.prior_input = env, policy, observe, prior_input
        self.mask = LLMActionMask(env, policy, radius, mapping="project", prior_input=prior_input)

    def play(self, seed: int) -> Episode:
        """An episode of the prior alone; where it fails, the middle of a Box or a random action is played."""
        episode = Episode()
        for step in play(self.env, self.policy, seed, self.prior_input):
            episode.add(step.handed, self.observe(step.observation), step.reward)
            episode.faults += bool(step.fault)
        episode.end(self.observe(step.next_observation), step.terminated)  # pyright: ignore[reportPossiblyUnbound]
        return episode

    def advice(self, handed: Any) -> np.ndarray:
        """What it would do, (action_dim,) native; on a Discrete space the share of each action; NaN where it fails."""
        space = self.env.action_space
        try:
            if isinstance(space, Discrete):
                allowed = self.mask.allowed_actions(handed)
                return (allowed / allowed.sum()).astype(np.float32)
            assert isinstance(space, Box)
            return native_action(self.policy(handed), space.low, space.high).ravel().astype(np.float32)
        except Exception:
            return np.full(int(space.n) if isinstance(space, Discrete) else int(np.prod(space.shape or ())), np.nan, np.float32)
