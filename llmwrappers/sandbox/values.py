"""What a value of a policy may be: numbers, strings, and arrays, lists, tuples and dicts of bounded size."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from llmwrappers.sandbox.language import DTYPES, MAX_INTEGER, MAX_SIZE, PolicyFault

MAX_NESTING = 8
MAX_KEY = 4


def too_large(limit: int = MAX_SIZE) -> PolicyFault:
    return PolicyFault(f"a value has more than {limit} elements, or is nested deeper than {MAX_NESTING}")


def bounded_integer(value: Any) -> Any:
    if type(value) is int and not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise PolicyFault("an integer exceeds 2**62")
    return value


FLOATS = frozenset((float, np.float64, np.float32))
ATOMS = FLOATS | {bool, int, type(None), np.int64, np.int32, np.bool_}


def size_of(value: Any, limit: int = MAX_SIZE, nesting: int = 0) -> int:
    """The number of elements in a value, lists within lists counted as often as they are met.

    Raises:
        PolicyFault: more than ``limit``, nested too deep, or an integer that is too large
    """
    kind = type(value)
    if kind in ATOMS:
        bounded_integer(value)
        return 1
    if kind is np.ndarray:
        if value.dtype.kind not in "fiub":
            raise PolicyFault("an array holds something else than real numbers")
        # An array without elements may still be a long one along another dimension.
        size = value.size or math.prod(max(length, 1) for length in value.shape)
        if size > limit:
            raise too_large(limit)
        return size
    if kind in (list, tuple, dict):
        if nesting >= MAX_NESTING or len(value) > MAX_SIZE:
            raise too_large(limit)
        total = 1
        for item in value.values() if kind is dict else value:
            total += size_of(item, limit, nesting + 1)
            if total > limit:
                raise too_large(limit)
        return total
    if kind in (str, range):
        if len(value) > MAX_SIZE:
            raise too_large()
        return max(1, len(value))
    if kind is slice or value is Ellipsis or (kind is type and value in DTYPES.values()):
        return 1
    if isinstance(value, np.number) and value.dtype.kind in "fiu":
        return 1
    raise PolicyFault(f"a {kind.__name__} is none of the values that a policy works with")


def require_no_cycle(container: Any, value: Any) -> None:
    """Raises if a value that is put into a list or a dict holds it: only Python's collector would free the two."""
    if value is container:
        raise PolicyFault("a list or a dict cannot hold itself")
    if type(value) in (list, tuple, dict):
        for item in value.values() if type(value) is dict else value:
            if type(item) in (list, tuple, dict):
                require_no_cycle(container, item)


def require_numbers(value: Any) -> None:
    """Raises if there is something else than numbers, in lists within lists, in what NumPy is given."""
    if type(value) in (list, tuple):
        for item in value:
            if item is None:
                raise PolicyFault("NumPy's functions take no None in a list")
            require_numbers(item)
    elif type(value) in (str, dict):
        raise PolicyFault("NumPy's functions take numbers and lists of numbers here")


def require_key(key: Any) -> None:
    """Raises if a dict would look long for a key: nested tuples can be made that all have the same hash."""
    for part in key if type(key) is tuple and len(key) <= MAX_KEY else (key,):
        if type(part) not in ATOMS and type(part) is not str:
            raise PolicyFault(f"a key of a dict must be a number, a string, or a tuple of at most {MAX_KEY} of them")


def require_few_digits(digits: Any) -> None:
    if digits is not None and not -400 < digits < 400:
        raise PolicyFault("the number of digits to round to is too large")


def rank_of(value: Any) -> int:
    """The number of dimensions that NumPy will see, at most."""
    return value.ndim if type(value) is np.ndarray else MAX_NESTING if type(value) in (list, tuple) else 0


def require_broadcast_fits(a: Any, b: Any, is_matrix_product: bool, limit: int = MAX_SIZE) -> None:
    """Raises if the result of an operator on two arrays would be too large."""
    if type(a) is type(b) and type(a) in (list, tuple):
        return  # joined or compared, not computed with
    shape_a, shape_b = np.shape(a), np.shape(b)
    if is_matrix_product:
        if size_of(a, limit) * size_of(b, limit) // max((*shape_a[-1:], 1)) > 100 * MAX_SIZE:
            raise too_large(limit)
    elif math.prod(np.broadcast_shapes(shape_a, shape_b)) > limit:
        raise too_large(limit)


