"""Meter: counts the work of one call of a policy, and holds the tested forms of what could grow without end."""

import math
import operator
import types
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from llmwrappers.sandbox import operations
from llmwrappers.sandbox.language import MAX_SIZE, OPERATORS, ROUNDINGS, STRINGS, PolicyFault
from llmwrappers.sandbox.values import (
    ATOMS,
    FLOATS,
    bounded_integer,
    broadcast_size,
    created_size,
    rank_of,
    require_broadcast_fits,
    require_few_digits,
    require_key,
    require_no_cycle,
    require_numbers,
    size_of,
    too_large,
)

MAX_WORK = 100_000
"""Units of work in one call: about one for each node of the program that runs inside a loop or a helper function."""
ELEMENTS_A_UNIT = 100
MAX_LIGHT = 256
"""An array of more elements makes all later work of the same call count more, in proportion."""


class Meter:
    """Counts the work of one call and holds the tested forms that count.

    ``weight`` is the worth of a unit: where large arrays are about, every operation may take as much longer. ``limit`` is how
    many elements a value may have: ``MAX_SIZE``, or those of a larger observation. Then every operation pays for its size, of
    which a unit buys the more, the higher the limit: as many passes over the whole as else.
    """

    def __init__(self, limit: int = MAX_SIZE):
        self.limit, self.pays_all, self._elements_a_unit = limit, limit > MAX_SIZE, ELEMENTS_A_UNIT * limit // MAX_SIZE
        self._size = partial(size_of, limit=limit)
        self.spent, self.weight, self.base = 0, 1, 1
        self.frozen: set[int] = set()  # lists and dicts that live on between calls

    def reset(self, size: int = 1) -> None:
        """Allows ``MAX_WORK`` again, for an observation of ``size`` numbers."""
        self.spent = 0
        self.weight = self.base if size <= MAX_LIGHT else max(self.base, min(size, MAX_SIZE) // MAX_LIGHT)

    def spend(self, work: int) -> None:
        """Adds to the work of this call and raises PolicyFault when it is too much."""
        self.spent += work
        # All of it, because an array that is large now may have been used before.
        if self.spent * self.weight > MAX_WORK:
            raise PolicyFault("too much work in one call: its loops run too long")

    def tested_forms(self) -> dict[str, Callable]:
        """Returns the tested forms by the names that a compiled program calls them by."""
        lazy: dict[str, Callable] = {
            "map": lambda function, *values: map(function, *map(self._value, values)),
            "enumerate": lambda values, start=0: enumerate(self._value(values), bounded_integer(operator.index(start))),
            "zip": lambda *values, strict=False: zip(*map(self._value, values), strict=strict),
            "reversed": lambda values: reversed(self._value(values)),
        }
        forms: dict[str, Callable] = {
            **{f"lazy {name}": form for name, form in lazy.items()},
            **{name: lambda *values, f=f, **named: list(f(*values, **named)) for name, f in lazy.items()},
            **{name: lambda x, function=function: bounded_integer(function(x)) for name, function in ROUNDINGS.items()},
            **{node.__name__: self._operation(function) for node, function in OPERATORS.items()},
            **{f"in-place {name}": self._operation(function, in_place=True) for name, function in operations.IN_PLACE.items()},
            **{f"unary {name}": lambda x, f=f: self._unary(f, x) for name, f in operations.UNARY.items()},
            **{f"comparison {name}": self._operation(function) for name, function in operations.COMPARED.items()},
            "loop": self._loop,
            "growing loop": lambda values, work: (self._each if type(values) is list else self._loop)(values, work),
            "entry": self.spend,
            "value": self._value,
            "list": self._list,
            "item": self._item,
            "slice": slice,
            "setitem": self._setitem,
            "augment": self._augment,
            "comparisons": self._compare,
            "call": self._call,
            "flat call": self._call if self.pays_all else self._flat_call,
            "creation": self._creation,
            "append": self._append,
            "row": self._row,
            "range": self._range,
            "int": lambda *arguments: bounded_integer(int(*arguments)),
            "round": self._round,
            "pow": self._operation(operator.pow),
            "sum": self._sum,
        }
        return {f"tested {name}": form for name, form in forms.items()}

    def _operation(self, function: Callable, in_place: bool = False) -> Callable:
        """An operator, tested: at once where two floats, a float and an array, or two vectors meet, of which nothing grows."""
        general = self._in_place if in_place else self._binary
        if self.pays_all:
            return lambda a, b: general(function, a, b)
        is_elementwise = function not in (*operations.SLOW_OPERATORS, *operations.MATRIX_PRODUCTS, *operations.CONTAINMENTS)

        def tested(a: Any, b: Any) -> Any:
            kind_a, kind_b = type(a), type(b)
            if kind_a in FLOATS and kind_b in FLOATS:
                return function(a, b)
            if is_elementwise and (kind_a is np.ndarray or kind_b is np.ndarray):
                if (kind_a is np.ndarray and kind_b in FLOATS) or (kind_b is np.ndarray and kind_a in FLOATS):
                    return function(a, b)
                if kind_a is kind_b and a.ndim == b.ndim == 1:
                    return function(a, b)
            return general(function, a, b)

        return tested

    def weigh(self, size: int) -> None:
        """Lets all work count more from now on if a value of this many elements is about."""
        if size > MAX_LIGHT:
            if size > self.limit:
                raise too_large(self.limit)
            self.weight = max(self.weight, min(size, MAX_SIZE) // MAX_LIGHT)

    def _pay(self, size: int) -> None:
        """Spends for a value of this many elements."""
        if size > MAX_LIGHT:
            self.weigh(min(size, self.limit) if self.pays_all else size)  # what several values have together
        self.spend(1 + size // self._elements_a_unit)

    def _value(self, value: Any) -> Any:
        if type(value).__name__ == "generator":
            value = list(value)
        self._pay(self._size(value))
        return value

    def _list(self, values: list) -> list:
        """What a comprehension has made."""
        self.weigh(len(values))
        return values

    def _place(self, container: Any, index: Any) -> None:
        """Raises if an index picks more than may be, or is a key that a dict looks long for."""
        self._value(index)
        if type(container) is dict:
            require_key(index)
        if type(container) is not np.ndarray:
            return
        parts = index if type(index) is tuple else (index,)
        for part in parts:  # a truth value would add a dimension
            if type(part) in (bool, np.bool_) or (type(part) is np.ndarray and part.ndim == 0 and part.dtype.kind == "b"):
                raise PolicyFault("an index must be an integer, a slice or a list, not a truth value")
        if shapes := [np.shape(part) for part in parts if type(part) in (np.ndarray, list, tuple)]:
            if parts is not index and type(index) is np.ndarray and index.dtype.kind == "b":
                return  # picks each at most once
            each = container.size if parts is index else container.size // max(len(container), 1)
            if all(type(part) is int or (type(part) is np.ndarray and part.dtype.kind in "iu") for part in parts):
                each = math.prod(container.shape[len(parts) :])
            if math.prod(np.broadcast_shapes(*shapes)) * each > 100 * MAX_SIZE:
                raise too_large(self.limit)

    def _item(self, container: Any, index: Any) -> Any:
        if type(index) is int and type(container) in (np.ndarray, list, tuple):
            return container[index]
        self._place(container, index)
        item = container[index]
        if type(item) is np.ndarray:
            self._pay(self._size(item))
        return item

    def _loop(self, iterable: Any, work: int) -> Any:
        if not hasattr(iterable, "__len__"):
            return self._each(iterable, work)
        self.spend(len(iterable) * work)
        return iterable

    def _each(self, values: Iterable[Any], work: int) -> Iterator[Any]:
        for value in values:
            self.spend(work)
            yield value

    def _range(self, *arguments: Any) -> range:
        result = range(*map(bounded_integer, arguments))
        if len(result) > MAX_SIZE:
            raise too_large(self.limit)
        return result

    @staticmethod
    def _round(value: Any, ndigits: Any = None) -> Any:
        require_few_digits(ndigits)
        return bounded_integer(round(value) if ndigits is None else round(value, ndigits))

    def _sum(self, values: Any, start: Any = 0) -> Any:
        if type(values) is np.ndarray and values.ndim == 1 and type(start) in ATOMS:
            self._pay(self._size(values))
            self.spend(values.size)
            return sum(values, start)
        for value in self._value(values):
            start = self._binary(operator.add, start, value)
        return start

    def _setitem(self, value: Any, container: Any, index: Any) -> None:
        if type(container) is np.ndarray and type(index) is int and type(value) in ATOMS:
            container[index] = value
            return
        if type(container) is list and type(index) is slice:
            raise PolicyFault("a slice of a list cannot be assigned")
        if type(container) is dict and len(container) >= MAX_SIZE:
            raise too_large(self.limit)
        self._require_own(container)
        self._place(container, index)
        if self.pays_all and type(container) is np.ndarray:
            self._pay(container.size)
        value = self._value(value)
        require_no_cycle(container, value)
        container[index] = value

    def _augment(self, name: str, container: Any, index: Any, value: Any) -> None:
        result = self._in_place(operations.IN_PLACE[name], self._item(container, index), value)
        if type(container) is np.ndarray:
            container[index] = result
        else:
            self._setitem(result, container, index)

    def _unary(self, function: Callable, value: Any) -> Any:
        self._pay(self._size(value))
        return bounded_integer(function(value))

    def _in_place(self, function: Callable, a: Any, b: Any) -> Any:
        if type(a) in (list, dict):
            self._require_own(a)
            self._size(b)  # which ends, as the search for a cycle then does
            if b is not a:  # a list may be joined to itself
                require_no_cycle(a, b)
        return self._binary(function, a, b)

    def _require_own(self, container: Any) -> None:
        if id(container) in self.frozen:
            raise PolicyFault("a list or dict outside functions is changed by them; a policy keeps no state between calls")

    def _compare(self, names: str, left: Any, *others: Any) -> Any:
        *chain, last = zip(names.split(), (left, *others), others, strict=False)
        for name, a, b in chain:
            if not (result := self._binary(operations.COMPARED[name], a, b)):
                return result
        return self._binary(operations.COMPARED[last[0]], *last[1:])

    def _binary(self, function: Callable, a: Any, b: Any) -> Any:
        if type(a) in ATOMS and type(b) in ATOMS:
            if function in operations.POWERS and type(a) is type(b) is int and abs(a) > 1 and b > 62:
                raise PolicyFault("an integer exceeds 2**62")
            result = function(a, b)
            return result if type(result) is not int else bounded_integer(result)
        size_a, size_b = self._size(a), self._size(b)
        self._pay(size_a + size_b)
        sequences = [value for value in (a, b) if type(value) in (list, tuple, str)]
        if sequences and function in operations.TIMES and len(sequences) == 1:
            times = b if sequences[0] is a else a
            if isinstance(times, int | np.integer) and int(times) * len(sequences[0]) > MAX_SIZE:
                raise too_large(self.limit)
        if type(a) is str and function in operations.MODULOS:
            raise PolicyFault("strings cannot be formatted")
        if type(b) is dict and function in operations.CONTAINMENTS:
            require_key(a)
        if size_a * size_b > self.limit and max(rank_of(a), rank_of(b)) > 1 and function not in operations.CONTAINMENTS:
            require_broadcast_fits(a, b, function in operations.MATRIX_PRODUCTS, self.limit)
        result = function(a, b)
        size = self._size(result)
        self._pay(10 * size if function in operations.SLOW_OPERATORS else size)
        return result

    def _call(self, function: Callable, *arguments: Any, **named: Any) -> Any:
        arguments = tuple(list(value) if type(value).__name__ == "generator" else value for value in arguments)
        on: Any = getattr(function, "__self__", None)
        on = None if isinstance(on, types.ModuleType) else on  # a builtin's
        total, product, rank = 0, 1, 0
        for value in (on, *arguments, *named.values()):
            size = self._size(value)
            if size > 1024 and function in operations.CUBIC:
                raise PolicyFault("matrices of more than 32 x 32 cannot be inverted or solved here")
            total, product, rank = total + size, product * max(size, 1), max(rank, rank_of(value))
        grows = product > 100 * MAX_SIZE and (rank > 1 or function in operations.SQUARING)
        if grows and (function not in operations.BROADCASTING or broadcast_size(*arguments, *named.values()) > self.limit):
            raise too_large(self.limit)
        self._pay(total)
        is_array_method = on is not None and type(on) not in (list, dict)
        if type(on) is list and function.__name__ in ("extend", "insert"):
            self._require_own(on)
            require_no_cycle(on, arguments)
        elif type(on) is dict and function.__name__ == "get":
            require_key(arguments[0])
        elif function is dict:
            for pair in arguments[0] if arguments and type(arguments[0]) in (list, tuple) else ():
                require_key(pair[0])
        elif is_array_method and function.__name__ == "round":
            require_few_digits(arguments[0] if arguments else named.get("decimals"))
        elif function in operations.ROUNDS:
            require_few_digits(arguments[1] if len(arguments) > 1 else named.get("decimals"))
        if is_array_method or function in operations.NUMPY_FUNCTIONS:
            for value in (*arguments, *named.values()):
                if type(value) is not str or (operations.NAME_OF.get(function), value) not in STRINGS:
                    require_numbers(value)
        self.spend(50 if function in operations.CUBIC else operations.BY_ELEMENT.get(function, 0) * total)
        result = function(*arguments, **named)
        if type(result) in operations.VIEWS:
            result = list(result)
        if result is None and function in operations.NUMPY_FUNCTIONS:
            raise PolicyFault("NumPy's functions take no None here")
        self._pay(self._size(result))
        if isinstance(on, list | dict):
            self.weigh(len(on))
        return result

    def _flat_call(self, function: Callable, *arguments: Any, **named: Any) -> Any:
        """A call that of numbers and vectors makes a number, or no longer a vector."""
        on: Any = getattr(function, "__self__", None)
        for value in (on, *arguments, *named.values()) if type(on) is np.ndarray else (*arguments, *named.values()):
            if type(value) not in ATOMS and (type(value) is not np.ndarray or value.ndim > 1):
                return self._call(function, *arguments, **named)
        return function(*arguments, **named)

    def _append(self, append: Callable, item: Any) -> None:
        values = append.__self__  # type: ignore[attr-defined]
        if type(item) in (list, tuple, dict):
            self._value(item)
            require_no_cycle(values, item)
        self._require_own(values)
        self.weigh(len(values) + 1)
        self.spend(1)
        append(item)

    def _row(self, function: Callable, numbers: Any, *arguments: Any, **named: Any) -> Any:
        """An array of one argument, at once if that is a list of a few numbers."""
        if type(numbers) not in (list, tuple) or len(numbers) > MAX_LIGHT or not ATOMS.issuperset(map(type, numbers)):
            return self._call(function, numbers, *arguments, **named)
        result = function(numbers, *arguments, **named)
        self._size(result)  # raises if it holds objects
        return result

    def _creation(self, function: Callable, *arguments: Any, **named: Any) -> Any:
        """A call whose arguments say how large its result is."""
        for value in (*arguments, *named.values()):
            self._size(value)
        if not created_size(function, *arguments, **named) <= self.limit:
            raise too_large(self.limit)
        return self._call(function, *arguments, **named)
