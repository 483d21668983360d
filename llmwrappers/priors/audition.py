"""audition: finds the prior that is to teach; Teacher: a prior that plays by itself and says what it would do anywhere."""

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.spaces.utils import flatdim

from llmwrappers.action_masks.discrete import DiscreteMask
from llmwrappers.priors.chance import exceeds_by_student
from llmwrappers.priors.contract import PriorPolicy, allowed_actions, begin_episode, native_action
from llmwrappers.priors.measurement import doing_nothing, play, random_actions
from llmwrappers.priors.prior_input import read_prior_input
from llmwrappers.wrappers.llm_action_mask import LLMActionMask


@dataclass
class Episode:
    """An episode, whoever played it: what a prior was handed and the agent observed in each state, and the rewards.

    ``advice`` is what the prior said in each state while the episode was played (see ``Teacher.advice``).
    """

    handed: list[Any] = field(default_factory=list)
    advice: list[np.ndarray] = field(default_factory=list)
    observations: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    last_observation: np.ndarray = field(default_factory=lambda: np.empty(0))
    faults: int = 0
    first_fault: str = ""

    @property
    def episodic_return(self) -> float:
        return sum(self.rewards)

    def add(self, handed: Any, advice: np.ndarray, observation: np.ndarray, reward: float) -> None:
        """Takes over a step: the caller keeps no hold on what was handed and observed, nor does the environment."""
        self.handed.append(handed)
        self.advice.append(advice)
        self.observations.append(observation)
        self.rewards.append(reward)

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
        self.mask = LLMActionMask(env, policy, radius, mapping="clip", prior_input=prior_input)
        observation, info = env.reset(seed=0)
        read_prior_input(env, prior_input, observation, info)  # a key that no info has is found here
        if isinstance(env.action_space, Discrete) and "action_mask" in info:
            DiscreteMask(env.action_space).legal(info["action_mask"])  # and a mask that is none

    def play(self, seed: int, most_steps: int) -> Episode:
        """An episode of the prior alone, cut where it is long; where it fails, the middle of a Box or a random action plays."""
        episode = Episode()
        for step in itertools.islice(play(self.env, self.policy, seed, self.prior_input), most_steps):
            episode.add(step.handed, self.as_advice(step.answer), self.observe(step.observation), step.reward)
            episode.faults += bool(step.fault)
            episode.first_fault = episode.first_fault or step.fault
        episode.end(self.observe(step.next_observation), step.terminated)  # pyright: ignore[reportPossiblyUnbound]
        return episode

    def advice(self, handed: list[Any]) -> list[np.ndarray]:
        """What it would do in the states of an episode that another policy played, in order."""
        begin_episode(self.policy)
        advice = []
        for state in copy.deepcopy(handed):  # a prior may write into what it is given
            try:
                advice.append(self.as_advice(self.policy(state)))
            except Exception:
                advice.append(self.as_advice(None))
        return advice

    def as_advice(self, answer: Any) -> np.ndarray:
        """Its answer as (action_dim,) native; on a Discrete space as the share of each action; NaN where it failed."""
        space = self.env.action_space
        try:
            if isinstance(space, Discrete):
                allowed = allowed_actions(answer, space)
                return (allowed / allowed.sum()).astype(np.float32)
            assert isinstance(space, Box)
            return native_action(answer, space.low, space.high).ravel().astype(np.float32)
        except (ValueError, TypeError):
            return np.full(flatdim(space), np.nan, np.float32)

    def keeps_state(self, episode: Episode, asked: int = 50) -> bool:
        """Whether it answers otherwise when it is asked about a state alone than it did in the course of its own episode."""
        for i in np.linspace(0, len(episode.handed) - 1, min(asked, len(episode.handed))).astype(int):
            (alone,) = self.advice([episode.handed[i]])
            if not np.allclose(alone, episode.advice[i], atol=1e-5, equal_nan=True):
                return True
        return False


CHANCE, NOTHING = "random actions", "doing nothing"


