"""The part of Python in which a policy may be written.

It is an allow-list. A program is built only from the nodes, builtins, functions of NumPy and math, methods and attributes named
in this file; each ``np.sin`` is replaced by the function itself, so that no module is ever in reach, and nothing that a
program can name opens a file, a process or a socket, or leads to something that does. ``limits`` sees to it that
the program ends. Both need NumPy alone, so that a fresh process loads them quickly.
"""

import ast
import math
import operator
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

MAX_CHARACTERS = 60_000
MAX_NODES = 12_000
MAX_DEPTH = 100
MAX_CALLS = 30
MAX_INTEGER = 2**62
MAX_SIZE = 10_000
MAX_STRING = 256


class PolicyRejected(ValueError):
    """Says why a program is refused as a policy, and in which line.

    Example:
        >>> str(PolicyRejected(3, "while loops are not allowed"))
        'line 3: while loops are not allowed'
    """

    def __init__(self, line: int | None, reason: str):
        super().__init__(line, reason)
        self.line, self.reason = line, reason

    def __str__(self) -> str:
        return self.reason if self.line is None else f"line {self.line}: {self.reason}"


class PolicyFault(RuntimeError):
    """Says what a policy did wrong in one call.

    Example:
        >>> raise PolicyFault("the policy returned [nan]")
        Traceback (most recent call last):
        ...
        llmwrappers.sandbox.language.PolicyFault: the policy returned [nan]
    """


# ----------------------------------------------------------------------------------------------------- what may be named


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _numpy(names: str) -> dict[str, Callable]:
    # Not every version of NumPy has all of them.
    return {f"np.{name}": function for name in sorted(_words(names)) if (function := getattr(np, name, None))}


