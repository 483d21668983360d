"""LockedProcess: starts the process that plays the programs of one source, and exchanges frames with it (see worker)."""

import contextlib
import ctypes
import itertools
import marshal
import math
import os
import platform
import select
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from llmwrappers.containment.errors import PolicyFault, PolicyRejected
from llmwrappers.containment.layouts import Layout
from llmwrappers.containment.lint import Imports
from llmwrappers.containment.lock import FIRST_CPU_SECONDS
from llmwrappers.containment.worker import DROP, FAULT, HEADER, LAYOUT, NUMBERS, SET, SIZE, TWO

try:
    import resource
except ImportError:  # only on systems that have no lock
    resource = None

WORKER = Path(__file__).with_name("worker.py")
SECONDS_TO_START = 60.0
SECONDS_A_MESSAGE = 2.0
MOST_BYTES = 2**24
"""The size limit of a message: more observations are sent in several messages; a longer answer is a fault."""
CALLS_UNTIL_CARE = 256
SECONDS_AWAKE = 0.0005
SHAPES = [struct.Struct(f"<{ndim}q") for ndim in range(9)]
NO_LOCK = (
    "code from a model plays only in a locked process, which needs Linux with seccomp on x86-64 or ARM64; this is "
    f"{platform.system()} on {platform.machine()}, or a container that forbids the lock. Read the code; if you trust it, "
    "'trusted:FILE.py' plays it as it is"
)