def contestants(
    env: gym.Env, priors: dict[str, PriorPolicy], observe: Callable, prior_input: str | None, radius: float, seed: int
) -> dict[str, Teacher]:
    """The priors as teachers, with random actions and, on a Box, doing nothing beside them.

    Raises:
        ValueError, TypeError: an environment whose actions no mask can confine, or without the ``prior_input``
    """
    space = env.action_space
    policies: dict[str, PriorPolicy] = {CHANCE: random_actions(space, seed)}
    if isinstance(space, Box):
        policies[NOTHING] = doing_nothing(space)
    return {name: Teacher(env, policy, observe, prior_input, radius) for name, policy in (policies | priors).items()}


Reason = Literal["better", "chance", "nothing", "faults"]
"""Better than random actions and other than doing nothing; chance explains the one or the other; all priors failed."""


@dataclass
class Verdict:
    """Which prior teaches, or why none does, in types that fit JSON; ``str`` of it is a sentence.

    Attributes:
        candidate: the prior in front; "" where all failed
        returns: the mean returns of it, of random actions and, on a Box, of doing nothing
        episodes: how many it played
        steps: how many the audition took
        beats_nothing: whether it also returned more than doing nothing; if not, less, it has much to learn
        faults: the first fault of each prior that failed
        copy_return: what its copy returned, once there is one
        keeps_state: whether the teacher keeps state; only looked for where the copy falls short

    Example:
        >>> print(Verdict("hops", "better", {"hops": 9.0, "random actions": 1.0}, episodes=3, steps=300, beats_nothing=True))
        The agent begins as a copy of hops: hops returned 9.0 (3 episodes), random actions 1.0.
    """

    candidate: str
    reason: Reason
    returns: dict[str, float]
    episodes: int
    steps: int
    beats_nothing: bool = False
    faults: dict[str, str] = field(default_factory=dict)
    copy_return: float | None = None
    keeps_state: bool = False

    @property
    def taught(self) -> bool:
        """Whether a prior teaches."""
        return self.reason == "better"

    @property
    def falls_short(self) -> bool:
        """Whether the copy comes less than half way from random actions to its teacher."""
        if self.copy_return is None or CHANCE not in self.returns:
            return False
        return not self.copy_return >= (self.returns[self.candidate] + self.returns[CHANCE]) / 2  # NaN falls short, too

    @property
    def shortfall(self) -> str:
        """Says that the copy falls short, and why; "" where it does not."""
        if not self.falls_short:
            return ""
        why = "its network cannot tell apart what the teacher tells apart, or too few steps were cloned (clone_steps)"
        if self.keeps_state:
            why = (
                "the teacher answers otherwise when asked about the same state alone, so it keeps state that the observation "
                "does not show. Show it: gymnasium.wrappers.TimeAwareObservation, or an observation that holds the phase"
            )
        return (
            f"The copy returns {self.copy_return:.1f}, less than half way from random actions ({self.returns[CHANCE]:.1f}) to "
            f"its teacher ({self.returns[self.candidate]:.1f}): {why}."
        )

    def __str__(self) -> str:
        found = [f"{name}: {fault}" for name, fault in self.faults.items()]
        if self.candidate:
            found = [f"{self.candidate} returned {self.returns[self.candidate]:.1f} ({self.episodes} episodes)"]
            found += [f"{name} {value:.1f}" for name, value in self.returns.items() if name != self.candidate]
        if not self.taught:
            why = {
                "chance": "No prior returned more than chance explains",
                "nothing": "No prior is told from doing nothing by its returns",
                "faults": "All priors failed",
            }[self.reason]
            return f"{why} ({(', ' if self.candidate else '; ').join(found)}): the agent learns alone."
        more = "" if self.beats_nothing else " It explores more than a copy of a good prior would."
        return f"The agent begins as a copy of {self.candidate}: {', '.join(found)}.{more} {self.shortfall}".rstrip()