# Of flat arrays and numbers they make a flat array no longer than its longest argument; of numbers alone, a NumPy scalar.
ELEMENTWISE = _numpy(
    "sin cos tan arcsin arccos arctan arctan2 hypot sinh cosh tanh arcsinh arccosh arctanh exp exp2 expm1 log log1p log2 log10 "
    "sqrt cbrt square abs absolute fabs sign copysign clip maximum minimum fmax fmin add subtract multiply divide true_divide "
    "floor_divide power float_power mod remainder fmod negative positive reciprocal floor ceil trunc rint round around "
    "isnan isfinite isinf nan_to_num where deg2rad rad2deg degrees radians heaviside sinc logical_and logical_or logical_not "
    "logical_xor greater greater_equal less less_equal equal not_equal zeros_like ones_like full_like copy "
    "cumsum cumprod diff flip roll interp float64 float32 int64 int32 bool_ cross"
)
# Of a flat array they make a NumPy scalar.
REDUCTIONS = _numpy(
    "sum mean prod min max amin amax std var ptp any all argmax argmin nansum nanmean nanmin nanmax average"
) | {"np.linalg.norm": np.linalg.norm}
PRODUCTS = _numpy("dot inner vdot")
CONVERSIONS = _numpy("array asarray ravel")
# Given numbers, they make a flat array as long as the numbers say.
# What np.empty finds in memory would be no function of the observation.
CREATIONS = _numpy("zeros ones full arange linspace") | {"np.empty": np.zeros}
# Given flat arrays, or a list of them, they make a flat array.
JOINS = _numpy("concatenate hstack append repeat tile")
# May give arrays of any rank: tested at every call.
GENERAL = _numpy(
    "eye identity diag outer matmul stack vstack column_stack reshape transpose squeeze expand_dims atleast_2d broadcast_to "
    "searchsorted convolve polyval trace array_equal allclose isclose select digitize trapezoid shape size ndim "
    "swapaxes fliplr flipud take nonzero flatnonzero argwhere isin atleast_1d count_nonzero median percentile sort argsort "
    "gradient unwrap"
)
SMALL = {
    f"np.linalg.{name}": getattr(np.linalg, name) for name in ("inv", "solve", "pinv", "det")
}  # cubic time: at most 32 x 32
STRINGS = (("np.linalg.norm", "fro"), ("np.convolve", "same"), ("np.convolve", "valid"), ("np.convolve", "full"))
SLOW = frozenset(_numpy("fmod mod remainder floor_divide"))  # for numbers far apart
CONSTANTS: dict[str, Any] = {
    **{f"np.{name}": getattr(np, name) for name in ("pi", "e", "inf", "nan")},
    **{f"math.{name}": getattr(math, name) for name in ("pi", "e", "tau", "inf", "nan")},
}
MATH: dict[str, Callable] = {
    f"math.{name}": getattr(math, name)
    for name in _words(
        "sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh exp expm1 log log1p log2 log10 sqrt cbrt exp2 pow "
        "hypot fabs copysign fmod degrees radians erf erfc gamma lgamma fsum dist remainder"
    )
}
TESTS: dict[str, Callable] = {f"math.{name}": getattr(math, name) for name in ("isfinite", "isnan", "isinf", "isclose")}
ROUNDINGS: dict[str, Callable] = {"math.floor": math.floor, "math.ceil": math.ceil, "math.trunc": math.trunc}
BUILTINS: dict[str, Callable] = {
    function.__name__: function
    for function in (abs, all, any, bool, enumerate, float, int, len, list, map, max, min, pow, range, reversed, round)
} | {function.__name__: function for function in (sorted, sum, tuple, zip, dict)}
NUMPY = ELEMENTWISE | REDUCTIONS | PRODUCTS | CONVERSIONS | CREATIONS | JOINS | GENERAL | SMALL
FUNCTIONS = NUMPY | MATH | TESTS | ROUNDINGS
# How many arguments may be given by position, the dtype of an array aside: no shape, order or output among them.
POSITIONAL = dict.fromkeys(NUMPY, 2)
POSITIONAL |= {name: function.nin for name, function in NUMPY.items() if isinstance(function, np.ufunc)}
POSITIONAL |= dict.fromkeys(
    _numpy(
        "array asarray ravel zeros ones empty identity zeros_like ones_like copy vstack hstack column_stack trace shape ndim "
        "fliplr flipud nonzero flatnonzero argwhere float64 float32 int64 int32 bool_ diff"
    ),
    1,
)
POSITIONAL |= dict.fromkeys(_numpy("clip where arange linspace interp average select digitize swapaxes trapezoid convolve"), 3)
POSITIONAL |= dict.fromkeys(_numpy("allclose isclose"), 4) | dict.fromkeys(_numpy("atleast_1d atleast_2d"), MAX_NODES)
CONSUMERS = ("sum", "any", "all", "min", "max", "list", "tuple", "sorted", "enumerate", "zip")
ANNOTATIONS = ("typing", "__future__", "collections.abc", "numpy.typing")  # modules for what is dropped
MODULES = {"numpy": "np", "math": "math", "numpy.linalg": "np.linalg"}
METHODS = _words(
    "sum mean std var min max argmin argmax any all dot clip copy astype reshape ravel flatten tolist item squeeze transpose "
    "cumsum cumprod prod round append extend insert get items keys values fill conj"
)
GROWING_METHODS = ("append", "extend", "insert")
FLAT_METHODS = _words("copy clip dot round cumsum cumprod astype ravel flatten conj squeeze transpose")
REDUCING_METHODS = _words("sum mean std var min max argmin argmax any all prod")
ATTRIBUTES = frozenset(("T", "shape", "size", "ndim", "real"))
KEYWORDS = _words(
    "axis dtype keepdims nan posinf neginf copy ord a_min a_max min max left right decimals endpoint num fill_value "
    "ddof start default reverse x y a b initial rtol atol rel_tol abs_tol strict ndigits stop step"
)
DTYPES: dict[str, Any] = {
    "float": float,
    "int": int,
    "bool": bool,
    "float64": float,
    "float32": np.float32,
    "int64": int,
    "int32": int,
    "int8": np.int8,
}
OPERATORS: dict[type[ast.operator], Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
COMPARISONS: dict[type[ast.cmpop], Callable] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
}
NODES = (
    *(ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign),
    *(ast.If, ast.For, ast.Break, ast.Continue, ast.Pass, ast.Expr, ast.Assert, ast.Import, ast.ImportFrom, ast.alias),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.keyword, ast.Attribute, ast.Subscript),
    *(ast.Slice, ast.Tuple, ast.List, ast.Dict, ast.ListComp, ast.GeneratorExp, ast.comprehension, ast.Starred),
    *(ast.Name, ast.Constant, ast.expr_context, ast.boolop, ast.unaryop, *OPERATORS, *COMPARISONS, ast.Is, ast.IsNot),
)
INSTEAD = {
    ast.While: "while loops are not allowed; use a for loop over range(constant)",
    ast.Try: "try is not allowed; test for the bad case with if",
    ast.With: "with is not allowed",
    ast.Lambda: "a lambda is allowed only as `name = lambda ...: ...`; use def",
    ast.ClassDef: "classes are not allowed; use functions",
    ast.Global: "global is not allowed: a policy keeps no state between calls",
    ast.Nonlocal: "nonlocal is not allowed: a policy keeps no state between calls",
    ast.JoinedStr: "f-strings are not allowed",
    ast.AsyncFunctionDef: "async is not allowed",
    ast.Yield: "yield is not allowed",
    ast.Delete: "del is not allowed",
    ast.Raise: "raise is not allowed; return a safe action instead",
    ast.NamedExpr: ":= is not allowed; assign on a line of its own",
    ast.Set: "sets are not allowed; use a list",
    ast.SetComp: "sets are not allowed; use a list",
    ast.DictComp: "dict comprehensions are not allowed; use a list",
}


