"""Puts Gymnasium's spaces into words: shapes, bounds, the keys of a Dict, and where each lies in a flattened one."""

import functools
import operator
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.spaces.utils import flatdim

# Of an array whose seen range is stated entry by entry.
MOST_ENTRIES = 32
# By which a number may leave its bound because it has another precision.
ROUNDING = 1e-5


class Range(NamedTuple):
    """The least and the greatest value of each entry in observations of a Box, and whether another play sees the same."""

    low: np.ndarray
    high: np.ndarray
    is_repeatable: bool = True


def observation_words(env: gym.Env, seen: Mapping[tuple, Range] = MappingProxyType({})) -> str:
    """Says what ``obs`` is: an array, a number, or a dict or tuple of them; of a flattened space also which entries are what.

    Gymnasium sorts the entries of a Dict by their keys before it flattens them, whatever the documentation lists first.

    Args:
        seen: by the keys of each Box, where its observations were

    Example:
        >>> print(observation_words(gym.make("Blackjack-v1", disable_env_checker=True)))
        a tuple of numpy arrays, of which a policy reads what it needs by index:
          - `obs[0]`: one integer from 0 to 31, as an array of shape ()
          - `obs[1]`: one integer from 0 to 10, as an array of shape ()
          - `obs[2]`: one integer from 0 to 1, as an array of shape ()
        >>> print(observation_words(gym.wrappers.FlattenObservation(gym.make("Blackjack-v1", disable_env_checker=True))))
        numpy int64 array of shape (45,), flattened; whatever the documentation lists first, its entries are in this order:
          - `obs[0:32]`: [0], one-hot of 32 values, from 0
          - `obs[32:43]`: [1], one-hot of 11 values, from 0
          - `obs[43:45]`: [2], one-hot of 2 values, from 0
    """
    space = env.observation_space
    if parts := flattened_entries(env, seen.get(())):
        order = "flattened; whatever the documentation lists first, its entries are in this order"
        rows = [f"  - `obs[{start}:{end}]`: {name}{', ' * bool(name)}{words}" for name, words, start, end in parts]
        return "\n".join([f"{_array(space)}, {order}:", *rows])
    if isinstance(space, Dict | Tuple):
        kind, by = ("dict", "key") if isinstance(space, Dict) else ("tuple", "index")
        parts = sorted(leaves(space), key=str) if kind == "dict" else leaves(space)
        rows = [f"  - `obs{''.join(f'[{key!r}]' for key in path)}`: {_words(part, seen.get(path))}" for path, part in parts]
        return "\n".join([f"a {kind} of numpy arrays, of which a policy reads what it needs by {by}:", *rows])
    return _array(space) if isinstance(space, Box) else _words(space)


def flattened_entries(env: gym.Env, seen: Range | None = None) -> list[tuple[str, str, int, int]]:
    """Returns name ("" of what was no Dict or Tuple), words, start and end of the entries; nothing of what is not flattened."""
    layer, shape = env, env.observation_space.shape
    while isinstance(layer, gym.Wrapper):
        space = layer.env.observation_space
        if isinstance(layer, gym.wrappers.FlattenObservation) and not (isinstance(space, Box) and len(space.shape) == 1):
            break
        layer = layer.env
    else:
        return []
    if layer.observation_space.shape != shape:  # changed since
        return []
    entries, start = [], 0
    for path, part in leaves(space):
        name = "".join(f"[{key}]" if isinstance(key, int) else f"{'/' * (i > 0)}{key}" for i, key in enumerate(path))
        end = start + flatdim(part)
        entries.append(
            (
                name,
                _words_when_flat(part, seen and Range(seen.low[start:end], seen.high[start:end], seen.is_repeatable)),
                start,
                end,
            )
        )
        start = end
    return entries


