"""Reads what a model meant by its reply: what is no reasoning, the blocks that may be code, and their code as Python parses it.

Nothing is executed, and all of it takes time about linear in the length of the reply.
"""

import ast
import json
import re
from typing import NamedTuple

MOST_CHARACTERS = 1_000_000
MOST_CODE = 100_000
MOST_BLOCKS = 200
# What is asked for where nothing else is.
SEND = (
    "Reply with the complete code in exactly one ```python block that defines policy(obs), "
    "with the imports and helpers it needs and no example of its use."
)
CUT_OFF = "Your reply reached the limit on its length before the {} was complete: be briefer."


class ExtractionError(ValueError):
    """Says what is wrong with a reply; its text is the message to send back to the model."""

    def __init__(self, problem: str, send: str = SEND):
        super().__init__(f"{problem} {send}")
        self.problem = problem


class NoCode(ExtractionError):
    """Says that the reply holds no Python code."""


class Truncated(ExtractionError):
    """Says that the reply ends before what was asked for does."""


class StillThinking(Truncated):
    """Says that the reply ends inside its reasoning."""


class BrokenCode(ExtractionError):
    """Says that the code is not valid Python, and where."""


def refusal(error: Exception, send: str) -> str:
    """Returns what to tell a model of a reply that cannot be used: what is wrong with it, and what to send."""
    return str(error) if isinstance(error, ExtractionError) else f"Your code was refused: {error}. {send}"


def for_the_user(error: Exception) -> str:
    """Returns what is wrong with a reply, without what the model is to do about it.

    Example:
        >>> for_the_user(ExtractionError("Your reply holds no code."))
        'the reply holds no code.'
    """
    said = error.problem.strip() if isinstance(error, ExtractionError) else str(error)
    return re.sub(r"^Your |\byour ", "the ", said)


class Block(NamedTuple):
    """A part of a reply that may be code."""

    text: str
    kind: str  # "fenced", "open" (a fence that is never closed), "bare" (outside the fences) or "json" (a string in JSON)


class Code(NamedTuple):
    """Code that Python parses, and what it parses it as."""

    source: str
    tree: ast.Module


# ------------------------------------------------------------------------------------------------------ reply -> blocks

# What opens reasoning and what closes it, as regular expressions. Of models with tokens of their own for it, what says so
# is named; the other tags are those that prompts ask for.
REASONING_MARKS = (
    ("<think>", "</think>"),  # DeepSeek, Qwen, GLM, ...: vLLM, vllm/reasoning/basic_parsers.py
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),  # ByteDance's Seed-OSS: vLLM, vllm/reasoning/seedoss_reasoning_parser.py
    (r"\[THINK\]", r"\[/THINK\]"),  # Mistral's Magistral and Ministral: llama.cpp, common/chat.cpp
    ("◁think▷", "◁/think▷"),  # Kimi-VL-Thinking
    (r"<\|open\|>think<\|sep\|>", r"<\|close\|>think<\|sep\|>"),  # Kimi K3: vLLM, vllm/reasoning/kimi_k3_reasoning_parser.py
    # Cohere's Command: vLLM, vllm/reasoning/cohere_command_reasoning_parser.py
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
    (r"<\|channel>thought", r"<channel\|>"),  # Gemma 4: vLLM, vllm/reasoning/gemma4_utils.py
    # gpt-oss: https://cookbook.openai.com/articles/openai-harmony. A channel ends with <|end|>, but only final is an answer.
    (r"<\|channel\|>(?:analysis|commentary)", r"<\|channel\|>final"),
    # The same where a server leaves out the tokens: https://github.com/oobabooga/textgen/issues/7374
    (r"\Aanalysis(?=(?-i:[A-Z]))", "assistantfinal"),
)
# A mark without tokens of its own may be spoken of in a line, and opens reasoning only at the beginning of one.
_REASONING = re.compile(
    "|".join(
        [f"(?P<close>{'|'.join(closing for _, closing in REASONING_MARKS)})"]
        + [opening if opening.startswith((r"<\|", r"\A")) else rf"^[ \t]*{opening}" for opening, _ in REASONING_MARKS]
    ),
    re.M | re.I,
)
_OPEN_AT_END = re.compile(rf"(?:{'|'.join(opening for opening, _ in REASONING_MARKS)})(?:<\|message\|>)?\s*\Z")
_NEXT_TURN = re.compile(r"<\|(?:im_start|start_header_id|start)\|>user|<start_of_turn>user|<[|\uff5c]user[|\uff5c]>", re.I)
_SPECIAL_TOKEN = re.compile(
    r"<[|\uff5c][\w\u2581/]{1,40}[|\uff5c]?>|<[\w/]{1,40}\|>|</s>|\[/?INST\]|^<(?:s|bos)>|<(?:eos|pad|end_of_turn)>[ \t]*$",
    re.M,
)
_ZERO_WIDTH = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
_FENCE = re.compile(rf"[\s>*+\-\d.){_ZERO_WIDTH}]*(?P<fence>`{{3,}}|~{{3,}})(?P<tag>[^`]*)$|.*[^`]```(?:python3?|py)\s*$", re.I)
LIKE_CODE = re.compile(r"\bdef[ \t]+\w+[ \t]*\(|\blambda\b|\bimport\b|^[ \t]*class[ \t]+\w+[ \t]*[:(]", re.M)


