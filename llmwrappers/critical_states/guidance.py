"""Guidance that an LLM wrote, shipped with its prompts and the verbatim replies that it was taken from.

There is one folder for each environment ("/" in its id becomes "-"): ``table.json`` (CriticalStates), ``critical.py`` (the
same as code, for CriticalFunction), ``trajectories.npz`` and ``agent.pt`` (the episodes that the LLM read, and the agent that
played them), ``prompt-*.txt`` and ``reply-*.md`` (all that the LLM was given and all that it answered, unedited) and
``provenance.json``.
"""

import copy
import inspect
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from llmwrappers.action_spaces import native_action_space
from llmwrappers.containment.errors import PolicyRejected
from llmwrappers.critical_states.function import CriticalFunction
from llmwrappers.critical_states.table import CriticalStates
from llmwrappers.faults import FaultCounts
from llmwrappers.files import folder_name, sha256
from llmwrappers.priors import TRUSTED
from llmwrappers.priors.contract import begin_episode, with_own_state
from llmwrappers.priors.trusted_imports import let_import

Guidance = Callable[[Any], tuple[Any, float] | None]
"""An observation (raw, usually an array) -> an action in native units and a reward in [-1, 1]; None if not critical.

Each wrapper calls it once a step. One with state is an object (not a function) with ``reset()``: each wrapper has its own copy.
"""

SHIPPED = (Path(__file__).parent / "shipped").resolve()


FILES = "table.json", "critical.py"  # what a folder of guidance holds; the first one is loaded


def shipped_guidance() -> list[str]:
    """Returns the names of the shipped guidance, sorted: the ids of the environments, with "-" for "/"."""
    return sorted({path.parent.name for file in FILES for path in SHIPPED.glob(f"*/{file}")})


def load_guidance(source: str | os.PathLike[str] | Guidance, env: gym.Env, info_key: str | None = None) -> Guidance:
    """Returns the guidance that a name, a path or an object stands for, if it fits the environment.

    Args:
        source: a shipped name ("Hopper-v4"), a path to a table (.json) or to code (.py, see CriticalFunction;
            "trusted:FILE.py" plays it in this process, with your rights), a folder that holds ``table.json`` or, without one,
            ``critical.py``, or a callable such as CriticalStates
        env: the environment of the agent
        info_key: the key of the info that is matched instead of the observation; then only the actions are checked

    Raises:
        ValueError: a string is neither a shipped name nor a file, a file is no table, or a table does not fit
        PolicyRejected: the code is no critical function; this is a ValueError, too
        TypeError: ``source`` is neither a string, a path nor a callable

    Example:
        >>> states = CriticalStates([[1.0, 0.0, 0.0]], actions=[[0.5]], rewards=[1.0], scale=[1.0, 1.0, 1.0], tolerance=0.1)
        >>> load_guidance(states, gym.make("Pendulum-v1")) is states
        True
        >>> load_guidance(states, gym.make("MountainCarContinuous-v0"))
        Traceback (most recent call last):
        ...
        ValueError: the critical states have 3 entries, got observations of (2,)
    """
    guidance = _load(source, env)
    if isinstance(guidance, CriticalStates):
        guidance.require_fits(env, None if info_key is None else guidance.scale.shape)
    if isinstance(guidance, CriticalFunction) and guidance.action_space != (space := native_action_space(env)):
        raise ValueError(f"the critical function was made for actions {guidance.action_space}, got an environment of {space}")
    return guidance


def _load(source: Any, env: gym.Env) -> Any:
    if not isinstance(source, str | os.PathLike):
        if callable(source):
            return source
        raise TypeError(f"critical_states must be a name, a path or a callable, got {source!r} of type {type(source).__name__}")
    name, is_trusted = folder_name(os.fspath(source)), isinstance(source, str) and source.startswith(TRUSTED)
    is_shipped = isinstance(source, str) and name in shipped_guidance()
    path = SHIPPED / name if is_shipped else Path(str(source).removeprefix(TRUSTED))
    path = next((path / file for file in FILES if (path / file).is_file()), path)
    if path.suffix == ".json" and path.is_file():
        return CriticalStates.load(path)
    if path.suffix == ".py" and path.is_file():
        try:
            if is_trusted:
                let_import(path)
            text, is_trusted = path.read_text("utf-8-sig"), is_trusted or _is_as_shipped(path)
            return CriticalFunction(text, native_action_space(env), is_trusted, str(path))
        except UnicodeDecodeError as error:
            raise PolicyRejected(None, f"{str(path)!r} is not text in UTF-8: {error}") from None
        except PolicyRejected as rejected:
            raise rejected.in_file(path, is_trusted) from None
    shipped = ", ".join(shipped_guidance()) or "none"
    raise ValueError(
        f"critical_states must be a shipped name ({shipped}), a .json or .py file, trusted:FILE.py, or a folder with "
        f"table.json or critical.py; got {str(source)!r}, which {'is none of these' if path.exists() else 'does not exist'}"
    )


