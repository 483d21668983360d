"""Takes the Python policy out of a language model's reply, without executing any of it.

A well-formed reply, one fenced block that defines ``policy`` and nothing that it could do without, gives the text of that
block byte for byte. Any other reply is mended as little as it takes, in time about linear in its length.
"""

import ast
import builtins
import itertools
import json
import re
import symtable
import warnings
from collections import defaultdict
from typing import NamedTuple

MOST_CHARACTERS = 1_000_000
MOST_CODE = 100_000
MOST_BLOCKS = 200
SEND = (
    "Reply with the complete code in exactly one ```python block that defines policy(obs), "
    "with the imports and helpers it needs and no example of its use."
)
CUT_OFF = "Your reply reached the limit on its length before the code was complete: be briefer."


class ExtractionError(ValueError):
    """Says what is wrong with a reply; its text is the message to send back to the model."""

    def __init__(self, problem: str, send: str = SEND):
        super().__init__(f"{problem} {send}")


class NoCode(ExtractionError):
    """Says that the reply holds no Python code."""


class Truncated(ExtractionError):
    """Says that the reply ends before its code does."""


class BrokenCode(ExtractionError):
    """Says that the code is not valid Python, and where."""


class NoPolicy(ExtractionError):
    """Says that the code defines no function ``policy`` of one argument, and what it defines instead."""


class _Block(NamedTuple):
    text: str
    kind: str  # "fenced", "open" (a fence that is never closed), "bare" (outside the fences) or "json" (a string in JSON)


class _Code(NamedTuple):
    source: str
    tree: ast.Module


class _Statement(NamedTuple):
    """A statement of a module: its lines with the comments above it, and the module's names that it binds and uses."""

    text: str
    binds: set[str]
    uses: set[str]
    spare: bool  # harmless where policy does not need it: a definition or an import, not an example of use


def extract_policy(reply: str, finish_reason: str = "stop") -> str:
    """Returns the Python source in a reply that defines a function ``policy`` of one argument.

    It is the last block that does so, with the helpers it uses from other blocks and without examples of its use. The
    code may also stand without a fence, in a JSON string, or in a single function under another name.

    Args:
        reply: all that the model wrote, its reasoning included
        finish_reason: "length" if a limit stopped the model, so that code which runs to the end is incomplete

    Raises:
        ExtractionError: there is no such code; its subclasses say why, its text is the message for the model

    Example:
        >>> print(extract_policy("Lean forward:\\n```python\\ndef policy(obs):\\n    return -obs[:3]\\n```"), end="")
        def policy(obs):
            return -obs[:3]
        >>> extract_policy("I cannot run code.")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        local_llm.extract.NoCode: Your reply contains no Python code. Reply with the complete code in exactly one ...
    """
    if len(reply) > MOST_CHARACTERS:
        raise ExtractionError(f"Your reply has {len(reply):,} characters; at most {MOST_CHARACTERS:,} are read.")
    blocks = _blocks(_answer(reply))
    if len(blocks) > MOST_BLOCKS:
        raise ExtractionError(f"Your reply has {len(blocks):,} blocks; at most {MOST_BLOCKS} are read.")
    cut = finish_reason == "length" and blocks[-1].kind in ("open", "bare")
    if cut and (_DEFINES_POLICY.search(blocks.pop().text) or not blocks):
        raise Truncated(CUT_OFF)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a backslash in a docstring is no error yet
            return _policy_in(blocks, may_rename=not cut)
    except ExtractionError as error:
        raise Truncated(CUT_OFF) if cut else error from None
    except (RecursionError, MemoryError, SyntaxError, ValueError) as error:
        # symtable and ast.unparse refuse some code that compiles.
        raise BrokenCode(f"Your code cannot be read ({type(error).__name__}): write it more simply.") from error


