"""Layouts: how an observation's arrays lie in bytes, so that another process can rebuild the observation.

A layout is ``(dtype, shape, is_scalar)`` for an array or a number, ``("dict", keys, layouts)`` or ``("tuple", layouts)``.
"""

import math
from typing import Any

import numpy as np

from llmwrappers.containment.errors import PolicyFault

Layout = tuple[Any, ...]


def layout_of(observation: Any) -> Layout:
    """Returns the layout of an observation.

    Raises:
        PolicyFault: it holds something other than numbers

    Example:
        >>> layout_of({"speed": np.zeros(3, np.float32), "gear": 2})
        ('dict', ('speed', 'gear'), (('<f4', (3,), False), ('<i8', (), True)))
    """
    if isinstance(observation, dict):
        return "dict", tuple(observation), tuple(map(layout_of, observation.values()))
    if isinstance(observation, tuple):
        return "tuple", tuple(map(layout_of, observation))
    try:
        array = np.asarray(observation)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        found = "text" if isinstance(observation, str) else f"a {type(observation).__name__} that is no array of numbers"
        raise PolicyFault(
            f"the observation holds {found}; gymnasium.wrappers.FilterObservation leaves out an entry, FlattenObservation "
            "makes one vector of all"
        )
    return array.dtype.str, array.shape, not isinstance(observation, np.ndarray | list)


def bytes_of(observation: Any) -> bytes:
    """Returns the bytes of an observation's arrays, in the order of its layout."""
    if isinstance(observation, dict):
        return b"".join(map(bytes_of, observation.values()))
    if isinstance(observation, tuple):
        return b"".join(map(bytes_of, observation))
    return np.asarray(observation).tobytes()


def size_of(layout: Layout) -> int:
    """Returns the number of bytes of an observation with this layout."""
    if layout[0] in ("dict", "tuple"):
        return sum(map(size_of, layout[-1]))
    return np.dtype(layout[0]).itemsize * math.prod(layout[1])


def laid_out(buffer: bytearray, start: int, layout: Layout) -> Any:
    """Returns a copy of the observation that a buffer holds from ``start`` on.

    Example:
        >>> observation = {"speed": np.float32([1, 2]), "gear": np.int64(2)}
        >>> laid_out(bytearray(bytes_of(observation)), 0, layout_of(observation))
        {'speed': array([1., 2.], dtype=float32), 'gear': np.int64(2)}
    """
    if layout[0] in ("dict", "tuple"):
        parts = []
        for part in layout[-1]:
            parts.append(laid_out(buffer, start, part))
            start += size_of(part)
        return dict(zip(layout[1], parts, strict=True)) if layout[0] == "dict" else tuple(parts)
    dtype, shape, is_scalar = layout
    array = np.ndarray(shape, dtype, buffer, start)
    return array[()] if is_scalar and not shape else array.copy()
