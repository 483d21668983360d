"""audition: finds the prior that teaches; Teacher: a prior that plays alone and says what it would do in any state."""

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
    """An episode of any policy: for each state what a prior was handed and what the agent observed, and the rewards.

    ``advice`` is what the prior answered in each state while the episode was played (see ``Teacher.advice``). ``is_cut``: it
    was left before it ended.
    """

    handed: list[Any] = field(default_factory=list)
    advice: list[np.ndarray] = field(default_factory=list)
    observations: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    is_cut: bool = False
    last_observation: np.ndarray = field(default_factory=lambda: np.empty(0))
    faults: int = 0
    first_fault: str = ""

    @property
    def episodic_return(self) -> float:
        return sum(self.rewards)

    def add(self, handed: Any, advice: np.ndarray, observation: np.ndarray, reward: float) -> None:
        """Adds a step. Neither the caller nor the environment may write into what was handed and observed afterwards."""
        self.handed.append(handed)
        self.advice.append(advice)
        self.observations.append(observation)
        self.rewards.append(reward)

    def end(self, last_observation: np.ndarray, terminated: bool, truncated: bool) -> None:
        """Records how the episode ended; it is cut if it did not."""
        self.last_observation, self.terminated = np.array(last_observation), terminated
        self.is_cut = not (terminated or truncated)

    def returns(self, gamma: float, scale: float, last_value: float) -> np.ndarray:
        """Discounted returns of every step, the rewards scaled; after a truncation ``last_value`` stands for the rest."""
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
        # It has been checked for this environment; a RescaleAction is no mistake here.
        self.mask = LLMActionMask(env, policy, radius, mapping="clip", prior_input=prior_input, prior_of_another_env=True)
        observation, info = env.reset(seed=0)
        read_prior_input(env, prior_input, observation, info)  # a key that no info has is found here
        if isinstance(env.action_space, Discrete) and "action_mask" in info:
            DiscreteMask(env.action_space).legal(info["action_mask"])  # and a mask that is none

    def play(self, seed: int, most_steps: int) -> Episode:
        """An episode of the prior alone, at most ``most_steps`` long; where it fails, the middle of a Box or a random action
        is played."""
        episode = Episode()
        for step in itertools.islice(play(self.env, self.policy, seed, self.prior_input), most_steps):
            episode.add(step.handed, self.as_advice(step.answer), self.observe(step.observation), step.reward)
            episode.faults += bool(step.fault)
            episode.first_fault = episode.first_fault or step.fault
        episode.end(self.observe(step.next_observation), step.terminated, step.truncated)  # pyright: ignore[reportPossiblyUnbound]
        return episode

    def advice(self, handed: list[Any]) -> list[np.ndarray]:
        """What the prior would do in the states of an episode that another policy played, in order."""
        begin_episode(self.policy)
        advice = []
        for state in copy.deepcopy(handed):  # a prior may write into what it is given
            try:
                advice.append(self.as_advice(self.policy(state)))
            except Exception:
                advice.append(self.as_advice(None))
        return advice

    def as_advice(self, answer: Any) -> np.ndarray:
        """The prior's answer as (action_dim,) native; on a Discrete space the share of each action; NaN where it failed."""
        space = self.env.action_space
        try:
            if isinstance(space, Discrete):
                allowed = allowed_actions(answer, space)
                return (allowed / allowed.sum()).astype(np.float32)
            assert isinstance(space, Box)
            return native_action(answer, space.low, space.high).ravel().astype(np.float32)
        except (ValueError, TypeError):
            return np.full(flatdim(space), np.nan, np.float32)

    def keeps_state(self, episode: Episode) -> bool:
        """Whether the prior answers differently when asked about a state alone than in the course of its own episode."""
        for i in np.linspace(0, len(episode.handed) - 1, min(50, len(episode.handed))).astype(int):
            (alone,) = self.advice([episode.handed[i]])
            if not np.allclose(alone, episode.advice[i], atol=1e-5, equal_nan=True):
                return True
        return False


CHANCE, NOTHING = "random actions", "doing nothing"


def contestants(
    env: gym.Env, priors: dict[str, PriorPolicy], observe: Callable, prior_input: str | None, radius: float, seed: int
) -> dict[str, Teacher]:
    """The priors as teachers, and beside them random actions and, on a Box, doing nothing.

    Raises:
        ValueError, TypeError: no mask can confine the environment's actions, or it has no such ``prior_input``
    """
    space = env.action_space
    policies: dict[str, PriorPolicy] = {CHANCE: random_actions(space, seed)}
    if isinstance(space, Box):
        policies[NOTHING] = doing_nothing(space)
    return {name: Teacher(env, policy, observe, prior_input, radius) for name, policy in (policies | priors).items()}


Reason = Literal["better", "chance", "nothing", "faults"]
"""Better than random actions and different from doing nothing; not significantly the one; or the other; all priors failed."""