def _policy_in(blocks: list[_Block], may_rename: bool) -> str:
    codes, broken = [], []
    for block in blocks:
        like_code = _LIKE_CODE.search(block.text)
        try:
            if like_code or block.kind != "bare":
                codes.append(_mended(block))
        except BrokenCode as error:
            broken += [error] if like_code else []
    able = [index for index, code in enumerate(codes) if _defines_policy(code.tree)]
    if not able and broken:
        raise broken[-1]
    for index, code in enumerate(codes if may_rename and not able else []):
        if name := _other_name(code.tree):
            codes[index] = _renamed(code, name)
            able.append(index)
    source = _assembled(codes, able[-1]) if able else ""
    if _defines_policy(_parse(source)):
        return source
    if not any(code.tree.body for code in codes):
        raise NoCode("Your reply contains no Python code.")
    found = re.findall(r"^[ \t]*((?:async def|def|class|policy[ \t]*=).{,99})", "\n".join(code.source for code in codes), re.M)
    raise NoPolicy(f"Your code defines no function policy of one argument, but: {'; '.join(found[:9]) or 'nothing'}.")


# ------------------------------------------------------------------------------------------------------ reply -> blocks

_TAG = r"(?:seed:)?(?:think|thinking|thought|reasoning)"
_REASONING = re.compile(
    rf"(?P<close></{_TAG}>|\[/THINK\]|◁/think▷|<\|channel\|>final|<channel\|>|assistantfinal)"
    rf"|^[ \t]*(?:<{_TAG}>|\[THINK\]|◁think▷)|<\|channel\|>(?:analysis|commentary)|<\|channel>thought",
    re.M | re.I,
)
_NEXT_TURN = re.compile(r"<\|(?:im_start|start_header_id|start)\|>user|<start_of_turn>user|<[|\uff5c]user[|\uff5c]>", re.I)
_SPECIAL_TOKEN = re.compile(
    r"<[|\uff5c][\w\u2581/]{1,40}[|\uff5c]?>|<[\w/]{1,40}\|>|</s>|\[/?INST\]|^<(?:s|bos)>|<(?:eos|pad|end_of_turn)>[ \t]*$",
    re.M,
)
_ZERO_WIDTH = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
_FENCE = re.compile(rf"[\s>*+\-\d.){_ZERO_WIDTH}]*(?P<fence>`{{3,}}|~{{3,}})(?P<tag>[^`]*)$|.*[^`]```(?:python3?|py)\s*$", re.I)
_DEFINES_POLICY = re.compile(r"\bdef[ \t]+policy\b|^[ \t]*policy[ \t]*=", re.M)
_LIKE_CODE = re.compile(r"\bdef[ \t]+\w+[ \t]*\(|\blambda\b|\bimport\b|^[ \t]*class[ \t]+\w+[ \t]*[:(]", re.M)


def _answer(reply: str) -> str:
    """Returns the reply without its reasoning, without special tokens and without an invented next turn."""
    text = _NEXT_TURN.split(_saveable(reply), maxsplit=1)[0]
    answer, position, thinking = [], 0, False
    for mark in _REASONING.finditer(text):
        # Before a close without an open is reasoning too: the chat template opened it.
        if not thinking and not mark["close"]:
            answer.append(text[position : mark.start()])
        thinking, position = not mark["close"], mark.end()
    if thinking:
        raise Truncated("Your reply ended inside its reasoning, before any code: reason more briefly.")
    return _SPECIAL_TOKEN.sub("", "\n".join([*answer, text[position:]]))


