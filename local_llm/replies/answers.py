"""Takes the JSON out of a language model's reply about critical states, and tests each number in it.

Nothing is guessed: what can be mended without changing a number or losing an entry is mended, all else goes back to the model.
"""

import json
import math
import re
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

from local_llm.replies.reply_text import CUT_OFF, LOOK_ALIKES, ExtractionError, Truncated, answer_of

SEND_JSON = 'Reply with one JSON object of the form that the task describes, with the key "{key}", in one ```json block.'
TOO_LONG = CUT_OFF.format("answer")
# Attempts to read an object: a reply of nothing but brackets would take quadratic time.
MOST_OBJECTS = 2000


class NoAnswer(ExtractionError):
    """Says that the reply holds no JSON object with the key asked for."""


class BrokenAnswer(ExtractionError):
    """Says where the JSON is not valid, in a way that cannot be mended safely."""


class UselessAnswer(ExtractionError):
    """Says why none of the entries can be used."""


class Answer(NamedTuple):
    """The entries of an answer, and whether its JSON had to be repaired."""

    entries: list[Any]
    repaired: bool


# ------------------------------------------------------------------------------------------------------------------ JSON


def extract_answer(reply: str, finish_reason: str, key: str) -> Answer:
    """Returns the list that stands under ``key`` in the last JSON object of a reply that has this key.

    Invalid JSON is repaired (by json_repair, if it is installed) only where the object is complete and the repair keeps
    every number and every object in it.

    Args:
        reply: all that the model wrote, its reasoning included
        finish_reason: "length" if a limit stopped the model; such a reply is never repaired
        key: of the list

    Raises:
        ExtractionError: there is no such answer; its subclasses say why, its text is the message for the model

    Example:
        >>> extract_answer('It falls:\\n{"rewards": [{"episode": 0, "reward": -0.5}]}', "stop", "rewards").entries
        [{'episode': 0, 'reward': -0.5}]
        >>> extract_answer('{"rewards": [{"episode": 0, "reward": -1/2}]}', "stop", "rewards")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        local_llm.replies.answers.BrokenAnswer: Your JSON is not valid: '-1/2' is no number. Reply with one JSON object ...
    """
    send = SEND_JSON.format(key=key)
    text = answer_of(reply, "answer", send)
    found, end = _last_object(text, key)
    mentions = [match.start() for match in re.finditer(rf"{_QUOTE}{key}{_QUOTE}\s*:", text) if match.start() >= end]
    if mentions:
        # The model wrote another one since, which is cut off or not valid.
        starts = [match.start() for match in re.finditer(rf"\{{\s*{_QUOTE}", text[: mentions[-1] + 1]) if match.start() >= end]
        if starts:
            return Answer(_repaired(text[starts[-1] :], finish_reason, key, send), True)
    if found is None:
        raise Truncated(TOO_LONG, send) if finish_reason == "length" else NoAnswer(f'No JSON object has the key "{key}".', send)
    return Answer(_list(found, key, send), False)


def _last_object(text: str, key: str) -> tuple[dict | None, int]:
    """Returns the last valid object with the key, and where it ends."""
    decoder, position, found, end = json.JSONDecoder(strict=False), 0, None, 0
    for _ in range(MOST_OBJECTS):
        if (position := text.find("{", position)) < 0:
            break
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
        else:
            if key in value:
                found, end = value, position
    return found, end


