"""Recorded: writes every reply to its own file, and reads it instead of asking again."""

import datetime
import difflib
import hashlib
import json
import math
import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from llmwrappers.files import write_atomically
from local_llm.models.reply import Backend, Message, ModelError, Reply, Sampling, count_tokens

Request = dict[str, Any]
"""Identifies a reply by model, revision, messages, sampling, schema and index; without URL and key.

``weights`` are a part of it if a server reports something about the weights that it serves under the model's name, or if the
model is a folder or a file.
"""
PACKAGES = Path(__file__).resolve().parents[2]
REQUEST = {"model", "revision", "messages", "sampling", "schema", "index"}
# The errors of reading a file that anybody may have written.
UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
DIFF_LINES, DIFF_WIDTH = 20, 160


class Recorded:
    """Answers from a folder of recorded replies; asks ``backend`` for missing ones and records them as they arrive.

    ======  ====================================================================================================
    auto    reads the recorded reply to exactly this request, and asks for a missing one: nothing twice; a reply that was
            recorded without ``weights`` fits any weights
    record  asks for every reply and records it, over earlier recordings
    replay  asks for nothing; messages and schema must agree, and the model if there is a backend; replies drawn with
            the same sampling come first, those of one series together
    off     asks for every reply; reads and writes nothing
    ======  ====================================================================================================

    The folder may also be that of a shipped prior (prompt.txt, reply-N.md and provenance.json) or of a shipped table of
    critical states (prompt-*.txt, reply-*.md and provenance.json); the files' hashes are checked. Do not trust a recording more
    than a reply: check it the same way.

    Args:
        backend: the model to ask; None only replays
        folder: one JSON file per reply
        mode: see above

    Raises:
        ValueError: the mode is unknown, or needs a backend and there is none
        ModelError: the folder cannot be read or written, or a shipped file has a wrong hash

    Example:
        >>> from llmwrappers import priors
        >>> folder = priors.SHIPPED / "Hopper-v4"
        >>> prompt = {"role": "user", "content": (folder / "prompt.txt").read_text("utf-8")}
        >>> [reply.finish_reason for reply in Recorded(None, folder, "replay").ask([prompt], 2, Sampling())]
        ['stop', 'stop']
    """

    def __init__(
        self,
        backend: Backend | None,
        folder: str | os.PathLike[str],
        mode: Literal["off", "record", "replay", "auto"] = "auto",
    ) -> None:
        if mode not in ("off", "record", "replay", "auto"):
            raise ValueError(f'mode must be "off", "record", "replay" or "auto", got {mode!r}')
        if backend is None and mode in ("off", "record"):
            raise ValueError(f"mode {mode!r} asks a model, so backend must not be None")
        self.backend, self.folder, self.mode = backend, Path(folder), "replay" if backend is None else mode
        self._replies: dict[str, tuple[Request, Reply]] = {}
        self._given: list[tuple[Request, Reply]] = []
        self._skipped: list[str] = []
        if self.mode in ("record", "auto"):
            _require_writable(self.folder)
        if self.mode in ("replay", "auto"):
            self._load()
        self.model = backend.model if backend else ", ".join(self._models()) or "none"
        self.revision = backend.revision if backend else None
        self.weights: dict[str, Any] | None = getattr(backend, "weights", None) if self.mode != "off" else None

    def ask(
        self, messages: list[Message], n: int, sampling: Sampling, schema: dict | None = None, first: int = 0
    ) -> Iterator[Reply]:
        """Yields the replies numbered from ``first`` on, each recorded before it is yielded.

        Raises:
            ModelError: too few replies are recorded to replay, or an error of the backend
        """
        common = {"messages": messages, "sampling": asdict(sampling), "schema": schema}
        common |= self._asked_model()
        requests = [{**common, "index": index} for index in range(first, first + n)]
        if self.backend is None or self.mode == "replay":
            for request, reply in self._replay(common, first, first + n):
                yield self._give(request, reply)
            return
        while requests:
            if recorded := self._recorded(requests[0]):
                yield self._give(requests.pop(0), recorded)
                continue
            # Asks for consecutive missing replies together.
            count = next((i for i, request in enumerate(requests) if self._recorded(request)), len(requests))
            missing, requests = requests[:count], requests[count:]
            replies = self.backend.ask(messages, count, sampling, schema, missing[0]["index"])
            for request, reply in zip(missing, replies, strict=True):
                dated = replace(reply, date=datetime.date.today().isoformat())
                if self.mode != "off":
                    self._record(request, dated)
                yield self._give(request, dated)

    @property
    def name(self) -> str:
        """The path of the folder; that of a shipped one begins at ``llmwrappers``."""
        path = self.folder.resolve()
        return str(path.relative_to(PACKAGES)) if path.is_relative_to(PACKAGES / "llmwrappers") else str(self.folder)

    def made(self) -> dict[str, Any]:
        """Returns how and when the replies given so far were made, for a provenance: null is not known.

        ``date`` is a list if the model wrote them on several days; ``left_out`` are the settings that a server refused.
        """
        samplings = {json.dumps(request["sampling"], sort_keys=True) for request, _ in self._given}
        made: dict[str, Any] = {"sampling": json.loads(samplings.pop()) if len(samplings) == 1 else None}
        if left_out := {name for _, reply in self._given for name in reply.left_out}:
            made["left_out"] = sorted(left_out)
        dates = sorted({reply.date or "" for _, reply in self._given})
        is_known = bool(dates) and all(dates)
        made["date"] = None if not is_known else dates if len(dates) > 1 else dates[0]
        if any(reply.replayed for _, reply in self._given):
            made |= {"replayed_from": self.name, "replayed": datetime.date.today().isoformat()}
        return made

    def count_tokens(self, text: str) -> int | None:
        """Returns how many tokens a text has, and records the count as it records replies; None if it is unknown.

        Prompts are fitted to a number of tokens: a replay must use the same counts.
        """
        facts = {**self._asked_model(), "text_sha256": hashlib.sha256(text.encode()).hexdigest()}
        path = self.folder / f"tokens-{_key(facts)[:16]}.json"
        if self.backend is None or self.mode == "replay":
            # The count of the model that wrote these replies; of several models, that of the last run.
            counted = [(file == path, file.stat().st_mtime_ns, file) for file in self.folder.glob("tokens-*.json")]
            counts = (_read_count(facts["text_sha256"], file) for *_, file in sorted(counted, reverse=True))
            return next(filter(None, counts), None)
        recorded = _read_count(facts["text_sha256"], path) if self.mode == "auto" else None
        count = recorded or count_tokens(self.backend, text)
        if count and not recorded and self.mode != "off":
            try:
                write_json(path, {**facts, "tokens": count})
            except OSError as error:
                warnings.warn(f"cannot record {path}: {error}", stacklevel=2)
        return count

    def texts(self) -> set[str]:
        """Returns the texts of all replies that can be read back."""
        return {reply.text for _, reply in self._replies.values()}

    def _give(self, request: Request, reply: Reply) -> Reply:
        self._given.append((request, reply))
        return reply

    def _asked_model(self) -> dict[str, Any]:
        weights = {"weights": self.weights} if self.weights else {}
        return {"model": self.model, "revision": self.revision, **weights}

    def _recorded(self, request: Request) -> Reply | None:
        """Returns the recorded reply to a request, also if it was recorded without ``weights``."""
        older = {name: value for name, value in request.items() if name != "weights"}
        _, reply = self._replies.get(_key(request)) or self._replies.get(_key(older)) or (None, None)
        return reply

    def _record(self, request: Request, reply: Reply) -> None:
        loaded = {name: sys.modules.get(name) for name in ("torch", "transformers", "huggingface_hub")}
        versions = {name: str(module.__version__) for name, module in loaded.items() if module}
        answer = {name: value for name, value in asdict(reply).items() if name != "replayed" and value != ()}
        path = self.folder / f"reply-{_key(request)[:16]}.json"
        try:
            write_json(
                path, {"request": request, "reply": answer, "versions": {"python": platform.python_version(), **versions}}
            )
        except OSError as error:
            # The reply may have cost money: use it even if it is not recorded.
            warnings.warn(f"cannot record {path}: {error}; the reply is used without a recording", stacklevel=3)
        if self.mode == "auto":
            self._replies[_key(request)] = request, replace(reply, replayed=True)

    def _replay(self, asked: Request, start: int, stop: int) -> list[tuple[Request, Reply]]:
        """Returns the recorded replies that fit; raises if there are too few."""
        names = ("model", "revision") if self.backend else ()
        recorded = [pair for pair in self._replies.values() if all(pair[0][name] == asked[name] for name in names)]
        if self.backend:
            recorded = [pair for pair in recorded if pair[0].get("weights") in (None, self.weights)]
        fitting = [pair for pair in recorded if all(pair[0][name] == asked[name] for name in ("messages", "schema"))]

        def rank(pair: tuple[Request, Reply]) -> tuple[bool, str, int]:
            series = json.dumps([pair[0].get(name) for name in ("model", "revision", "weights", "sampling")], sort_keys=True)
            return pair[0]["sampling"] != asked["sampling"], series, pair[0]["index"]

        if len(fitting) >= stop:
            return sorted(fitting, key=rank)[start:stop]
        where = f"{self.folder} by {self.model}" if self.backend else str(self.folder)
        if fitting:
            why = f"{len(fitting)} replies to this prompt are recorded in {where}, {stop} were asked for.\nAsk for fewer"
        elif recorded:
            difference = _nearest(asked["messages"], [request["messages"] for request, _ in recorded])
            why = f"no reply to this prompt is recorded in {where}. {difference}\nGo back to the recorded prompt"
        else:
            others = f", only by {', '.join(self._models())}" if self._replies else ""
            why = f"no reply is recorded in {where}{others}.\nName another folder"
        skipped = "".join(f"\nSkipped {file}" for file in self._skipped)
        raise ModelError(f'{why}, or record with mode "auto" and a model.{skipped}')

    def _models(self) -> list[str]:
        return sorted({request["model"] for request, _ in self._replies.values()})

    def _load(self) -> None:
        """Reads the folder; computes the keys again, so that an edited request counts as another request."""
        if not self.folder.is_dir():
            raise ModelError(f"cannot replay from {self.folder}: there is no such folder; record with a model first")
        for path in sorted(self.folder.glob("reply-*.json")):
            try:
                request, reply = _read_recording(path)
            except UNREADABLE as error:
                self._skipped.append(f"{path}, which is not a recording: {type(error).__name__}: {error}")
                warnings.warn(f"skipped {self._skipped[-1]}", stacklevel=3)
            else:
                self._replies[_key(request)] = request, reply
        if (self.folder / "provenance.json").is_file():
            try:
                self._replies |= {_key(request): (request, reply) for request, reply in _read_shipped(self.folder)}
            except UNREADABLE as error:
                raise ModelError(f"cannot read the replies in {self.folder}: {type(error).__name__}: {error}") from error


