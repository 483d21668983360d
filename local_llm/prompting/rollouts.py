"""Plays a few episodes of an environment, because what it declares, and what its attributes seem to say, need not be so.

Several episodes tell which attributes are constant, how long an episode lasts, and where observations really lie.
"""

import ast
import contextlib
import inspect
import random
import textwrap
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

from local_llm.prompting.space_words import Range, leaf, leaves

# Of an episode; an environment that takes longer to end has an unknown length.
MOST_STEPS = 500
# Of an array, and of a list of names, that is stated as a constant.
MOST_NUMBERS, MOST_NAMES = 8, 64
OF_PICTURES = ("render", "screen", "window", "plot", "visual", "width", "height", "tile", "camera", "cell_size")


@dataclass
class Rollouts:
    """What was seen in some episodes, of random and of constant actions.

    Attributes:
        lengths: how many steps each episode had, ``MOST_STEPS`` at most
        ended: whether the environment ended it
        constants: attributes of the environment's object, in words, that had one value at every step
        ranges: where the observations of each Box in the observation space were, by the keys that lead to it
        is_repeatable: whether the same seed and actions gave the same episode; what differs from time to time would make
            another prompt each time, and is not stated
        digest: of all observations and rewards; it changes with what the environment does
    """

    lengths: list[int] = field(default_factory=list)
    ended: list[bool] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)
    ranges: dict[tuple, Range] = field(default_factory=dict)
    is_repeatable: bool = True
    digest: int = 0

    def end_at(self, steps: int | None) -> bool:
        """Tells whether the environment ended an episode after just so many steps."""
        return any(length == steps and ended for length, ended in zip(self.lengths, self.ended, strict=True))

    def length_words(self) -> str:
        """Says how long an episode of an environment without a known limit lasts.

        Example:
            >>> print(Rollouts([51, 51], [True, True]).length_words())
            51 steps: each of 2 that were played, with random and with constant actions, did
            >>> print(Rollouts([9, 30], [True, True]).length_words())
            until the environment ends it: after 9 to 30 steps in 2 that were played, with random and with constant actions
            >>> print(Rollouts([9, 500], [True, False]).length_words())
            until the environment ends it; whether it always does is unknown: of 2 that were played, with random and with \
constant actions, 1 went on after 500 steps
        """
        shortest, longest = min(self.lengths), max(self.lengths)
        if shortest < longest and not self.is_repeatable:
            return "until the environment ends it, after another number of steps each time"
        played = f"{len(self.lengths)} that were played, with random and with constant actions"
        if going_on := self.ended.count(False):
            unknown = "until the environment ends it; whether it always does is unknown"
            return f"{unknown}: of {played}, {going_on} went on after {MOST_STEPS} steps"
        if shortest == longest:
            return f"{longest} steps: each of {played}, did"
        return f"until the environment ends it: after {shortest} to {longest} steps in {played}"


def roll_out(env: gym.Env) -> Rollouts | None:
    """Plays two episodes of random actions, and three of one action each: None where the environment cannot be played.

    Example:
        >>> roll_out(gym.make("MountainCar-v0")).lengths
        [200, 200, 200, 200, 200]
    """
    rollouts, candidates = Rollouts(), None
    for seed, policy in enumerate(_policies(env.action_space)):
        try:
            episode = _Episode(env, policy, seed)
            if seed == 0:
                rollouts.is_repeatable = episode.digest == _Episode(env, policy, seed).digest
        except Exception:  # whatever it is, it is not the prompt's to say
            continue
        rollouts.lengths.append(len(episode.states) - 1)
        rollouts.ended.append(episode.has_ended)
        rollouts.digest = zlib.crc32(str(episode.digest).encode(), rollouts.digest)
        for path, (low, high) in episode.ranges.items():
            before = rollouts.ranges.get(path, Range(low, high))
            rollouts.ranges[path] = Range(np.fmin(before.low, low), np.fmax(before.high, high), rollouts.is_repeatable)
        for state in episode.states:
            candidates = state if candidates is None else {n: words for n, words in candidates.items() if state.get(n) == words}
    if not rollouts.lengths:
        return None
    changing = _assigned_outside_init(type(env.unwrapped))
    rollouts.constants = {name: words for name, words in (candidates or {}).items() if name not in changing}
    return rollouts


