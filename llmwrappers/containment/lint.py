"""lint: finds in a program's text what stops it from being a policy, and which modules it imports."""

import ast
import importlib
import importlib.util
import re
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from llmwrappers.containment.errors import PolicyRejected
from llmwrappers.containment.program import NAMES

MAX_CHARACTERS = 200_000
MODULES = (
    "numpy", "math", "scipy", "random", "collections", "dataclasses", "enum", "typing", "itertools", "functools", "heapq",
    "bisect", "statistics", "copy", "abc", "cmath", "operator", "numbers", "types", "warnings", "string", "re", "__future__",
)  # fmt: skip
"""What a policy may import; SciPy only if it is installed."""
PARTS = (
    "random", "fft", "polynomial", "ma", "linalg", "signal", "integrate", "interpolate", "optimize", "spatial", "special",
    "stats", "ndimage", "sparse", "constants", "cluster", "fftpack", "csgraph", "hierarchy", "vq", "testing", "typing", "char",
    "rec", "differentiate",
)  # fmt: skip
_PRIMA = ("scipy._lib.pyprima", "scipy._lib.pyprima.common.infos", "scipy._lib.pyprima.common.message")
LATE = {
    "COBYLA": _PRIMA,
    "fmin_cobyla": _PRIMA,
    "COBYQA": ("scipy._lib.cobyqa",),
    "logm": ("scipy.linalg._matfuncs_inv_ssq",),
    "fractional_matrix_power": ("scipy.linalg._matfuncs_inv_ssq",),
    "brute": ("multiprocessing",),
    "quad_vec": ("multiprocessing",),
    "differential_evolution": ("multiprocessing", "scipy.stats"),
    "shgo": ("multiprocessing", "scipy.stats"),
}
"""What SciPy's functions import when they are called."""


class Imports(NamedTuple):
    """The modules that a program imports: those to load before it runs, and those that are not available to it.

    The import of an absent one does not fail: the policy does not use it. The import of a failing one does: the program
    then does without it.
    """

    loaded: list[str]
    absent: list[str]
    failing: list[str]


def lint(source: str) -> Imports:
    """Returns the modules that a program imports, or raises if it cannot be a policy; does not run it.

    It refuses an import from outside ``MODULES`` only if the policy needs it: code that only a ``main`` uses may import
    anything, and so may ``try: import torch`` with ``except ImportError: torch = None``.

    Args:
        source: Python code

    Raises:
        PolicyRejected: it is not valid Python, defines no policy, or needs a module that is not available
        TypeError: ``source`` is not a str

    Example:
        >>> lint("import gymnasium, math\\ndef policy(obs):\\n    return math.sin(obs[0])")
        Imports(loaded=['math'], absent=['gymnasium'], failing=[])
        >>> lint("import os\\ndef policy(obs):\\n    return os.getpid()")
        Traceback (most recent call last):
        ...
        llmwrappers.containment.errors.PolicyRejected: line 1: import of os, which a policy cannot use; it may import numpy, math, scipy, random, collections, dataclasses, enum, typing, itertools, functools, heapq, bisect, statistics, copy, abc, cmath, operator, numbers, types, warnings, string, re
    """  # noqa: E501
    tree = syntax_tree(source)
    definitions: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in bound_names(statement):
            definitions.setdefault(name, []).append(statement)
    if not any(name in definitions for name in NAMES):
        raise PolicyRejected(None, "it defines neither policy(obs) nor a class Policy at its top level")
    loaded, absent, optional = {}, {}, set(_optional(tree))
    for statement in (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)):
        for module, bound in _imports(statement):
            there = module.split(".")[0] in MODULES and importlib.util.find_spec(module.split(".")[0]) is not None
            (loaded if there else absent).setdefault(module, []).append((statement, bound))
        if isinstance(statement, ast.ImportFrom) and (root := statement.module) in loaded and root in ("numpy", "scipy"):
            names = [name.name for name in statement.names]  # which may be modules
            names = importlib.import_module(root).__all__ if names == ["*"] else names
            loaded |= {f"{root}.{name}": [] for name in names if importlib.util.find_spec(f"{root}.{name}")}
    # NumPy and SciPy load these parts at first use, when the lock already forbids it.
    roots = [root for root in ("numpy", "scipy", "scipy.sparse", "scipy.cluster") if root.split(".")[0] in loaded]
    words = {*re.findall(r"\w+", source)}
    loaded |= {f"{root}.{part}": [] for root in roots for part in sorted({*PARTS} & words)}
    if any(module.split(".")[0] == "scipy" for module in loaded):
        loaded |= {module: [] for word in sorted({*LATE} & words) for module in LATE[word]}
    used = _needed(tree, definitions)
    for module, places in absent.items():
        for statement, bound in places:
            if bound in used and statement not in optional:
                known = ", ".join(name for name in MODULES if name != "__future__")
                why = f"which a policy cannot use; it may import {known}"
                if (root := module.split(".")[0]) in MODULES:
                    why = f"which is not installed: pip install {root}"
                raise PolicyRejected(statement.lineno, f"import of {module}, {why}")
    failing = [module for module, places in absent.items() if any(statement in optional for statement, _ in places)]
    return Imports([*loaded], [module for module in absent if module not in failing], failing)


