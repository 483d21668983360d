"""audition: finds the prior that is to teach; Teacher: a prior that plays by itself and says what it would do anywhere."""

import copy
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import scipy.stats
from gymnasium.spaces import Box, Discrete

from llmwrappers import LLMActionMask, PriorPolicy
from llmwrappers.prior_input import native_action, read_prior_input
from llmwrappers.priors.measurement import play


@dataclass
class Episode:
    """An episode, whoever played it: what a prior was handed and the agent observed in each state, and the rewards."""

    handed: list[Any] = field(default_factory=list)
    observations: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    last_observation: np.ndarray = field(default_factory=lambda: np.empty(0))
    faults: int = 0

    @property
    def episodic_return(self) -> float:
        return sum(self.rewards)

    def add(self, handed: Any, observation: np.ndarray, reward: float) -> None:
        """Takes in a step; copies, for environments may write into what they return."""
        self.handed.append(copy.deepcopy(handed))
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
        read_prior_input(env, prior_input, *env.reset(seed=0))  # a key that no info has is found here

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
        space, handed = self.env.action_space, copy.deepcopy(handed)  # a prior may write into what it is given
        try:
            if isinstance(space, Discrete):
                allowed = self.mask.allowed_actions(handed)
                return (allowed / allowed.sum()).astype(np.float32)
            assert isinstance(space, Box)
            return native_action(self.policy(handed), space.low, space.high).ravel().astype(np.float32)
        except Exception:
            return np.full(int(space.n) if isinstance(space, Discrete) else int(np.prod(space.shape or ())), np.nan, np.float32)


CHANCE = "random actions"


def audition(
    contestants: dict[str, Teacher], clone_steps: int, rng: np.random.Generator
) -> tuple[dict[str, list[Episode]], str, str]:
    """Finds the prior that teaches: the one with the highest mean return, if chance does not explain it.

    Each plays an episode; then random actions and the one in front go on until both have played three, or two once 60 % of
    ``clone_steps`` are gone. A prior that fails once is out. Chance: Student's test against random actions, one-sided, 5 %.

    Args:
        contestants: the priors by name, and random actions as ``CHANCE``

    Returns:
        the episodes of all contestants, the name of the teacher ("" for none), and a sentence that says why
    """

    def play(name: str) -> Episode:
        return contestants[name].play(seed=int(rng.integers(2**31)))

    def returns(name: str) -> list[float]:
        return [episode.episodic_return for episode in played[name]]

    played = {name: [play(name)] for name in contestants}
    while faultless := [name for name in contestants if name != CHANCE and not any(e.faults for e in played[name])]:
        best = max(faultless, key=lambda name: np.mean(returns(name)))
        rarer = min(best, CHANCE, key=lambda name: len(played[name]))
        steps = sum(len(episode.rewards) for episodes in played.values() for episode in episodes)
        if len(played[rarer]) >= (2 if steps >= 0.6 * clone_steps else 3):
            break
        played[rarer].append(play(rarer))
    else:
        return played, "", "All priors failed: the agent is PPO alone."
    found = f"{best} returned {np.mean(returns(best)):.1f} ({len(played[best])} episodes), "
    found += f"{CHANCE} {np.mean(returns(CHANCE)):.1f}"
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # a policy may return the same every time
        test = scipy.stats.ttest_ind(returns(best), returns(CHANCE), alternative="greater")
    p_value = test.pvalue  # pyright: ignore[reportAttributeAccessIssue]
    if math.isnan(p_value):  # neither varies
        p_value = float(np.mean(returns(best)) <= np.mean(returns(CHANCE)))
    if p_value > 0.05:
        return played, "", f"No prior returned more than chance explains ({found}): the agent is PPO alone."
    return played, best, f"The agent begins as a copy of {best}: {found}."