def opened_by(prompt: str) -> str:
    """Returns what a prompt ends with that opens the reply's reasoning, if its chat template does that.

    Example:
        >>> opened_by("<|User|>Write policy(obs).<|Assistant|><think>\\n"), opened_by("<think>\\n\\n</think>\\n\\n")
        ('<think>\\n', '')
    """
    mark = _OPEN_AT_END.search(prompt)
    return mark[0] if mark else ""


def answer_of(reply: str, what: str = "code", send: str = SEND) -> str:
    """Returns the reply without its reasoning, without special tokens and without an invented next turn.

    Args:
        reply: all that the model wrote
        what: it was asked for
        send: what the message for the model ends with

    Raises:
        ExtractionError: the reply is too long to be read
        StillThinking: it ends inside its reasoning
    """
    if len(reply) > MOST_CHARACTERS:
        raise ExtractionError(f"Your reply has {len(reply):,} characters; at most {MOST_CHARACTERS:,} are read.", send)
    text = _NEXT_TURN.split(_saveable(reply), maxsplit=1)[0]
    answer, position, thinking = [], 0, False
    marks = [*_REASONING.finditer(text)]
    if marks and all(mark["close"] for mark in marks) and not text[marks[-1].end() :].strip():
        text, marks = text[: marks[-1].start()], marks[:-1]  # a close at the end, without an open, ends the answer
    for mark in marks:
        # Before a close without an open is reasoning too: the chat template opened it.
        if not thinking and not mark["close"]:
            answer.append(text[position : mark.start()])
        thinking, position = not mark["close"], mark.end()
    if thinking:
        raise StillThinking(f"Your reply ended inside its reasoning, before any {what}: reason more briefly.", send)
    return _SPECIAL_TOKEN.sub("", "\n".join([*answer, text[position:]]))


def _saveable(text: str) -> str:
    """Returns the text with LF line ends and without what no Python file can hold."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    return text.encode("utf-8", "replace").decode("utf-8")


def blocks_of(text: str) -> list[Block]:
    """Returns what may be code: the text outside the fences, then the fenced blocks; for JSON, the strings in it."""
    if text.lstrip().startswith("{") and (strings := _strings_in_json(text)):
        return strings
    result = []
    for block in _fenced(text):
        may_hold_json = block.kind == "bare" or block.text.lstrip().startswith("{")
        result += (_strings_in_json(block.text) if may_hold_json else []) or [block]
    return result


def _fenced(text: str, docstrings: bool = True) -> list[Block]:
    """Splits a text at its fences, except, at first, those in a docstring."""
    blocks, outside, inside, opener, quotes = [], [], [], "", 0
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        # Small models close a block at the end of its last line of code.
        late = bool(opener) and not fence and line.rstrip().endswith(opener)
        if not opener and not fence:
            outside.append(line)
        elif not opener and fence:
            opener, quotes = fence["fence"] or "```", 0
            inside = [fence["tag"]] if _STARTS_STATEMENT.match(fence["tag"] or "") else []
        elif (late or (fence and (fence["fence"] or "").startswith(opener))) and quotes % 2 == 0:
            inside += [line.rstrip().rstrip(opener[0])] if late else []
            blocks.append(Block("\n".join([*inside, ""]), "fenced"))
            # A fence with a tag begins the next block: this one was never closed.
            opener, inside = opener if fence and re.fullmatch(r"\s*[\w{}.+#-]+\s*", fence["tag"]) else "", []
        else:
            inside.append(line)
            quotes += docstrings * len(re.findall(r'"""|\'\'\'', line))
    if quotes % 2 and opener:
        return _fenced(text, docstrings=False)  # it was no docstring, or none that ends
    if opener:
        blocks.append(Block("\n".join([*inside, ""]), "open"))
    return [Block("\n".join(outside), "bare"), *blocks]


def _strings_in_json(text: str) -> list[Block]:
    """Returns the strings that look like code in the JSON objects of a text."""
    decoder, values, position = json.JSONDecoder(strict=False), [], 0
    for _ in range(20):
        if match := re.compile(r'\{\s*"').search(text, position):
            try:
                value, position = decoder.raw_decode(text, match.start())
                values.append(value)
            except (ValueError, RecursionError):
                position = match.end()
    found = []
    for value in values:  # which grows
        if isinstance(value, dict):
            values += value.values()
        elif isinstance(value, list):
            values += ["\n".join(value)] if all(isinstance(line, str) for line in value) else value
        elif isinstance(value, str) and LIKE_CODE.search(value):
            found += [Block(text, kind if kind == "fenced" else "json") for text, kind in blocks_of(_saveable(value))]
    return found


# ------------------------------------------------------------------------------------------------------- blocks -> code

