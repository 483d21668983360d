"""The interface for asking a model: messages and settings go in, replies come out one by one."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

# With fewer tokens than this left for an answer, and fewer than wanted, nothing is asked.
LEAST_ANSWER = 512
Message = dict[str, str]
"""``{"role": "system", "user" or "assistant", "content": text}``"""
BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}


class ModelError(RuntimeError):
    """Reports why there is no reply (no model, no memory, no server, ...), and the way out."""


class PromptTooLong(ModelError):
    """Reports that a prompt leaves too little of the model's context for an answer; the model was not asked."""


@dataclass(frozen=True)
class Sampling:
    """The settings for drawing replies; they are a part of a recorded reply's identity.

    Raises:
        ValueError: a value is outside its range
    """

    temperature: float = 0.8  # at least 0; 0 always takes the most probable token, so that all replies are equal
    top_p: float = 0.95  # in (0, 1]
    max_new_tokens: int = 8192  # of the answer
    seed: int = 0  # of the series of replies
    thinking: int = 0  # tokens to think before the answer; 0 turns thinking off

    def __post_init__(self) -> None:
        for name, holds, range_ in (
            ("temperature", 0 <= self.temperature < math.inf, "finite and at least 0"),
            ("top_p", 0 < self.top_p <= 1, "in (0, 1]"),
            ("max_new_tokens", self.max_new_tokens >= 1, "at least 1"),
            ("thinking", self.thinking >= 0, "a number of tokens, 0 for none"),
        ):
            if not holds:
                raise ValueError(f"{name} must be {range_}, got {getattr(self, name)!r}")

    def seed_for(self, index: int) -> int:
        """Returns the seed of one reply of the series; series with neighbouring seeds share none.

        Example:
            >>> [Sampling(seed=7).seed_for(index) for index in range(3)]
            [7000, 7001, 7002]
        """
        return (1000 * self.seed + index) % 2**31


@dataclass(frozen=True)
class Reply:
    """One reply, unedited."""

    text: str
    finish_reason: str  # "stop", or "length" if it was cut off
    prompt_tokens: int | None  # None: the server does not report it
    reply_tokens: int | None
    seconds: float  # its share of the time that the model took
    replayed: bool = False  # read from a recording
    date: str | None = None  # when the model wrote it; None: it was recorded before dates were
    left_out: tuple[str, ...] = ()  # settings that the server refused: it used its own


class Backend(Protocol):
    """Answers messages; recordings and the ledger name its ``model`` and ``revision``."""

    model: str
    revision: str | None

    def ask(
        self, messages: list[Message], n: int, sampling: Sampling, schema: dict | None = None, first: int = 0
    ) -> Iterator[Reply]:
        """Yields the replies numbered ``first`` to ``first + n - 1``, each as soon as it arrives.

        A later error does not affect replies that were yielded: take them one by one. The caller checks whether a reply
        obeys the JSON schema.

        Raises:
            ModelError: during iteration, after the replies that arrived
        """
        ...


def answer_room(wanted: int, prompt_tokens: int, context: float, model: str, about: str = "") -> int:
    """Returns how many tokens an answer may have: all that are wanted, or the rest of the model's context if that is less.

    Raises:
        PromptTooLong: the rest is less than wanted, and less than LEAST_ANSWER

    Example:
        >>> answer_room(8192, 30_000, 32_768, "Qwen/Qwen3-8B")
        2768
    """
    room = context - prompt_tokens
    if room < min(wanted, LEAST_ANSWER):
        raise PromptTooLong(
            f"the prompt has {about}{prompt_tokens:,} tokens, and {model} takes {context:,}, its answer among them: take a "
            "model with a longer context (a server may have been started with less than its model takes)"
        )
    return int(min(wanted, room))


def count_tokens(backend: Backend | None, text: str) -> int | None:
    """Returns how many tokens a text has for a backend's model; None if the backend cannot count them."""
    count = getattr(backend, "count_tokens", None)
    return count(text) if count else None


def without_bounds(schema: Any) -> Any:
    """Returns a JSON schema without the bounds of its numbers; the bounds of integers stay.

    A grammar of a bounded number also forbids some numbers within the bounds (llguidance 1.9.1: 2e-1 and -0.0). The caller
    checks the bounds anyway, because not every server obeys a schema.

    Example:
        >>> without_bounds({"type": "array", "items": {"type": "number", "minimum": -1, "maximum": 1}})
        {'type': 'array', 'items': {'type': 'number'}}
    """
    if isinstance(schema, list):
        return [without_bounds(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = BOUNDS if schema.get("type") == "number" else set()
    return {name: without_bounds(part) for name, part in schema.items() if name not in left_out}
