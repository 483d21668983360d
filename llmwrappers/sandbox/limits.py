"""Bounds what a checked program may cost: integers below 2**62, values of at most 10 000 elements, work that ends.

Tests for that at every operator would cost more than a policy itself. So ``Kinds`` infers what each expression can be, and
``_Bounds`` replaces an operator, a call or an index by its tested form (a method of ``Meter``) only where no operand is surely
a float or a flat array: those can grow neither in digits nor in size, and a controller is made of little else.
"""

import ast
import math
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from llmwrappers.sandbox.kinds import ANY, FLAT, INTEGER, NUMBERS, PLAINS, SCALAR, Kind, Kinds
from llmwrappers.sandbox.language import (
    BUILTINS,
    CONVERSIONS,
    CREATIONS,
    DTYPES,
    ELEMENTWISE,
    FLAT_METHODS,
    FUNCTIONS,
    GROWING_METHODS,
    MATH,
    PRODUCTS,
    REDUCING_METHODS,
    REDUCTIONS,
    ROUNDINGS,
    SLOW,
    SMALL,
    TESTS,
    PolicyFault,
    PolicyRejected,
    is_dtype,
    parse_policy,
)
from llmwrappers.sandbox.meter import MAX_LIGHT, Meter, size_of

MAX_UNCOUNTED_WORK = 1000
"""A helper function with more work than this counts it at each call; that of a smaller one is part of its caller's."""
OWN_FORM = ("range", "int", "round", "pow", "sum", "map", "enumerate", "zip", "reversed")
LAZY_FORMS = {f"tested {name}": f"tested lazy {name}" for name in ("map", "enumerate", "zip", "reversed")}
# As large as their arguments say, like CREATIONS.
SIZED = ("np.eye", "np.identity", "np.broadcast_to", "np.diag", "np.repeat", "np.tile", "np.select")


def compile_policy(source: str, flat: bool = True) -> tuple[types.CodeType, frozenset[str]]:
    """Returns the code of a checked program, with its tests in place, and the names that it uses.

    ``flat`` says that observations will be vectors, which spares most of the tests.

    Raises:
        PolicyRejected: the program is not written in the language of policies
    """
    try:
        tree = parse_policy(source)
        tree = ast.fix_missing_locations(_Bounds(Kinds(tree, flat)).visit(tree))
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
        self._flat = _run_top_level(*compile_policy(source))
        self._general: tuple[Callable, Meter] | PolicyRejected | None = None

    def __call__(self, observation: np.ndarray | dict[str, Any]) -> np.ndarray:
        """Returns the action (float64) at an observation of float64 arrays, which is the policy's to write into.

        Raises:
            PolicyFault: the program raised, worked for too long, or returned something else than a finite action
        """
        if type(observation) is np.ndarray and observation.ndim == 1:
            policy, meter = self._flat
            meter.reset(observation.size)
        else:
            policy, meter = self._for_any_observation()
            meter.reset(
                max(map(np.size, observation.values()), default=1) if isinstance(observation, dict) else observation.size
            )
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

    def _for_any_observation(self) -> tuple[Callable, Meter]:
        """The program without what is known of vectors, made when it is first needed."""
        if self._general is None:
            try:
                self._general = _run_top_level(*compile_policy(self.source, flat=False))
            except PolicyRejected as rejected:
                self._general = rejected
        if isinstance(self._general, PolicyRejected):
            raise PolicyFault(f"for observations that are no vectors the policy is refused: {self._general}")
        return self._general


def _run_top_level(code: types.CodeType, names: Iterable[str]) -> tuple[Callable, Meter]:
    """Runs the top level of a compiled program; returns its ``policy`` and the meter to reset before each call."""
    meter = Meter()
    known = {**FUNCTIONS, **BUILTINS, **meter.tested_forms(), **{f"dtype {name}": dtype for name, dtype in DTYPES.items()}}
    known["dtype of"] = _dtype_of
    namespace: dict[str, Any] = {
        "__builtins__": {"__import__": _import_numpy},
        **{name: known[name] for name in names if name in known},
    }
    try:
        with np.errstate(all="ignore"):
            exec(code, namespace)
        for name in [name for name in namespace if name != "__builtins__" and name not in known]:
            if not isinstance(namespace[name], types.FunctionType):
                meter.weigh(size_of(namespace[name]))
                _freeze(namespace[name], meter)
    except Exception as error:
        reason = _printable(f"{type(error).__name__}: {_text(error)}")
        raise PolicyRejected(_line_of(error), f"its top level fails: {reason}") from None
    meter.base = meter.weight
    return namespace["policy"], meter


