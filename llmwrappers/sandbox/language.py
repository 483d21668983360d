"""The part of Python in which a policy may be written: what its programs may name.

It is an allow-list. A program is built only from the nodes, builtins, functions of NumPy and math, methods and attributes named
in this file. Nothing that a program can name opens a file, a process or a socket, or leads to something that does. ``check``
holds a program to it, ``limits`` sees to it that the program ends.
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
# May give arrays of any rank or size.
GENERAL = _numpy(
    "concatenate hstack append repeat tile eye identity diag outer matmul stack vstack column_stack reshape transpose squeeze "
    "expand_dims atleast_2d broadcast_to "
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
NUMPY = ELEMENTWISE | REDUCTIONS | PRODUCTS | CONVERSIONS | CREATIONS | GENERAL | SMALL
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
# Of a flat array they make no longer one.
FLAT_METHODS = _words(
    "copy clip dot cumsum cumprod astype ravel flatten conj squeeze transpose "
    "sum mean std var min max argmin argmax any all prod"
)
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


# ------------------------------------------------------------------------------------------------------------- the syntax

# CPython 3.11 counts the depth of the trees that all threads make together, and raises a SystemError where that is odd.
_PARSER = threading.Lock()


def syntax_tree(source: str) -> ast.Module:
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
