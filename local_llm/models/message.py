"""text_of: finds the text of a server's message, in whichever field the server puts it."""

import json
from typing import Any

# Marks the beginning of reasoning that a server sends in a separate field, so that readers of the text can tell it apart.
THINK = "<think>\n"


def text_of(message: dict[str, Any], is_cut: bool) -> str | None:
    """Returns the text of a message of OpenAI's chat API; None if its content has no known form.

    The text is the content. If that is empty, it is the arguments of tool calls, the refusal, or else the reasoning: a server
    that looks for reasoning takes the whole answer of a model that does not think for reasoning. Reasoning that the limit cut
    off is not an answer; it follows a ``<think>`` that is never closed.

    Args:
        message: its ``content`` is a text, null or a list of parts
        is_cut: whether the limit on tokens ended it

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
    # In turn: llama.cpp and older vLLM; newer vLLM and Ollama; Mistral, whose thoughts are parts within parts.
    thoughts = [value if isinstance(value, str) else _joined(_parts(value, "text")) for value in _parts(content, "thinking")]
    places = (message.get("reasoning_content"), message.get("reasoning"), _joined(thoughts))
    reasoning = next((place for place in places if isinstance(place, str) and place.strip()), "")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        return refusal
    return THINK + reasoning if is_cut and reasoning else reasoning


def _objects(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _parts(content: Any, kind: str) -> list[Any]:
    """Returns the values of the parts of one kind."""
    return [part.get(kind) for part in _objects(content) if part.get("type") == kind]


def _joined(values: list[Any], by: str = "") -> str:
    return by.join(value for value in values if isinstance(value, str))


def _arguments(calls: Any) -> str:
    """Returns the arguments of tool calls: in the API a JSON object in a string; some servers send the object, or mere code."""
    functions = _objects([call.get("function") for call in _objects(calls)])
    arguments = [function.get("arguments") for function in functions]
    return _joined([json.dumps(each) if isinstance(each, dict) else each for each in arguments], by="\n\n").strip()
