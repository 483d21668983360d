"""Interval arithmetic on action bounds: pure functions of arrays that broadcast against each other.

*Native* means in the environment's own units, *normalized* means in ``[-1, 1]``. The maps are written with the centre
and the half-width of the interval, because ``0 + 1 * x`` is ``x`` to the last bit: on ``[-1, 1]`` the map is the identity.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def to_native(action: NDArray, low: NDArray, high: NDArray) -> NDArray:
    """Maps a normalized action onto the interval ``[low, high]``.

    ``a = (low + high) / 2 + x (high - low) / 2``, clipped into the interval (CAMEL, arXiv 2502.11896, with x in [-1, 1]). The
    arrays broadcast against each other, so a batch (n, ...) works, too.

    Example:
        >>> to_native(np.array([-1.0, 0.0, 1.0]), np.array(0.0), np.array(4.0)).tolist()
        [0.0, 2.0, 4.0]
    """
    return scale(action, *center_and_half_width(low, high), low, high)


def center_and_half_width(low: NDArray, high: NDArray) -> tuple[NDArray, NDArray]:
    """Returns what :func:`to_native` needs of an interval; keep it to use the interval more than once.

    Example:
        >>> center_and_half_width(np.array([0.0]), np.array([4.0]))
        (array([2.]), array([2.]))
    """
    return (low + high) * 0.5, (high - low) * 0.5


def scale(action: NDArray, center: NDArray, half_width: NDArray, low: NDArray, high: NDArray) -> NDArray:
    """Maps a normalized action onto an interval whose centre and half-width are known, clipped into it.

    Example:
        >>> scale(np.array([0.5]), np.array([2.0]), np.array([2.0]), np.array([0.0]), np.array([4.0])).tolist()
        [3.0]
    """
    native = np.asarray(half_width * action)
    native += center
    # Rounding may leave the interval by a bit. np.clip takes five times as long on a few numbers.
    np.maximum(native, low, out=native)
    return np.minimum(native, high, out=native)


def to_normalized(action: ArrayLike, low: NDArray, high: NDArray) -> NDArray:
    """Maps a native action to ``[-1, 1]``, the inverse of :func:`to_native`; an interval of no width gives 0.

    An action outside the interval gives -1 or 1. The arrays broadcast against each other, as there.

    Example:
        >>> to_normalized(np.array([0.0, 2.0, 4.0]), np.array(0.0), np.array(4.0)).tolist()
        [-1.0, 0.0, 1.0]
    """
    width = np.asarray(high - low)
    centered = 2.0 * np.asarray(action) - (low + high)
    with np.errstate(over="ignore"):  # far outside a narrow interval
        return np.clip(np.divide(centered, width, out=np.zeros_like(centered), where=width > 0), -1.0, 1.0)


def interval_around(center: NDArray, radius: NDArray, low: NDArray, high: NDArray) -> tuple[NDArray, NDArray]:
    """Returns the part of ``[low, high]`` within ``radius`` (native units) of a native action.

    The centre is clipped into ``[low, high]`` first, so the interval has a width whenever ``radius`` is above 0. The arrays
    broadcast against each other.

    Example:
        >>> lower, upper = interval_around(np.array([9.0]), np.array([0.3]), np.array([-1.0]), np.array([1.0]))
        >>> lower.tolist(), upper.tolist()
        ([0.7], [1.0])
    """
    center = np.minimum(np.maximum(center, low), high)
    return np.maximum(center - radius, low), np.minimum(center + radius, high)