def _dtype_of(array: Any) -> Any:
    """The dtype of an array, or that of its kind among those that may be written."""
    dtype = array.dtype.type
    return dtype if dtype in DTYPES.values() else {"f": float, "i": int, "u": int, "b": bool}[array.dtype.kind]


def _import_numpy(name: str, *arguments: Any) -> Any:
    """Imports parts of NumPy, as NumPy's C code does in the name of the frame that called it; no program can name this."""
    if name.split(".")[0] != "numpy":
        raise ImportError(f"import of {name!r}")
    return __import__(name, *arguments)


def _freeze(value: Any, meter: Meter) -> None:
    """Makes arrays, lists and dicts read-only that live on between calls."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    elif type(value) in (list, tuple, dict):
        meter.frozen.add(id(value))
        for item in value.values() if type(value) is dict else value:
            _freeze(item, meter)


def _describe(error: BaseException) -> str:
    """Says in one line what a policy raised, and in which line of its program."""
    line, text = _line_of(error), _printable(_text(error).split("\n")[0][:200])
    name = "" if isinstance(error, PolicyFault) else f"{type(error).__name__}: "
    return f"{'' if line is None else f'line {line}: '}{name}{text}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a KeyError shows its key, which may be nested too deep
        return "?"


def _printable(text: str) -> str:
    """A text without what steers a terminal, or fits no encoding: a program may raise with any."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _line_of(error: BaseException) -> int | None:
    line, traceback = None, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == "<policy>":
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