def write_json(path: Path, value: Any) -> None:
    """Writes all of the value to a path, or leaves the old file, even if the write is interrupted."""
    write_atomically(path, json.dumps(value, indent=1) + "\n")


def _key(request: Request) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _read_count(text_sha256: str, path: Path) -> int | None:
    """Returns the count of tokens in a file if it is a count of this text, else None."""
    try:
        content = json.loads(path.read_text("utf-8"))
        count = content["tokens"] if content["text_sha256"] == text_sha256 else None
    except UNREADABLE:
        return None
    return count if isinstance(count, int) and count > 0 else None


def _require_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ModelError(f"cannot record in {folder}: {error}; name a folder that can be written to") from error


def _read_recording(path: Path) -> tuple[Request, Reply]:
    content = json.loads(path.read_text("utf-8"))
    request, reply = content["request"], Reply(**content["reply"], replayed=True)
    reply = replace(reply, left_out=tuple(reply.left_out))
    texts = [text for message in request["messages"] for text in (message["role"], message["content"])]
    counts = (reply.prompt_tokens, reply.reply_tokens)
    if not (
        set(request) - {"weights"} == REQUEST
        and isinstance(request.get("weights"), dict | None)
        and all(isinstance(text, str) for text in (request["model"], reply.text, *texts))
        and all(count is None or isinstance(count, int) for count in counts)
        and reply.finish_reason in ("stop", "length")
        and isinstance(request["index"], int)
        and 0 <= reply.seconds < math.inf
    ):
        raise ValueError("a field is missing or has a wrong type")
    reply.text.encode()  # half a surrogate pair cannot be written to a file
    return request, reply