# ------------------------------------------------------------------------------------------------------------- the check


def parse_policy(source: str) -> ast.Module:
    """Returns the syntax tree of a program after the check, with every function of NumPy, math or Python named in full.

    Raises:
        PolicyRejected: the program is not written in this part of Python
    """
    tree = _Checker(_parse(source)).tree
    return ast.fix_missing_locations(tree)


# CPython 3.11 counts the depth of the trees that all threads make together, and raises a SystemError where that is odd.
_PARSER = threading.Lock()


def _parse(source: str) -> ast.Module:
    """The syntax tree of a program that is neither too long nor nested too deep."""
    if not isinstance(source, str):
        raise TypeError(f"source must be a str of Python code, got {source!r} of type {type(source).__name__}")
    if len(source) > MAX_CHARACTERS:
        raise PolicyRejected(None, f"{len(source)} characters of code; at most {MAX_CHARACTERS} are allowed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of "\\d" in a docstring
            with _PARSER:
                tree = ast.parse(source)
    except SyntaxError as error:
        raise PolicyRejected(error.lineno, f"SyntaxError: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise PolicyRejected(None, f"{type(error).__name__}: the code cannot be parsed") from None
    level, depth, nodes = [tree], 0, 0
    while level:  # breadth first: no recursion before the depth is known
        depth, nodes = depth + 1, nodes + len(level)
        if depth > MAX_DEPTH or nodes > MAX_NODES:
            line = getattr(level[0], "lineno", None)
            raise PolicyRejected(line, f"too much code or nested too deep (at most {MAX_NODES} nodes, depth {MAX_DEPTH})")
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return tree


class _Checker:
    """Checks a syntax tree against the allow-list and leaves in ``tree`` what will run.

    Annotations, imports and docstrings are gone from it, ``name = lambda`` has become a def, and each name of a function of
    NumPy, math or the builtins has become one Name with the full name that a program cannot write as an identifier: "np.sin".
    """

    def __init__(self, tree: ast.Module):
        for node in ast.walk(tree):
            for field, value in ast.iter_fields(node):
                if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                    setattr(node, field, [self._lambda_to_def(statement) for statement in value])
        self._drop_annotations(tree)
        self.tree = tree
        self.aliases: dict[str, str] = {}
        self.defined: dict[str, ast.FunctionDef] = {}
        self.assigned: set[str] = set()
        for node in ast.walk(tree):
            self._collect(node)
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name) if name in self.aliases:
                    raise PolicyRejected(node.lineno, f"the function {name!r} is also the name of an import")
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in self.aliases or name in self.defined:
                    raise PolicyRejected(
                        node.lineno, f"{name!r} is assigned, but it is also the name of a function or an import"
                    )
        self._top_level(tree)
        for number, node in enumerate(ast.walk(tree)):
            self._check(node)
            if isinstance(node, ast.ListComp | ast.GeneratorExp):
                _give_own_names(node, number)
        self.assigned |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        self._rename_namesakes(tree)
        self.tree = _Names(self.aliases, self.assigned, self.defined).visit(tree)
        self._no_recursion()

    @staticmethod
    def _lambda_to_def(node: ast.stmt) -> ast.stmt:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda(args=args, body=body)):
                statement = ast.FunctionDef(name, args, [ast.copy_location(ast.Return(body), node)], [], None, None)
                return ast.fix_missing_locations(ast.copy_location(statement, node))
        return node

    @staticmethod
    def _drop_annotations(tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.arg):
                node.annotation = None
            elif isinstance(node, ast.FunctionDef):
                node.returns = None
            elif isinstance(node, ast.AnnAssign):
                node.annotation = ast.copy_location(ast.Constant(None), node)

    def _collect(self, node: ast.AST) -> None:
        """Notes what a node defines, imports or assigns."""
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if alias.name in ANNOTATIONS:
                        continue  # the names stay unknown
                    if alias.name not in MODULES or ("." in alias.name and alias.asname is None):
                        raise PolicyRejected(node.lineno, f"import of {alias.name!r}; only numpy and math are allowed")
                    self._import(node, alias.asname or alias.name, MODULES[alias.name])
            case ast.ImportFrom(module=module, level=0) if module in ANNOTATIONS:
                pass
            case ast.ImportFrom(module=module, names=names, level=level):
                if module not in MODULES or level:
                    raise PolicyRejected(node.lineno, f"import of {module!r}; only numpy and math are allowed")
                for alias in names:
                    self._import(node, alias.asname or alias.name, f"{MODULES[module]}.{alias.name}")
            case ast.FunctionDef(name=name):
                if name in BUILTINS:
                    raise PolicyRejected(node.lineno, f"{name!r} is the name of a builtin; give your function another one")
                if name in self.defined:
                    raise PolicyRejected(node.lineno, f"the function {name!r} is defined twice; give each a name of its own")
                self.defined[name] = node
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                self.assigned.add(name)

    def _rename_namesakes(self, tree: ast.Module) -> None:
        """Renames variables that are called like a builtin, so that the builtin is never found in their place."""
        namesakes = self.assigned & set(BUILTINS)
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in namesakes:
                    raise PolicyRejected(node.lineno, f"{name!r} is also a variable of this program; give that another name")
                case ast.Call(func=ast.Name(id=name)) if name in self.defined:
                    for keyword in node.keywords:
                        keyword.arg = f"own {keyword.arg}" if keyword.arg in namesakes else keyword.arg
                case ast.Name(id=name) if name in namesakes:
                    node.id = f"own {name}"
                case ast.arg(arg=name) if name in namesakes:
                    node.arg = f"own {name}"
        self.assigned |= {f"own {name}" for name in namesakes}

    def _import(self, node: ast.stmt, name: str, meaning: str) -> None:
        if meaning not in (*MODULES.values(), *FUNCTIONS, *CONSTANTS):
            raise PolicyRejected(node.lineno, f"{meaning} is not among the functions that a policy may use")
        if self.aliases.setdefault(name, meaning) != meaning:
            raise PolicyRejected(node.lineno, f"{name!r} is imported twice with different meanings")

    def _top_level(self, tree: ast.Module) -> None:
        tree.body = [node for node in tree.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
        for node in tree.body:
            if not isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.Assign | ast.AnnAssign | ast.AugAssign):
                raise PolicyRejected(
                    node.lineno, "outside functions only imports, constants and function definitions are allowed"
                )
        policy = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "policy"), None)
        if policy is None:
            raise PolicyRejected(None, "there is no function policy(obs)")
        arguments = [*policy.args.posonlyargs, *policy.args.args]
        required = len(arguments) - len(policy.args.defaults)
        if required > 1 or not arguments or any(default is None for default in policy.args.kw_defaults):
            raise PolicyRejected(policy.lineno, "policy must take one argument, the observation")

    def _check(self, node: ast.AST) -> None:
        line = getattr(node, "lineno", None)
        if not isinstance(node, NODES):
            default = f"{type(node).__name__} is not allowed"
            raise PolicyRejected(line, INSTEAD.get(type(node), default))
        match node:
            case ast.FunctionDef(args=arguments, decorator_list=decorators):
                self._check_name(node.name, line)
                if decorators:
                    raise PolicyRejected(line, "decorators are not allowed")
                if arguments.vararg or arguments.kwarg:
                    raise PolicyRejected(line, "*args and **kwargs are not allowed")
                for default in (*arguments.defaults, *(value for value in arguments.kw_defaults if value)):
                    if not all(map(self._is_constant, default.elts if isinstance(default, ast.Tuple) else (default,))):
                        raise PolicyRejected(line, "default values must be constants, or tuples of them")
            case ast.Name(id=name) | ast.arg(arg=name):
                self._check_name(name, line)
            case ast.Constant(value=value):
                if isinstance(value, bytes | complex) or value is Ellipsis:
                    raise PolicyRejected(line, f"the constant {value!r} is not allowed")
                if isinstance(value, int) and abs(value) > MAX_INTEGER:
                    raise PolicyRejected(line, "an integer this large is not allowed; write it as a float")
            case ast.Attribute(ctx=ast.Store()):
                raise PolicyRejected(line, "attributes cannot be assigned")
            case ast.BinOp(op=ast.LShift() | ast.RShift() as op) | ast.AugAssign(op=ast.LShift() | ast.RShift() as op):
                raise PolicyRejected(line, f"{'<<' if isinstance(op, ast.LShift) else '>>'} is not allowed")
            case ast.Assert(msg=message):
                if not (message is None or isinstance(message, ast.Constant)):
                    raise PolicyRejected(line, "the message of an assert must be a constant")
            case ast.Dict(keys=keys):
                if not all(isinstance(key, ast.Constant) for key in keys):
                    raise PolicyRejected(line, "the keys of a dict must be constants")
            case ast.comprehension(is_async=1):
                raise PolicyRejected(None, "async is not allowed")
            case ast.For(target=target) | ast.comprehension(target=target):
                if any(isinstance(inner, ast.Subscript | ast.Attribute | ast.Starred) for inner in ast.walk(target)):
                    raise PolicyRejected(target.lineno, "a loop must run over plain names")
            case ast.keyword(arg=None):
                raise PolicyRejected(line, "**arguments are not allowed")
            case ast.Assign(targets=targets):
                if any(isinstance(target, ast.Starred) for target in targets):
                    raise PolicyRejected(line, "a starred name needs others beside it")

    def _is_constant(self, node: ast.expr) -> bool:
        match node:
            case ast.UnaryOp(operand=operand):
                return self._is_constant(operand)
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                return f"{self.aliases.get(module)}.{name}" in CONSTANTS
            case ast.Name(id=name):
                return self.aliases.get(name) in CONSTANTS
        return isinstance(node, ast.Constant)

    def _check_name(self, name: str, line: int | None) -> None:
        if not name.isascii():
            raise PolicyRejected(line, f"the name {name!r} is not ASCII")
        if name.startswith("__"):
            raise PolicyRejected(line, f"the name {name!r} begins with two underscores")

    def _no_recursion(self) -> None:
        calls = {
            name: [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and inner.id in self.defined]
            for name, node in self.defined.items()
        }
        finished: set[str] = set()

        def visit(name: str, path: tuple[str, ...]) -> None:
            if len(path) > MAX_CALLS:
                raise PolicyRejected(
                    self.defined[name].lineno, f"functions call each other {MAX_CALLS} deep; at most that is allowed"
                )
            if name in path:
                raise PolicyRejected(self.defined[name].lineno, f"{name!r} calls itself; recursion is not allowed")
            if name not in finished:
                for callee in calls[name]:
                    visit(callee, (*path, name))
                finished.add(name)

        for name in self.defined:
            visit(name, ())


