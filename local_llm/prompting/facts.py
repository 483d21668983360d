"""Reads what an environment's documentation lacks, a file of facts an environment, and checks it against the spaces.

The keys of such a file, in order::

    serves              ids of the environments that the facts are about
    module              optional: the module that registers them ("ale_py")
    expertise           "You are an expert in ..."
    goal                "It must ...": what the policy should do, in words
    reason              "First reason step by step: ..."
    without_memory      optional: of an environment with recorded replies, which were asked for pure functions
    time_step           optional: control time step in seconds, for an environment that has no ``dt``
    episode_steps       steps after which an episode is truncated
    observation_note    optional: stands beside the shape of the observation
    observation_shape   optional: for an observation of more axes than one; the entries then index the first axis
    notes               optional: further lines of facts
    lists_entries       optional: true shows the entries below, because the documentation does not list them
    sections_left_out   optional: headings of the documentation that do not hold for this environment
    model_shown         optional: { file = file to show in its place } for the MuJoCo model
    states_not_allowed  optional: false leaves out, of those rules, what the code may not contain
    observation         [{ index, name, unit, meaning, terminates_outside }]
    action              [{ index, name, unit, low, high, meaning }]

``index`` is a number or ``[first, last]``; together they count from 0 to the end without a gap. ``unit`` is what 1 stands
for: "rad", "5 m/s", or "1" where there is none. ``terminates_outside`` is optional: ``[low, high]``, the episode ends, as a
failure, when the entry leaves this interval. A discrete action has neither ``low`` nor ``high``.
"""

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

# Beside local_llm, in a checkout and when installed.
PROMPTS = Path(__file__).parents[2] / "prompts"
FACTS_FOLDER = PROMPTS / "facts"


class FactsError(ValueError):
    """Says which file of facts is wrong, and what in it."""


class MissingFact(FactsError):
    """Says which file of facts lacks which key."""


class FactsDoNotFit(FactsError):
    """Says where the facts differ from the environment as it was made."""


@dataclasses.dataclass(frozen=True)
class ObservationEntry:
    """One entry of the observation, or a block of them."""

    index: range
    name: str
    unit: str
    meaning: str
    terminates_outside: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True)
class ActionEntry:
    """One entry of a continuous action, or one of the discrete actions, which have no bounds."""

    index: range
    name: str
    unit: str
    meaning: str
    low: float | None = None
    high: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """What a file of facts says; the keys are described at the top of this module."""

    serves: list[str]
    module: str | None = None
    expertise: str
    goal: str
    reason: str
    without_memory: str | None = None
    time_step: float | None = None
    episode_steps: int
    observation_note: str | None = None
    observation_shape: list[int] | None = None
    notes: list[str] = dataclasses.field(default_factory=list)
    lists_entries: bool = False
    sections_left_out: list[str] = dataclasses.field(default_factory=list)
    model_shown: dict[str, str] = dataclasses.field(default_factory=dict)
    states_not_allowed: bool = True
    observation: list[ObservationEntry]
    action: list[ActionEntry]


def load_facts(env: gym.Env) -> Facts | None:
    """Returns the facts about an environment, or None if no file names its id.

    Raises:
        MissingFact: a file of facts lacks a key
        FactsDoNotFit: files name the id, but none of them describes the spaces of ``env``
        FactsError: a file of facts is not valid

    Example:
        >>> facts = load_facts(gym.make("Pendulum-v1"))
        >>> [(entry.name, entry.unit) for entry in facts.observation]
        [('cos(theta)', '1'), ('sin(theta)', '1'), ('angular velocity', 'rad/s')]
    """
    if env.spec is None:
        return None
    misfits = []
    for path, facts in serving(env.spec.id):
        if not (misfit := _misfit(facts, env)):
            return facts
        misfits.append(f"{path.name} describes {misfit}")
    if misfits:
        raise FactsDoNotFit(f"no facts fit {env.spec.id} as it was made: {'; '.join(misfits)}")
    return None


def serving(env_id: str) -> list[tuple[Path, Facts]]:
    """Returns the files that name an environment's id, and the facts in them."""
    found = []
    for path in sorted(FACTS_FOLDER.glob("*.toml")):
        try:
            table = tomllib.loads(path.read_text("utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise FactsError(f"{path.name} is not valid TOML: {error}") from error
        if env_id.rpartition(":")[2] in _required(table, "serves", path):
            observation = _entries(ObservationEntry, table, "observation", path)
            action = _entries(ActionEntry, table, "action", path)
            found.append((path, _build(Facts, {**table, "observation": observation, "action": action}, path)))
    return found


def _required(table: dict, key: str, path: Path, where: str = "") -> Any:
    if key not in table:
        raise MissingFact(f"{path.name} lacks the key {key!r}{where}")
    return table[key]


def _entries(cls: type, table: dict, key: str, path: Path) -> list:
    entries, end = [], 0
    for item in _required(table, key, path):
        where = f" in the entry of {key} at {end}"
        index = _required(item, "index", path, where)
        first, last = index if isinstance(index, list) else (index, index)
        if first != end or last < first:
            raise FactsError(f"{path.name}: an index of {end} should come next in {key}, got {index!r}")
        end = last + 1
        entries.append(_build(cls, {**item, "index": range(first, end)}, path, where))
    return entries


def _build(cls: type, table: dict, path: Path, where: str = "") -> Any:
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for key in table:
        if key not in fields:
            raise FactsError(f"{path.name} has an unknown key {key!r}{where}; known are {', '.join(fields)}")
    for key, field in fields.items():
        if field.default is field.default_factory is dataclasses.MISSING:
            _required(table, key, path, where)
    return cls(**table)


def _misfit(facts: Facts, env: gym.Env) -> str:
    """Says in which space the facts differ from an environment; nothing if they fit."""
    space = env.observation_space
    shape = tuple(facts.observation_shape or [_length(facts.observation)])
    if shape != space.shape or shape[0] != _length(facts.observation):
        return f"an observation of shape {shape}, not {space}"
    space = env.action_space
    bounds = [(entry.low, entry.high) for entry in facts.action for _ in entry.index]
    if isinstance(space, Box):
        fits = len(bounds) == space.shape[0] and space == Box(*np.array(bounds, space.dtype).T, dtype=space.dtype.type)
    else:
        fits = isinstance(space, Discrete) and bounds == [(None, None)] * int(space.n)
    return "" if fits else f"{len(bounds)} actions with the bounds {bounds}, not {space}"


def _length(entries: list) -> int:
    return entries[-1].index.stop if entries else 0