def bounds_words(space: Box, seen: Range | None = None) -> str:
    """Says in which interval each entry of a Box lies: the declared one, unless entries were seen outside.

    Example:
        >>> space = Box(0.0, 1.0, (2,))
        >>> bounds_words(space, Range(np.array([0.0, 0.2]), np.array([0.5, 1.0])))
        '[0, 1]'
        >>> bounds_words(space, Range(np.array([-3.0, 0.0]), np.array([5.0, 5.0])))
        'its own interval (low [-3, 0], high 5) in episodes of random and of constant actions; the declared bounds, from 0 \
to 1, do not hold'
    """
    if seen is None or not _leaves(space, seen.low, seen.high):
        return _interval(space.low, space.high)
    do_not_hold = f"the declared bounds, from {number_words(space.low)} to {number_words(space.high)}, do not hold"
    if not seen.is_repeatable:
        return f"an unknown interval: {do_not_hold}"
    low, high = seen.low, seen.high
    if low.size > MOST_ENTRIES:
        low, high = low.min(keepdims=True), high.max(keepdims=True)
    return f"{_interval(low, high)} in episodes of random and of constant actions; {do_not_hold}"


def _interval(low: np.ndarray, high: np.ndarray) -> str:
    lowest, highest = number_words(low), number_words(high)
    return f"its own interval (low {lowest}, high {highest})" if "[" in lowest + highest else f"[{lowest}, {highest}]"


def _leaves(space: Box, low: np.ndarray, high: np.ndarray) -> bool:
    least, most = space.low.ravel().astype(float), space.high.ravel().astype(float)
    allowed = ROUNDING * np.maximum(1, np.fmin(np.abs(least), np.abs(most)))
    return bool(((low.ravel() < least - allowed) | (high.ravel() > most + allowed)).any())


def number_words(array: np.ndarray) -> str:
    """Writes an array, as one number if its entries are all the same."""
    if (array == array.flat[0]).all():
        return f"{array.flat[0]:.6g}"
    return np.array2string(array, separator=", ", max_line_width=10_000, formatter={"all": lambda number: f"{number:.6g}"})


def without_addresses(text: str) -> str:
    """Returns a text without addresses in memory, which mean nothing and differ from run to run.

    Example:
        >>> without_addresses("Mission(<function mission at 0x7f31d6c8c9a0>)")
        'Mission(<function mission>)'
    """
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def leaves(space: gym.Space, path: tuple = ()) -> Iterator[tuple[tuple, gym.Space]]:
    """Yields the spaces in a Dict or a Tuple, however deep, with the keys that lead there, in the order of a flattened one."""
    if isinstance(space, Dict | Tuple):
        for key, part in space.spaces.items() if isinstance(space, Dict) else enumerate(space.spaces):
            yield from leaves(part, (*path, key))
    else:
        yield path, space


def leaf(observation: Any, path: tuple) -> Any:
    """Returns the part of an observation to which a path of ``leaves`` leads."""
    return functools.reduce(operator.getitem, path, observation)


def _array(space: gym.Space) -> str:
    return f"numpy {space.dtype} array of shape {space.shape}"


def _words(space: gym.Space, seen: Range | None = None) -> str:
    if isinstance(space, Box):
        bounded = (space.bounded_below | space.bounded_above).any()
        return f"array of shape {space.shape}{f', each entry in {bounds_words(space, seen)}' if bounded else ''}"
    if isinstance(space, Discrete):
        return f"one integer from {space.start} to {space.start + space.n - 1}, as an array of shape ()"
    if isinstance(space, MultiDiscrete):
        first, last = number_words(space.start), number_words(space.start + space.nvec - 1)
        return f"array of shape {space.shape}, integers from {first} to {last}"
    if isinstance(space, MultiBinary):
        return f"array of shape {space.shape} of 0 and 1"
    if space.dtype is not None and space.dtype.kind == "U":
        return "text, which no policy can read"
    return without_addresses(str(space))


def _words_when_flat(space: gym.Space, seen: Range | None) -> str:
    if isinstance(space, Box):
        return _words(space, seen) + ", row by row" * (len(space.shape) > 1)
    if isinstance(space, Discrete):
        return f"one-hot of {space.n} values, from {space.start}"
    if isinstance(space, MultiDiscrete):
        return f"one-hot of each of {space.nvec.tolist()} values, one after the other"
    return _words(space)