def _give_own_names(node: ast.ListComp | ast.GeneratorExp, number: int) -> None:
    """Renames the variables of a comprehension, which is a scope of its own, so that they are no others' namesakes."""
    first = node.generators[0].iter  # evaluated outside
    inside = [child for child in ast.walk(node) if isinstance(child, ast.Name)]
    outside = {id(child) for child in ast.walk(first)}
    stores = (ast.walk(generator.target) for generator in node.generators)
    targets = {child.id for children in stores for child in children if isinstance(child, ast.Name)}
    for child in inside:
        if child.id in targets and id(child) not in outside:
            child.id = f"own {child.id} of {number}"


class _Names(ast.NodeTransformer):
    """Replaces each name of a function by its full name, and refuses every name and attribute that is not allowed."""

    def __init__(self, aliases: dict[str, str], assigned: set[str], defined: dict[str, ast.FunctionDef]):
        self.aliases, self.assigned, self.defined = aliases, assigned, defined

    def visit_Import(self, node: ast.Import | ast.ImportFrom):
        return ast.copy_location(ast.Pass(), node)

    visit_ImportFrom = visit_Import

    def visit_AnnAssign(self, node: ast.AnnAssign):
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return self.visit(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_GeneratorExp(self, node: ast.GeneratorExp):
        # Only where it is used up at once may a generator stay one: else it could hold, and be held by, a list.
        return self.generic_visit(ast.copy_location(ast.ListComp(node.elt, node.generators), node))

    def visit_Expr(self, node: ast.Expr):
        if isinstance(node.value, ast.Constant):
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant):
        if isinstance(node.value, str) and len(node.value) > MAX_STRING:  # a docstring is gone already
            raise PolicyRejected(node.lineno, f"a string of more than {MAX_STRING} characters is not allowed")
        return node

    def visit_Name(self, node: ast.Name):
        if isinstance(node.ctx, ast.Store) or node.id in self.assigned:
            return node
        if node.id in self.aliases:
            return self._constant(node, self.aliases[node.id])
        if node.id in self.defined or node.id in BUILTINS:
            raise PolicyRejected(node.lineno, f"the function {node.id!r} may only be called, not used as a value")
        raise PolicyRejected(node.lineno, f"the name {node.id!r} is not defined, or not allowed")

    def visit_Attribute(self, node: ast.Attribute):
        if dotted := self._dotted(node):
            return self._constant(node, dotted)
        if node.attr not in ATTRIBUTES:
            raise PolicyRejected(node.lineno, f"the attribute .{node.attr} is not allowed")
        return self.generic_visit(node)

    def _constant(self, node: ast.expr, dotted: str) -> ast.expr:
        if dotted == "np.newaxis":
            return ast.copy_location(ast.Constant(None), node)
        if dotted not in CONSTANTS:
            reason = "may only be called, not used as a value" if dotted in FUNCTIONS else "is not among what a policy may use"
            raise PolicyRejected(node.lineno, f"{dotted} {reason}")
        return ast.copy_location(ast.Constant(CONSTANTS[dotted]), node)

    def visit_Call(self, node: ast.Call):
        called = node.func.id if isinstance(node.func, ast.Name) and node.func.id not in self.aliases else None
        takes_any = called in self.defined or called == "dict"
        for keyword in node.keywords:
            if keyword.arg not in KEYWORDS and not takes_any:
                raise PolicyRejected(node.lineno, f"the argument {keyword.arg}= is not allowed")
            if keyword.arg == "dtype" and not takes_any:
                keyword.value = self._dtype(keyword.value)
        match node.func:
            case ast.Attribute() if dotted := self._dotted(node.func):
                function = self._function(node, dotted)
            case ast.Attribute(attr=method):
                if method not in METHODS:
                    raise PolicyRejected(node.lineno, f"the method .{method}() is not allowed")
                if method == "astype":
                    node.args[:1] = [self._dtype(argument) for argument in node.args[:1]]
                node.func.value = self.visit(node.func.value)
                function = node.func
            case ast.Name(id=name) if name in self.assigned:
                raise PolicyRejected(node.lineno, f"{name!r} is a variable here; only functions can be called")
            case ast.Name(id=name) if name in self.aliases:
                function = self._function(node, self.aliases[name])
            case ast.Name(id=name):
                if name not in self.defined and name not in BUILTINS:
                    raise PolicyRejected(node.lineno, f"the function {name!r} is not defined, or not allowed")
                function = node.func
            case _:
                raise PolicyRejected(node.lineno, "only a function that is named can be called")
        name = function.id if isinstance(function, ast.Name) else ""
        if name in ("np.array", "np.asarray", "np.zeros", "np.ones", "np.empty", "np.full"):
            place = slice(2, 3) if name == "np.full" else slice(1, 2)
            node.args[place] = [self._dtype(argument) for argument in node.args[place]]
        if sum(not is_dtype(argument) for argument in node.args) > POSITIONAL.get(name, MAX_NODES):
            raise PolicyRejected(node.lineno, f"{name} takes at most {POSITIONAL[name]} arguments by position here")
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)) if name in NUMPY else ():
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str) and (name, argument.value) not in STRINGS:
                raise PolicyRejected(node.lineno, f"{name} takes no string here")
            if isinstance(argument, ast.Starred):
                raise PolicyRejected(node.lineno, f"{name} takes no starred arguments; pass a list")
        arguments = [argument if is_dtype(argument) else None for argument in node.args]
        if name == "map" and node.args:
            match node.args[0]:
                case ast.Name(id=mapped) if mapped in self.defined or mapped in _MAPPED - self.assigned - self.aliases.keys():
                    arguments[0] = node.args[0]
        for position, (kept, argument) in enumerate(zip(arguments, node.args, strict=True)):
            if isinstance(argument, ast.GeneratorExp) and name in CONSUMERS:
                self.generic_visit(argument)
            elif kept is None:
                node.args[position] = self.visit(argument)
        for keyword in node.keywords:
            if not is_dtype(keyword.value):
                keyword.value = self.visit(keyword.value)
        node.func = function
        return node

    def _function(self, node: ast.Call, dotted: str) -> ast.Name:
        if dotted not in FUNCTIONS:
            raise PolicyRejected(node.lineno, f"{dotted} is not among the functions that a policy may use")
        return ast.copy_location(ast.Name(dotted, ast.Load()), node)

    def _dotted(self, node: ast.expr) -> str | None:
        """The full name of an attribute of an imported module, or None if it is not one."""
        names = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in self.aliases and node.id not in self.assigned:
            return ".".join([self.aliases[node.id], *reversed(names)])
        return None

    def _dtype(self, node: ast.expr) -> ast.expr:
        """A dtype is one of a few, whichever way it is written, or that of a variable."""
        match node:
            case ast.Attribute(attr="dtype", value=ast.Name(id=name) as array) if name in self.assigned:
                return ast.copy_location(ast.Call(ast.Name("dtype of", ast.Load()), [array], []), node)
            case ast.Constant(value=str(name)) | ast.Name(id=name) if name in DTYPES and name not in self.assigned:
                pass
            case ast.Attribute(attr=name) if (dotted := self._dotted(node)) and dotted.startswith("np."):
                name = dotted.removeprefix("np.").removesuffix("_")
            case ast.Constant(value=None):
                name = "float"
            case _:
                name = None
        if name not in DTYPES:
            raise PolicyRejected(node.lineno, f"the dtype must be one of {', '.join(DTYPES)}, or that of a variable")
        return ast.copy_location(ast.Name(f"dtype {name}", ast.Load()), node)


_MAPPED = _words("float int abs bool")
_DTYPE_NAMES = frozenset(("dtype of", *(f"dtype {name}" for name in DTYPES)))


def is_dtype(node: ast.expr) -> bool:
    name = node.func if isinstance(node, ast.Call) else node
    return isinstance(name, ast.Name) and name.id in _DTYPE_NAMES