def _is_as_shipped(path: Path) -> bool:
    """Whether a file is shipped and unchanged: then its code is the library's own."""
    if not path.resolve().is_relative_to(SHIPPED):
        return False
    facts = json.loads((path.parent / "provenance.json").read_text("utf-8"))
    return facts["code"]["critical_sha256"] == sha256(path)


def entry_count(guidance: Guidance) -> int:
    """Returns how many entries a guidance has: a table one per state, code one per ``return``, any other callable one."""
    return len(guidance) if isinstance(guidance, CriticalStates | CriticalFunction) else 1


class GuidanceCounts(NamedTuple):
    """Number of steps, and of steps in critical states; for code also its faults, and those in a row."""

    steps: int = 0
    hits: int = 0
    faults: int = 0
    faults_in_a_row: int = 0


class NothingCritical(RuntimeError):
    """No state was critical in the first ``patience_steps`` steps."""


class GuidanceLookup:
    """Calls the guidance once for each observation, and counts the steps in critical states.

    Each wrapper that uses guidance has one. ``entry`` and ``advice`` are about the latest observation. An entry is the index
    of a table's state, or of a ``return`` of the LLM's code; -1 if the state is not critical; any other callable has one
    entry, 0. The states of a ``disabled`` entry are not critical; they do not match another entry instead.
    """

    def __init__(self, source: Any, env: gym.Env, info_key: str | None, patience_steps: int):
        if isinstance(patience_steps, bool) or not isinstance(patience_steps, int) or patience_steps < 0:
            raise ValueError(f"patience_steps must be a whole number of steps, 0 for endless patience, got {patience_steps!r}")
        guidance = load_guidance(source, env, info_key)
        if inspect.isfunction(guidance) and hasattr(guidance, "reset"):
            raise TypeError(
                f"critical_states: {guidance!r} has a reset(), so it keeps state; a function cannot be copied: each wrapper "
                "would advance the state of the others. Give an object of a class with __call__(observation) and reset()"
            )
        # Each wrapper has its own state and, since too many faults in a row end the calls of code, its own count of faults.
        self.guidance: Guidance = with_own_state(guidance, env)
        self.source, self.info_key, self.patience_steps = source, info_key, patience_steps
        self.hit_count = self.step_count = 0
        self.is_over, self.is_on = False, True
        self.entry, self.advice = -1, None
        self.disabled: frozenset[int] = frozenset()

    def require_entries(self, entries: frozenset[int]) -> None:
        """Raises a ValueError if there is an entry that the guidance does not have."""
        size = entry_count(self.guidance)
        if not entries <= frozenset(range(size)):
            raise ValueError(f"disabled must hold entries of the guidance, 0 to {size - 1}, got {sorted(entries)}")

    def look(self, observation: Any, info: dict[str, Any]) -> tuple[Any, float] | None:
        """Returns and keeps the advice at an observation; None if it has no entry or a disabled one, or the guidance is off."""
        if not self.is_on:
            return None
        if self.info_key is not None:
            if self.info_key not in info:
                raise ValueError(f"info_key must be a key of every info, got {self.info_key!r}; info has {sorted(info)}")
            observation = info[self.info_key]
        if isinstance(self.guidance, CriticalStates | CriticalFunction):
            entry, advice = self.guidance.consult(observation)
        else:
            # A copy, because a callable may write into what it is given.
            advice = self.guidance(copy.deepcopy(observation))
            if advice is not None and not (isinstance(advice, tuple | list) and len(advice) == 2):
                raise ValueError(
                    "a callable as critical_states must return (action, reward), or None if the state is not critical; got "
                    f"{advice!r}. A function critical(obs) that returns (is_critical, action, reward) belongs in a .py file"
                )
            entry = -1 if advice is None else 0
        self.entry, self.advice = (-1, None) if entry in self.disabled else (entry, advice)
        return self.advice

    def begin(self, observation: Any, info: dict[str, Any]) -> None:
        """Begins an episode of the guidance, and looks."""
        self.is_over = False
        begin_episode(self.guidance)
        self.look(observation, info)

    def follow(self, observation: Any, info: dict[str, Any], is_over: bool) -> tuple[Any, float] | None:
        """Looks after a step; begins an episode if a wrapper below did, as Gymnasium's Autoreset does."""
        if self.is_over:
            begin_episode(self.guidance)
        self.is_over = is_over
        return self.look(observation, info)

    def count(self) -> tuple[Any, float] | None:
        """Returns the advice for the current state, and counts the step.

        After an episode's end there is no state to act in: a wrapper below resets instead, as Gymnasium's Autoreset does.

        Raises:
            NothingCritical: no state was critical in the first ``patience_steps`` steps
        """
        # A disabled entry has matched, perhaps in another environment.
        if self.step_count == self.patience_steps > 0 and self.hit_count == 0 and not self.disabled and self.is_on:
            if isinstance(self.guidance, CriticalFunction) and self.guidance.faults.is_too_many:
                raise NothingCritical(
                    f"no state was critical in the first {self.step_count} steps under {self._name()}: its code failed "
                    f"too often and is called no more; mend the first failure, {self.guidance.faults.first}"
                )
            raise NothingCritical(
                f"no state was critical in the first {self.step_count} steps under {self._name()}: was it made for another "
                "environment or from observations that were normalized, or is its tolerance too small? Compare "
                "CriticalStates.hit_rate(observations) with its calibration, or turn this off with patience_steps=0"
            )
        if self.is_over:
            self.entry, self.advice = -1, None
            return None
        self.step_count += self.is_on
        self.hit_count += self.advice is not None
        return self.advice

    def _name(self) -> str:
        name = repr(self.source) if isinstance(self.source, str) else f"a {type(self.source).__name__}"
        if isinstance(self.guidance, CriticalStates):
            name += f" ({len(self.guidance)} states, tolerance {self.guidance.tolerance:g})"
        return name


