"""Infers what each expression of a checked program can be, so that tests stand only where something could grow without end.

A float, or a flat array, among the operands of an operator means that neither the digits of a number nor the size of an array
can grow; a controller is made of little else. So the inference is about these, and about integers and lists of numbers.
"""

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from llmwrappers.sandbox.language import (
    BUILTINS,
    CONVERSIONS,
    CREATIONS,
    ELEMENTWISE,
    FLAT_METHODS,
    GROWING_METHODS,
    JOINS,
    MATH,
    NUMPY,
    PRODUCTS,
    REDUCING_METHODS,
    REDUCTIONS,
    ROUNDINGS,
    TESTS,
    PolicyRejected,
    is_dtype,
)

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


class Kinds:
    """Infers the kind of every expression: the least fixed point over all assignments, calls and returns."""

    def __init__(self, tree: ast.Module, flat: bool):
        self.tree = tree
        self.functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        self.parents: dict[str, str] = {}
        self.locals: dict[str, set[str]] = {}
        self.variables: dict[tuple[str, str], Kind] = {}  # (function, name)
        self.returns: dict[str, Kind] = {}
        self.sites: list[Kind] = []  # what the lists and dicts made there hold
        self.merged: list[int] = []  # a site, or the one that it has become part of
        self.site_of: dict[ast.AST, int] = {}
        self.ranges: set[int] = set()  # the sites where they are made
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
        if not isinstance(value, ast.Constant):
            return ANY
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
                self._raise(first, self.sites[second])
            return (a[0], self._site(a))
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
            self._raise(self._site(container), inner)
        elif container is not None:
            self._anything(inner)

    def _raise(self, site: int, inner: Kind) -> None:
        """Joins a kind to what a site holds. The join may reach the same site, and raise it meanwhile, or merge it."""
        before = self.sites[site]
        joined = self._shallow(self.join(before, inner))
        site = self._site(("list", site))
        if self.sites[site] == before:
            self.sites[site] = joined
        else:
            self._raise(site, joined)

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

    def is_index(self, kind: Kind) -> bool:
        """Whether a list holds integers and is no range, which may be long and has cost nothing."""
        is_list = isinstance(kind, tuple) and kind[0] == "list" and self.element(kind) == INTEGER
        return is_list and self._site(kind) not in {self._site(("list", site)) for site in self.ranges}

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

        if is_dtype(node):
            return ANY
        match node:
            case ast.Constant():
                return self._constant(node)
            case ast.Name(id=name):
                return self._lookup(function, name)
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
        if method in GROWING_METHODS:
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
            if method == "get" and not any(isinstance(argument, ast.Starred) for argument in node.args):
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
            kind = self._made("list", node, INTEGER)
            self.ranges.add(self.site_of[node])
            return kind
        if name == "dict" and not kinds:
            return self._made("dict", node, self._join_all(named.values()))
        if name in ("list", "tuple", "sorted", "reversed") and kinds:
            return self._made("list", node, self.element(first))
        if name == "enumerate" and kinds:
            return self._made("list", node, ("tuple", INTEGER, self.element(first)))
        if name == "zip" and kinds:
            inner = ("tuple", *map(self.element, kinds))
            # A zip of zips of zips would be as wide as the product of their widths.
            return self._made("list", node, inner if _width(inner) <= MAX_WIDTH else self._anything(inner))
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
