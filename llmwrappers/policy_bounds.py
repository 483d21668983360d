"""Bounds what a checked program may cost: integers below 2**62, values of at most 10 000 elements, work that ends.

Tests for that at every operator would cost more than a policy itself. So ``_Kinds`` infers what each expression can be, and
``_Bounds`` replaces an operator, a call or an index by its tested form (a method of ``Meter``) only where no operand is surely
a float or a flat array: those can grow neither in digits nor in size, and a controller is made of little else.
"""

import ast
import math
import operator
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from llmwrappers.policy_language import (
    BUILTINS,
    COMPARISONS,
    CONVERSIONS,
    CREATIONS,
    DTYPES,
    ELEMENTWISE,
    FLAT_METHODS,
    FUNCTIONS,
    JOINS,
    MATH,
    MAX_INTEGER,
    MAX_SIZE,
    NUMPY,
    OPERATORS,
    PRODUCTS,
    REDUCING_METHODS,
    REDUCTIONS,
    ROUNDINGS,
    SLOW,
    SMALL,
    STRINGS,
    TESTS,
    PolicyFault,
    PolicyRejected,
    is_dtype,
    parse_policy,
)

MAX_NESTING = 8
MAX_WORK = 100_000
"""Units of work in one call: about one for each node of the program that runs inside a loop or a helper function."""
MAX_UNCOUNTED_WORK = 1000
"""A helper function with more work than this counts it at each call; that of a smaller one is part of its caller's."""
ELEMENTS_A_UNIT = 100
MAX_LIGHT = 256
"""An array of more elements makes all later work of the same call count more, in proportion."""


def compile_policy(source: str, flat: bool = True) -> tuple[types.CodeType, frozenset[str]]:
    """Returns the code of a checked program, with its tests in place, and the names that it uses.

    ``flat`` says that observations will be vectors, which spares most of the tests.

    Raises:
        PolicyRejected: the program is not written in the language of policies
    """
    try:
        tree = parse_policy(source)
        tree = ast.fix_missing_locations(_Bounds(_Kinds(tree, flat)).visit(tree))
        names = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd code, which is no business of whoever plays it
            return compile(tree, "<policy>", "exec", dont_inherit=True), names
    except PolicyRejected:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise PolicyRejected(getattr(error, "lineno", None), f"{type(error).__name__}: {error}") from None


class BoundedPolicy:
    """Plays a checked program in this process: one observation in, one action of the right shape and finite out."""

    def __init__(self, source: str, action_shape: tuple[int, ...] | None):
        self.source, self.action_shape = source, action_shape
        self._flat, self._general = _run_top_level(*compile_policy(source)), None

    def __call__(self, observation: np.ndarray | dict[str, Any]) -> np.ndarray:
        """Returns the action (float64) at an observation of float64 arrays, which is the policy's to write into.

        Raises:
            PolicyFault: the program raised, worked for too long, or returned something else than a finite action
        """
        if type(observation) is np.ndarray and observation.ndim == 1:
            policy, meter = self._flat
            meter.reset(observation.size)
        else:
            self._general = self._general or _run_top_level(*compile_policy(self.source, flat=False))
            policy, meter = self._general
            meter.reset(max(map(np.size, observation.values())) if isinstance(observation, dict) else observation.size)
        try:
            action = policy(observation)
            if type(action) is not np.ndarray:
                size_of(action)
            action = np.asarray(action)
            if action.dtype.kind not in "fiub":
                raise PolicyFault("the action is made of something else than real numbers")
            action = action.astype(np.float64)
        except Exception as error:
            raise PolicyFault(_describe(error)) from error
        if action.shape != self.action_shape and self.action_shape is not None:
            raise PolicyFault(f"the policy returned shape {action.shape}, not {self.action_shape}")
        # A sum overflows where no summand does: then it is looked at more closely.
        numbers = action.tolist() if action.ndim == 1 else action.ravel().tolist()
        if not math.isfinite(sum(numbers)) and not np.isfinite(action).all():
            raise PolicyFault(f"the policy returned {action}")
        return action


def _run_top_level(code: types.CodeType, names: Iterable[str]) -> tuple[Callable, "Meter"]:
    """Runs the top level of a compiled program; returns its ``policy`` and the meter to reset before each call."""
    meter = Meter()
    known = {**FUNCTIONS, **BUILTINS, **meter.tested_forms(), **{f"dtype {name}": dtype for name, dtype in DTYPES.items()}}
    namespace: dict[str, Any] = {
        "__builtins__": {"__import__": _import_numpy},
        **{name: known[name] for name in names if name in known},
    }
    try:
        exec(code, namespace)
        for name in [name for name in namespace if name != "__builtins__" and name not in known]:
            if not isinstance(namespace[name], types.FunctionType):
                size_of(namespace[name])
                _freeze(namespace[name], meter)
    except Exception as error:
        raise PolicyRejected(_line_of(error), f"its top level fails: {type(error).__name__}: {error}") from None
    meter.base = meter.weight
    return namespace["policy"], meter


def _import_numpy(name: str, *arguments: Any) -> Any:
    """Imports parts of NumPy, as NumPy's C code does in the name of the frame that called it; no program can name this."""
    if name.split(".")[0] != "numpy":
        raise ImportError(f"import of {name!r}")
    return __import__(name, *arguments)