def syntax_tree(source: str) -> ast.Module:
    """Returns the syntax tree of a program, or raises with the line that is not valid Python."""
    if not isinstance(source, str):
        raise TypeError(f"source must be a str of Python code, got {source!r} of type {type(source).__name__}")
    if len(source) > MAX_CHARACTERS:
        way_out = "'trusted:FILE.py' plays code of your own of any length"
        raise PolicyRejected(None, f"{len(source)} characters of code; a locked process takes {MAX_CHARACTERS}. {way_out}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of "\\d" in a docstring
            tree = ast.parse(source.removeprefix("\ufeff"))
            compile(tree, "<policy>", "exec", dont_inherit=True)  # ast.parse accepts a return outside a function
            return tree
    except SyntaxError as error:
        raise PolicyRejected(error.lineno, f"SyntaxError: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise PolicyRejected(None, f"{type(error).__name__}: the code cannot be parsed") from None


def bound_names(statement: ast.stmt) -> Iterator[str]:
    """Yields the names that a top-level statement binds in the module, outside a ``main`` guard."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif not _is_main_guard(statement):
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name
            elif isinstance(node, ast.Import | ast.ImportFrom):
                yield from (bound for _, bound in _imports(node))


def _is_main_guard(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and any(
        isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(statement.test)
    )


def _imports(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yields the modules that a statement imports, each with the name that it binds."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            yield alias.name, alias.asname or alias.name.split(".")[0]
    else:
        for alias in statement.names:
            yield "." * statement.level + (statement.module or ""), alias.asname or alias.name


def _optional(tree: ast.Module) -> Iterator[ast.AST]:
    """Yields what is in a ``try`` whose ``except ImportError`` goes on, unless it is to bring the policy itself."""
    errors = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
    for attempt in (node for node in ast.walk(tree) if isinstance(node, ast.Try)):
        tried = {name for statement in attempt.body for name in bound_names(statement)}
        for handler in attempt.handlers:
            caught = {part.id for part in ast.walk(handler.type) if isinstance(part, ast.Name)} if handler.type else errors
            parts = [part for statement in handler.body for part in ast.walk(statement)]
            bound = {name for statement in handler.body for name in bound_names(statement)}
            if caught & errors and not any(map(_ends, parts)) and not (tried - bound) & {*NAMES}:
                yield from (part for statement in attempt.body for part in ast.walk(statement))


def _ends(part: ast.AST) -> bool:
    """Whether a program goes no further here."""
    name = getattr(part.func, "id", getattr(part.func, "attr", "")) if isinstance(part, ast.Call) else ""
    return isinstance(part, ast.Raise) or name in ("exit", "quit", "_exit")


def _needed(tree: ast.Module, definitions: dict[str, list[ast.stmt]]) -> set[str]:
    """Returns the names that are read when the module is executed and when its policy is called."""
    plain = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    nodes: list[ast.AST] = [s for s in tree.body if not isinstance(s, plain) and not _is_main_guard(s)]
    used, waiting = set(), [*NAMES]
    while nodes or waiting:
        waiting += [name for node in nodes for name in _read(node)]
        nodes = []
        while waiting:
            if (name := waiting.pop()) not in used:
                used.add(name)
                nodes += definitions.get(name, [])
    return used


def _read(statement: ast.AST) -> Iterator[str]:
    """Yields the names that a statement reads from the module: not those in annotations, nor what a function binds itself."""
    waiting: list[tuple[ast.AST, set[str]]] = [(statement, set())]
    while waiting:
        node, local = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in local:
            yield node.id
        inner = local
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inner = local | _own_names(node)
        for field, value in ast.iter_fields(node):
            if field not in ("annotation", "returns"):
                parts = value if isinstance(value, list) else [value]
                waiting += [(part, inner if field == "body" else local) for part in parts if isinstance(part, ast.AST)]


def _own_names(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """Returns the parameters of a function and what it assigns; not what it imports, which lint judges."""
    names = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    not_own: set[str] = set()
    waiting: list[ast.AST] = [function.body] if isinstance(function, ast.Lambda) else [*function.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Global):
            not_own |= {*node.names}
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return names - not_own