class LockedProcess:
    """Plays the programs of one source in a locked process; this is the owner's side of it.

    The process is killed when it dies, hangs or sends a malformed answer; when nothing refers to this object; and when the
    owner ends.

    Raises:
        PolicyRejected: the lock does not hold
        PolicyFault: the process does not start
    """

    def __init__(self, source: str, imports: Imports):
        self.states, self.left, self.layouts, self.registering = itertools.count(), [], {}, threading.Lock()
        self.lock, self.calls, self.started = threading.Lock(), 0, time.monotonic()
        # The environment may hold keys: pass on only what Python needs to start, and what makes NumPy round as it does here.
        kept = ("LD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "NPY_DISABLE_CPU_FEATURES")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        environment["PYTHONHASHSEED"] = "0"  # the order of a set of strings must repeat, too; -I would ignore this
        self.process = _start(
            [sys.executable, "-s", "-P", "-S", str(WORKER)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, bufsize=0,
            process_group=0,  # Ctrl-C reaches the owner alone; in a session of its own Linux's autogroup may starve it
        )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self.stdin, False)
        self.may_read, self.may_write = _poll(self.stdout, select.POLLIN), _poll(self.stdin, select.POLLOUT)
        self.inbox = bytearray(1 << 12)
        self.inboxes = [self.inbox]
        self.size, self.prefix, self.numbers = -1, b"", np.empty(0)  # size and header of the last answer, a view of its numbers
        self.is_alive = True
        self.end = weakref.finalize(self, _end, self.process)
        path = [str(Path(entry).absolute()) for entry in sys.path]
        # Only the owner sends marshal; it reads the worker's answers as numbers and text alone.
        message = marshal.dumps((path, *imports, source))
        (holds,) = self.exchange(SIZE.pack(len(message)) + message, 1, SECONDS_TO_START)
        if not np.all(holds):
            raise PolicyRejected(None, NO_LOCK)

    def number_of(self, layout: Layout) -> int:
        """Returns the worker's number of a layout; sends a new layout to the worker first."""
        with self.registering:  # the worker counts layouts in the order in which they arrive
            if layout not in self.layouts:
                message = marshal.dumps(layout)
                self.exchange(HEADER.pack(LAYOUT, 0, 0, len(message)) + message, 0, SECONDS_A_MESSAGE)
                self.layouts[layout] = len(self.layouts)
            while self.left:
                self.exchange(HEADER.pack(DROP, self.left.pop(), 0, 0), 0, SECONDS_A_MESSAGE)
            return self.layouts[layout]

    def ask(self, frame: bytes) -> Any:
        """Sends the frame of one call and returns the answer, which may be a fault.

        Raises:
            PolicyFault: the process is dead, is too slow or sends a malformed answer; it is killed
        """
        with self.lock:
            try:
                if not self.calls % CALLS_UNTIL_CARE:
                    self.take_care(SECONDS_A_MESSAGE)
                self.calls += 1
                if (sent := os.write(self.stdin, frame)) < len(frame):
                    self.write(memoryview(frame)[sent:], SECONDS_A_MESSAGE)
                # A sleeping process wakes late, and on another core if one is idle: so this process stays awake. If the wait is
                # long, other processes want the core, or the policy itself is slow: then it sleeps, until the next take_care.
                if self.stays_awake:
                    until = time.perf_counter() + SECONDS_AWAKE
                    while self.stays_awake:
                        os.sched_yield()
                        self.stays_awake = time.perf_counter() < until
                        if self.may_read(0):
                            break
                if not self.stays_awake:
                    self.wait(SECONDS_A_MESSAGE)
                got = os.readv(self.stdout, self.inboxes)
                # The usual answer: an array like the last one.
                if got == self.size and self.inbox.startswith(self.prefix):
                    return self.numbers.copy()
                return self.answers(got, 1, SECONDS_A_MESSAGE)[0]
            except BaseException as error:
                raise self.killed(error) from None

    def exchange(self, frame: bytes, rows: int, seconds: float) -> list[Any]:
        """Sends any frame and returns the answers within ``seconds``; raises as ``ask`` does."""
        with self.lock:
            try:
                self.take_care(seconds)
                self.write(memoryview(frame), seconds)
                return self.answers(0, rows, seconds)
            except BaseException as error:
                raise self.killed(error) from None

    def killed(self, error: BaseException) -> BaseException:
        """Kills the process, because half an answer may be left in the pipe; returns what to raise."""
        self.is_alive = False
        self.end()
        return PolicyFault("the policy's process died") if isinstance(error, OSError) else error

    def wait(self, seconds: float) -> None:
        if not self.may_read(1000 * seconds):
            raise PolicyFault("no answer from the policy's process in time; it was killed")

    def write(self, rest: memoryview, seconds: float) -> None:
        """Writes a frame, or the rest of one, within ``seconds``."""
        deadline = time.monotonic() + seconds
        while rest:
            if not self.may_write(max(0.0, deadline - time.monotonic()) * 1000):
                raise PolicyFault("the policy's process does not read what it is sent; it was killed")
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(self.stdin, rest) :]

    def answers(self, got: int, rows: int, seconds: float) -> list[Any]:
        """Reads the rest of a frame, whose first ``got`` bytes are in the inbox; returns its answers."""
        needed, deadline = SIZE.size, time.monotonic() + seconds
        while got < needed or got < (needed := SIZE.size + SIZE.unpack_from(self.inbox)[0]):
            if needed > MOST_BYTES:
                raise PolicyFault(f"the policy's answer has {needed} bytes; at most {MOST_BYTES} are read")
            if needed > len(self.inbox):
                self.inbox, self.size = self.inbox + bytes(needed - len(self.inbox)), -1
                self.inboxes = [self.inbox]
            self.wait(max(0.0, deadline - time.monotonic()))
            count = os.readv(self.stdout, [memoryview(self.inbox)[got:]])
            if not count:
                raise PolicyFault("the policy's process died")
            got += count
        answers = answers_in(self.inbox, got, rows)
        if rows == 1 and isinstance(answers[0], np.ndarray):
            self.size, start = got, got - answers[0].nbytes
            self.prefix = bytes(self.inbox[:start])
            self.numbers = np.ndarray(answers[0].shape, np.float64, self.inbox, start)
        return answers

    def take_care(self, seconds: float) -> None:
        """Moves the process to this core, because another core would have to wake up; raises its limit of CPU time."""
        self.stays_awake = len(os.sched_getaffinity(0)) > 1
        with contextlib.suppress(OSError):  # it died, or a container forbids it
            os.sched_setaffinity(self.process.pid, {ctypes.CDLL(None).sched_getcpu()})
        with contextlib.suppress(OSError):
            assert resource is not None
            _, most = resource.prlimit(self.process.pid, resource.RLIMIT_CPU)
            until_next = seconds + CALLS_UNTIL_CARE * SECONDS_A_MESSAGE
            cpu_seconds = int(time.monotonic() - self.started + until_next + FIRST_CPU_SECONDS)
            cpu_seconds = cpu_seconds if most == resource.RLIM_INFINITY else min(cpu_seconds, most)
            resource.prlimit(self.process.pid, resource.RLIMIT_CPU, (cpu_seconds, most))

    def cpu_seconds(self) -> float:
        """Returns the processor time that the process has used: unlike wall-clock time it does not depend on what else runs."""
        return time.clock_gettime(~self.process.pid << 3 | 2)  # the clock that clock_getcpuclockid(3) names

    def forget(self) -> None:
        """Lets go of the process in a fork of the owner; for the owner it goes on."""
        self.is_alive = False
        self.end.detach()
        self.process.returncode = 0  # so that the fork does not wait for it
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


