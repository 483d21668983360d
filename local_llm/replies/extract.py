"""Takes the Python policy, or the critical function, out of a language model's reply, without executing any of it.

A well-formed reply, one fenced block that defines ``policy`` and nothing that it could do without, gives the text of that
block byte for byte. Any other reply is mended as little as it takes, in time about linear in its length.
"""

import ast
import builtins
import contextlib
import hashlib
import itertools
import re
import symtable
import warnings
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from llmwrappers.containment.lint import MODULES
from local_llm.replies.reply_text import (
    CUT_OFF,
    LIKE_CODE,
    MOST_BLOCKS,
    SEND,
    Block,
    BrokenCode,
    Code,
    ExtractionError,
    NoCode,
    Truncated,
    answer_of,
    blocks_of,
    mended,
    parse,
)

SEND_CRITICAL = SEND.replace("policy(obs)", "critical(obs)")
_IMPORTS = {"np": "import numpy as np", "numpy": "import numpy", "math": "import math"}  # what replies forget most
_DEFINES_POLICY = re.compile(r"\bdef[ \t]+policy\b|^[ \t]*policy[ \t]*=|\bclass[ \t]+Policy\b", re.M)


class NoPolicy(ExtractionError):
    """Says that the code defines neither a function ``policy`` of one argument nor a class ``Policy``, and what it defines."""


class _Statement(NamedTuple):
    """A statement of a module: its lines with the comments above it, and the module's names that it binds and uses."""

    text: str
    binds: set[str]
    uses: set[str]
    spare: bool  # harmless where policy does not need it: a definition or an import, not an example of use