def _freeze(value: Any, meter: "Meter") -> None:
    """Makes arrays, lists and dicts read-only that live on between calls."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    elif type(value) in (list, tuple, dict):
        meter.frozen.add(id(value))
        for item in value.values() if type(value) is dict else value:
            _freeze(item, meter)


def _describe(error: BaseException) -> str:
    """Says in one line what a policy raised, and in which line of its program."""
    line, text = _line_of(error), str(error).split("\n")[0][:200]
    name = "" if isinstance(error, PolicyFault) else f"{type(error).__name__}: "
    return f"{'' if line is None else f'line {line}: '}{name}{text}"


def _line_of(error: BaseException) -> int | None:
    line, traceback = None, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == "<policy>":
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


# ------------------------------------------------------------------------------------------------------- what it can be

# The kinds of a value. An integer is always below MAX_INTEGER, because whatever could exceed it is tested.
#   scalar   a float or a NumPy scalar        integer  an int, but no bool        number  one of the two, or a bool
#   flat     a scalar, or an array of at most one dimension                       plain   a number or a flat
#   any      everything else                  slice    a slice, as an index
# ("tuple", kind, ...) is a tuple of such values. ("list", site) and ("dict", site) hold values of one kind, that of their site:
# the place in the program where they are made, or several places once one variable may hold lists of them all. So a value
# stored through one name is seen through all others. None is the kind of what is not known to have a value yet.
SCALAR, INTEGER, NUMBER, FLAT, PLAIN, ANY, SLICE = "scalar", "integer", "number", "flat", "plain", "any", "slice"
Kind = Any
NUMBERS = (SCALAR, INTEGER, NUMBER)
PLAINS = (*NUMBERS, FLAT, PLAIN)
_ABOVE = {
    SCALAR: {SCALAR, NUMBER, FLAT, PLAIN, ANY},
    INTEGER: {INTEGER, NUMBER, PLAIN, ANY},
    NUMBER: {NUMBER, PLAIN, ANY},
    FLAT: {FLAT, PLAIN, ANY},
    PLAIN: {PLAIN, ANY},
    ANY: {ANY},
    SLICE: {ANY},
}
MAX_DEPTH_OF_KINDS = 4
MAX_WIDTH = 64
# Given numbers alone, these make arrays all the same.
_ARRAYS = frozenset(f"np.{name}" for name in ("cumsum", "cumprod", "diff", "flip", "roll", "cross", "copy"))


def _depth(kind: Kind) -> int:
    return 1 + max(map(_depth, kind[1:]), default=0) if isinstance(kind, tuple) else 0


def _width(kind: Kind) -> int:
    return sum(map(_width, kind[1:])) if isinstance(kind, tuple) and kind[0] == "tuple" else 1


def _own(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function; of the functions inside it only the definitions."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, ast.FunctionDef):
            todo.extend(ast.iter_child_nodes(node))


def _may_fall_through(body: list[ast.stmt]) -> bool:
    """Whether a function with this body may end without a return, and so give None."""
    match body[-1]:
        case ast.Return():
            return False
        case ast.If(body=then, orelse=otherwise):
            return not otherwise or _may_fall_through(then) or _may_fall_through(otherwise)
    return True


class _Kinds:
    """Infers the kind of every expression: the least fixed point over all assignments, calls and returns."""

    def __init__(self, tree: ast.Module, flat: bool):
        self.functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        self.parents: dict[str, str] = {}
        self.locals: dict[str, set[str]] = {}
        self.variables: dict[tuple[str, str], Kind] = {}  # (function, name)
        self.returns: dict[str, Kind] = {}
        self.sites: list[Kind] = []  # what the lists and dicts made there hold
        self.merged: list[int] = []  # a site, or the one that it has become part of
        self.site_of: dict[ast.AST, int] = {}
        self.of: dict[ast.expr, Kind] = {}
        for name, node in self.functions.items():
            self._declare(name, node)
        arguments = self.functions["policy"].args
        self._widen("policy", (*arguments.posonlyargs, *arguments.args)[0].arg, FLAT if flat else ANY)
        for _ in range(60):
            before = (dict(self.variables), dict(self.returns), list(self.sites), list(self.merged))
            self._body("", tree.body)
            if before == (self.variables, self.returns, self.sites, self.merged) and not self._settle():
                return
        raise PolicyRejected(None, "the code is too intricate to be checked")

    def _declare(self, name: str, node: ast.FunctionDef) -> None:
        self.returns[name] = ANY if _may_fall_through(node.body) else None
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        self.locals[name] = {argument.arg for argument in (*positional, *arguments.kwonlyargs)}
        for inner in _own(node):
            if isinstance(inner, ast.FunctionDef):
                self.parents[inner.name] = name
            elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                self.locals[name].add(inner.id)
        defaults: list[tuple[ast.arg, ast.expr | None]] = [
            *zip(reversed(positional), reversed(arguments.defaults), strict=False)
        ]
        defaults += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        for argument, default in defaults:
            if default is not None:
                self._widen(name, argument.arg, self._constant(default))

    @staticmethod
    def _constant(node: ast.expr) -> Kind:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return NUMBER
        value = node.operand if isinstance(node, ast.UnaryOp) else node
        assert isinstance(value, ast.Constant)
        return {float: SCALAR, int: INTEGER, bool: NUMBER}.get(type(value.value), ANY)

    def _settle(self) -> bool:
        """Gives ANY to what nothing was seen to reach, such as the elements of an empty list; returns whether there was any."""
        unknown = None in self.sites or None in self.variables.values() or None in self.returns.values()
        self.sites = [ANY if kind is None else kind for kind in self.sites]
        self.variables = {name: ANY if kind is None else kind for name, kind in self.variables.items()}
        self.returns = {name: ANY if kind is None else kind for name, kind in self.returns.items()}
        return unknown

    # Kinds and sites

    def join(self, a: Kind, b: Kind) -> Kind:
        """The least kind that holds the values of both."""
        if a is None or a == b:
            return b
        if b is None:
            return a
        if isinstance(a, str) and isinstance(b, str):
            return next(kind for kind in (SCALAR, INTEGER, NUMBER, FLAT, PLAIN, ANY) if kind in _ABOVE[a] & _ABOVE[b])
        if a[0] == b[0] == "tuple" and len(a) == len(b):
            return ("tuple", *map(self.join, a[1:], b[1:]))
        if a[0] == b[0] and a[0] in ("list", "dict"):
            first, second = self._site(a), self._site(b)
            if first != second:
                self.merged[second] = first
                self.sites[first] = self.join(self.sites[first], self.sites[second])
            return (a[0], first)
        return self._anything(a, b)

    def _join_all(self, kinds: Iterable[Kind]) -> Kind:
        result = None
        for kind in kinds:
            result = self.join(result, kind)
        return result

    def _anything(self, *kinds: Kind) -> Kind:
        """ANY, for a value that may give access to others: anything may then be stored into their lists."""
        for kind in kinds:
            if isinstance(kind, tuple) and kind[0] == "tuple":
                self._anything(*kind[1:])
            elif isinstance(kind, tuple):
                site = self._site(kind)
                inner, self.sites[site] = self.sites[site], ANY
                if inner != ANY:
                    self._anything(inner)
        return ANY

    def _shallow(self, kind: Kind) -> Kind:
        return kind if _depth(kind) <= MAX_DEPTH_OF_KINDS else self._anything(kind)

    def _site(self, kind: Kind) -> int:
        site = kind[1]
        while self.merged[site] != site:
            site = self.merged[site]
        return site

    def _made(self, tag: str, node: ast.AST, inner: Kind) -> Kind:
        """The kind of a list or dict that a node makes."""
        if node not in self.site_of:
            self.site_of[node] = len(self.sites)
            self.merged.append(len(self.sites))
            self.sites.append(None)
        kind = (tag, self.site_of[node])
        self._store(kind, inner)
        return (tag, self._site(kind))

    def _store(self, container: Kind, inner: Kind) -> None:
        """Notes that a value is put into a list or a dict."""
        if isinstance(container, tuple) and container[0] in ("list", "dict"):
            site = self._site(container)
            self.sites[site] = self._shallow(self.join(self.sites[site], inner))
        elif container is not None:
            self._anything(inner)

    def element(self, kind: Kind) -> Kind:
        """What iteration over a value of this kind gives."""
        if isinstance(kind, tuple):
            return (
                self._join_all(kind[1:]) if kind[0] == "tuple" else self.sites[self._site(kind)] if kind[0] == "list" else ANY
            )
        return {FLAT: SCALAR, PLAIN: SCALAR, SCALAR: SCALAR, None: None}.get(kind, ANY)

    def is_row(self, kind: Kind) -> bool:
        """Whether a list or a tuple holds nothing but numbers."""
        return isinstance(kind, tuple) and kind[0] in ("list", "tuple") and self.element(kind) in NUMBERS

    def is_shallow(self, kind: Kind) -> bool:
        """Whether a value is plain, or holds nothing but what is."""
        if isinstance(kind, tuple):
            return all(inner in PLAINS for inner in (kind[1:] if kind[0] == "tuple" else (self.sites[self._site(kind)],)))
        return kind in PLAINS

    def _is_known(self, kind: Kind) -> bool:
        if isinstance(kind, tuple):
            return all(map(self._is_known, kind[1:])) if kind[0] == "tuple" else self.sites[self._site(kind)] is not None
        return kind is not None

    def _widen(self, function: str, name: str, kind: Kind) -> None:
        self.variables[function, name] = self._shallow(self.join(self.variables.get((function, name)), kind))

    def _lookup(self, function: str, name: str) -> Kind:
        while function and name not in self.locals[function]:
            function = self.parents.get(function, "")
        return self.variables.get((function, name))

    # Statements

    def _body(self, function: str, body: list[ast.stmt]) -> None:
        for node in body:
            match node:
                case ast.FunctionDef(name=name):
                    self._body(name, node.body)
                case ast.Assign(targets=targets, value=value):
                    kind = self._kind(function, value)
                    for target in targets:
                        self._assign(function, target, kind)
                case ast.AugAssign(target=target, op=op, value=value):
                    left, right = self._kind(function, target), self._kind(function, value)
                    self._assign(function, target, self._operation(op, left, right))
                    if left not in (None, *PLAINS):
                        self._store(left, self.element(right))

                case ast.Return(value=value):
                    kind = ANY if value is None else self._kind(function, value)
                    self.returns[function] = self._shallow(self.join(self.returns[function], kind))
                case ast.For(target=target, iter=iterable):
                    self._assign(function, target, self.element(self._kind(function, iterable)))
                    self._body(function, [*node.body, *node.orelse])
                case ast.If(test=test):
                    self._kind(function, test)
                    self._body(function, [*node.body, *node.orelse])
                case ast.Expr(value=value) | ast.Assert(test=value):
                    self._kind(function, value)

    def _assign(self, function: str, target: ast.expr, kind: Kind) -> None:
        match target:
            case ast.Name(id=name):
                self._widen(function, name, kind)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                exact = isinstance(kind, tuple) and kind[0] == "tuple" and len(kind) == len(targets) + 1
                exact = exact and not any(isinstance(inner, ast.Starred) for inner in targets)
                for inner, part in zip(targets, kind[1:] if exact else [self.element(kind)] * len(targets), strict=True):
                    self._assign(function, inner, part)
            case ast.Starred(value=value):
                self._assign(function, value, self._made("list", target, kind))
            case ast.Subscript(value=value, slice=index):
                self._kind(function, index)
                container = self._kind(function, value)
                if container not in (None, *PLAINS):
                    self._store(container, self.element(kind) if isinstance(index, ast.Slice) else kind)

    # Expressions

    def _kind(self, function: str, node: ast.expr) -> Kind:
        kind = self.of[node] = self._shallow(self._infer(function, node))
        return kind

    def _infer(self, function: str, node: ast.expr) -> Kind:
        def of(child: ast.expr) -> Kind:
            return self._kind(function, child)

        match node:
            case ast.Constant():
                return self._constant(node)
            case ast.Name(id=name):
                return ANY if is_dtype(node) else self._lookup(function, name)
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(op, of(left), of(right))
            case ast.UnaryOp(op=op, operand=operand):
                kind = of(operand)
                return NUMBER if isinstance(op, ast.Not) else kind if kind in (None, *PLAINS) else ANY
            case ast.BoolOp(values=values):
                return self._join_all([of(value) for value in values])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                of(test)
                return self.join(of(body), of(orelse))
            case ast.Compare(left=left, comparators=comparators):
                kinds = [of(operand) for operand in (left, *comparators)]
                if None in kinds:
                    return None
                return (
                    NUMBER
                    if all(kind in NUMBERS for kind in kinds)
                    else PLAIN
                    if all(kind in PLAINS for kind in kinds)
                    else ANY
                )
            case ast.Tuple(elts=elements):
                kinds = [of(element) for element in elements]
                starred = any(isinstance(element, ast.Starred) for element in elements)
                if starred or len(kinds) > MAX_WIDTH or sum(map(_width, kinds)) > MAX_WIDTH:
                    return self._made("list", node, self._join_all(kinds))
                return ("tuple", *kinds)
            case ast.List(elts=elements):
                return self._made("list", node, self._join_all([of(element) for element in elements]))
            case ast.Dict(values=values):
                return self._made("dict", node, self._join_all([of(value) for value in values]))
            case ast.Starred(value=value):
                return self.element(of(value))
            case ast.ListComp(elt=element, generators=generators) | ast.GeneratorExp(elt=element, generators=generators):
                for generator in generators:
                    self._assign(function, generator.target, self.element(of(generator.iter)))
                    for test in generator.ifs:
                        of(test)
                return self._made("list", node, of(element))
            case ast.Attribute(value=value, attr=attribute):
                kind = of(value)
                return INTEGER if attribute in ("size", "ndim") else kind if kind in PLAINS and attribute != "shape" else ANY
            case ast.Slice(lower=lower, upper=upper, step=step):
                for bound in (lower, upper, step):
                    if bound is not None:
                        of(bound)
                return SLICE
            case ast.Subscript(value=value, slice=index):
                return self._subscript(of(value), of(index), index)
            case ast.Call(func=ast.Attribute(value=value, attr=method), args=arguments, keywords=keywords):
                given = [*arguments, *(keyword.value for keyword in keywords)]
                given = [of(argument) for argument in given if not is_dtype(argument)]
                return self._method(method, of(value), given, node)
            case ast.Call():
                return self._call(function, node)
        raise AssertionError(f"no kind for {ast.dump(node)}")

    def _subscript(self, kind: Kind, index: Kind, node: ast.expr) -> Kind:
        if kind is None or index is None:
            return None
        match kind:
            case ("tuple", *kinds):
                if isinstance(node, ast.Constant) and type(node.value) is int and -len(kinds) <= node.value < len(kinds):
                    return kinds[node.value]
                return self.element(kind) if index in NUMBERS else self._anything(kind)
            case ("list", _):
                return self.element(kind) if index in NUMBERS else kind if index == SLICE else self._anything(kind)
            case ("dict", _):
                return self.sites[self._site(kind)]
        if kind in (FLAT, PLAIN, SCALAR):
            # Sound because an index that could be a truth value, and so add a dimension, is tested.
            if index in NUMBERS:
                return SCALAR
            if index == SLICE or index in PLAINS or (index[0] == "list" and self.element(index) in NUMBERS):
                return FLAT
        return ANY

    def _operation(self, op: ast.operator, left: Kind, right: Kind) -> Kind:
        if not (self._is_known(left) and self._is_known(right)):
            return None
        if left in NUMBERS and right in NUMBERS:
            if SCALAR in (left, right) or isinstance(op, ast.Div):
                return SCALAR
            return NUMBER if isinstance(op, ast.Pow) or NUMBER in (left, right) else INTEGER
        if left in PLAINS and right in PLAINS:
            return FLAT if FLAT in (left, right) or SCALAR in (left, right) else PLAIN
        if left[0] == right[0] == "list" and isinstance(op, ast.Add):
            return self.join(left, right)
        if left[0] == "list" and right in (INTEGER, NUMBER) and isinstance(op, ast.Mult):
            return left
        return self._anything(left, right)

    def _method(self, method: str, kind: Kind, given: list[Kind], node: ast.Call) -> Kind:
        if method in ("append", "extend", "insert"):
            for inner in given:
                self._store(kind, self.element(inner) if method == "extend" else inner)
            return ANY
        if not all(map(self._is_known, (kind, *given))):
            return None
        if kind in PLAINS:  # a Python number has none of these methods
            if method in REDUCING_METHODS and not given:
                return SCALAR
            if method in FLAT_METHODS | REDUCING_METHODS and all(inner in PLAINS for inner in given):
                return FLAT
            if method == "item":
                return NUMBER
            if method == "tolist" and kind == FLAT:
                return self._made("list", node, NUMBER)
        if isinstance(kind, tuple) and kind[0] == "dict":
            inner = self.sites[self._site(kind)]
            if method == "get":
                return self._join_all((inner, *given[1:], ANY if len(given) < 2 else None))
            if method in ("values", "items"):
                return self._made("list", node, inner if method == "values" else ("tuple", ANY, inner))
        if method in ("ravel", "flatten"):
            return FLAT
        return kind if method == "copy" else self._anything(kind, *given)

    def _call(self, function: str, node: ast.Call) -> Kind:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name == "map" and node.args and isinstance(node.args[0], ast.Name):
            self._anything(*[self._kind(function, argument) for argument in node.args[1:]])
            if callee := self.functions.get(node.args[0].id):
                for parameter in (*callee.args.posonlyargs, *callee.args.args):
                    self._widen(callee.name, parameter.arg, ANY)
                self._anything(self.returns[callee.name])
            return self._made("list", node, SCALAR if node.args[0].id == "float" else ANY)
        kinds = [self._kind(function, argument) for argument in node.args]
        named = {keyword.arg: self._kind(function, keyword.value) for keyword in node.keywords}
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        if callee := self.functions.get(name):
            parameters = [parameter.arg for parameter in (*callee.args.posonlyargs, *callee.args.args)]
            # Too many, or unknown, arguments raise at run time.
            if starred:
                kinds = [self._anything(*kinds)] * len(parameters)
            given = [*zip(parameters, kinds, strict=False)]
            given += [(key, kind) for key, kind in named.items() if key is not None]
            for parameter, kind in given:
                self._widen(name, parameter, kind)
            return self.returns[name]
        if not all(map(self._is_known, (*kinds, *named.values()))):
            return None
        if starred and name not in MATH:
            return self._anything(*kinds)
        kind = self._library_call(name, kinds, named, node)
        # NumPy gives arrays, which hold no lists.
        return self._anything(*kinds, *named.values()) if kind == ANY and name not in NUMPY else kind

    def _library_call(self, name: str, kinds: list[Kind], named: dict[str | None, Kind], node: ast.Call) -> Kind:
        given = [*kinds, *(kind for key, kind in named.items() if key != "dtype")]
        first = kinds[0] if kinds else ANY
        plain, numbers = all(kind in PLAINS for kind in given), all(kind in NUMBERS for kind in given)
        if name in NUMPY and not plain:  # which makes an array of a list
            plain = all(kind in PLAINS or self.is_row(kind) for kind in given)
        if name in MATH or name == "float":
            return SCALAR
        if name in ROUNDINGS or name in ("int", "len"):
            return INTEGER
        if name in TESTS or name in ("bool", "any", "all"):
            return NUMBER
        if name == "abs":
            return first if plain else ANY
        if name == "round":
            return NUMBER if numbers else PLAIN if plain else ANY
        if name in ("min", "max"):
            return self.element(first) if len(given) == 1 else self._join_all(given) if plain else self._anything(*given)
        if name == "sum":
            return NUMBER if len(given) == 1 and self.element(first) in NUMBERS else ANY
        if name == "range":
            return self._made("list", node, INTEGER)
        if name == "dict" and not kinds:
            return self._made("dict", node, self._join_all(named.values()))
        if name in ("list", "tuple", "sorted", "reversed") and kinds:
            return self._made("list", node, self.element(first))
        if name == "enumerate" and kinds:
            return self._made("list", node, ("tuple", INTEGER, self.element(first)))
        if name == "zip" and kinds:
            return self._made("list", node, ("tuple", *map(self.element, kinds)))
        if name in BUILTINS:
            return self._anything(*given)
        if name in ELEMENTWISE and (name != "np.where" or len(kinds) == 3):
            return SCALAR if numbers and name not in _ARRAYS else FLAT if plain else ANY
        if name in REDUCTIONS:
            return SCALAR if len(given) == 1 else FLAT if plain else ANY
        if name in PRODUCTS:
            return FLAT if plain else ANY
        if name in CONVERSIONS:
            return FLAT if name == "np.ravel" or first in PLAINS or self.is_row(first) else ANY
        if name in CREATIONS:
            return FLAT if kinds[:1] and first in NUMBERS and (name != "np.linspace" or numbers) else ANY
        if name in JOINS and not named:
            pieces = [self.element(kind) if isinstance(kind, tuple) else kind for kind in kinds]
            vector = name not in ("np.tile", "np.repeat") or (first in PLAINS and kinds[1:2] != [] and kinds[1] in NUMBERS)
            return FLAT if vector and all(kind in PLAINS for kind in pieces) else ANY
        return ANY


# ---------------------------------------------------------------------------------------------------- bounds at run time


class _Bounds(ast.NodeTransformer):
    """Replaces what could work without end by its tested form, where the kinds do not rule that out."""

    def __init__(self, kinds: _Kinds):
        self.kinds = kinds
        # Before anything is replaced, because what is replaced has more nodes.
        self.work: dict[str, int] = {}
        for name, node in kinds.functions.items():
            self.work[name] = self._work(node)
        calls = (node for function in kinds.functions.values() for node in ast.walk(function) if isinstance(node, ast.Call))
        calls_of_map = (node for node in calls if isinstance(node.func, ast.Name) and node.func.id == "map")
        self.mapped = {argument.id for node in calls_of_map for argument in node.args if isinstance(argument, ast.Name)}

    def _of(self, node: ast.expr) -> Kind:
        return self.kinds.of.get(node, ANY)

    @staticmethod
    def _tested(name: str, node: ast.AST, *arguments: ast.expr, keywords: Iterable[ast.keyword] = ()) -> ast.Call:
        call = ast.Call(ast.Name(f"tested {name}", ast.Load()), list(arguments), list(keywords))
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def _safe(self, left: ast.expr, op: ast.operator, right: ast.expr) -> bool:
        """Whether neither digits nor sizes can grow in an operation.

        With a float or a flat array among two plain operands they cannot. Nor, in any number of steps that there is time
        for, when something small is added to an integer.
        """
        kinds = (self._of(left), self._of(right))
        if not all(kind in PLAINS for kind in kinds):
            return False
        if isinstance(op, ast.Mod | ast.FloorDiv) and not all(kind in NUMBERS for kind in kinds):
            return False  # slow, bit by bit, for numbers far apart
        counting = isinstance(op, ast.Add | ast.Sub) and any(
            isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 2**32 for node in (left, right)
        )
        return counting or SCALAR in kinds or FLAT in kinds

    def visit_BinOp(self, node: ast.BinOp):
        safe = self._safe(node.left, node.op, node.right)
        self.generic_visit(node)
        return node if safe else self._tested(type(node.op).__name__, node, node.left, node.right)

    def visit_AugAssign(self, node: ast.AugAssign):
        name = type(node.op).__name__
        if isinstance(node.target, ast.Name):
            safe = self._safe(node.target, node.op, node.value)
            self.generic_visit(node)
            if safe:
                return node
            read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
            value = self._tested(f"in-place {name}", node, read, node.value)
            return ast.copy_location(ast.Assign([node.target], value), node)
        assert isinstance(node.target, ast.Subscript)
        base, index, value = (self.visit(part) for part in (node.target.value, node.target.slice, node.value))
        return ast.copy_location(
            ast.Expr(self._tested("augment", node, ast.Constant(name), base, _as_value(index), value)), node
        )

    def visit_Assign(self, node: ast.Assign):
        self.generic_visit(node)
        return self._assignment(node)

    def _assignment(self, node: ast.Assign) -> ast.stmt:
        """An assignment, tested where it may put something into a list: a list can grow through a slice of it."""
        match node.targets:
            case [ast.Subscript(value=base, slice=index)]:
                if self._of(base) not in PLAINS:
                    return ast.copy_location(ast.Expr(self._tested("setitem", node, base, _as_value(index), node.value)), node)
                return node
        for target in (inner for outer in node.targets for inner in ast.walk(outer)):
            if isinstance(target, ast.Subscript) and isinstance(target.ctx, ast.Store) and self._of(target.value) not in PLAINS:
                raise PolicyRejected(node.lineno, "an element must be assigned on a line of its own")
        return node

    def visit_Compare(self, node: ast.Compare):
        operands = [node.left, *node.comparators]
        safe = all(
            isinstance(op, ast.Is | ast.IsNot) or (self._of(left) in PLAINS and self._of(right) in PLAINS)
            for op, left, right in zip(node.ops, operands, operands[1:], strict=False)
        )
        self.generic_visit(node)
        if safe:
            return node
        if any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            if len(node.ops) > 1:
                raise PolicyRejected(node.lineno, "`is` cannot stand in a chain of comparisons; use `and`")
            return node
        names = ast.Constant(" ".join(type(op).__name__ for op in node.ops))
        return self._tested("comparison", node, names, node.left, *node.comparators)

    def visit_Subscript(self, node: ast.Subscript):
        kind = self._of(node.slice)
        name = isinstance(node.slice, ast.Constant) and type(node.slice.value) is str
        # A bool as an index would add a dimension.
        integers = isinstance(kind, tuple) and kind[0] == "list" and self.kinds.element(kind) == INTEGER
        safe = name or kind in (INTEGER, SLICE) or integers
        self.generic_visit(node)
        if not safe:
            node.slice = self._tested("index", node, _as_value(node.slice))
        return node

    def visit_List(self, node: ast.List):
        starred = isinstance(node.ctx, ast.Load) and any(isinstance(element, ast.Starred) for element in node.elts)
        self.generic_visit(node)
        return self._tested("value", node, node) if starred else node

    def visit_Tuple(self, node: ast.Tuple):
        starred = isinstance(node.ctx, ast.Load) and any(isinstance(element, ast.Starred) for element in node.elts)
        self.generic_visit(node)
        return self._tested("value", node, node) if starred else node

    def visit_Call(self, node: ast.Call):
        safe = self._safe_call(node)
        arguments = [argument for argument in node.args if not is_dtype(argument)]
        self.generic_visit(node)
        if safe or (isinstance(node.func, ast.Name) and node.func.id in self.kinds.functions):
            return node
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            shallow = len(node.args) == 1 and self.kinds.is_shallow(self._of(node.args[0]))
            form = "append of numbers" if shallow else "append"
            return self._tested(form, node, node.func, *node.args, keywords=node.keywords)
        if name in CONVERSIONS and len(arguments) == 1 and self.kinds.is_row(self._of(arguments[0])):
            return self._tested("row", node, node.func, *node.args, keywords=node.keywords)
        if name in _OWN_FORM or name in ROUNDINGS:
            return self._tested(name, node, *node.args, keywords=node.keywords)
        if name in SMALL:
            return self._tested("small call", node, node.func, *node.args, keywords=node.keywords)
        if name in CREATIONS or name in ("np.eye", "np.identity", "np.broadcast_to", "np.diag", "np.repeat", "np.tile"):
            return self._tested("creation", node, node.func, *node.args, keywords=node.keywords)
        return self._tested("call", node, node.func, *node.args, keywords=node.keywords)

    def _safe_call(self, node: ast.Call) -> bool:
        values = [value for value in (*node.args, *(keyword.value for keyword in node.keywords)) if not is_dtype(value)]
        kinds = [self._of(value) for value in values]
        plain = all(kind in PLAINS for kind in kinds)
        if any(isinstance(value, ast.Starred) for value in values):
            return False
        if isinstance(node.func, ast.Attribute):
            harmless = FLAT_METHODS | REDUCING_METHODS | {"item", "tolist", "fill"}
            return plain and self._of(node.func.value) in PLAINS and node.func.attr in harmless
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name in ("math.fsum", "math.dist"):
            return False
        if name in ("len", "float", "bool") or (name == "dict" and not node.args) or (name in MATH | TESTS and plain):
            return True
        # What is written out is short, and what a comprehension gives is paid for there.
        written = bool(node.args) and isinstance(node.args[0], ast.List | ast.Tuple | ast.ListComp | ast.GeneratorExp)
        if name in ("min", "max", "any", "all") and len(kinds) == 1:
            return written and self.kinds.is_row(kinds[0])
        if name in ("min", "max", "abs"):
            return plain
        if name == "sum":
            return len(kinds) == 1 and written and self.kinds.is_row(kinds[0]) and self.kinds.element(kinds[0]) == SCALAR
        if name in ("np.zeros", "np.ones", "np.empty"):
            match values:
                case [ast.Constant(value=int(size))]:
                    return size <= MAX_LIGHT
            return False
        if name not in ELEMENTWISE | REDUCTIONS | PRODUCTS | CONVERSIONS or (name == "np.where" and len(kinds) != 3):
            return False
        if name in SLOW and not all(kind in NUMBERS for kind in kinds):
            return False
        return bool(kinds) and all(
            kind in PLAINS
            or (isinstance(value, ast.List | ast.Tuple) and len(value.elts) <= MAX_LIGHT and self.kinds.is_row(kind))
            for value, kind in zip(values, kinds, strict=True)
        )

    def visit_For(self, node: ast.For):
        work = sum(map(self._work, node.body))
        self.generic_visit(node)
        calls = (inner for statement in node.body for inner in ast.walk(statement) if isinstance(inner, ast.Attribute))
        grows = any(inner.attr in ("append", "extend", "insert") for inner in calls)
        node.iter = self._tested("growing loop" if grows else "loop", node, node.iter, ast.Constant(work))
        return node

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp):
        work = self._work(node)
        self.generic_visit(node)
        for generator in node.generators:
            generator.iter = self._tested("loop", node, generator.iter, ast.Constant(work))
        return node

    visit_GeneratorExp = visit_ListComp

    def visit_FunctionDef(self, node: ast.FunctionDef):
        self.generic_visit(node)
        work = self.work[node.name]
        if work > MAX_UNCOUNTED_WORK or node.name in self.mapped:
            node.body.insert(0, ast.copy_location(ast.Expr(self._tested("entry", node, ast.Constant(work))), node))
        return node

    def _work(self, node: ast.AST) -> int:
        """The nodes of a piece of code, with those of the helper functions that it calls, if they do not count themselves."""
        total = 0
        for inner in ast.walk(node):
            total += 1
            if isinstance(inner, ast.Name) and inner.id in self.kinds.functions:
                if inner.id not in self.work:
                    self.work[inner.id] = self._work(self.kinds.functions[inner.id])
                work = self.work[inner.id]
                total += work if work <= MAX_UNCOUNTED_WORK else 0
        return total


def _as_value(index: ast.expr) -> ast.expr:
    """An index as an expression: a slice becomes slice(...), which only the tests can call."""
    match index:
        case ast.Slice(lower=lower, upper=upper, step=step):
            bounds = [ast.Constant(None) if bound is None else bound for bound in (lower, upper, step)]
            return ast.copy_location(ast.Call(ast.Name("tested slice", ast.Load()), bounds, []), index)
        case ast.Tuple(elts=elements):
            return ast.copy_location(ast.Tuple([_as_value(element) for element in elements], ast.Load()), index)
    return index


# ------------------------------------------------------------------------------------------------------ the tested forms


def _too_large() -> PolicyFault:
    return PolicyFault(f"a value has more than {MAX_SIZE} elements, or is nested deeper than {MAX_NESTING}")


def _integer(value: Any) -> Any:
    if type(value) is int and not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise PolicyFault("an integer exceeds 2**62")
    return value


_ATOMS = frozenset((float, bool, int, type(None), np.float64, np.float32, np.int64, np.int32, np.bool_))


def size_of(value: Any, nesting: int = 0) -> int:
    """The number of elements in a value, lists within lists counted as often as they are met.

    Raises:
        PolicyFault: more than ``MAX_SIZE``, nested too deep, or an integer that is too large
    """
    kind = type(value)
    if kind in _ATOMS:
        _integer(value)
        return 1
    if kind is np.ndarray:
        if value.dtype.kind not in "fiub":
            raise PolicyFault("an array holds something else than real numbers")
        # An array without elements may still be a long one along another dimension.
        size = value.size or math.prod(max(length, 1) for length in value.shape)
        if size > MAX_SIZE:
            raise _too_large()
        return size
    if kind in (list, tuple, dict):
        if nesting >= MAX_NESTING or len(value) > MAX_SIZE:
            raise _too_large()
        total = 1
        for item in value.values() if kind is dict else value:
            total += size_of(item, nesting + 1)
            if total > MAX_SIZE:
                raise _too_large()
        return total
    if kind in (str, range):
        if len(value) > MAX_SIZE:
            raise _too_large()
        return len(value)
    if kind is slice or (kind is type and value in DTYPES.values()):
        return 1
    if isinstance(value, np.number) and value.dtype.kind in "fiu":
        return 1
    raise PolicyFault(f"a {kind.__name__} is none of the values that a policy works with")


def _require_no_cycle(container: Any, value: Any) -> None:
    """Raises if a value that is put into a list or a dict holds it: only Python's collector would free the two."""
    if value is container:
        raise PolicyFault("a list or a dict cannot hold itself")
    if type(value) in (list, tuple, dict):
        for item in value.values() if type(value) is dict else value:
            if type(item) in (list, tuple, dict):
                _require_no_cycle(container, item)


