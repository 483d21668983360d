"""Message: what a server's reply says, wherever in its message the server puts it."""

import json
from typing import Any

# What a server opens reasoning with that it keeps apart, so that a reader of the text sees where it stands.
THINK = "<think>\n"


def text_of(message: dict[str, Any], is_cut: bool) -> str | None:
    """Returns the text of a message of OpenAI's chat API; None if its content has no known form.

    It is the content. Where that is empty, it is what a tool was called with, or else the reasoning: a server that looks for
    reasoning takes a whole answer for it where the model does not think. Reasoning that the limit cut off is no answer, and
    comes as what ``<think>`` opens and nothing closes.

    Args:
        message: its ``content`` is a text, null or a list of parts
        is_cut: whether it ended at the limit on its tokens

    Example:
        >>> text_of({"content": None, "reasoning_content": "def policy(obs): ..."}, is_cut=False)
        'def policy(obs): ...'
        >>> text_of({"content": "", "reasoning": "The hip should"}, is_cut=True)
        '<think>\\nThe hip should'
        >>> text_of({"content": [{"type": "text", "text": "Lean."}]}, is_cut=False)
        'Lean.'
        >>> text_of({"content": None, "tool_calls": [{"function": {"arguments": '{"code": "def policy"}'}}]}, is_cut=False)
        '{"code": "def policy"}'
    """
    content = message.get("content")
    if content and not isinstance(content, str) and not _objects(content):
        return None
    if (text := content if isinstance(content, str) else _joined(_parts(content, "text"))).strip():
        return text
    if arguments := _arguments(message.get("tool_calls")):
        return arguments
    # llama.cpp and older vLLM; newer vLLM and Ollama; Mistral, which thinks in parts of parts.
    thoughts = [value if isinstance(value, str) else _joined(_parts(value, "text")) for value in _parts(content, "thinking")]
    places = (message.get("reasoning_content"), message.get("reasoning"), _joined(thoughts))
    reasoning = next((place for place in places if isinstance(place, str) and place.strip()), "")
    return THINK + reasoning if is_cut and reasoning else reasoning


def _objects(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _parts(content: Any, kind: str) -> list[Any]:
    """Returns what the parts of a kind hold."""
    return [part.get(kind) for part in _objects(content) if part.get("type") == kind]


def _joined(values: list[Any], by: str = "") -> str:
    return by.join(value for value in values if isinstance(value, str))


def _arguments(calls: Any) -> str:
    """Returns what tools are called with: by the API a JSON object in a string, of some servers the object, or mere code."""
    functions = _objects([call.get("function") for call in _objects(calls)])
    arguments = [function.get("arguments") for function in functions]
    return _joined([json.dumps(each) if isinstance(each, dict) else each for each in arguments], by="\n\n").strip()