def fingerprint(env: gym.Env) -> int:
    """Returns a number that changes with what the environment does; 0 where the same seed does not give the same episode.

    Example:
        >>> earth, moon = (gym.make("Pendulum-v1", g=g) for g in (9.8, 1.62))
        >>> fingerprint(earth) == fingerprint(earth), fingerprint(earth) == fingerprint(moon)
        (True, False)
    """
    rollouts = roll_out(env)
    return rollouts.digest if rollouts and rollouts.is_repeatable else 0


def _policies(space: gym.Space) -> Iterator[Callable[[], Any]]:
    yield from (space.sample, space.sample)
    if isinstance(space, Box):
        still = np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)
        actions: list[Any] = [still, space.low, space.high]
    else:
        assert isinstance(space, Discrete)
        actions = [space.start, space.start + space.n // 2, space.start + space.n - 1]
    for action in actions:
        yield lambda action=action: action.copy()


class _Episode:
    """One episode: what might be constants in each of its states, where its observations were, and whether it ended."""

    def __init__(self, env: gym.Env, policy: Callable[[], Any], seed: int):
        self.states: list[dict[str, str]] = []
        self.ranges: dict[tuple, tuple[np.ndarray, np.ndarray]] = {}
        self.has_ended, self.digest = False, 0
        env.action_space.seed(seed)
        with _own_random_stream(seed):
            observation, _ = env.reset(seed=seed)
            self._take(env, observation)
            while not self.has_ended and len(self.states) <= MOST_STEPS:
                observation, reward, terminated, truncated, _ = env.step(policy())
                self.digest = zlib.crc32(repr(reward).encode(), self.digest)
                self.has_ended = bool(terminated or truncated)
                self._take(env, observation)

    def _take(self, env: gym.Env, observation: Any) -> None:
        attributes = _attributes(env.unwrapped)
        self.states.append({name: words for name, value in attributes if (words := _constant(name, value))})
        for path, part in leaves(env.observation_space):
            value = np.asarray(leaf(observation, path))
            self.digest = zlib.crc32(value.tobytes(), self.digest)
            if isinstance(part, Box) and value.shape == part.shape:
                value = value.astype(float)
                low, high = self.ranges.get(path, (value, value))
                self.ranges[path] = np.fmin(low, value), np.fmax(high, value)


def _attributes(own: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, and of the properties of its class those that are lists of names: others may compute anything."""
    yield from vars(own).items()
    for name, _ in inspect.getmembers(type(own), lambda member: isinstance(member, property)):
        if name.endswith("names"):
            with contextlib.suppress(Exception):
                yield name, getattr(own, name)


def _constant(name: str, value: Any) -> str | None:
    if name.startswith("_") or any(word in name for word in OF_PICTURES):
        return None
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float | np.number):
        return f"{value:.6g}"
    if isinstance(value, list | tuple) and name.endswith("names") and all(isinstance(part, str) for part in value):
        return str([str(part) for part in value]) if 0 < len(value) <= MOST_NAMES else None
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu" and 0 < value.size <= MOST_NUMBERS:
        return str(np.vectorize(lambda number: float(f"{number:.6g}"))(value).tolist())
    return None


def _assigned_outside_init(kind: type) -> set[str]:
    """The attributes that some method assigns: state, which may change later than in the episodes that were played."""
    names = set()
    for base in kind.__mro__:
        with contextlib.suppress(OSError, TypeError, SyntaxError):
            for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(base)))):
                if isinstance(node, ast.FunctionDef) and node.name != "__init__":
                    names |= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute) and _is_stored(part)}
    return names


def _is_stored(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self"


@contextlib.contextmanager
def _own_random_stream(seed: int) -> Iterator[None]:
    """Seeds the streams that environments draw from which ignore their own, so that a prompt is the same each time."""
    before, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        yield
    finally:
        random.setstate(before)
        np.random.set_state(numpys)  # noqa: NPY002