def extract_policy(reply: str, finish_reason: str = "stop") -> str:
    """Returns the Python source in a reply that defines a function ``policy`` of one argument.

    It is the last block that does so, with the helpers it uses from other blocks and without examples of its use. The
    code may also stand without a fence, in a JSON string, or in a single function under another name. Imports of NumPy
    and math that it forgot are added, with a comment.

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
        local_llm.replies.reply_text.NoCode: Your reply contains no Python code. Reply with the complete code in exactly one ...
    """
    blocks = blocks_of(answer_of(reply))
    if len(blocks) > MOST_BLOCKS:
        raise ExtractionError(f"Your reply has {len(blocks):,} blocks; at most {MOST_BLOCKS} are read.")
    cut = finish_reason == "length" and blocks[-1].kind in ("open", "bare")
    if cut and (_DEFINES_POLICY.search(blocks.pop().text) or not blocks):
        raise Truncated(CUT_OFF.format("code"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a backslash in a docstring is no error yet
            return _with_imports(_policy_in(blocks, may_rename=not cut))
    except ExtractionError as error:
        raise Truncated(CUT_OFF.format("code")) if cut else error from None
    except (RecursionError, MemoryError, SyntaxError, ValueError) as error:
        # symtable and ast.unparse refuse some code that compiles.
        raise BrokenCode(f"Your code cannot be read ({type(error).__name__}): write it more simply.") from error


def extract_critical(reply: str, finish_reason: str = "stop") -> str:
    """Returns the Python source in a reply that defines a function ``critical``: the last block that does so.

    Raises:
        ExtractionError: there is none; its text is the message for the model

    Example:
        >>> print(extract_critical("```python\\ndef critical(obs):\\n    return obs[0] < 1, [0.5], -0.1\\n```"), end="")
        def critical(obs):
            return obs[0] < 1, [0.5], -0.1
    """
    blocks = blocks_of(answer_of(reply, "answer", SEND_CRITICAL))
    defines = re.compile(r"\bdef[ \t]+critical\b")
    if finish_reason == "length" and blocks[-1].kind in ("open", "bare"):
        raise Truncated(CUT_OFF.format("answer"), SEND_CRITICAL)
    problem = NoCode("Your reply contains no Python code that defines critical(obs).", SEND_CRITICAL)
    for block in reversed(blocks):
        if defines.search(block.text):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # a backslash in a docstring is no error yet
                    code = mended(block)
            except BrokenCode as error:
                problem = BrokenCode(str(error).removesuffix(SEND).strip(), SEND_CRITICAL)
                continue
            if any(isinstance(node, ast.FunctionDef) and node.name == "critical" for node in code.tree.body):
                return _with_imports(code.source.rstrip("\n") + "\n")
    raise problem


def _with_imports(source: str) -> str:
    """Adds the imports of NumPy and math that the code uses and forgot, and says so in it.

    Example:
        >>> print(_with_imports("def policy(obs):\\n    return np.sin(obs[:1])\\n"), end="")
        import numpy as np  # added: the reply uses np and does not import it
        def policy(obs):
            return np.sin(obs[:1])
    """
    used, bound, tables = set(), set(), [symtable.symtable(source, "<reply>", "exec")]
    for table in tables:  # which grows
        tables += table.get_children()
        for symbol in table.get_symbols():
            is_own = symbol.is_assigned() or symbol.is_imported() or symbol.is_parameter()
            (bound if is_own else used).add(symbol.get_name())
    forgotten = [name for name in _IMPORTS if name in used - bound]
    added = [f"{_IMPORTS[name]}  # added: the reply uses {name} and does not import it\n" for name in forgotten]
    lines = re.split(r"(?<=\n)", source)  # a form feed ends no line of Python's
    future = [node.end_lineno for node in ast.parse(source).body if getattr(node, "module", None) == "__future__"]
    first = future[-1] if future and added else 0  # nothing may stand before it
    return "".join([*lines[:first], *added, *lines[first:]])


def _policy_in(blocks: list[Block], may_rename: bool) -> str:
    codes, broken = [], []
    for block in blocks:
        like_code = LIKE_CODE.search(block.text)
        try:
            if like_code or block.kind != "bare":
                codes.append(mended(block))
        except BrokenCode as error:
            broken += [error] if like_code else []
    able = [index for index, code in enumerate(codes) if _called(code.tree)]
    if not able and broken:
        raise broken[-1]
    for index, code in enumerate(codes if may_rename and not able else []):
        if name := _other_name(code.tree):
            codes[index] = _renamed(code, name)
            able.append(index)
    source = _assembled(codes, able[-1]) if able else ""
    if _called(parse(source)):
        return source
    if not any(code.tree.body for code in codes):
        raise NoCode("Your reply contains no Python code.")
    found = re.findall(r"^[ \t]*((?:async def|def|class|policy[ \t]*=).{,99})", "\n".join(code.source for code in codes), re.M)
    what = "no function policy of one argument and no class Policy with a method act"
    raise NoPolicy(f"Your code defines {what}, but: {'; '.join(found[:9]) or 'nothing'}.")


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


def _called(tree: ast.Module) -> str:
    """Returns the name under which a module defines the policy: policy, Policy for a class, "" if it does not."""
    meanings = [meaning for node in tree.body if (meaning := _meaning(node))]
    if meanings and _observation(meanings[-1]):
        return "policy"
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Policy"]
    methods = [node for part in classes for node in part.body if isinstance(node, ast.FunctionDef)]
    if any(node.name in ("act", "__call__") for node in methods):
        return "Policy"
    # policy = PID(), policy = controller.act: only its run tells whether it can be called.
    return "policy" if meanings and isinstance(meanings[-1], ast.Call | ast.Attribute) else ""


def _other_name(tree: ast.Module) -> str:
    """Returns the name of the one function that can only be the policy, an empty string if there is none."""
    names = {node.name: name for node in tree.body if isinstance(node, ast.FunctionDef) and (name := _observation(node))}
    if meanings := [meaning for node in tree.body if (meaning := _meaning(node))]:
        return meanings[-1].id if isinstance(meanings[-1], ast.Name) and meanings[-1].id in names else ""
    if len(names) > 1:
        names = [name for name, argument in names.items() if re.match("ob|state|[os]$", argument)]
    return next(iter(names)) if len(names) == 1 else ""


def _renamed(code: Code, name: str) -> Code:
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
    return Code(renamed, parse(renamed))


def _statements(code: Code, called: str) -> list[_Statement]:
    """Splits a module into its statements; what uses the policy, named ``called``, is an example."""
    source, tree = code
    if any(node.col_offset for node in tree.body):  # several on a line
        source = ast.unparse(tree)
        tree = parse(source)
    lines, end, result, reach = source.split("\n"), 0, [], {}
    imported = {alias.asname or alias.name for node in tree.body if isinstance(node, _Import) for alias in node.names}
    examples = {called}  # what only an example uses: the policy, modules that no policy can import, and what needs them
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
        uses = uses.difference(*(_names(part.target) for part in ast.walk(node) if isinstance(part, ast.For)))
        docstring = not result and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        calls = any(isinstance(part, ast.Call) for part in ast.walk(node))
        defines = isinstance(node, ast.FunctionDef) or (isinstance(node, ast.Assign | ast.AnnAssign) and not calls)
        spare = docstring or isinstance(node, _Import) or (defines and called not in uses)
        is_it = isinstance(node, ast.ClassDef) and node.name == called
        is_example = bool(uses & examples) or _imports_others(node)
        if not isinstance(node, ast.FunctionDef) and not is_it and called in uses:
            binds = {called} if _sets_policy(node, called) and not uses & examples - {called} else set()
        elif not isinstance(node, _Definition | _Import) and not is_example:
            touched = _touched(node)  # W[0, 1] = 2.0, W.fill(2.0), fill(W), while sweep(W) > 0.1: and fill() change W
            binds |= touched.union(*(reach.get(name, ()) for name in touched)) - imported
            if re.search(r"\bseed\(", text) and re.search(r"\brandom\.(?!seed\b)", source):
                binds |= uses & imported  # np.random.seed(0)
        if is_example and not is_it and called not in binds:
            examples |= binds  # env = gym.make("Hopper-v5"), def test(): policy(obs)
        if isinstance(node, _Definition):
            reach[node.name] = uses.union(*(reach.get(name, ()) for name in uses))
        result.append(_Statement(text, binds, uses, spare))
    return result


def _sets_policy(node: ast.stmt, called: str) -> bool:
    """Whether a statement changes the policy: policy.t = 0, Policy.K[i] = 2.0 in a loop, setattr(policy, "t", 0), f(policy)."""
    match node:
        case ast.For(body=body):
            return all(_sets_policy(part, called) for part in body)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name())):
            return name == called  # policy = smooth(policy), unlike np.vectorize(policy)
        case ast.Assign(targets=[target, *_]) | ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            return isinstance(target, ast.Attribute | ast.Subscript) and called in _names(target)
        case ast.Expr(value=ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id=name), *_])):
            return name == called
    return False