_QUOTE = "[\"'\u201c\u201d\u201e\u2018\u2019]"
_TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[{}\[\]]""", re.S)


def _repaired(text: str, finish_reason: str, key: str, send: str) -> list[Any]:
    """Returns the list in an object that is not valid, if it is whole and can be read in one way only."""
    text = text.translate(LOOK_ALIKES)
    bare, end, open_brackets = "", 0, ""  # bare: the object without its strings
    for token in _TOKEN.finditer(text):
        bare += text[end : token.start()] + (token[0] if len(token[0]) == 1 else "")
        end = token.end()
        if token[0] in ("{", "["):
            open_brackets += token[0]
        elif token[0] in ("}", "]"):
            if open_brackets[-1:] + token[0] not in ("{}", "[]"):
                raise BrokenAnswer(f"Your JSON is not valid: a bracket is missing before {text[:end][-60:]!r}.", send)
            open_brackets = open_brackets[:-1]
            if not open_brackets:
                break
    if open_brackets or finish_reason == "length":
        raise Truncated(TOO_LONG if finish_reason == "length" else "Your JSON ends before it is complete.", send)
    try:
        return _list(json.JSONDecoder(strict=False).decode(text[:end]), key, send)  # typographic quotes were all
    except ValueError as error:
        invalid = f"Your JSON is not valid: {error}." if not isinstance(error, ExtractionError) else str(error)
    numbers = []
    for piece in re.split(r"[,:{}\[\]]", bare):
        if any(map(str.isnumeric, piece)) or ".." in piece:
            try:
                numbers.append(float(piece))
            except ValueError:
                raise BrokenAnswer(f"Your JSON is not valid: {piece.strip()[:60]!r} is no number.", send) from None
    try:
        import json_repair

        value = json_repair.loads(text[:end])
    except Exception:  # it is not installed, or gives up in whichever way
        raise BrokenAnswer(invalid, send) from None
    objects, kept = _contents(value)
    if not isinstance(value, dict) or objects != bare.count("{") or sorted(kept) != sorted(numbers):
        raise BrokenAnswer(invalid, send)
    return _list(value, key, send)


def _contents(value: Any) -> tuple[int, list[float]]:
    """Returns how many objects a value holds, and all numbers in it."""
    if isinstance(value, dict | list):
        parts = [_contents(part) for part in (value.values() if isinstance(value, dict) else value)]
        objects = isinstance(value, dict) + sum(count for count, _ in parts)
        return objects, [number for _, numbers in parts for number in numbers]
    return 0, [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


def _list(value: Any, key: str, send: str) -> list[Any]:
    if not isinstance(value, dict) or not isinstance(value.get(key), list):
        raise NoAnswer(f'The key "{key}" must hold a list of objects.', send)
    return value[key]


# --------------------------------------------------------------------------------------------------------------- numbers

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def exact_number(value: Any, name: str) -> float:
    """Returns a finite number, which may be written as a string; raises ValueError for anything else.

    Example:
        >>> exact_number(1, "reward"), exact_number("-0.5", "reward")
        (1.0, -0.5)
        >>> exact_number("-1/2", "reward")
        Traceback (most recent call last):
            ...
        ValueError: reward must be a finite number, got '-1/2'
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number or (isinstance(value, str) and _NUMBER.fullmatch(value.strip())):
        try:
            if math.isfinite(number := float(value)):
                return number
        except OverflowError:
            pass
    raise ValueError(f"{name} must be a finite number, got {str(value)[:60]!r}")


def exact_integer(value: Any, name: str) -> int:
    """Returns a whole number; raises ValueError for anything else."""
    number = exact_number(value, name)
    if not number.is_integer():
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    return int(number)


def action_within(space: gym.Space, value: Any) -> tuple[Any, bool]:
    """Returns an action in a Box (an array of its shape, clipped) or Discrete space (an int), and whether it was clipped.

    Raises:
        ValueError: a wrong number of numbers, one that is not finite, or an integer that is no action

    Example:
        >>> action_within(Box(-1, 1, (2,)), [0.5, 3])
        (array([0.5, 1. ]), True)
    """
    if isinstance(space, Discrete):
        action = exact_integer(value, "action")
        if not space.start <= action < space.start + space.n:
            raise ValueError(f"action must be one of {space.n} integers from {space.start} on, got {action}")
        return action, False
    assert isinstance(space, Box)
    size = math.prod(space.shape)
    # One number needs no list.
    values = value if isinstance(value, list) else [value]
    if len(values) != size:
        raise ValueError(f"action must be {size} numbers, got {str(value)[:60]}")
    action = np.array([exact_number(number, "each entry of action") for number in values]).reshape(space.shape)
    clipped = np.clip(action, space.low.astype(float), space.high.astype(float))
    # An entry at a bound that single precision cannot hold is not outside.
    return clipped, bool((np.abs(clipped - action) > 1e-6).any())
