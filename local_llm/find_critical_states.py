"""Finds the critical states of an agent's episodes with a language model: ask, check every entry, write a table and code.

::

    python -m local_llm.find_critical_states --trajectories trajectories.npz                # a model on this machine
    python -m local_llm.find_critical_states --trajectories trajectories.npz --server http://localhost:11434/v1
    python -m local_llm.find_critical_states --trajectories trajectories.npz --rounds 2     # tries the table, asks again
    python -m local_llm.find_critical_states --replay                                       # rebuilds the shipped tables

The model is asked four times, each time with one prompt that needs no other (``prompts/ultra_*.md``): for the critical states,
for the actions, for the rewards, and for a Python function that generalises them. The output folder has the form of a shipped
table (prompt-*.txt, reply-*.md, table.json, critical.py, provenance.json) and is one:
``LLMActionOverride(env, critical_states="tables/Hopper-v4")``. Beside it: ledger.json.

With ``--rounds 2`` the agent, whose agent.pt lies beside its trajectories, goes on learning with that table for a while. Then
the model is shown what each entry was worth and what the agent does now, and answers for a second table. The first one is kept
as table-1.json and critical-1.py, what the trial gave as entries.json and trajectories-2.npz; the names of the second round's
prompts and replies end in -2.

Reference:
    Tan, Yan and Yang, "LLM-Guided Reinforcement Learning: Addressing Training Bottlenecks through Policy Modulation",
    arXiv 2505.20671.
"""

import argparse
import hashlib
import json
import shutil
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

from llmwrappers import CriticalStates, PolicyRejected, Trajectories, __version__
from llmwrappers.critical_states.function import CriticalFunction, vet_critical_function
from llmwrappers.critical_states.guidance import SHIPPED
from llmwrappers.critical_states.table import spread
from llmwrappers.priors.measurement import make
from local_llm.answers import (
    SEND_JSON,
    UselessAnswer,
    action_within,
    exact_integer,
    exact_number,
    extract_answer,
)
from local_llm.command import (
    MOST_RETRIES,
    Overwriting,
    UserError,
    add_model_options,
    circumstances,
    claim_output,
    command_line,
    how_to_go_on,
    make_backend,
    recordings,
    save_text,
    sha256,
    take_sampling,
)
from local_llm.extract import SEND_CRITICAL, extract_critical
from local_llm.facts import load_facts
from local_llm.interpret import CHARACTERS_PER_TOKEN, Interpreter
from local_llm.models.ledger import Ledger
from local_llm.models.recorded import UNREADABLE, Recorded, write_json
from local_llm.models.reply import Backend, ModelError, Reply, Sampling
from local_llm.processes import run_commands, training_command
from local_llm.render import environment_values, facts_values, fill_file
from local_llm.reply_text import ExtractionError, Truncated
from local_llm.wording import number_text

