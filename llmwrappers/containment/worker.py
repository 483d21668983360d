"""The process that plays a policy: ContainedPolicy starts it as a script; it locks itself before any line of the policy runs.

Frames go over stdin and stdout, little-endian, never as pickle; each is answered before the next is sent::

    in   uint64 bytes; marshal of (sys.path, modules to load, that are absent, and whose import must fail, source)
    out  one row: whether the lock holds; if not, the process ends
    in   uint32 kind, state, layout, count; then by kind
         ASK, BEGIN   count observations, each in this layout; BEGIN begins an episode first
         LAYOUT       count bytes: marshal of a layout (see layouts), which gets the next number
         DROP         nothing: the state ends
    out  uint64 bytes of all that follows; a row per observation: uint8 kind, uint8 n, 6 unused bytes, n int64 (the shape), data

The data of a row are float64 (NUMBERS; TWO, a tuple of two; SET, in any order) or text in UTF-8 (FAULT), padded to a multiple
of 8 bytes.
"""

import importlib
import io
import marshal
import os
import random
import struct
import sys
import types
import warnings
from typing import Any

ASK, BEGIN, LAYOUT, DROP = range(4)
NUMBERS, SET, FAULT, TWO = range(4)
HEADER, SIZE = struct.Struct("<4I"), struct.Struct("<Q")
LONGEST_FAULT = 256


class Absent(types.ModuleType):
    """Replaces an unavailable module: programs may import it, name it in annotations and subclass it, but not use it."""

    __path__: list[str] = []  # noqa: RUF012  an empty package

    def __getattr__(self, name: str) -> "Absent":
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise ImportError(f"{self.__name__} is not available to a policy")

    def __mro_entries__(self, _: Any) -> tuple:
        return ()

    def __instancecheck__(self, _: Any) -> bool:
        return False

    def __or__(self, _: Any) -> Any:
        return self

    __ror__ = __getitem__ = __or__


class Nowhere(io.TextIOBase):
    """Discards what a policy prints."""

    def write(self, text: str) -> int:
        return len(text)


def read_exactly(view: memoryview) -> None:
    """Fills a view from stdin; ends the process if stdin is closed."""
    while view:
        count = os.readv(0, [view])
        if not count:
            os._exit(0)
        view = view[count:]


def write_all(frame: bytes) -> None:
    while frame:
        frame = frame[os.write(1, frame) :]