class GuidedWrapper(gym.Wrapper):
    """A wrapper that uses guidance: it looks up every observation, has the counts, can disable entries, and can be off."""

    _lookup: GuidanceLookup

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Resets the environment and looks up the first observation."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._lookup.begin(observation, info)
        return observation, info

    def close(self):
        """Closes the environment and the guidance's process, if there is one."""
        if isinstance(self._lookup.guidance, CriticalFunction):
            self._lookup.guidance.close()
        super().close()

    @property
    def hit_count(self) -> int:
        """Steps taken in critical states so far."""
        return self._lookup.hit_count

    @property
    def step_count(self) -> int:
        """Guided steps taken so far."""
        return self._lookup.step_count

    @property
    def counts(self) -> GuidanceCounts:
        """The counts so far.

        A resumed run sets them, which also sets those of a wrapper below.
        """
        code = self._lookup.guidance
        faults = code.faults.counts if isinstance(code, CriticalFunction) else FaultCounts()
        return GuidanceCounts(self.step_count, self.hit_count, faults.total, faults.in_a_row)

    @counts.setter
    def counts(self, counts: GuidanceCounts):
        self._lookup.step_count, self._lookup.hit_count = counts.steps, counts.hits
        if isinstance(code := self._lookup.guidance, CriticalFunction):
            code.faults.counts = FaultCounts(counts.faults, counts.faults_in_a_row)
        if (below := self._below()) is not None:
            below.counts = counts

    @property
    def disabled(self) -> frozenset[int]:
        """The entries whose states are not critical any more, from the next observation on.

        Setting it also sets that of a wrapper below, which has the same guidance; if one lacks an entry, none changes.
        """
        return self._lookup.disabled

    @disabled.setter
    def disabled(self, entries: Iterable[int]):
        entries = frozenset(entries)
        self._lookup.require_entries(entries)
        if (below := self._below()) is not None:
            below.disabled = entries
        self._lookup.disabled = entries

    @property
    def is_guided(self) -> bool:
        """Whether any state is critical; set it to False to evaluate the agent alone, which also sets a wrapper below."""
        return self._lookup.is_on

    @is_guided.setter
    def is_guided(self, is_on: bool):
        self._lookup.is_on, self._lookup.entry, self._lookup.advice = bool(is_on), -1, None
        if (below := self._below()) is not None:
            below.is_guided = is_on

    def _below(self) -> "GuidedWrapper | None":
        """The next wrapper of this class below; other wrappers may have attributes of the same names."""
        env = self.env
        while isinstance(env, gym.Wrapper) and not isinstance(env, GuidedWrapper):
            env = env.env
        return env if isinstance(env, GuidedWrapper) else None