SCRIPT = Path(__file__).parents[1] / "cleanrl_scripts" / "ppo_ultra.py"
TABLES = Path("tables")
FIRST_PROMPT = "prompt-states.txt"
# Steps shown before and after a critical one: as many as the token budget allows.
WINDOWS = ((4, 8), (3, 6), (2, 4), (1, 2), (0, 1), (0, 0))
# The prompt for code shows an observation as numbers up to this size.
MOST_NUMBERS = 200
# Code that calls more of the agent's steps critical than this has found nothing.
MOST_CRITICAL = 0.5
STRING = {"type": "string"}
Key = tuple[int, int]
"""Episode and step."""
Check = Callable[["Sieve", Key, dict], tuple[Any, str]]
"""What has passed, (episode, step), entry -> what to keep of the entry, and what was changed in it, if anything."""
T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """How much the model is shown and asked for.

    Raises:
        ValueError: a value outside its range
    """

    episodes: int = 5  # that the model is shown and the table is made of; the others set its tolerance
    states_per_episode: int = 5
    token_budget: int = 12_000  # for the episodes in a prompt
    hit_rate: float = 0.05  # share of the other episodes' steps that are to match
    rounds: int = 1  # 2: the table is tried, and the model asked again
    round_timesteps: int = 100_000  # of the trial

    def __post_init__(self) -> None:
        for name in ("episodes", "states_per_episode", "token_budget", "round_timesteps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.rounds not in (1, 2):
            raise ValueError(f"rounds must be 1 or 2, got {self.rounds}")
        if not 0 < self.hit_rate < 1:
            raise ValueError(f"hit_rate must lie in (0, 1), got {self.hit_rate}")


@dataclass
class Trial:
    """What came of a table: what each entry was worth, as in entries.json, and episodes of the agent that learned with it."""

    entries: list[dict[str, Any]]
    trajectories: Trajectories

    @property
    def helpful(self) -> list[int]:
        """The entries that surely helped: their whole interval lies above 0."""
        return [row["entry"] for row in self.entries if (row["low"] or 0) > 0]

    def worth(self, entry: int) -> str:
        """Says what an entry was worth.

        Example:
            >>> row = {"entry": 0, "fired": 40, "withheld": 12, "advantage": 2.5, "low": 0.75, "high": 4.25, "disabled": False}
            >>> Trial([row], None).worth(0)
            'Played 40 times, withheld 12 times. Worth +2.5 [+0.75, +4.25]: it surely helped.'
        """
        row = self.entries[entry]
        text = f"Played {row['fired']} times, withheld {row['withheld']} times."
        if row["low"] is None:
            return f"{text} Met too rarely to tell its worth."
        verdict = (
            "it was disabled" if row["disabled"] else "it surely helped" if entry in self.helpful else "that may be chance"
        )
        return f"{text} Worth {row['advantage']:+.3g} [{row['low']:+.3g}, {row['high']:+.3g}]: {verdict}."


@dataclass
class Case:
    """What the model said about one critical state."""

    episode: int
    step: int
    rationale: str
    reasoning: str = ""
    action: Any = None
    analysis: str = ""
    reward: float = 0.0

    @property
    def key(self) -> Key:
        """Where it is."""
        return self.episode, self.step

    def __str__(self) -> str:
        return f"episode {self.episode}, step {self.step}"


class Episodes:
    """Puts the episodes that a model is shown, and the environment they come from, into words.

    Raises:
        ValueError: trajectories of another environment, or with no episodes to spare
        FactsError, TypeError: as ``local_llm.render`` does
    """

    def __init__(self, trajectories: Trajectories, env: gym.Env, settings: Settings):
        if env.spec is not None and env.spec.id != trajectories.env_id.rpartition(":")[2]:
            raise ValueError(f"the trajectories are of {trajectories.env_id}, got the environment {env.spec.id}")
        if trajectories.observations.shape[1:] != env.observation_space.shape:
            raise ValueError(
                f"the trajectories have observations of shape {trajectories.observations.shape[1:]}, got the environment's "
                f"{env.observation_space}"
            )
        if len(trajectories) <= settings.episodes:
            raise ValueError(
                f"episodes must be less than the {len(trajectories)} of the trajectories, because the others set the "
                f"tolerance; got {settings.episodes}"
            )
        self.settings, self.space = settings, env.action_space
        self.shown, self.held_out = trajectories.split(settings.episodes)
        self.interpreter = Interpreter(load_facts(env), self.shown)
        self._lines: dict[int, list[str]] = {}
        self.values = {
            **environment_values(env, {}),
            **facts_values(self.interpreter.facts),
            "legend": self.interpreter.legend(),
            "action_size": int(np.prod(self.space.shape)) if isinstance(self.space, Box) else None,
            "states_per_episode": settings.states_per_episode,
            "share": f"{settings.hit_rate:.0%}",
        }

    def render(self, name: str, **values: Any) -> str:
        """Returns the prompt that a template makes."""
        return fill_file(f"ultra_{name}.md", {**self.values, **values})

    def states_prompt(self, name: str = "states", **values: Any) -> str:
        """Returns the first prompt of a round."""
        lengths = self.shown.lengths.tolist()
        budget = self.settings.token_budget // len(lengths)
        try:
            texts = [self.interpreter.episode(i, budget) for i in range(len(lengths))]
        except ValueError as error:
            total = self.settings.token_budget
            raise ValueError(f"token_budget {total}, for {len(lengths)} episodes {budget} each: {error}") from None
        steps = "; ".join(f"episode {i}, step 0 to {length - 1}" for i, length in enumerate(lengths))
        return self.render(name, episodes="\n\n".join(texts), steps=steps, **values)

    def round_prompt(self, table: CriticalStates, trial: Trial, return_before: float) -> str:
        """Returns the first prompt of the second round, about a table that was tried; these are the episodes since then."""
        return self.states_prompt(
            "round",
            entries="\n\n".join(self.entry_text(table, entry, trial) for entry in range(len(table))),
            n_entries=len(table),
            timesteps=number_text(self.settings.round_timesteps),
            return_before=number_text(return_before),
            return_now=number_text(trial.trajectories.returns.mean()),
            helpful=", ".join(map(str, trial.helpful)) or None,
        )

    def entry_text(self, table: CriticalStates, entry: int, trial: Trial) -> str:
        """Returns what the second round's prompt says of one entry of the table."""
        note = table.notes[entry]
        lines = [
            f"## Entry {entry}",
            f"Why it was critical: {note['rationale']}",
            self.interpreter.state(table.observations[entry].reshape(self.shown.observations.shape[1:])),
            f"Action: {self.action(table.actions[entry])}. {note['reasoning']}",
            trial.worth(entry),
        ]
        return "\n".join(lines)

    def cases_prompt(self, name: str, cases: list[Case]) -> str:
        """Returns the prompt about critical states that were accepted: for their actions, their rewards or code."""
        budget = self.settings.token_budget // len(cases)
        if isinstance(self.space, Box):
            # Of no agent: an example is easily copied.
            low, high = self.space.low.ravel().astype(float), self.space.high.ravel().astype(float)
            example: Any = np.round(low + np.resize([0.7, 0.3, 0.6], len(low)) * (high - low), 2).tolist()
        else:
            example = self.values["first_action"]
        return self.render(
            name,
            states="\n\n".join(self.case_text(name, case, budget) for case in cases),
            steps="; ".join(map(str, cases)),
            n_states=len(cases),
            first_episode=cases[0].episode,
            first_step=cases[0].step,
            example_action=example,
        )

    def case_text(self, name: str, case: Case, budget: int) -> str:
        """Returns what one of these prompts says of one critical state."""
        lines = [f"## Critical state: {case}", f"Why it is critical: {case.rationale}"]
        if name == "code":
            index = self.index(case)
            lines.append(self.interpreter.state(self.shown.observations[index], self.previous(case.episode, case.step)))
            if self.shown.observations[index].size <= MOST_NUMBERS:
                lines.append(f"obs = {_numbers(self.shown.observations[index])}")
        else:
            windows = (self.window(case, before, after) for before, after in WINDOWS)
            lines.append(
                next((text for text in windows if len(text) <= CHARACTERS_PER_TOKEN * budget), self.window(case, 0, 0))
            )
        if name != "actions":
            lines.append(f"Suggested action: {self.action(case.action)}. {case.reasoning}")
        if name == "code":
            lines.append(f"Reward for being here: {case.reward:g}. {case.analysis}")
        return "\n".join(lines)

    def window(self, case: Case, before: int, after: int) -> str:
        """Returns how an episode went, the steps around a critical one, and this one in full."""
        summary, *steps, final = self.lines(case.episode)
        steps[case.step] = f"--> {steps[case.step]}"
        around = [*steps, final][max(case.step - before, 0) : case.step + after + 1]
        index = self.index(case)
        state = self.interpreter.state(self.shown.observations[index], self.previous(case.episode, case.step))
        action = self.action(self.shown.actions[index])
        return "\n".join([summary, *around, f"At step {case.step}: {state} The agent's action: {action}."])

    def lines(self, episode: int) -> list[str]:
        """Returns the text of a whole episode: a summary, a line for each step, and the last observation."""
        if episode not in self._lines:
            self._lines[episode] = self.interpreter.episode(episode, sys.maxsize).split("\n")
        return self._lines[episode]

    def action(self, action: Any) -> str:
        """Returns an action as one must write it in an answer; of a discrete one, what it means, too."""
        return self.interpreter.action(action) if isinstance(self.space, Discrete) else _numbers(action)

    def index(self, case: Case) -> int:
        """Returns the row of a critical state."""
        return self.shown.episode(case.episode).start + case.step

    def previous(self, episode: int, step: int) -> Any:
        """Returns the observation before a step, None at the first."""
        return self.shown.observations[self.shown.episode(episode).start + step - 1] if step else None


@dataclass
class Sieve:
    """Keeps the entries of an answer that pass a check; what it refuses or changes, it keeps with the reason."""

    name: str
    accepted: dict[Key, Any] = field(default_factory=dict)
    kept: list[int] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    changed: list[dict[str, Any]] = field(default_factory=list)

    def take(self, entry: Any, check: Check) -> None:
        """Accepts what ``check`` makes of an entry, with a word on what it changed; refuses where it raises ValueError."""
        try:
            if not isinstance(entry, dict):
                raise ValueError("it is no JSON object")
            key = exact_integer(entry.get("episode"), "episode"), exact_integer(entry.get("step"), "step")
            if key in self.accepted:
                self._note(self.changed, entry, "merged with the first entry for this state, which stands")
                return
            self.accepted[key], change = check(self, key, entry)
            if change:
                self._note(self.changed, entry, change)
        except ValueError as error:
            self._note(self.refused, entry, str(error))

    def take_old(self, entry: Any, helpful: Sequence[int]) -> None:
        """Keeps an entry of the table before, if it surely helped."""
        try:
            number = exact_integer(entry, "keep")
            if number not in helpful:
                raise ValueError(f"keep must name entries that surely helped, {helpful}, got {number}")
            self.kept = sorted({*self.kept, number})
        except ValueError as error:
            self._note(self.refused, {"keep": entry}, str(error))

    def keep(self, cases: list[Case]) -> list[Case]:
        """Returns the critical states for which an entry was accepted; the others count as refused."""
        for case in cases:
            if case.key not in self.accepted:
                entry = {"episode": case.episode, "step": case.step}
                self._note(self.refused, entry, "the critical state is left out, because it has no usable entry")
        return [case for case in cases if case.key in self.accepted]

    def _note(self, notes: list[dict[str, Any]], entry: Any, reason: str) -> None:
        entry = json.loads(json.dumps(entry), parse_constant=str)  # NaN is no JSON
        notes.append({"answer": self.name, "entry": entry, "reason": reason})

    def __str__(self) -> str:
        lines = [f"{self.name}: {len(self.accepted)} accepted, {len(self.refused)} refused, {len(self.changed)} changed"]
        for word, notes in (("refused", self.refused), ("changed", self.changed)):
            lines += [f"  {word} {json.dumps(note['entry'])[:100]}: {note['reason']}" for note in notes]
        return "\n".join(lines)


@dataclass
class Finder:
    """Asks a model about the critical states of episodes; every prompt and reply goes to the output folder as it comes.

    Each of the four questions of a round has at most two retries. It raises ExtractionError or PolicyRejected where even the
    last reply cannot be used, and ModelError where one does not come.
    """

    episodes: Episodes
    backend: Backend
    sampling: Sampling
    folder: Path
    ledger: Ledger = field(default_factory=Ledger)
    exchanges: list[dict[str, Any]] = field(default_factory=list)
    sieves: list[Sieve] = field(default_factory=list)
    suffix: str = ""  # of the names of a later round's prompts and replies

    def states(self) -> list[Case]:
        """Returns the critical states, in order."""
        return self._find(self.episodes.states_prompt(), {"analysis": STRING}, [])[0]

    def states_again(self, prompt: str, helpful: list[int]) -> tuple[list[Case], list[int]]:
        """Returns the critical states of the second round, in order, and which of the helpful entries are to be kept."""
        keep = {"keep": {"type": "array", "items": {"enum": helpful}, "maxItems": len(helpful)}} if helpful else {}
        return self._find(prompt, {"analysis": STRING, **keep}, helpful)

    def _find(self, prompt: str, first: dict[str, Any], helpful: list[int]) -> tuple[list[Case], list[int]]:
        lengths, most = self.episodes.shown.lengths.tolist(), self.episodes.settings.states_per_episode

        def check(sieve: Sieve, key: Key, entry: dict) -> tuple[Case, str]:
            episode, step = key
            if not 0 <= episode < len(lengths):
                raise ValueError(f"there is no episode {episode}; 0 to {len(lengths) - 1} were shown")
            if not 0 <= step < lengths[episode]:
                raise ValueError(f"episode {episode} has no step {step}; it has 0 to {lengths[episode] - 1}")
            if sum(other == episode for other, _ in sieve.accepted) == most:
                raise ValueError(f"at most {most} states were asked for in an episode")
            return Case(episode, step, _text(entry, "rationale")), ""

        # The analysis comes first, so that a model that is held to the schema reasons before it answers.
        place = {"episode": _integer(0, len(lengths) - 1), "step": _integer(0, max(lengths) - 1)}
        schema = _schema("critical_states", most * len(lengths), {**place, "rationale": STRING}, first)
        sieve = self._sift("states", "critical_states", prompt, schema, check, helpful)
        print(sieve, flush=True)
        return [sieve.accepted[key] for key in sorted(sieve.accepted)], sieve.kept

    def suggest_actions(self, cases: list[Case]) -> list[Case]:
        """Returns the critical states with an action for each; those without one are left out."""
        space = self.episodes.space

        def check(sieve: Sieve, key: Key, entry: dict) -> tuple[dict, str]:
            action, is_clipped = action_within(space, entry.get("action"))
            change = f"action clipped to {action.tolist()}" if is_clipped else ""
            return {"reasoning": _text(entry, "reasoning"), "action": action}, change

        schema = _schema("actions", len(cases), {**_places(cases), "reasoning": STRING, "action": _action_schema(space)})
        return self._add("actions", cases, schema, check)

    def judge(self, cases: list[Case]) -> list[Case]:
        """Returns the critical states with a reward for each; those without one are left out."""

        def check(sieve: Sieve, key: Key, entry: dict) -> tuple[dict, str]:
            reward = exact_number(entry.get("reward"), "reward")
            if not -1 <= reward <= 1:
                raise ValueError(f"reward must lie in [-1, 1], got {reward:g}")
            return {"analysis": _text(entry, "analysis"), "reward": reward}, ""

        number = {"type": "number", "minimum": -1, "maximum": 1}
        schema = _schema("rewards", len(cases), {**_places(cases), "analysis": STRING, "reward": number})
        return self._add("rewards", cases, schema, check)

    def _add(self, name: str, cases: list[Case], schema: dict, check: Check) -> list[Case]:
        """Returns the critical states, each with what the answer adds to it; those of which it says nothing are left out."""
        keys = {case.key for case in cases}

        def check_known(sieve: Sieve, key: Key, entry: dict) -> tuple[dict, str]:
            if key not in keys:
                raise ValueError(f"episode {key[0]}, step {key[1]} is none of the critical states that were given")
            return check(sieve, key, entry)

        sieve = self._sift(name, name, self.episodes.cases_prompt(name, cases), schema, check_known)
        kept = [replace(case, **sieve.accepted[case.key]) for case in sieve.keep(cases)]
        print(sieve, flush=True)
        return kept

    def write_code(self, cases: list[Case], env: gym.Env) -> tuple[str, float]:
        """Returns the source of a critical function, and the share of the held-out steps that it calls critical."""

        def share(function: CriticalFunction, observations: Any) -> float:
            return float(np.mean([function(observation) is not None for observation in observations]))

        def read(reply: Reply) -> tuple[str, float]:
            source = extract_critical(reply.text, reply.finish_reason)
            function = vet_critical_function(source, env)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                shown = share(function, self.episodes.shown.observations)
                held_out = share(function, self.episodes.held_out.observations)
            if function.faults.total:
                # The first fault is warned of, with its reason.
                reason = next(str(warning.message) for warning in caught if warning.category is UserWarning)
                raise PolicyRejected(None, f"it fails at {function.faults.total} of the agent's own observations. {reason}")
            if not 0 < shown < MOST_CRITICAL:
                raise PolicyRejected(
                    None,
                    f"it is true in {shown:.2%} of the agent's steps; it must be in some, but in less than {MOST_CRITICAL:.0%}",
                )
            return source, held_out

        return self._ask("code", self.episodes.cases_prompt("code", cases), None, read)

    def _sift(self, name: str, key: str, prompt: str, schema: dict, check: Check, helpful: Sequence[int] = ()) -> Sieve:
        """Asks for a list of entries, and returns those that pass the check: one at least."""

        def read(reply: Reply) -> Sieve:
            answer, sieve = extract_answer(reply.text, reply.finish_reason, key), Sieve(name + self.suffix)
            if helpful:
                for entry in extract_answer(reply.text, reply.finish_reason, "keep").entries:
                    sieve.take_old(entry, helpful)
            for entry in answer.entries:
                sieve.take(entry, check)
            if not sieve.accepted:
                reasons = "; ".join(dict.fromkeys(note["reason"] for note in sieve.refused)) or "the list is empty"
                raise UselessAnswer(f"None of your entries can be used: {reasons}.", SEND_JSON.format(key=key))
            self.exchanges[-1]["repaired"] = answer.repaired
            return sieve

        self.sieves.append(self._ask(name, prompt, schema, read))
        return self.sieves[-1]

    def _ask(self, name: str, prompt: str, schema: dict | None, read: Callable[[Reply], T]) -> T:
        """Returns what ``read`` makes of the reply; what it raises goes back to the model."""
        asked = prompt
        for retry in range(MOST_RETRIES + 1):
            stem = f"{name}{self.suffix}-retry-{retry}" if retry else f"{name}{self.suffix}"
            prompt_path, reply_path = self.folder / f"prompt-{stem}.txt", self.folder / f"reply-{stem}.md"
            save_text(prompt_path, asked)
            # What was asked before (after replies that were cut off) goes on with its series of replies: the first of it would
            # be the same again.
            question = {"prompt_sha256": sha256(prompt_path), "schema": schema}
            first = sum(question.items() <= exchange.items() for exchange in self.exchanges)
            (reply,) = self.backend.ask([{"role": "user", "content": asked}], 1, self.sampling, schema, first)
            save_text(reply_path, reply.text)
            self.ledger.add(self.backend.model, [reply])
            self.ledger.save(self.folder / "ledger.json")
            self.exchanges.append(
                {
                    "prompt": prompt_path.name,
                    "prompt_sha256": sha256(prompt_path),
                    "reply": reply_path.name,
                    "reply_sha256": sha256(reply_path),
                    "schema": schema,
                    "finish_reason": reply.finish_reason,
                }
            )
            try:
                return read(reply)
            except (ExtractionError, PolicyRejected) as error:
                self.exchanges[-1]["refused"] = str(error)
                print(f"{name}: refused: {error}", flush=True)
                if retry == MOST_RETRIES:
                    raise
                asked = retry_prompt(prompt, reply, error)
        raise AssertionError


def retry_prompt(prompt: str, reply: Reply, error: ExtractionError | PolicyRejected) -> str:
    """Returns what to ask after a reply that cannot be used: the prompt again, with the reply and what is wrong with it.

    Example:
        >>> print(retry_prompt("Name a state.", Reply("None.", "stop", 3, 1, 0.1), UselessAnswer("No JSON.", "Send JSON.")))
        Name a state.
        <BLANKLINE>
        # Your last reply, which cannot be used
        None.
        <BLANKLINE>
        # What is wrong with it
        No JSON. Send JSON.
    """
    text = str(error) if isinstance(error, ExtractionError) else f"Your code was refused: {error}. {SEND_CRITICAL}"
    if isinstance(error, Truncated):
        return f"{prompt}\n\n{text}"  # what was cut off would only fill the context again
    return f"{prompt}\n\n# Your last reply, which cannot be used\n{reply.text}\n\n# What is wrong with it\n{text}"


def _text(entry: dict, name: str) -> str:
    # Half a surrogate pair, which JSON can hold, could be written to no file.
    return str(entry.get(name) or "").encode("utf-8", "replace").decode().strip()


def _numbers(array: Any) -> str:
    return str([float(f"{number:.3g}") for number in np.ravel(array)])


def _schema(key: str, most: int, properties: dict[str, Any], first: dict[str, Any] | None = None) -> dict[str, Any]:
    """Returns the JSON schema of an answer: a list of entries under a key."""

    def closed(properties: dict[str, Any]) -> dict[str, Any]:
        return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}

    return closed({**(first or {}), key: {"type": "array", "items": closed(properties), "minItems": 1, "maxItems": most}})