def main() -> None:
    """Serves one program until stdin closes."""
    size = bytearray(8)
    read_exactly(memoryview(size))
    message = bytearray(SIZE.unpack(size)[0])
    read_exactly(memoryview(message))
    path, modules, absent, failing, source = marshal.loads(message)
    sys.path[:] = path
    # Do not run llmwrappers/__init__.py: it would import Gymnasium.
    package = types.ModuleType("llmwrappers")
    package.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    sys.modules["llmwrappers"] = package
    import numpy as np

    from llmwrappers.containment.layouts import laid_out, size_of
    from llmwrappers.containment.lock import end_with_parent, lock_down
    from llmwrappers.containment.program import PAIR, Program, describe, is_pair

    for name in modules:
        try:
            importlib.import_module(name)
        except Exception:  # the program's own import raises it again, with its line
            continue
    gone: Any = None  # what sys.modules has for a module whose import fails
    for name in failing:
        sys.modules.setdefault(name, gone)
    for name in (*absent, *failing):
        for end in (i for i, letter in enumerate(name + ".") if letter == "."):
            sys.modules.setdefault(name[:end], Absent(name[:end]) if name in absent else gone)
    for module in (random, sys.modules.get("numpy.random")):  # NumPy's only if the policy names it
        if module is not None:
            module.seed(0)  # so that draws without a seed are the same in every run: runs with a seed must repeat
    np.median(np.ones(2))  # imports parts of NumPy at its first call
    warnings.simplefilter("ignore")
    sys.stdout = sys.stderr = Nowhere()
    sys.stdin = io.StringIO()
    end_with_parent()
    float64 = np.dtype(np.float64)

    def row(kind: int, shape: tuple[int, ...], data: bytes) -> bytes:
        return struct.pack(f"<BB6x{len(shape)}q", kind, len(shape), *shape) + data + bytes(-len(data) % 8)

    def fault(error: BaseException) -> bytes:
        text = describe(error).encode("utf-8", "replace")[:LONGEST_FAULT]
        return row(FAULT, (len(text),), text)

    def answered(answer: Any) -> bytes:
        kind = NUMBERS
        if isinstance(answer, set | frozenset):
            kind, answer = SET, list(answer)
        try:
            array = np.asarray(answer)
        except (ValueError, TypeError):  # rows of different lengths
            array = np.empty(0, object)
        if array.dtype.kind not in "fiub":
            said = f"the policy returned {answer!r:.80}, which is no number and no array of numbers"
            raise TypeError(f"{said}{PAIR if is_pair(answer) else ''}")
        if is_pair(answer) and array.dtype.kind != "b" and array.size == 2:
            kind = TWO  # a list of two may be the truth values of two actions, a pair of numbers not
        return row(kind, array.shape, array.astype(float64, copy=False).tobytes())

    def send(rows: bytes) -> None:
        write_all(SIZE.pack(len(rows)) + rows)

    holds = lock_down()
    send(answered(holds))
    if not holds:
        return
    layouts: list[tuple[Any, int]] = []
    programs: dict[int, Program] = {}
    inbox, head = bytearray(1 << 12), HEADER.size
    inboxes = [inbox]
    none = b"\xff" * head
    usual, size, observed, act = none, 0, np.empty(0), None  # header, size, array and function of the last call
    shape, prefix = None, b""  # shape and header of the last answer
    while True:
        got = os.readv(0, inboxes)
        if got == size and inbox.startswith(usual):
            # The usual call: an array and an action like the last ones. Every line here costs time.
            try:
                answer = act(observed.copy())  # pyright: ignore[reportOptionalCall]
                if type(answer) is np.ndarray and answer.dtype is float64:
                    if answer.shape != shape:
                        shape = answer.shape
                        prefix = SIZE.pack(8 * (1 + len(shape) + answer.size)) + row(NUMBERS, shape, b"")
                    frame = prefix + answer.tobytes()
                    if (count := os.write(1, frame)) < len(frame):
                        write_all(frame[count:])
                    continue
                rows = answered(answer)
            except BaseException as error:  # also exit()
                rows = fault(error)
            send(rows)
            continue
        if got < head:
            if not got:
                os._exit(0)
            read_exactly(memoryview(inbox)[got:head])
            got = head
        kind, state, number, count = HEADER.unpack_from(inbox)
        size = head + (count if kind == LAYOUT else 0 if kind == DROP else count * layouts[number][1])
        if size > len(inbox):
            inbox = inbox + bytes(size - len(inbox))  # a new buffer: arrays still use the old one
            inboxes = [inbox]
        read_exactly(memoryview(inbox)[got:size])
        usual = none
        if kind == LAYOUT:
            layout = marshal.loads(inbox[head:size])
            layouts.append((layout, size_of(layout)))
            send(b"")
            continue
        if kind == DROP:
            programs.pop(state, None)
            send(b"")
            continue
        layout, each = layouts[number]
        rows = []
        try:
            if state not in programs:  # at first, and after an error, which this raises again or leaves behind
                programs[state] = Program(source)
            elif kind == BEGIN:
                programs[state].reset()
            act = programs[state].policy
        except BaseException as error:
            programs.pop(state, None)
            rows = [fault(error)] * count
        else:
            for start in range(head, size, each) if each else [head] * count:
                try:
                    rows.append(answered(act(laid_out(inbox, start, layout))))
                except BaseException as error:
                    rows.append(fault(error))
            if count == 1 and layout[0] not in ("dict", "tuple") and not layout[2]:
                usual = HEADER.pack(ASK, state, number, 1)
                observed = np.ndarray(layout[1], layout[0], inbox, head)
        send(b"".join(rows))


if __name__ == "__main__":
    main()