def broadcast_size(*values: Any) -> int:
    """How many elements there are in what values are broadcast to."""
    return math.prod(np.broadcast_shapes(*map(np.shape, values)))


def created_size(function: Callable, *given: Any, **named: Any) -> float:
    """How many elements a creation makes, at most."""
    if function is np.select:  # of all that is in the two lists, and the default
        parts = [*(part for values in given[:2] for part in values), *given[2:], *named.values()]
        return broadcast_size(*parts)
    first, *others = (*given, *(named.pop(name) for name in ("start", "stop") if name in named))

    def magnitudes(value: Any) -> np.ndarray:
        return np.abs(np.asarray(value, dtype=np.float64))

    if function is np.arange:
        numbers = [float(value) for value in (first, *others)]
        start, stop, step = (0.0, *numbers, 1.0) if len(numbers) == 1 else (*numbers, 1.0)[:3]
        return abs((stop - start) / float(named.get("step", step)))
    if function is np.linspace:
        num = float(magnitudes(named.get("num", others[1] if len(others) > 1 else 50)).max())
        return num * max(size_of(value) for value in (first, *others, *named.values()))
    if function in (np.repeat, np.tile, np.broadcast_to):
        repeats = magnitudes(others[0])
        return size_of(first) * max(float(repeats.sum()), float(repeats.prod()), 1.0)
    if function is np.diag:
        return (size_of(first) + float(magnitudes(others or 0).sum())) ** 2 if rank_of(first) != 2 else size_of(first)
    if function in (np.eye, np.identity):
        return float(max(magnitudes(value).max() for value in (first, *others) if value is not None)) ** 2
    return float(np.maximum(magnitudes(first), 1.0).prod())


def own_copy(observation: Any) -> Any:
    """A copy of an observation in float64; of a dict, sorted, of its values. Raises PolicyFault for what is no number."""
    if isinstance(observation, dict):
        return {key: own_copy(observation[key]) for key in sorted(observation)}
    try:
        return np.array(observation, dtype=np.float64)
    except (ValueError, TypeError) as error:
        found = "text" if isinstance(observation, str) else f"a {type(observation).__name__} that is no array of numbers"
        raise PolicyFault(
            f"the observation holds {found}; gymnasium.wrappers.FilterObservation leaves out an entry, FlattenObservation "
            "makes one vector of all"
        ) from error


# ---------------------------------------------------------------------------------------- observations as they cross a pipe

Layout = list[int] | dict[str, Any]
"""The shape of an array; of a dict, the layouts of its values."""


def layout_of(observation: Any) -> Layout:
    """The layout of an observation that is an own copy."""
    if isinstance(observation, dict):
        return {key: layout_of(value) for key, value in observation.items()}
    return list(observation.shape)


def layout_of_space(space: Any) -> Layout | None:
    """The layout of the observations of one of Gymnasium's spaces, which this folder does not import; None if it has none."""
    if isinstance(parts := getattr(space, "spaces", None), dict):
        layouts = {key: layout_of_space(parts[key]) for key in sorted(parts)}
        return None if None in layouts.values() else layouts
    return None if space.shape is None else list(space.shape)


def size_of_layout(layout: Layout) -> int:
    """How many numbers an observation has."""
    return sum(map(size_of_layout, layout.values())) if isinstance(layout, dict) else math.prod(layout)


def numbers_of(observation: Any) -> np.ndarray:
    """All numbers of an observation in one vector."""
    if isinstance(observation, dict):
        return np.concatenate([np.zeros(0), *map(numbers_of, observation.values())])
    return observation.ravel()


def laid_out(numbers: np.ndarray, layout: Layout) -> Any:
    """The observation (a copy) that has these numbers and this layout."""
    if not isinstance(layout, dict):
        return numbers.copy().reshape(layout)
    observation, start = {}, 0
    for key, part in layout.items():
        end = start + size_of_layout(part)
        observation[key], start = laid_out(numbers[start:end], part), end
    return observation