_PROCESSES: weakref.WeakValueDictionary[str, LockedProcess] = weakref.WeakValueDictionary()


def process_of(source: str, imports: Imports) -> LockedProcess:
    """Returns the one locked process of a source; starts it if necessary.

    Raises:
        PolicyRejected: the lock does not hold, or the first process of this source does not start
        PolicyFault: a later one does not start, as on a machine that is overloaded for a while
    """
    process = _PROCESSES.get(source)
    if process is not None and process.is_alive:
        return process
    try:
        new = _PROCESSES[source] = LockedProcess(source, imports)
    except PolicyFault as fault:
        if process is not None:
            raise
        raise PolicyRejected(None, f"its locked process does not start ({fault}): can {sys.executable} import NumPy?") from None
    return new


_STARTER = ThreadPoolExecutor(1)


def _start(command: list[str], **options: Any) -> subprocess.Popen:
    """Starts a process in a thread that stays, because Linux ends a locked process with the thread that started it."""
    if threading.current_thread() is threading.main_thread():
        return subprocess.Popen(command, **options)
    return _STARTER.submit(subprocess.Popen, command, **options).result()


def _forget_all() -> None:
    global _STARTER
    _STARTER = ThreadPoolExecutor(1)  # its thread is not in the fork
    for process in list(_PROCESSES.values()):
        process.forget()
    _PROCESSES.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _poll(descriptor: int, event: int) -> Callable[[float], list]:
    poll = select.poll()
    poll.register(descriptor, event)
    return poll.poll


def _end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        pipe.close()


def answers_in(inbox: bytearray, size: int, rows: int) -> list[Any]:
    """Returns the answers in a frame (see worker), which is not trusted: a malformed frame raises a PolicyFault."""
    answers, start = [], SIZE.size
    try:
        for _ in range(rows):
            kind, ndim = inbox[start], inbox[start + 1]
            shape = SHAPES[ndim].unpack_from(inbox, start + 8)
            if min(shape, default=0) < 0:
                raise ValueError("a negative length")
            count, start = math.prod(shape), start + 8 + 8 * ndim
            end = start + (8 * count if kind in (NUMBERS, SET, TWO) else count + -count % 8)
            if kind == FAULT:
                answers.append(PolicyFault(bytes(inbox[start : min(end, start + count)]).decode("utf-8", "replace")))
            else:
                numbers = np.frombuffer(inbox, np.float64, count, start).reshape(shape).copy()
                kinds = {SET: set, TWO: tuple}
                answers.append(kinds[kind](numbers.ravel().tolist()) if kind in kinds else numbers)
            start = end
    except (ValueError, LookupError, OverflowError, struct.error, MemoryError):
        start = -1
    if start != size:
        raise PolicyFault("the policy's process sent a malformed answer; it was killed")
    return answers