@dataclass
class Verdict:
    """Which prior teaches, or why none does, in types that fit JSON; ``str`` says it in sentences.

    Attributes:
        candidate: the best prior; "" if all failed
        returns: the mean returns of the best prior, of random actions and, on a Box, of doing nothing
        episodes: how many episodes the best prior played
        steps: how many steps the audition took
        cut_after: the steps after which it cut long episodes; 0 if it cut none
        beats_nothing: whether the best prior also returned more than doing nothing; a teacher that did not returned less
        faults: the first fault of each prior that failed
        copy_return: what the clone returned, once there is one
        keeps_state: whether the teacher keeps state; tested only if the clone falls short

    Example:
        >>> print(Verdict("hops", "better", {"hops": 9.0, "random actions": 1.0}, episodes=3, steps=300, beats_nothing=True))
        Teacher: hops. It returned 9.0 (3 episodes), random actions 1.0. The agent clones it.
    """

    candidate: str
    reason: Reason
    returns: dict[str, float]
    episodes: int
    steps: int
    cut_after: int = 0
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
        """Whether the clone's return, of whole episodes, is less than half way from random actions to the teacher."""
        if self.copy_return is None or CHANCE not in self.returns or self.cut_after:
            return False
        return not self.copy_return >= (self.returns[self.candidate] + self.returns[CHANCE]) / 2  # NaN falls short, too

    @property
    def shortfall(self) -> str:
        """Says that the clone falls short, and why; "" if it does not."""
        if not self.falls_short:
            return ""
        why = "its network cannot tell apart what the teacher tells apart, or clone_steps are too few"
        if self.keeps_state:
            why = (
                "the teacher answers differently when asked about the same state alone, so it keeps state that the "
                "observation does not show. Show it: gymnasium.wrappers.TimeAwareObservation, or an observation that holds "
                "the phase. The prior then gets this entry, too, and must ignore it"
            )
        return (
            f"The clone returns {self.copy_return:.1f}, less than half way from random actions ({self.returns[CHANCE]:.1f}) to "
            f"its teacher ({self.returns[self.candidate]:.1f}): {why}."
        )

    def __str__(self) -> str:
        if not self.candidate:
            faults = "; ".join(f"{name}: {fault}" for name, fault in self.faults.items())
            return f"No teacher: all priors failed ({faults}). The agent learns alone."
        cut = f", cut after {self.cut_after} steps" if self.cut_after else ""
        found = [f"returned {self.returns[self.candidate]:.1f} ({self.episodes} episodes{cut})"]
        found += [f"{name} {value:.1f}" for name, value in self.returns.items() if name != self.candidate]
        if not self.taught:
            why = {"chance": "above random actions", "nothing": "different from doing nothing"}[self.reason]
            return f"No teacher: {self.candidate} {', '.join(found)}: not significantly {why}. The agent learns alone."
        more = "" if self.beats_nothing else " It explores more, because its teacher returned less than doing nothing."
        return f"Teacher: {self.candidate}. It {', '.join(found)}. The agent clones it.{more} {self.shortfall}".rstrip()


@dataclass
class Audition:
    """The result of an audition: all episodes, the best prior ("" if all failed), and why it teaches or does not.

    ``beats_nothing``, ``copy_return``, ``keeps_state``: see ``Verdict``.
    """

    played: dict[str, list[Episode]] = field(repr=False)
    best: str
    reason: Reason
    beats_nothing: bool = False
    copy_return: float | None = None
    keeps_state: bool = False

    @property
    def teacher(self) -> str:
        """The name of the prior that teaches; "" for none."""
        return self.best if self.reason == "better" else ""

    def mean_return(self, name: str) -> float:
        return float(np.mean([episode.episodic_return for episode in self.played[name]]))

    @property
    def steps(self) -> int:
        """How many steps the audition took."""
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
        cut_after = max((len(e.rewards) for played in self.played.values() for e in played if e.is_cut), default=0)
        facts = self.best, self.reason, returns, episodes, self.steps, cut_after, self.beats_nothing, self.faults
        return Verdict(*facts, self.copy_return, self.keeps_state)

    def verdict_on_copy(self, teachers: dict[str, Teacher], copy_return: float) -> Verdict:
        """The verdict with the clone's return, if a prior teaches, and with the reason if the clone falls short."""
        if self.teacher:
            self.copy_return = copy_return
            self.keeps_state = self.verdict.falls_short and teachers[self.teacher].keeps_state(self.played[self.teacher][0])
        return self.verdict


def audition(teachers: dict[str, Teacher], clone_steps: int, rng: np.random.Generator) -> Audition:
    """Finds the prior that teaches: the one with the highest mean return, if that is significantly above random actions.

    Each plays an episode; then the best prior and random actions play on until they have played three, or two once 60 % of
    ``clone_steps`` are used. If the difference is not significant yet, they and doing nothing play on, up to ten episodes, or
    until 75 % are used; short episodes gain most from this. Long episodes are cut, all at the same step, so that behaviour
    cloning keeps a share of ``clone_steps`` (of five priors that are equally good, one time in 100 it keeps none). A prior that
    fails once is out. Significant: Student's test, one-sided, 5 % at each of the two looks. The teacher must also differ
    significantly from doing nothing. It may return less: it has at least tried (on HalfCheetah-v4 such a prior teaches the
    agent to run).

    Args:
        teachers: what ``contestants`` returned
    """

    # All play once and two of them twice, within 75 % of clone_steps; where the best one changes, a third plays twice.
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
