"""The process in which a policy plays apart: started as a script by GeneratedPolicy, locked down before any code of it is read.

Frames of fixed size, little-endian, over stdin and stdout; never pickle::

    out  one message                                                      empty, when the process is ready
    in   uint32: bytes of source, bytes of JSON; [layout of an observation, shape of an action] in JSON; the source
    out  one message                                                      empty when the policy is ready
    in   uint32 n; n observations, float64
    out  n times (float64 fault: 0 or 1; an action, float64); one message   the first fault

A message is 256 bytes of UTF-8, filled up with zeros. The lock leaves computing, memory up to a limit, and these two pipes.
"""

import contextlib
import ctypes
import json
import math
import os
import platform
import struct
import sys
import types
import warnings
from pathlib import Path

import numpy as np

MESSAGE_BYTES = 256
MEMORY_BYTES = 512 * 2**20
"""What the process may allocate beyond what Python and NumPy need."""

# Linux's audit number of the architecture, and the numbers there of: read write mmap munmap mremap mprotect brk madvise futex
# exit exit_group rt_sigreturn rt_sigaction rt_sigprocmask sigaltstack clock_gettime getrandom sched_yield getpid gettid
SYSCALLS = {
    "x86_64": (0xC000003E, (0, 1, 9, 11, 25, 10, 12, 28, 202, 60, 231, 15, 13, 14, 131, 228, 318, 24, 39, 186)),
    "aarch64": (0xC00000B7, (63, 64, 222, 215, 216, 226, 214, 233, 98, 93, 94, 139, 134, 135, 132, 113, 278, 124, 172, 178)),
}


def lock_down() -> list[str]:
    """Gives up everything but computing and the open pipes, for good; returns which of the locks hold here.

    "limits": memory, new files, bytes written to files, processes (POSIX). "seccomp": every system call but those that
    computing needs fails with EPERM (Linux on x86-64 and ARM64).
    """
    locks = []
    try:
        import resource

        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() if os.path.exists("/proc") else 0
        limits = {"NOFILE": 0, "FSIZE": 0, "CORE": 0, "NPROC": 0}
        if in_use:
            limits["AS"] = in_use + MEMORY_BYTES
        for name, limit in limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))
        locks.append("limits")
    except (ImportError, ValueError, OSError, AttributeError):
        pass
    if sys.platform == "linux" and platform.machine() in SYSCALLS and _seccomp(*SYSCALLS[platform.machine()]):
        locks.append("seccomp")
    return locks


def _seccomp(architecture: int, allowed: tuple[int, ...]) -> bool:
    """Lets the kernel refuse every other system call (prctl(2), seccomp(2))."""
    load, equal, answer = 0x20, 0x15, 0x06  # BPF: load a word, jump if equal, return
    allow, refuse, kill = 0x7FFF0000, 0x00050000 | 1, 0x80000000  # 1: EPERM
    program = [(load, 0, 0, 4), (equal, 1, 0, architecture), (answer, 0, 0, kill), (load, 0, 0, 0)]
    program += [(equal, len(allowed) - position, 0, number) for position, number in enumerate(allowed)]
    program += [(answer, 0, 0, refuse), (answer, 0, 0, allow)]
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code)
    header = struct.pack("HP", len(program), ctypes.addressof(buffer))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    return prctl(no_new_privileges, 1, 0, 0, 0) == 0 and prctl(set_seccomp, filter_mode, header, 0, 0) == 0


def read_exactly(count: int) -> bytes:
    """Reads a frame from stdin; ends the process when the other end is gone."""
    parts = []
    while count:
        part = os.read(0, count)
        if not part:
            os._exit(0)
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def write_all(frame: bytes) -> None:
    """Writes a frame to stdout."""
    while frame:
        frame = frame[os.write(1, frame) :]


def message(text: object) -> bytes:
    """Makes a message of a text."""
    return str(text).encode("utf-8", "replace")[:MESSAGE_BYTES].ljust(MESSAGE_BYTES, b"\0")


def main() -> None:
    """Serves one policy until stdin closes."""
    # Without running llmwrappers/__init__.py, which would import Gymnasium.
    package = types.ModuleType("llmwrappers")
    package.__path__ = [str(Path(__file__).parents[1])]
    sys.modules["llmwrappers"] = package
    from llmwrappers.sandbox.language import METHODS
    from llmwrappers.sandbox.limits import BoundedPolicy
    from llmwrappers.sandbox.values import laid_out, size_of_layout

    warnings.simplefilter("ignore")
    # Some import parts of NumPy at their first call.
    np.median(np.ones(2))
    for method in METHODS & set(dir(np.ndarray)):
        with contextlib.suppress(TypeError, ValueError):
            getattr(np.ones(1), method)()
    lock_down()
    write_all(message(""))
    source_bytes, json_bytes = struct.unpack("<2I", read_exactly(8))
    layout, action_shape = json.loads(read_exactly(json_bytes))
    try:
        policy = BoundedPolicy(read_exactly(source_bytes).decode(), tuple(action_shape))
    except Exception as error:
        write_all(message(error))
        return
    write_all(message(""))
    size = size_of_layout(layout)
    while True:
        (rows,) = struct.unpack("<I", read_exactly(4))
        observations = np.frombuffer(read_exactly(8 * rows * size)).reshape(rows, size)
        answers, fault = np.zeros((rows, 1 + math.prod(action_shape))), ""
        for row in range(rows):
            try:
                answers[row, 1:] = policy(laid_out(observations[row], layout)).ravel()
            except Exception as error:
                answers[row, 0], fault = 1, fault or error
        write_all(answers.tobytes() + message(fault))


if __name__ == "__main__":
    main()
