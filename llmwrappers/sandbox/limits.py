"""BoundedPolicy: plays a checked program so that it ends: integers below 2**62, values of bounded size, bounded work."""

import ast
import math
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from llmwrappers.sandbox.check import parse_policy
from llmwrappers.sandbox.language import BUILTINS, DTYPES, FUNCTIONS, MAX_SIZE, PolicyFault, PolicyRejected
from llmwrappers.sandbox.meter import Meter
from llmwrappers.sandbox.tested_forms import with_tests
from llmwrappers.sandbox.values import size_of


class BoundedPolicy:
    """Plays a checked program in this process: one observation in, one action of the right shape and finite out."""

    def __init__(self, source: str, action_shape: tuple[int, ...] | None):
        self.source, self.action_shape = source, action_shape
        self._policy, self._meter = run_top_level(*compile_policy(source))
        self._large = self._policy, self._meter  # as it plays observations above MAX_SIZE

    def __call__(self, observation: np.ndarray | dict[str, Any]) -> np.ndarray:
        """Returns the action (float64) at an observation of float64 arrays, which is the policy's to write into.

        Raises:
            PolicyFault: the program raised, worked for too long, or returned something else than a finite action
        """
        policy, meter = self._policy, self._meter
        if (size := _size(observation)) > MAX_SIZE:
            if self._large[1].limit != size:
                self._large = run_top_level(*compile_policy(self.source, pays_all=True), size)
            policy, meter = self._large
        meter.reset(_largest(observation))
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


def _size(observation: np.ndarray | dict[str, Any]) -> int:
    """How many numbers an observation has."""
    return sum(map(_size, observation.values())) if isinstance(observation, dict) else observation.size


def _largest(observation: np.ndarray | dict[str, Any]) -> int:
    """The size of the largest array in an observation."""
    return max(map(_largest, observation.values()), default=1) if isinstance(observation, dict) else observation.size


# --------------------------------------------------------------------------------------------------------- compile and run


def compile_policy(source: str, pays_all: bool = False) -> tuple[types.CodeType, frozenset[str]]:
    """Returns the code of a checked program, with its tests in place (see ``with_tests``), and the names that it uses.

    Raises:
        PolicyRejected: the program is not written in the language of policies
    """
    try:
        tree = with_tests(parse_policy(source), pays_all)
        names = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd code, which is no business of whoever plays it
            return compile(tree, "<policy>", "exec", dont_inherit=True), names
    except PolicyRejected:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise PolicyRejected(getattr(error, "lineno", None), f"{type(error).__name__}: {error}") from None


def run_top_level(code: types.CodeType, names: Iterable[str], limit: int = MAX_SIZE) -> tuple[Callable, Meter]:
    """Runs the top level of a compiled program; returns its ``policy`` and the meter to reset before each call."""
    meter = Meter(limit)
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