def _saveable(text: str) -> str:
    """Returns the text with LF line ends and without what no Python file can hold."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    return text.encode("utf-8", "replace").decode("utf-8")


def _blocks(text: str) -> list[_Block]:
    """Returns what may be code: the text outside the fences, then the fenced blocks; for JSON, the strings in it."""
    if text.lstrip().startswith("{") and (strings := _strings_in_json(text)):
        return strings
    result = []
    for block in _fenced(text):
        may_hold_json = block.kind == "bare" or block.text.lstrip().startswith("{")
        result += (_strings_in_json(block.text) if may_hold_json else []) or [block]
    return result


def _fenced(text: str, docstrings: bool = True) -> list[_Block]:
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
            blocks.append(_Block("\n".join([*inside, ""]), "fenced"))
            # A fence with a tag begins the next block: this one was never closed.
            opener, inside = opener if fence and re.fullmatch(r"\s*[\w{}.+#-]+\s*", fence["tag"]) else "", []
        else:
            inside.append(line)
            quotes += docstrings * line.count('"""')
    if quotes % 2 and opener:
        return _fenced(text, docstrings=False)  # it was no docstring, or none that ends
    if opener:
        blocks.append(_Block("\n".join([*inside, ""]), "open"))
    return [_Block("\n".join(outside), "bare"), *blocks]


def _strings_in_json(text: str) -> list[_Block]:
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
        elif isinstance(value, str) and _LIKE_CODE.search(value):
            found += [_Block(text, kind if kind == "fenced" else "json") for text, kind in _blocks(_saveable(value))]
    return found


# ------------------------------------------------------------------------------------------------------- blocks -> code