def _read_shipped(folder: Path) -> Iterator[tuple[Request, Reply]]:
    """Reads the prompts and replies behind a shipped prior or a shipped table."""

    def read(name: str, sha256: str) -> str:
        if Path(name).name != name:
            raise ValueError(f"{name!r} is no file in this folder")
        data = (folder / name).read_bytes()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ModelError(
                f"{folder / name} is not the file that provenance.json describes (its SHA-256 differs): restore it"
            )
        return data.decode("utf-8")

    facts = json.loads((folder / "provenance.json").read_text("utf-8"))
    common = {"model": str(facts["model"]), "revision": None, "sampling": None}
    date = facts.get("date")
    date = date if isinstance(date, str) else None  # of several days it is not known which is whose
    asked: list[tuple[str, Any]] = []
    for exchange in facts.get("exchanges", ()):
        prompt = {"role": "user", "content": read(exchange["prompt"], exchange["prompt_sha256"])}
        if (finish_reason := exchange["finish_reason"]) not in ("stop", "length"):
            raise ValueError(f"finish_reason is {finish_reason!r}")
        text = read(exchange["reply"], exchange["reply_sha256"])
        reply = Reply(text, finish_reason, None, None, 0.0, replayed=True, date=date)
        question = (exchange["prompt_sha256"], exchange["schema"])
        yield {**common, "messages": [prompt], "schema": exchange["schema"], "index": asked.count(question)}, reply
        asked.append(question)
    for number, hashes in facts.get("candidates", {}).items():
        if hashes.get("refined"):
            continue
        if hashes.get("retries_sha256"):
            raise ValueError(
                f"candidate {number} answers a retry, whose conversation is not here; name the folder of the recordings"
            )
        prompt = {"role": "user", "content": read("prompt.txt", facts["prompt_sha256"])}
        text = read(f"reply-{number}.md", hashes["reply_sha256"])
        request = {**common, "messages": [prompt], "schema": None, "index": int(number) - 1}
        yield request, Reply(text, "stop", None, None, 0.0, replayed=True, date=date)


def _nearest(asked: list[Message], recorded: list[list[Message]]) -> str:
    """Returns in words how the prompt differs from the most similar recorded one."""

    def lines(messages: list[Message]) -> tuple[str, ...]:
        return tuple(line for message in messages for line in (f"[{message['role']}]", *message["content"].splitlines()))

    new = lines(asked)
    old = max(dict.fromkeys(map(lines, recorded)), key=lambda prompt: difflib.SequenceMatcher(None, prompt, new).ratio())
    if old == new:
        return "The same prompt is recorded, but with another schema or other line ends."
    difference = [line[:DIFF_WIDTH] for line in difflib.unified_diff(old, new, "recorded", "asked", n=1, lineterm="")]
    more = [f"... {len(difference) - DIFF_LINES} lines more"] if len(difference) > DIFF_LINES else []
    return "\n".join(["The nearest recorded prompt differs:", *difference[:DIFF_LINES], *more])