class _Bounds(ast.NodeTransformer):
    """Replaces what could work without end by its tested form, where the kinds do not rule that out."""

    def __init__(self, kinds: Kinds):
        self.kinds = kinds
        # Somewhere, be it in a function that a loop calls.
        self.lists_grow = any(
            isinstance(node, ast.AugAssign) or (isinstance(node, ast.Attribute) and node.attr in GROWING_METHODS)
            for node in ast.walk(kinds.tree)
        )
        # Before anything is replaced, because what is replaced has more nodes.
        self.work: dict[str, int] = {}
        for name, node in kinds.functions.items():
            self.work[name] = self._work(node)
        calls = (node for node in ast.walk(kinds.tree) if isinstance(node, ast.Call))
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
        starred = any(isinstance(inner, ast.Starred) for target in node.targets for inner in ast.walk(target))
        self.generic_visit(node)
        if starred:  # as long a list as the value
            node.value = self._tested("value", node.value, node.value)
        return self._assignment(node)

    def _assignment(self, node: ast.Assign) -> ast.stmt:
        """An assignment, tested where it may put something into a list: a list can grow through a slice of it."""
        match node.targets:
            case [ast.Subscript(value=base, slice=index)]:
                if self._of(base) not in PLAINS:
                    # In Python's order: the value is evaluated first.
                    return ast.copy_location(ast.Expr(self._tested("setitem", node, node.value, base, _as_value(index))), node)
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
        kind, is_flat = self._of(node.slice), self._of(node.value) in PLAINS
        name = isinstance(node.slice, ast.Constant) and type(node.slice.value) is str
        slices = isinstance(node.slice, ast.Slice) and (is_flat or self._is_plain(node.slice))
        safe = name or kind == INTEGER or slices or (is_flat and self.kinds.is_index(kind))
        self.generic_visit(node)
        if safe:
            return node
        if is_flat:  # a bool as an index would add a dimension
            node.slice = self._tested("index", node, _as_value(node.slice))
        elif isinstance(node.ctx, ast.Load):  # as many elements as indices times what each of them picks
            return self._tested("item", node, node.value, _as_value(node.slice))
        return node

    def _is_plain(self, node: ast.Slice) -> bool:
        """Whether the bounds of a slice are numbers: with others a slice can be a key of a dict, which looks long for it."""
        bounds = [bound for bound in (node.lower, node.upper, node.step) if bound]
        return all(self._of(bound) in NUMBERS or (isinstance(bound, ast.Constant) and bound.value is None) for bound in bounds)

    def visit_List(self, node: ast.List | ast.Tuple):
        starred = any(isinstance(element, ast.Starred) for element in node.elts)
        long = isinstance(node.ctx, ast.Load) and (starred or len(node.elts) > MAX_LIGHT)
        self.generic_visit(node)
        return self._tested("value", node, node) if long else node

    visit_Tuple = visit_List

    def visit_Starred(self, node: ast.Starred):
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = self._tested("value", node.value, node.value)
        return node

    def visit_Call(self, node: ast.Call):
        if is_dtype(node):
            return node
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
        if name in OWN_FORM or name in ROUNDINGS:
            return self._tested(name, node, *node.args, keywords=node.keywords)
        if name in SMALL:
            return self._tested("small call", node, node.func, *node.args, keywords=node.keywords)
        if name in CREATIONS or name in SIZED:
            return self._tested("creation", node, node.func, *node.args, keywords=node.keywords)
        return self._tested("call", node, node.func, *node.args, keywords=node.keywords)

    def _safe_call(self, node: ast.Call) -> bool:
        values = [value for value in (*node.args, *(keyword.value for keyword in node.keywords)) if not is_dtype(value)]
        kinds = [self._of(value) for value in values]
        plain = all(kind in PLAINS for kind in kinds)
        if any(isinstance(value, ast.Starred) for value in values):
            return False
        if isinstance(node.func, ast.Attribute):
            harmless = FLAT_METHODS | REDUCING_METHODS | {"fill"}
            harmless -= set() if self._rounds_to_few(node, 0) else {"round"}
            return plain and self._of(node.func.value) in PLAINS and node.func.attr in harmless
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name in ("math.fsum", "math.dist") or (name in ("np.round", "np.around") and not self._rounds_to_few(node, 1)):
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

    @staticmethod
    def _rounds_to_few(node: ast.Call, position: int) -> bool:
        """Whether a call of NumPy's round, which takes longer the more digits it is given, has them written out."""
        digits = [argument.operand if isinstance(argument, ast.UnaryOp) else argument for argument in node.args[position:]]
        few = all(isinstance(d, ast.Constant) and isinstance(d.value, int) and d.value < 400 for d in digits)
        return few and not node.keywords

    def visit_For(self, node: ast.For):
        work, changes = sum(map(self._work, node.body)), any(map(self._changes, node.body))
        self.generic_visit(node)
        node.iter = self._loop(node.iter, work, changes)
        return node

    def _loop(self, iterable: ast.expr, work: int, changes: bool) -> ast.expr:
        """What a loop runs over; ``changes``: it may do something to that meanwhile, and then sees it."""
        form = "growing loop" if self.lists_grow else "loop"
        match iterable:
            case ast.Call(func=ast.Name(id=name) as function) if changes and name in LAZY_FORMS:
                function.id, form = LAZY_FORMS[name], "lazy loop"
        return self._tested(form, iterable, iterable, ast.Constant(work))

    def _changes(self, node: ast.AST) -> bool:
        """Whether a piece of code may do something to a list or an array."""
        for inner in ast.walk(node):
            match inner:
                case ast.AugAssign(target=target) if self._of(target) not in NUMBERS:
                    return True
                case ast.Subscript(ctx=ast.Store()):
                    return True
                case ast.Attribute(attr=method) if method in (*GROWING_METHODS, "fill"):
                    return True
                case ast.Name(id=name) if name in self.kinds.functions:
                    return True
        return False

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp):
        work, changes = self._work(node), self._changes(node)
        self.generic_visit(node)
        for generator in node.generators:
            generator.iter = self._loop(generator.iter, work, changes)
        return self._tested("list", node, node) if isinstance(node, ast.ListComp) else node

    visit_GeneratorExp = visit_ListComp

    def visit_Module(self, node: ast.Module):
        statements = [statement for statement in node.body if not isinstance(statement, ast.FunctionDef)]
        names = [inner.id for statement in statements for inner in ast.walk(statement) if isinstance(inner, ast.Name)]
        self.generic_visit(node)
        # A helper function that does not count itself is part of its caller's work, which here nobody else counts.
        work = sum(self.work[name] for name in names if self.work.get(name, MAX_UNCOUNTED_WORK + 1) <= MAX_UNCOUNTED_WORK)
        node.body.insert(0, ast.Expr(self._tested("entry", node.body[0], ast.Constant(work))))
        return node

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
