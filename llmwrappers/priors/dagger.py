"""DAgger (arXiv 1011.0686): an agent clones a teacher while it plays in the mask around it."""

import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from llmwrappers.action_masks.intervals import to_normalized
from llmwrappers.priors.audition import Audition, Episode, Teacher
from llmwrappers.priors.prior_input import read_prior_input
from llmwrappers.wrappers.epsilon_mask_schedule import EpsilonMaskSchedule

BATCH = 64


def half_range(space: Box) -> NDArray:
    """Half the range of each component, (n,), in which a clone's error and noise count; 1 for one that has a single value."""
    return np.where(space.high > space.low, (space.high - space.low) / 2, 1).ravel()


class RunningStatistics(Protocol):
    """The statistics that scale returns."""

    inverse_std: Any

    def update(self, sample: float) -> None: ...


class Agent(Protocol):
    """An actor, a critic and the normaliser of their inputs, of any library."""

    @property
    def returns(self) -> RunningStatistics: ...

    def freeze(self, is_constant: NDArray[np.bool_]) -> None:
        """Stops the updates of the observation normaliser; entries that were constant so far keep their own units."""
        ...

    def normalized(self, observation: NDArray, update: bool = False) -> NDArray:
        """An observation as the networks see it; with ``update``, it also updates the normaliser."""
        ...

    def act(self, observation: NDArray, rng: np.random.Generator) -> Any:
        """A native action drawn at a raw observation."""
        ...

    def value(self, observation: NDArray) -> float:
        """The critic's value of a raw observation, in units of scaled rewards."""
        ...


Learn = Callable[..., float]
"""A step on a minibatch: normalised observations, advice (no NaN), returns (NaN if unknown), learning_rate=... -> loss."""


class DAgger:
    """Makes an agent clone a teacher: behaviour cloning in all states visited so far, by the teacher or by the agent.

    The agent plays in the mask around the teacher's action. The mask's epsilon falls from 1 to 0: this is DAgger's mixture.
    After every few episodes the actor learns what the teacher would do in all states so far, and the critic learns the
    discounted returns of the teacher's and the agent's own episodes. At the end the observation normaliser is frozen, because
    an update would change the inputs of the cloned networks.

    Args:
        learn: a gradient step of behaviour cloning, the learner's own
        gamma: the discount factor of the returns
        clone_steps: environment steps in total, including the audition's
        found: the audition. The actor also learns from the states of its other episodes, the critic does not
    """

    def __init__(
        self,
        teacher: Teacher,
        agent: Agent,
        learn: Learn,
        gamma: float,
        clone_steps: int,
        learning_rate: float,
        found: Audition,
        rng: np.random.Generator,
    ):
        self.teacher, self.agent, self.learn, self.rng = teacher, agent, learn, rng
        self.gamma, self.clone_steps, self.learning_rate = gamma, clone_steps, learning_rate
        self.audition_steps = found.steps
        self.episodes: list[tuple[Episode, bool]] = []  # with whether its returns are the teacher's or the agent's own
        self.advice: list[np.ndarray] = []
        for name in (found.teacher, *(name for name in found.played if name != found.teacher)):
            for episode in found.played[name]:
                self.look_at(episode, is_own=name == found.teacher)
        self.fit(epochs=5)

    def run(self) -> Iterator[tuple[int, Episode, float]]:
        """Plays and learns until ``clone_steps`` are used; yields after each episode the steps so far, the episode, epsilon."""
        steps = self.audition_steps
        env = EpsilonMaskSchedule(self.teacher.mask, max(self.clone_steps - steps, 1), mask_fraction=1.0)
        while steps < self.clone_steps:
            episode = self.play(env, most_steps=self.clone_steps - steps)
            steps += len(episode.rewards)
            yield steps, episode, env.get_wrapper_attr("mask_epsilon")
        self.finish()

    def look_at(self, episode: Episode, is_own: bool) -> None:
        """Stores what the teacher does, or would do, in every state of an episode, and updates the normalisers."""
        self.episodes.append((episode, is_own))
        self.advice += episode.advice if is_own else self.teacher.advice(episode.handed)
        for observation in episode.observations:
            self.agent.normalized(observation, update=True)
        discounted_return = 0.0
        for reward in episode.rewards if is_own else ():
            discounted_return = discounted_return * self.gamma + reward
            self.agent.returns.update(discounted_return)

    def play(self, env: gym.Env, most_steps: int) -> Episode:
        """Plays an episode, at most ``most_steps`` long, in an environment that takes x in [-1, 1], and learns from it."""
        episode, teacher, space, done = Episode(), self.teacher, self.teacher.env.action_space, False
        raw_observation, info = env.reset(seed=int(self.rng.integers(2**31)))
        while not done and len(episode.rewards) < most_steps:
            handed = copy.deepcopy(read_prior_input(env, teacher.prior_input, raw_observation, info))
            advice = teacher.as_advice(teacher.mask.prior_answer)  # the mask has just asked the prior
            observation = np.array(teacher.observe(raw_observation))  # a copy, too: env may write the next one over it
            action = self.agent.act(observation, self.rng)
            x = to_normalized(action, space.low, space.high) if isinstance(space, Box) else action
            raw_observation, reward, terminated, truncated, info = env.step(x)
            episode.add(handed, advice, observation, float(reward))
            done = terminated or truncated
            episode.end(teacher.observe(raw_observation), terminated, truncated)
        self.look_at(episode, is_own=True)
        self.unlearned_steps += len(episode.rewards)
        if self.unlearned_steps >= self.clone_steps / 20:  # episodes may be short
            self.fit(epochs=3)
        return episode

    def finish(self) -> None:
        """Freezes the normaliser, then fits the networks to the inputs that it gives from now on."""
        first, *others = [observation for episode, _ in self.episodes for observation in episode.observations]
        changes = functools.reduce(np.logical_or, (other != first for other in others), np.zeros(np.shape(first), bool))
        self.agent.freeze(is_constant=~changes)
        self.fit(epochs=30)

    def fit(self, epochs: int) -> None:
        """Learns for some epochs of minibatches; the learning rate falls to 0."""
        advice = np.array(self.advice)
        advised = ~np.isnan(advice).any(axis=1)
        seen = [observation for episode, _ in self.episodes for observation in episode.observations]
        observations, advice = np.array([self.agent.normalized(observation) for observation in seen])[advised], advice[advised]
        for epoch in range(epochs):
            returns = self.returns()[advised]
            order = self.rng.permutation(len(observations))
            for indices in np.split(order, range(BATCH, len(order), BATCH)):
                minibatch = observations[indices], advice[indices], returns[indices]
                self.loss = self.learn(*minibatch, learning_rate=self.learning_rate * (1 - epoch / epochs))
        self.unlearned_steps = 0

    def returns(self) -> NDArray[np.float32]:
        """Discounted returns of every step, in units of scaled rewards; NaN if neither the agent nor the teacher played."""
        scale = float(self.agent.returns.inverse_std)
        return np.concatenate(
            [
                episode.returns(self.gamma, scale, self.agent.value(episode.last_observation))
                if is_own
                else np.full(len(episode.rewards), np.nan, np.float32)
                for episode, is_own in self.episodes
            ]
        )
