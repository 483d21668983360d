"""Asks a model about the critical states of episodes, question by question, and checks every entry of its answers."""

import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

from llmwrappers import PolicyRejected, Trajectories
from llmwrappers.critical_states.function import CriticalFunction, vet_critical_function
from llmwrappers.files import sha256
from local_llm.command import MOST_RETRIES, save_text, why_refused
from local_llm.models.ledger import Metered
from local_llm.models.reply import Backend, Reply, Sampling
from local_llm.prompting.episode_prompts import Case, Entry, Episodes, Key
from local_llm.replies.answers import SEND_JSON, UselessAnswer, action_within, exact_integer, exact_number, extract_answer
from local_llm.replies.extract import SEND_CRITICAL, extract_critical
from local_llm.replies.reply_text import ExtractionError, Truncated, refusal

# Code that calls more of the agent's steps critical than this has found nothing.
MOST_CRITICAL = 0.5
# A weak model that is held to a schema never closes a string that may go on.
STRING = {"type": "string", "maxLength": 1000}
Check = Callable[["Sieve", Key, dict], tuple[Any, str]]
"""What has passed, (episode, step), entry -> what to keep of the entry, and what was changed in it, if anything."""
T = TypeVar("T")


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
    recorded: Path | None = None  # a folder whose prompts are asked, and replies refused, as they were, whatever today's rules
    exchanges: list[dict[str, Any]] = field(default_factory=list)
    sieves: list[Sieve] = field(default_factory=list)
    suffix: str = ""  # of the names of a later round's prompts and replies

    def __post_init__(self) -> None:
        self.metered = Metered(self.backend, self.folder / "ledger.json")
        # With which schemas the recorded prompts were asked, and why what came was refused.
        self.schemas: dict[str, Any] = {}
        self.refusals: dict[str, str] = {}
        if self.recorded and (facts := self.recorded / "provenance.json").is_file():
            exchanges = json.loads(facts.read_text("utf-8"))["exchanges"]
            self.schemas = {each["prompt"]: each["schema"] for each in exchanges}
            self.refusals = {each["reply_sha256"]: each["refused"] for each in exchanges if "refused" in each}

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

    def write_code(self, cases: list[Case], env: gym.Env, kept: Sequence[Entry] = ()) -> tuple[str, float]:
        """Returns the source of a function that generalises cases, and the share of held-out steps that it calls critical.

        Args:
            kept: entries of an earlier table, which the function generalises, too
        """
        return self._write("code", self.episodes.cases_prompt("code", cases, kept), env, MOST_CRITICAL)

    def write_function(self, env: gym.Env) -> tuple[str, float]:
        """The same for a function that leads on, made of the episodes alone; it may be critical everywhere."""
        return self._write("function", self.episodes.first_prompt(), env, math.inf)

    def _write(self, name: str, prompt: str, env: gym.Env, most: float) -> tuple[str, float]:
        def share(function: CriticalFunction, played: Trajectories) -> float:
            count = 0
            for i in range(len(played)):
                function.reset()
                count += sum(function(observation) is not None for observation in played.observations[played.episode(i)])
            return count / len(played.observations)

        def read(reply: Reply) -> tuple[str, float]:
            source = extract_critical(reply.text, reply.finish_reason)
            function = vet_critical_function(source, env)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                shown = share(function, self.episodes.shown)
                held_out = share(function, self.episodes.held_out)
            if function.faults.total:
                # The first fault is warned of, with its reason.
                reason = next(str(warning.message) for warning in caught if warning.category is UserWarning)
                raise PolicyRejected(None, f"it fails at {function.faults.total} of the agent's own observations. {reason}")
            if not 0 < shown < most:
                limit = f", but in less than {most:.0%}" if most < 1 else ""
                raise PolicyRejected(None, f"it is true in {shown:.2%} of the agent's steps; it must be in some{limit}")
            return source, held_out

        return self._ask(name, prompt, None, read)

    def _sift(self, name: str, key: str, prompt: str, schema: dict, check: Check, helpful: Sequence[int] = ()) -> Sieve:
        """Asks for a list of entries, and returns those that pass the check: one at least."""

        (example,) = extract_answer(prompt, "stop", key).entries
        words = [value for value in example.values() if isinstance(value, str)]

        def check_own(sieve: Sieve, place: Key, entry: dict) -> tuple[Any, str]:
            if any(value in words for value in entry.values()):
                raise ValueError("it repeats the example of the task; it must say what is so in this state")
            return check(sieve, place, entry)

        def read(reply: Reply) -> Sieve:
            answer, sieve = extract_answer(reply.text, reply.finish_reason, key), Sieve(name + self.suffix)
            if helpful:
                for entry in extract_answer(reply.text, reply.finish_reason, "keep").entries:
                    sieve.take_old(entry, helpful)
            for entry in answer.entries:
                sieve.take(entry, check_own)
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
            if self.recorded and (old := self.recorded / prompt_path.name).is_file():
                asked_then = old.read_bytes().decode("utf-8")
                if asked_then != asked:
                    print(f"{prompt_path.name} is asked as it was; today it would be worded otherwise", flush=True)
                asked, schema = asked_then, self.schemas.get(prompt_path.name, schema)
            save_text(prompt_path, asked)
            (reply,) = self.metered.ask([{"role": "user", "content": asked}], 1, self.sampling, schema)
            save_text(reply_path, reply.text)
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
                answer = read(reply)
                if refused := self.refusals.get(sha256(reply_path)):
                    raise PolicyRejected(None, refused)
                return answer
            except (ExtractionError, PolicyRejected) as error:
                self.exchanges[-1]["refused"] = str(error)
                print(f"{name}: refused: {why_refused(error, reply, self.sampling)}", flush=True)
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
    text = refusal(error, SEND_CRITICAL)
    if isinstance(error, Truncated):
        return f"{prompt}\n\n{text}"  # what was cut off would only fill the context again
    return f"{prompt}\n\n# Your last reply, which cannot be used\n{reply.text}\n\n# What is wrong with it\n{text}"


def _text(entry: dict, name: str) -> str:
    # Half a surrogate pair, which JSON can hold, could be written to no file.
    return str(entry.get(name) or "").encode("utf-8", "replace").decode().strip()


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