def _imports_others(node: ast.stmt) -> bool:
    """Whether a statement imports a module that no policy can import."""
    modules = [alias.name for part in ast.walk(node) if isinstance(part, ast.Import) for alias in part.names]
    modules += [part.module or "" for part in ast.walk(node) if isinstance(part, ast.ImportFrom)]
    return any(module.split(".")[0] not in MODULES for module in modules)


def _touched(node: ast.stmt) -> set[str]:
    """The names that a statement may change: all that it uses, but none where it only prints, or assigns without a call."""
    stores = any(isinstance(part, ast.Attribute | ast.Subscript) and isinstance(part.ctx, ast.Store) for part in ast.walk(node))
    calls = any(isinstance(part, ast.Call) for part in ast.walk(node))
    prints = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "print"
    return _names(node) if stores or (calls and not prints) else set()


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _assembled(codes: list[Code], chosen: int) -> str:
    """Returns a code with the helpers that it lacks from the others; without its examples of use, if it has any."""
    # The last one counts first: the chosen code, then the nearest before it.
    called = _called(codes[chosen].tree)
    modules = [_statements(code, called) for code in [*codes[chosen + 1 :], *codes[: chosen + 1]]]
    binders = [defaultdict(list) for _ in modules]
    for index, module in enumerate(modules):
        for position, statement in enumerate(module):
            for name in statement.binds:
                binders[index][name].append((index, position))
    kept, seen, missing = set(), set(), [called]
    # It begins an episode, and nothing else in the code need name it.
    missing += [node.name for node in codes[chosen].tree.body if isinstance(node, ast.FunctionDef) and node.name == "reset"]
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


def policy_hashes(replies: Iterable[Path]) -> set[str]:
    """Returns the SHA-256 of the policy in each of these files of replies."""
    hashes = set()
    for reply in replies:
        with contextlib.suppress(ExtractionError, UnicodeDecodeError):
            hashes.add(hashlib.sha256(extract_policy(reply.read_bytes().decode()).encode()).hexdigest())
    return hashes