_PLAIN = str.maketrans(
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


def _parse(source: str, offset: int = 0) -> ast.Module:
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


def _mended(block: _Block) -> _Code:
    """Parses a block, mending more and more of it until it parses."""
    text, failure = block.text, None
    for mend in (str, _plain, _without_prefixes, _outdented, lambda text: text.expandtabs(4)):
        if failure is None or mend(text) != text:
            text = mend(text)
            try:
                return _Code(text, _parse(text))
            except BrokenCode as error:
                failure = error
    if failure and block.kind == "fenced":
        raise failure
    text = _without_prose(text)
    return _Code(text, _parse(text))


def _plain(text: str) -> str:
    """Replaces characters that only look like Python's, and line ends that were escaped once too often."""
    text = text.translate(_PLAIN)
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
                _parse("\n".join(lines), number)
                code += lines
            except BrokenCode as error:
                # Below a definition, a return or indented lines are a part of it that lost its indentation.
                torn = "outside function" in str(error) or any(line[:1] in (" ", "\t") and line.strip() for line in lines)
                if start["surely"] or (code and torn):
                    raise
    return "\n".join([*code, ""])


# ------------------------------------------------------------------------------------------------------- code -> policy

_Import = ast.Import | ast.ImportFrom
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _observation(function: ast.AST | None) -> str:
    """Returns the name of the argument of a function that takes one, an empty string for anything else."""
    if not isinstance(function, ast.FunctionDef | ast.Lambda):
        return ""
    positional, optional = [*function.args.posonlyargs, *function.args.args], len(function.args.defaults)
    takes_one = len(positional) >= 1 >= len(positional) - optional and None not in function.args.kw_defaults
    return positional[0].arg if takes_one else ""


def _meaning(node: ast.stmt) -> ast.AST | None:
    """Returns what a statement defines policy as, None if it does not define it."""
    if isinstance(node, _Definition) and node.name == "policy":
        return node
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        uses_itself = any(isinstance(part, ast.Name) and part.id == "policy" for part in ast.walk(node.value))
        if not uses_itself and any(isinstance(target, ast.Name) and target.id == "policy" for target in targets):
            return node.value
    return None


def _defines_policy(tree: ast.Module) -> bool:
    meanings = [meaning for node in tree.body if (meaning := _meaning(node))]
    return bool(meanings) and bool(_observation(meanings[-1]))


def _other_name(tree: ast.Module) -> str:
    """Returns the name of the one function that can only be the policy, an empty string if there is none."""
    names = {node.name: name for node in tree.body if isinstance(node, ast.FunctionDef) and (name := _observation(node))}
    if meanings := [meaning for node in tree.body if (meaning := _meaning(node))]:
        return meanings[-1].id if isinstance(meanings[-1], ast.Name) and meanings[-1].id in names else ""
    if len(names) > 1:
        names = [name for name, argument in names.items() if re.match("ob|state|[os]$", argument)]
    return next(iter(names)) if len(names) == 1 else ""


def _renamed(code: _Code, name: str) -> _Code:
    """Calls a function policy, wherever the code names it."""
    source = code.source.encode()  # columns count bytes
    lines = source.splitlines(keepends=True)
    starts = [0, *itertools.accumulate(map(len, lines))]
    spots = []
    for node in ast.walk(code.tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            spots.append(starts[node.lineno - 1] + lines[node.lineno - 1].find(name.encode(), node.col_offset + len("def ")))
        elif isinstance(node, ast.Name) and node.id == name:
            spots.append(starts[node.lineno - 1] + node.col_offset)
    ends = [0, *(spot + len(name.encode()) for spot in sorted(spots))]
    renamed = b"policy".join(source[end:start] for end, start in zip(ends, [*sorted(spots), None], strict=True)).decode()
    return _Code(renamed, _parse(renamed))


def _statements(code: _Code) -> list[_Statement]:
    """Splits a module into its statements."""
    source, tree = code
    if any(node.col_offset for node in tree.body):  # several on a line
        source = ast.unparse(tree)
        tree = _parse(source)
    lines, end, result = source.split("\n"), 0, []
    imports = [node for node in tree.body if isinstance(node, _Import)]
    imported = {alias.asname or alias.name for node in imports for alias in node.names}
    for node in tree.body:
        last = len(lines) if node is tree.body[-1] else node.end_lineno
        text, end = "\n".join(lines[end:last]), last
        binds, uses, tables = set(), set(), [symtable.symtable(text, "<reply>", "exec")]
        for table in tables:  # which grows
            tables += table.get_children()
            for symbol in table.get_symbols():
                if table is tables[0] or symbol.is_global():
                    uses |= {symbol.get_name()} if symbol.is_referenced() else set()
                    binds |= {symbol.get_name()} if symbol.is_assigned() or symbol.is_imported() else set()
        docstring = not result and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        constant = isinstance(node, ast.Assign | ast.AnnAssign) and not any(
            isinstance(part, ast.Call) for part in ast.walk(node)
        )
        spare = (
            docstring or isinstance(node, _Import) or ((constant or isinstance(node, ast.FunctionDef)) and "policy" not in uses)
        )
        if not isinstance(node, ast.FunctionDef) and "policy" in uses:
            binds = set()  # an example of its use
        elif not isinstance(node, _Definition):
            binds |= set(re.findall(r"^[ \t]*(\w+)[.\[]", text, re.M)) - imported  # W[0, 1] = 2.0 and W.fill(2.0) change W
        result.append(_Statement(text, binds, uses, spare))
    return result


def _assembled(codes: list[_Code], chosen: int) -> str:
    """Returns a code with the helpers that it lacks from the others; without its examples of use, if it has any."""
    # The last one counts first: the chosen code, then the nearest before it.
    modules = [_statements(code) for code in [*codes[chosen + 1 :], *codes[: chosen + 1]]]
    binders = [defaultdict(list) for _ in modules]
    for index, module in enumerate(modules):
        for position, statement in enumerate(module):
            for name in statement.binds:
                binders[index][name].append((index, position))
    kept, seen, missing = set(), set(), ["policy"]
    while missing:
        if (name := missing.pop()) not in seen:
            seen.add(name)
            sources = binders if not hasattr(builtins, name) else binders[-1:]
            places = next((found[name] for found in reversed(sources) if name in found), [])
            kept |= set(places)
            missing += [used for index, position in places for used in modules[index][position].uses]
    last = len(modules) - 1
    examples = any(not statement.spare and (last, i) not in kept for i, statement in enumerate(modules[last]))
    if not examples and all(index == last for index, _ in kept):
        return codes[chosen].source.removesuffix("\n") + "\n"
    helpers = [modules[index][position].text for index, position in sorted(kept) if index < last]
    own = [modules[index][position].text for index, position in sorted(kept) if index == last]
    return "\n\n\n".join(part for texts in (helpers, own) if (part := "\n".join(texts).strip("\n"))) + "\n"