def _require_numbers(value: Any) -> None:
    """Raises if there is something else than numbers, in lists within lists, in what NumPy is given."""
    if type(value) in (list, tuple):
        for item in value:
            if item is None:
                raise PolicyFault("NumPy's functions take no None in a list")
            _require_numbers(item)
    elif type(value) in (str, dict):
        raise PolicyFault("NumPy's functions take numbers and lists of numbers here")


def _rank(value: Any) -> int:
    """The number of dimensions that NumPy will see, at most."""
    return value.ndim if type(value) is np.ndarray else MAX_NESTING if type(value) in (list, tuple) else 0


class Meter:
    """Counts the work of one call and holds the tested forms that count.

    ``weight`` is the worth of a unit: where large arrays are about, every operation may take as much longer.
    """

    def __init__(self):
        self.spent, self.weight, self.base = 0, 1, 1
        self.frozen: set[int] = set()  # lists and dicts that live on between calls

    def reset(self, size: int = 1) -> None:
        """Allows ``MAX_WORK`` again, for an observation of ``size`` numbers."""
        self.spent = 0
        self.weight = self.base if size <= MAX_LIGHT else max(self.base, size // MAX_LIGHT)

    def spend(self, work: int) -> None:
        """Adds to the work of this call and raises PolicyFault when it is too much."""
        self.spent += work
        # All of it, because an array that is large now may have been used before.
        if self.spent * self.weight > MAX_WORK:
            raise PolicyFault("too much work in one call: its loops run too long")

    def tested_forms(self) -> dict[str, Callable]:
        """Returns the tested forms by the names that a compiled program calls them by."""
        forms: dict[str, Callable] = {
            "loop": self._loop,
            "growing loop": self._growing_loop,
            "entry": self.spend,
            "value": self._value,
            "index": self._index,
            "slice": slice,
            "setitem": self._setitem,
            "augment": self._augment,
            "comparison": self._comparison,
            "call": self._call,
            "small call": self._small_call,
            "creation": self._creation,
            "append": self._append,
            "append of numbers": self._append_numbers,
            "row": self._row,
            "range": self._range,
            "int": lambda *arguments: _integer(int(*arguments)),
            "round": self._round,
            "pow": lambda base, exponent: self._binary(operator.pow, base, exponent),
            "sum": self._sum,
            "map": lambda function, *values: list(map(function, *map(self._value, values))),
            # As lists: nothing then holds an iterator that could be wound into itself.
            "enumerate": lambda values, start=0: list(enumerate(self._value(values), start)),
            "zip": lambda *values, strict=False: list(zip(*map(self._value, values), strict=strict)),
            "reversed": lambda values: list(reversed(self._value(values))),
            **{name: lambda x, function=function: _integer(function(x)) for name, function in ROUNDINGS.items()},
        }
        for node, function in OPERATORS.items():
            forms[node.__name__] = lambda a, b, function=function: self._binary(function, a, b)
        for name, function in _IN_PLACE.items():
            forms[f"in-place {name}"] = lambda a, b, function=function: self._in_place(function, a, b)
        return {f"tested {name}": form for name, form in forms.items()}

    def _pay(self, size: int) -> None:
        """Spends for a value of this many elements."""
        if size > MAX_LIGHT:
            self.weight = max(self.weight, size // MAX_LIGHT)
        self.spend(1 + size // ELEMENTS_A_UNIT)

    def _value(self, value: Any) -> Any:
        if type(value).__name__ == "generator":
            value = list(value)
        self._pay(size_of(value))
        return value

    def _index(self, index: Any) -> Any:
        for part in index if type(index) is tuple else (index,):
            if type(part) in (bool, np.bool_) or (type(part) is np.ndarray and part.ndim == 0):
                raise PolicyFault("an index must be an integer, a slice or a list, not a truth value")
        return self._value(index)

    def _loop(self, iterable: Any, work: int) -> Any:
        if not hasattr(iterable, "__len__"):
            iterable = tuple(iterable)  # a generator ends, because the loops within it are counted
        self.spend(len(iterable) * work)
        return iterable

    def _growing_loop(self, iterable: Any, work: int) -> Any:
        """A loop over a list that may grow while it runs."""
        if type(iterable) is not list:
            return self._loop(iterable, work)
        return self._each(iterable, work)

    def _each(self, values: list, work: int) -> Iterator[Any]:
        for value in values:
            self.spend(work)
            yield value

    @staticmethod
    def _range(*arguments: Any) -> range:
        result = range(*arguments)
        if any(abs(bound) > MAX_INTEGER for bound in (result.start, result.stop, result.step)) or len(result) > MAX_SIZE:
            raise _too_large()
        return result

    @staticmethod
    def _round(value: Any, ndigits: Any = None) -> Any:
        if ndigits is not None and not -400 < ndigits < 400:
            raise PolicyFault("the number of digits to round to is too large")
        return _integer(round(value) if ndigits is None else round(value, ndigits))

    def _sum(self, values: Any, start: Any = 0) -> Any:
        if type(values) is np.ndarray and values.ndim == 1 and type(start) in _ATOMS:
            self._pay(size_of(values))
            self.spend(values.size)
            return sum(values, start)
        for value in self._value(values):
            start = self._binary(operator.add, start, value)
        return start

    def _setitem(self, container: Any, index: Any, value: Any) -> None:
        if type(container) is list and type(index) is slice:
            raise PolicyFault("a slice of a list cannot be assigned")
        if type(container) is dict and len(container) >= MAX_SIZE:
            raise _too_large()
        self._require_own(container)
        self._value(index)
        value = self._value(value)
        _require_no_cycle(container, value)
        container[index] = value

    def _augment(self, name: str, container: Any, index: Any, value: Any) -> None:
        result = self._in_place(_IN_PLACE[name], container[self._index(index)], value)
        if type(container) is np.ndarray:
            container[index] = result
        else:
            self._setitem(container, index, result)

    def _in_place(self, function: Callable, a: Any, b: Any) -> Any:
        if type(a) is list:
            self._require_own(a)
        return self._binary(function, a, b)

    def _require_own(self, container: Any) -> None:
        if id(container) in self.frozen:
            raise PolicyFault("a list or dict outside functions is changed by them; a policy keeps no state between calls")

    def _comparison(self, names: str, left: Any, *others: Any) -> Any:
        *chain, last = zip(names.split(), (left, *others), others, strict=False)
        for name, a, b in chain:
            if not (result := self._binary(_COMPARISONS[name], a, b)):
                return result
        return self._binary(_COMPARISONS[last[0]], *last[1:])

    def _binary(self, function: Callable, a: Any, b: Any) -> Any:
        if type(a) in _ATOMS and type(b) in _ATOMS:
            if function in _POWERS and type(a) is type(b) is int and abs(a) > 1 and b > 62:
                raise PolicyFault("an integer exceeds 2**62")
            result = function(a, b)
            return result if type(result) is not int else _integer(result)
        size_a, size_b = size_of(a), size_of(b)
        self._pay(size_a + size_b)
        sequences = [value for value in (a, b) if type(value) in (list, tuple, str)]
        if sequences and function in _TIMES and len(sequences) == 1:
            times = b if sequences[0] is a else a
            if isinstance(times, int | np.integer) and int(times) * max(size_a, size_b) > MAX_SIZE:
                raise _too_large()
        if type(a) is str and function in _MODULOS:
            raise PolicyFault("strings cannot be formatted")
        if size_a * size_b > MAX_SIZE and max(_rank(a), _rank(b)) > 1 and function not in _CONTAINMENTS:
            self._broadcast_fits(function, a, b)
        result = function(a, b)
        size = size_of(result)
        self._pay(10 * size if function in _SLOW_OPERATORS else size)
        return result

    @staticmethod
    def _broadcast_fits(function: Callable, a: Any, b: Any) -> None:
        """Raises if the result of an operator on two arrays would be too large."""
        shape_a, shape_b = np.shape(a), np.shape(b)
        if type(a) is type(b) and type(a) in (list, tuple):
            return  # joined or compared, not computed with
        if function in _MATRIX_PRODUCTS:
            if size_of(a) * size_of(b) // max((*shape_a[-1:], 1)) > 100 * MAX_SIZE:
                raise _too_large()
        elif math.prod(np.broadcast_shapes(shape_a, shape_b)) > MAX_SIZE:
            raise _too_large()

    def _call(self, function: Callable, *arguments: Any, **named: Any) -> Any:
        arguments = tuple(list(value) if type(value).__name__ == "generator" else value for value in arguments)
        on: Any = getattr(function, "__self__", None)
        on = None if isinstance(on, types.ModuleType) else on  # a builtin's
        total, product, rank = 0, 1, 0
        for value in (on, *arguments, *named.values()):
            size = size_of(value)
            total, product, rank = total + size, product * max(size, 1), max(rank, _rank(value))
        if product > 100 * MAX_SIZE and (rank > 1 or function in _SQUARING):
            raise _too_large()
        self._pay(total)
        if type(on) in (list, dict) and function.__name__ in ("extend", "insert"):
            self._require_own(on)
            _require_no_cycle(on, arguments)
        if function in _NUMPY:
            for value in (*arguments, *named.values()):
                if type(value) is not str or (_NAMES.get(function), value) not in STRINGS:
                    _require_numbers(value)
        if function in _BY_ELEMENT:
            self.spend(_BY_ELEMENT[function] * total)
        result = function(*arguments, **named)
        if type(result) in _VIEWS:
            result = list(result)
        if result is None and function in _NUMPY:
            raise PolicyFault("NumPy's functions take no None here")
        self._pay(size_of(result))
        if type(on) in (list, dict) and len(on) > MAX_SIZE:
            raise _too_large()
        return result

    def _append(self, append: Callable, item: Any) -> None:
        values = append.__self__  # type: ignore[attr-defined]
        self._require_own(values)
        if len(values) >= MAX_SIZE:
            raise _too_large()
        if type(item) in (list, tuple, dict):
            self._value(item)
            _require_no_cycle(values, item)
        self.spend(1)
        append(item)

    def _append_numbers(self, append: Callable, item: Any) -> None:
        values = append.__self__  # type: ignore[attr-defined]
        self._require_own(values)
        if len(values) >= MAX_SIZE:
            raise _too_large()
        self.spend(1)
        append(item)

    def _row(self, function: Callable, numbers: Any, *arguments: Any, **named: Any) -> Any:
        """An array of a list of numbers."""
        if type(numbers) not in (list, tuple):
            numbers = list(numbers)
        if len(numbers) > MAX_SIZE:
            raise _too_large()
        self._pay(len(numbers))
        return function(numbers, *arguments, **named)

    def _small_call(self, function: Callable, *arguments: Any, **named: Any) -> Any:
        if any(size_of(value) > 1024 for value in arguments):
            raise PolicyFault("matrices of more than 32 x 32 cannot be inverted or solved here")
        self.spend(50)
        return self._call(function, *arguments, **named)

    def _creation(self, function: Callable, *arguments: Any, **named: Any) -> Any:
        """A call whose arguments say how large its result is."""
        for value in (*arguments, *named.values()):
            size_of(value)
        if not _created_size(function, *arguments, **named) <= MAX_SIZE:
            raise _too_large()
        return self._call(function, *arguments, **named)


def _created_size(function: Callable, first: Any, *others: Any, **named: Any) -> float:
    """How many elements a creation makes, at most."""

    def magnitudes(value: Any) -> np.ndarray:
        return np.abs(np.asarray(value, dtype=np.float64))

    if function is np.arange:
        numbers = [float(value) for value in (first, *others)]
        start, stop, step = (0.0, *numbers, 1.0) if len(numbers) == 1 else (*numbers, 1.0)[:3]
        start, stop = float(named.get("start", start)), float(named.get("stop", stop))
        return abs((stop - start) / float(named.get("step", step)))
    if function is np.linspace:
        num = float(magnitudes(named.get("num", others[1] if len(others) > 1 else 50)).max())
        return num * max(size_of(value) for value in (first, *others, *named.values()))
    if function in (np.repeat, np.tile, np.broadcast_to):
        repeats = magnitudes(others[0])
        return size_of(first) * max(float(repeats.sum()), float(repeats.prod()), 1.0)
    if function is np.diag:
        return (size_of(first) + float(magnitudes(others or 0).sum())) ** 2 if _rank(first) != 2 else size_of(first)
    if function in (np.eye, np.identity):
        return float(max(magnitudes(value).max() for value in (first, *others) if value is not None)) ** 2
    return float(np.maximum(magnitudes(first), 1.0).prod())


_NUMPY = frozenset(NUMPY.values())
_NAMES = {function: name for name, function in NUMPY.items()}
_IN_PLACE = {node.__name__: getattr(operator, f"i{f.__name__.rstrip('_')}") for node, f in OPERATORS.items()}
_COMPARISONS = {node.__name__: function for node, function in COMPARISONS.items()}
_VIEWS = (type({}.keys()), type({}.values()), type({}.items()))
# Units an element of what is not done by NumPy in one go.
_BY_ELEMENT = {math.fsum: 10, math.dist: 10, np.polyval: 10, min: 1, max: 1, any: 1, all: 1}
_SLOW_OPERATORS = (operator.mod, operator.imod, operator.floordiv, operator.ifloordiv)
_POWERS = (operator.pow, operator.ipow)
_MODULOS = (operator.mod, operator.imod)
_TIMES = (operator.mul, operator.imul)
_MATRIX_PRODUCTS = (operator.matmul, operator.imatmul)
_CONTAINMENTS = (COMPARISONS[ast.In], COMPARISONS[ast.NotIn])
_SQUARING = (np.outer, np.convolve, np.polyval)
_OWN_FORM = ("range", "int", "round", "pow", "sum", "map", "enumerate", "zip", "reversed")
