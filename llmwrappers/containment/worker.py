"""The process in which a policy plays: started as a script by ContainedPolicy, locked before one line of the policy runs.

Frames over stdin and stdout, little-endian, each answered before the next is sent; never pickle::

    in   uint64 bytes; marshal of (sys.path, modules to load, modules that are absent, source, names of the policy)
    out  an answer without rows when the lock holds; without a lock the process ends
    in   uint32 kind, state, layout, count; then by kind
         ASK, BEGIN   count observations, laid out as the layout says; BEGIN begins an episode first
         LAYOUT       count bytes: marshal of a layout (see layouts), which gets the next number
         DROP         nothing: the state ends
    out  uint64 bytes of all that follows; a row an observation: uint8 kind, uint8 n, 6 bytes, n times int64: its shape; data

The data of a row are float64 (NUMBERS; SET, whose order means nothing) or text in UTF-8 (FAULT), filled up to 8 bytes.
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
NUMBERS, SET, FAULT = range(3)
HEADER, SIZE = struct.Struct("<4I"), struct.Struct("<Q")
LONGEST_FAULT = 256


class Absent(types.ModuleType):
    """Stands for a module that is not there: it may be imported, named in an annotation and subclassed, but not used."""

    __path__: list[str] = []  # noqa: RUF012  it is a package, and holds nothing

    def __getattr__(self, name: str) -> "Absent":
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise ImportError(f"{self.__name__} is not there for a policy")

    def __mro_entries__(self, _: Any) -> tuple:
        return ()

    def __instancecheck__(self, _: Any) -> bool:
        return False

    def __or__(self, _: Any) -> Any:
        return self

    __ror__ = __getitem__ = __or__


class Nowhere(io.TextIOBase):
    """Swallows what a policy prints."""

    def write(self, text: str) -> int:
        return len(text)


def read_exactly(view: memoryview) -> None:
    """Fills a view from stdin; ends the process when the other end is gone."""
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
    path, modules, absent, source, called = marshal.loads(message)
    sys.path[:] = path
    # Without running llmwrappers/__init__.py, which would import Gymnasium.
    package = types.ModuleType("llmwrappers")
    package.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    sys.modules["llmwrappers"] = package
    import numpy as np

    from llmwrappers.containment.layouts import laid_out, size_of
    from llmwrappers.containment.lock import end_with_parent, lock_down
    from llmwrappers.containment.program import Program, describe

    for name in modules:
        try:
            importlib.import_module(name)
        except Exception:  # found again, with its line, where the program imports it
            continue
    for name in absent:
        for end in (i for i, letter in enumerate(name + ".") if letter == "."):
            sys.modules.setdefault(name[:end], Absent(name[:end]))
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
        array = np.asarray(answer)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"the policy returned a {type(answer).__name__} that is no number and no array of numbers")
        return row(kind, array.shape, array.astype(float64, copy=False).tobytes())

    def send(rows: bytes) -> None:
        write_all(SIZE.pack(len(rows)) + rows)

    if not lock_down():
        return
    send(b"")
    layouts: list[tuple[Any, int]] = []
    programs: dict[int, Program] = {}
    inbox, head = bytearray(1 << 12), HEADER.size
    inboxes = [inbox]
    none = b"\xff" * head
    usual, size, observed, act = none, 0, np.empty(0), None  # the header of the last call, and what goes with it
    shape, prefix = None, b""  # of the last answer
    while True:
        got = os.readv(0, inboxes)
        if got == size and inbox.startswith(usual):
            # What most calls are: one more array like the last, and one more action like the last. Every line counts.
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
            except BaseException as error:  # exit(), too
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
            inbox = inbox + bytes(size - len(inbox))  # another one: the old one is looked at
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
            if kind == BEGIN and state in programs:
                programs[state].reset()
            elif kind == BEGIN:
                programs[state] = Program(source, called=called)
            act = programs[state].act
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
    random.seed(0)  # what is drawn without a seed is the same in every run, as a run with a seed has to be
    main()