@dataclass
class Audition:
    """What came of an audition: all episodes, the prior in front ("" where all failed), and why it teaches or does not.

    ``beats_nothing``: whether it also returned more than doing nothing.
    """

    played: dict[str, list[Episode]]
    best: str
    reason: Reason
    beats_nothing: bool = False

    @property
    def teacher(self) -> str:
        """The name of the prior that teaches; "" for none."""
        return self.best if self.reason == "better" else ""

    def mean_return(self, name: str) -> float:
        return float(np.mean([episode.episodic_return for episode in self.played[name]]))

    @property
    def steps(self) -> int:
        """How many steps it took."""
        return sum(len(episode.rewards) for episodes in self.played.values() for episode in episodes)

    @property
    def faults(self) -> dict[str, str]:
        """The first fault of each prior that failed."""
        first = {name: next((e.first_fault for e in episodes if e.faults), "") for name, episodes in self.played.items()}
        return {name: fault for name, fault in first.items() if fault}

    @property
    def verdict(self) -> Verdict:
        returns = {name: self.mean_return(name) for name in (self.best, CHANCE, NOTHING) if name in self.played}
        episodes = len(self.played.get(self.best, ()))
        return Verdict(self.best, self.reason, returns, episodes, self.steps, self.beats_nothing, self.faults)

    def verdict_on_copy(self, teachers: dict[str, Teacher], copy_return: float) -> Verdict:
        """The verdict with what the copy of the teacher returned, if one teaches, and why it falls short where it does."""
        verdict = self.verdict
        if self.teacher:
            verdict.copy_return = copy_return
            verdict.keeps_state = verdict.falls_short and teachers[self.teacher].keeps_state(self.played[self.teacher][0])
        return verdict


def audition(teachers: dict[str, Teacher], clone_steps: int, rng: np.random.Generator) -> Audition:
    """Finds the prior that teaches: the one with the highest mean return, if chance does not explain it.

    Each plays an episode; then the one in front and random actions go on until they have played three, or two once 60 % of
    ``clone_steps`` are gone. If chance may explain what they returned, they and doing nothing go on, up to ten, or until 75 %
    are gone: that tells most where episodes are short. Long episodes are cut, all at the same step, so that the clone keeps a
    share of ``clone_steps``. A prior that fails once is out. Chance: Student's test, one-sided, 5 % at each of the two looks.
    A prior that chance cannot tell from doing nothing teaches nothing, either; one that returns less, but more than random
    actions, has at least tried (on HalfCheetah-v4 it teaches to run).

    Args:
        teachers: what ``contestants`` gave
    """

    # Each plays once, and two of them twice, in at most 75 %.
    most_steps = max(int(0.75 * clone_steps / (len(teachers) + 2)), 1)

    def play(name: str) -> Episode:
        return teachers[name].play(int(rng.integers(2**31)), most_steps)

    def returns(name: str) -> list[float]:
        return [episode.episodic_return for episode in played[name]]

    played = {name: [play(name)] for name in teachers}
    bars = [name for name in teachers if name in (CHANCE, NOTHING)]
    best, reason = "", "faults"
    for most, share, beside in ((3, 0.6, [CHANCE]), (10, 0.75, bars)):
        while faultless := [name for name in teachers if name not in bars and not any(e.faults for e in played[name])]:
            best = max(faultless, key=lambda name: np.mean(returns(name)))
            rarest = min(best, *beside, key=lambda name: len(played[name]))
            steps = sum(len(episode.rewards) for episodes in played.values() for episode in episodes)
            if len(played[rarest]) >= (2 if steps >= share * clone_steps else most):
                break
            played[rarest].append(play(rarest))
        else:
            return Audition(played, "", "faults")
        beats_nothing = NOTHING not in bars or exceeds_by_student(returns(best), returns(NOTHING))
        if not exceeds_by_student(returns(best), returns(CHANCE)):
            reason = "chance"
        elif not beats_nothing and not exceeds_by_student(returns(NOTHING), returns(best)):
            reason = "nothing"
        else:
            return Audition(played, best, "better", beats_nothing)
    return Audition(played, best, reason)