def _integer(low: int, high: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high}


def _places(cases: list[Case]) -> dict[str, Any]:
    """Where the critical states are; a schema says it for episodes and steps apart, the checks for both together."""
    return {name: {"enum": sorted({getattr(case, name) for case in cases})} for name in ("episode", "step")}


def _action_schema(space: gym.Space) -> dict[str, Any]:
    if isinstance(space, Discrete):
        return _integer(int(space.start), int(space.start + space.n - 1))
    assert isinstance(space, Box)
    size, number = int(np.prod(space.shape)), {"minimum": float(space.low.min()), "maximum": float(space.high.max())}
    return {"type": "array", "items": {"type": "number", **number}, "minItems": size, "maxItems": size}


# ------------------------------------------------------------------------------------------------------------ the whole way


def find_critical_states(
    trajectories: Trajectories,
    env: gym.Env,
    backend: Backend,
    sampling: Sampling,
    folder: Path,
    settings: Settings = Settings(),
    command: str = "find_critical_states(...)",
    try_table: Callable[[Path], Trial] | None = None,
) -> CriticalStates:
    """Returns the table of critical states that a model finds; writes it, the code and all that they rest on to a folder.

    The first ``settings.episodes`` episodes are shown to the model and make the table; on the others its tolerance is set, so
    that the share ``settings.hit_rate`` of their steps matches.

    Args:
        trajectories: episodes of the agent that is to be guided
        env: the environment they are from, for its spaces and facts, and to probe the code in
        backend: what answers (see ``local_llm.models.reply.Backend``)
        sampling: how replies are drawn
        folder: where to write; made if it is not there
        settings: how much the model is shown and asked for
        command: what to name as the origin in provenance.json
        try_table: for a second round, plays a table in a file, as ``try_by_training`` does

    Raises:
        ValueError: trajectories that do not fit the environment or the settings; as ExtractionError, no usable answer
        ModelError: a reply does not come; those that came are in the folder
    """
    if (settings.rounds == 2) != (try_table is not None):
        raise ValueError(f"try_table is for settings.rounds = 2 and needed there, got {try_table!r} for {settings.rounds}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    finder = Finder(Episodes(trajectories, env, settings), backend, sampling, folder)
    facts = {
        "environment": trajectories.env_id,
        "serves": [trajectories.env_id],
        "settings": asdict(settings),
        "trajectories": _description(trajectories),
        **dict.fromkeys(("table", "code", "accepted", "refused", "changed")),
        "exchanges": finder.exchanges,
        **circumstances(backend, sampling, command),
    }
    table = _make_table(finder, finder.states(), [], env, facts)
    if try_table:
        for name in ("table.json", "critical.py"):
            if (folder / name).exists():
                shutil.copyfile(folder / name, _of_first_round(folder / name))
        trial = try_table(_of_first_round(folder / "table.json"))
        write_json(folder / "entries.json", trial.entries)
        trial.trajectories.save(folder / "trajectories-2.npz")
        facts["first_round"] = {"table": facts["table"], "code": facts["code"]}
        facts["trial"] = {"entries_sha256": sha256(folder / "entries.json"), **_description(trial.trajectories)}
        finder.episodes, finder.suffix = Episodes(trial.trajectories, env, settings), "-2"
        prompt = finder.episodes.round_prompt(table, trial, trajectories.returns.mean())
        cases, kept = finder.states_again(prompt, trial.helpful)
        old = [(table.observations[i], *table.advice(i), {**table.notes[i], "round": 1}) for i in kept]
        table = _make_table(finder, cases, old, env, facts)
    print(f"\n{finder.ledger}")
    return table


def _make_table(finder: Finder, cases: list[Case], old: list[tuple], env: gym.Env, facts: dict[str, Any]) -> CriticalStates:
    """Asks for actions, rewards and code; writes the table, of old entries (observation, action, reward, note) and new ones."""
    episodes, folder = finder.episodes, finder.folder
    shown, settings = episodes.shown, episodes.settings
    cases = finder.judge(finder.suggest_actions(cases))
    texts = ("episode", "step", "rationale", "reasoning", "analysis")
    entries = list(old)
    for case in cases:
        row = episodes.index(case)
        note = {**{name: getattr(case, name) for name in texts}, "agent_action": shown.actions[row].tolist()}
        entries.append((shown.observations[row].ravel(), case.action, case.reward, note))
    observations, actions, rewards, notes = zip(*entries, strict=True)
    table = CriticalStates(
        np.array(observations),
        np.array(actions),
        rewards,
        scale=spread(shown.observations),
        tolerance=1.0,
        environment=facts["environment"],
        notes=notes,
    ).calibrated(episodes.held_out.observations, settings.hit_rate)
    assert table.calibration is not None
    table.calibration["table_episodes"] = settings.episodes
    table.require_fits(env)
    table.save(folder / "table.json")
    (folder / "critical.py").unlink(missing_ok=True)  # that of another table
    print(f"table: {len(table)} states, {table.calibration['reached']:.1%} of the held-out steps match", flush=True)
    facts |= {
        "table": {"table_sha256": sha256(folder / "table.json"), "states": len(table)},
        "code": {"refused": "not asked for yet"},
        "accepted": {sieve.name: len(sieve.accepted) for sieve in finder.sieves},
        "refused": [note for sieve in finder.sieves for note in sieve.refused],
        "changed": [note for sieve in finder.sieves for note in sieve.changed],
    }
    write_json(folder / "provenance.json", facts)
    try:
        if shown.observations.ndim != 2:
            raise PolicyRejected(None, "not asked for: the observations are no vectors")
        source, hit_rate = finder.write_code(cases, env)
    except (ExtractionError, PolicyRejected) as error:
        facts["code"] = {"refused": str(error)}
        print(f"code: none, the table stands without it: {error}", flush=True)
    else:
        save_text(folder / "critical.py", source)
        facts["code"] = {"critical_sha256": sha256(folder / "critical.py"), "hit_rate": hit_rate}
        print(f"code: checked and probed, {hit_rate:.1%} of the held-out steps are critical", flush=True)
    write_json(folder / "provenance.json", facts)
    return table


def _of_first_round(path: Path) -> Path:
    """Where a file of the first round is kept."""
    return path.with_stem(f"{path.stem}-1")


def _description(trajectories: Trajectories) -> dict[str, Any]:
    return {
        "episodes": len(trajectories),
        "steps": len(trajectories.observations),
        "arrays_sha256": _arrays_sha256(trajectories),
    }


def try_by_training(table: Path, *, agent: Path, env_id: str, episodes: int, seed: int, timesteps: int) -> Trial:
    """Returns what comes of a table while its agent goes on learning with the table's actions, half of them withheld.

    A trial that has finished beside the table before, with the same files, is not repeated; one that was cut is resumed.

    Args:
        table: a table's file; the trial goes into a folder beside it
        agent: its agent.pt
        env_id: the environment of both
        episodes: to record of the agent at the end
        seed: of the trial
        timesteps: how long it learns

    Raises:
        UserError: the training failed, or its script is not there
    """
    if not SCRIPT.is_file():
        raise UserError(f"no {SCRIPT}: a second round needs a checkout of the repository")
    options = ["--env-id", env_id, "--arm", "a", "--control-probability", "0.5", "--seed", str(seed), "--no-cuda"]
    options += ["--total-timesteps", str(timesteps), "--eval-every", str(timesteps), "--trajectory-episodes", str(episodes)]
    key = hashlib.sha256(json.dumps([__version__, options, sha256(agent), sha256(table)]).encode()).hexdigest()
    folder = table.resolve().with_name(f"trial-{key[:8]}")
    files = ["--agent", str(agent.resolve()), "--critical-states", str(table.resolve()), "--runs-dir", str(folder)]
    if command := training_command(SCRIPT, folder, [*options, *files]):
        print(f"trying the table for {number_text(timesteps)} steps; progress in {folder / 'log.txt'}", flush=True)
        failures = run_commands({folder: command}, 1, print)
        if failures:
            raise UserError(f"the trial of the table failed: {failures[folder]}")
    (run_dir,) = (path.parent for path in folder.glob("*/entries.json"))
    return read_trial(run_dir / "entries.json", run_dir / "trajectories.npz")


def read_trial(entries: Path, trajectories: Path) -> Trial:
    """Returns the trial that two files hold."""
    return Trial(json.loads(entries.read_text("utf-8")), Trajectories.load(trajectories))


def _arrays_sha256(trajectories: Trajectories) -> str:
    """Returns a hash of the numbers alone: that of the file depends on how it was compressed."""
    digest = hashlib.sha256()
    for item in fields(trajectories):
        digest.update(np.ascontiguousarray(getattr(trajectories, item.name)).tobytes())
    return digest.hexdigest()


def rebuild(folder: Path, output: Path) -> None:
    """Makes a table again from the trajectories and the replies in its folder, and compares the two.

    Raises:
        UserError: the folder lacks something, or another table or code came of it
    """
    try:
        facts = json.loads((folder / "provenance.json").read_text("utf-8"))
        env_id, settings, sampling = facts["environment"], Settings(**facts["settings"]), Sampling(**(facts["sampling"] or {}))
    except UNREADABLE as error:
        raise UserError(f"{folder} holds no table that can be rebuilt: {type(error).__name__}: {error}") from error
    trajectories, env = Trajectories.load(folder / "trajectories.npz"), make(env_id)
    claim_output(output, Episodes(trajectories, env, settings).states_prompt(), folder, FIRST_PROMPT, "critical states")
    backend = Overwriting(Recorded(None, folder, "replay"), output, FIRST_PROMPT)
    recorded = (lambda _: read_trial(folder / "entries.json", folder / "trajectories-2.npz")) if settings.rounds == 2 else None
    find_critical_states(trajectories, env, backend, sampling, output, settings, f"rebuilt from {folder}", recorded)
    env.close()
    for name in ("table.json", "critical.py", "table-1.json", "critical-1.py"):
        old, new = ((place / name).read_bytes() if (place / name).is_file() else None for place in (folder, output))
        if old != new:
            raise UserError(f"{output / name} is not what {folder / name} is")
    print(f"{output} is {folder}, byte for byte")


def run(args: argparse.Namespace) -> None:
    """Does what the command line asks for.

    Raises:
        UserError, ModelError, ValueError, gymnasium.error.Error, OSError: what is wrong, and what would be right
    """
    if args.trajectories is None:
        for folder in rebuilt(args):
            rebuild(folder, args.output or TABLES / folder.name)
        return
    trajectories = Trajectories.load(args.trajectories)
    args.env_id = args.env_id or trajectories.env_id
    env = make(args.env_id)
    name = args.env_id.replace("/", "-").replace(":", "-")
    args.shipped, output = SHIPPED / name, args.output or TABLES / name
    try_table = None
    if args.settings.rounds == 2:
        agent = args.trajectories.with_name("agent.pt")
        if not agent.is_file():
            raise UserError(
                f"--rounds 2: the agent goes on learning, so {agent} must be there, of the run that wrote its episodes"
            )
        try_table = partial(
            try_by_training,
            agent=agent,
            env_id=args.env_id,
            episodes=len(trajectories),
            seed=args.seed,
            timesteps=args.settings.round_timesteps,
        )
    prompt = Episodes(trajectories, env, args.settings).states_prompt()
    claim_output(output, prompt, recordings(args), FIRST_PROMPT, "critical states")
    backend = Overwriting(make_backend(args), output, FIRST_PROMPT)
    command = command_line("local_llm.find_critical_states", args.argv)
    find_critical_states(trajectories, env, backend, args.sampling, output, args.settings, command, try_table)
    env.close()
    print(f"\ntable: {output / 'table.json'}")
    print(f"use it: python cleanrl_scripts/ppo_ultra.py --env-id {args.env_id} --critical-states {output}")


def rebuilt(args: argparse.Namespace) -> list[Path]:
    """Returns the folders of the tables that --replay alone rebuilds."""
    if args.replay is None:
        raise UserError("--trajectories is needed: episodes of the agent, as cleanrl_scripts/ppo_ultra.py writes them")
    if args.replay != Path():
        return [args.replay]
    name = args.env_id and args.env_id.replace("/", "-").replace(":", "-")
    folders = sorted(path.parent for path in SHIPPED.glob("*/table.json") if name in (None, path.parent.name))
    if not folders:
        raise UserError(f"--replay: no table is shipped{f' for {args.env_id}' if name else ''}")
    if args.output and len(folders) > 1:
        raise UserError("--output is one folder; name one table with --env-id")
    return folders


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    """Returns the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m local_llm.find_critical_states",
        description="Asks a language model for the critical states in an agent's episodes, and for actions and rewards there.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--trajectories", metavar="FILE", type=Path, help="episodes of the agent (.npz)")
    parser.add_argument("--env-id", help="the environment they are from; with --replay alone, the shipped table to rebuild")
    parser.add_argument("--output", metavar="DIR", type=Path, help="the folder to write (tables/ENV_ID if not given)")
    parser.add_argument("--episodes", type=int, default=Settings.episodes, help="that are shown; the others set the tolerance")
    parser.add_argument(
        "--states-per-episode", type=int, default=Settings.states_per_episode, help="critical states to ask for, at most"
    )
    parser.add_argument("--token-budget", type=int, default=Settings.token_budget, help="for the episodes in a prompt")
    parser.add_argument(
        "--hit-rate", type=float, default=Settings.hit_rate, help="share of the other episodes' steps that are to match"
    )
    parser.add_argument(
        "--rounds", type=int, default=Settings.rounds, help="2: tries the table on agent.pt beside FILE, and asks again"
    )
    parser.add_argument("--round-timesteps", metavar="N", type=int, default=Settings.round_timesteps, help="of that trial")
    parser.add_argument("--seed", type=int, default=0, help="of the replies, and of the trial")
    add_model_options(parser, shipped="those that are shipped; without --trajectories, rebuild that table, or all of them")
    args = parser.parse_args(argv)
    args.argv = list(sys.argv[1:] if argv is None else argv)
    take_sampling(parser, args)
    try:
        args.settings = Settings(**{item.name: getattr(args, item.name) for item in fields(Settings)})
    except ValueError as error:
        parser.error(str(error))
    return args


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    # The papers' results are on v4; gymnasium warns that there is a v5.
    warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)
    args = parse_args(argv)
    try:
        run(args)
    except (UserError, ModelError, gym.error.Error, ValueError, TypeError, ImportError, OSError) as error:
        print(f"find_critical_states: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"find_critical_states: stopped{how_to_go_on(args)}", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    # As an exception, so that the model's processes end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