# What only looks like a character of Python or JSON, and what it stands for.
LOOK_ALIKES = str.maketrans(
    "\u00a0\u2002\u2003\u2007\u2009\u202f\u3000\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2013\u2212\u00d7\u2028\u2029",
    "       ''''\"\"\"\"--*\n\n",
    _ZERO_WIDTH,
)
_PROMPT = re.compile(r"[ \t]*(?:>>>|\.\.\.)(?: |$)")
_QUOTATION = re.compile(r"[ \t]*> ?")
_LINE_NUMBER = re.compile(r"[ \t]*\d+(?:[ \t]*[|:│→.)] ?|\t| |$)")
_DIFF = re.compile(r"(?P<drop>-|@@|\\|\+\+\+|diff |index )|[+ ]")
_FIRST_INDENT = re.compile(r"^([ \t]*)(?:async[ \t]+)?(?:def|class)\b", re.M)
_STARTS_STATEMENT = re.compile(
    r"(?P<surely>(?:async[ \t]+)?def[ \t]+\w+[ \t]*\(|class[ \t]+\w+[ \t]*[:(]|@\w)"
    r"|(?:import|from|return)\b|[A-Za-z_]\w*[ \t]*(?::[^=\n]*)?=(?!=)"
)


def parse(source: str, offset: int = 0) -> ast.Module:
    """Parses a source, with the errors that only the compiler finds; ``offset`` lines stand before it."""
    if len(source) > MOST_CODE:
        raise BrokenCode(f"Your code has {len(source):,} characters; at most {MOST_CODE:,} are read.")
    try:
        tree = ast.parse(source)
        compile(tree, "<reply>", "exec", dont_inherit=True)
        return tree
    except SyntaxError as error:
        number = max(error.lineno or 1, 1)
        line = "".join(source.split("\n")[number - 1 : number]).strip()[:200]
        raise BrokenCode(f"Your code is not valid Python. Line {offset + number}: {error.msg}:\n    {line}\n") from None
    except (RecursionError, MemoryError, ValueError, OverflowError) as error:
        raise BrokenCode(f"Your code is too much for Python ({type(error).__name__}): write it more simply.") from None


def mended(block: Block) -> Code:
    """Parses a block, mending more and more of it until it parses."""
    text, failure = block.text, None
    for mend in (str, _plain, _without_prefixes, _outdented, lambda text: text.expandtabs(4)):
        if failure is None or mend(text) != text:
            text = mend(text)
            try:
                return Code(text, parse(text))
            except BrokenCode as error:
                failure = error
    if failure and block.kind == "fenced":
        raise failure
    text = _without_prose(text)
    return Code(text, parse(text))


def _plain(text: str) -> str:
    """Replaces characters that only look like Python's, and line ends that were escaped once too often."""
    text = text.translate(LOOK_ALIKES)
    return text if "\n" in text.strip() else text.replace("\\n", "\n").replace('\\"', '"')


def _without_prefixes(text: str) -> str:
    """Removes what precedes each line of code in an interactive session, a quotation, a diff or a numbered listing."""
    lines = text.split("\n")
    full = [line for line in lines if line.strip()]
    if full and full[0].lstrip().startswith(">>>"):
        return "\n".join(line[prompt.end() :] for line in lines if (prompt := _PROMPT.match(line)))
    for prefix in (_QUOTATION, _LINE_NUMBER):
        if all(map(prefix.match, full)):
            return "\n".join(prefix.sub("", line, count=1) for line in lines)
    if all(map(_DIFF.match, full)) and any(line.startswith("+") for line in full):
        return "\n".join(line[1:] for line in lines if not ((mark := _DIFF.match(line)) and mark["drop"]))
    return text


def _outdented(text: str) -> str:
    """Moves code to the left margin, by the indentation of its first definition, or of its first line without one."""
    indent = _FIRST_INDENT.search(text) or re.match(r"(?:[ \t]*\n)*([ \t]*)", text)
    return re.sub(rf"^[ \t]{{1,{len(indent[1])}}}", "", text, flags=re.M) if indent and indent[1] else text


def _without_prose(text: str) -> str:
    """Keeps the definitions, imports and assignments among lines of prose."""
    chunks: list[tuple[int, list[str]]] = []  # a line at the left margin with what belongs to it
    for number, line in enumerate(text.split("\n")):
        if chunks and (not line.strip() or line[0] in " \t#)]}" or chunks[-1][1][-1].startswith("@")):
            chunks[-1][1].append(line)
        else:
            chunks.append((number, [line]))
    code = []
    for number, lines in chunks:
        if start := _STARTS_STATEMENT.match(lines[0]):
            try:
                parse("\n".join(lines), number)
                code += lines
            except BrokenCode as error:
                # Below a definition, a return or indented lines are a part of it that lost its indentation.
                torn = "outside function" in str(error) or any(line[:1] in (" ", "\t") and line.strip() for line in lines)
                if start["surely"] or (code and torn):
                    raise
    return "\n".join([*code, ""])
