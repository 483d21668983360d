"""lock_down: permanently limits this process to computing and to its open pipes."""

import ctypes
import platform
import struct
import sys

MEMORY_BYTES = 512 * 2**20
"""The memory that the process may allocate beyond what Python and its modules use."""
FIRST_CPU_SECONDS = 60
"""The first limit of CPU time. The owner raises it while it uses the process; without an owner, the process ends there."""

# Linux's audit number of the architecture, and its numbers of these system calls: read write readv mmap munmap mremap mprotect
# brk madvise futex exit exit_group rt_sigreturn clock_gettime getrandom sched_yield getpid gettid
SYSCALLS = {
    "x86_64": (0xC000003E, (0, 1, 19, 9, 11, 25, 10, 12, 28, 202, 60, 231, 15, 228, 318, 24, 39, 186)),
    "aarch64": (0xC00000B7, (63, 64, 65, 222, 215, 216, 226, 214, 233, 98, 93, 94, 139, 113, 278, 124, 172, 178)),
}


def can_lock() -> bool:
    """Returns whether the lock exists on this system."""
    return sys.platform == "linux" and platform.machine() in SYSCALLS


def lock_down() -> bool:
    """Locks this process; returns whether the lock holds.

    It limits memory, CPU time, new files, bytes written to files, and processes. With seccomp, every system call that computing
    does not need fails with EPERM.
    """
    try:
        import resource

        with open("/proc/self/statm") as statm:
            in_use = int(statm.read().split()[0]) * resource.getpagesize()
        limits = {"NOFILE": 0, "FSIZE": 0, "CORE": 0, "NPROC": 0, "AS": in_use + MEMORY_BYTES}
        for name, limit in limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))
        resource.setrlimit(resource.RLIMIT_CPU, (FIRST_CPU_SECONDS, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    except (ImportError, ValueError, OSError, AttributeError):
        return False
    return can_lock() and _seccomp(*SYSCALLS[platform.machine()])


def end_with_parent() -> None:
    """Makes Linux kill this process when its parent dies, for whatever reason."""
    kill, set_death_signal = 9, 1
    ctypes.CDLL(None).prctl(set_death_signal, kill, 0, 0, 0)


def _seccomp(architecture: int, allowed: tuple[int, ...]) -> bool:
    """Makes the kernel refuse every other system call (prctl(2), seccomp(2)); returns whether it does."""
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
