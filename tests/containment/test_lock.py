"""lock_down: what it stops, each of its parts without the other."""

import os
import subprocess
import sys

import pytest
from conftest import ROOT

from llmwrappers.containment.lock import can_lock

pytestmark = pytest.mark.skipif(not can_lock(), reason="this system has no lock")

LOCKED = """
import ctypes, os, signal, socket, subprocess, sys, threading
import numpy as np
from llmwrappers.containment import lock
{before}
print(lock.lock_down(), flush=True)
folder, victim, skipped = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
def attempt(name, function):
    if name in skipped:
        return
    try:
        function()
        print(name, "DONE", flush=True)
    except BaseException as error:
        print(name, type(error).__name__, flush=True)
attempt("read", lambda: open("/etc/hosts").read())
attempt("list", lambda: os.listdir("/"))
attempt("write", lambda: open(folder + "/written", "w").write("x"))
attempt("append", lambda: kept.write("x") and kept.flush())
attempt("mkdir", lambda: os.mkdir(folder + "/made"))
attempt("remove", lambda: os.remove(folder + "/kept"))
attempt("socket", socket.socket)
attempt("pipe", os.pipe)
attempt("fork", lambda: os.fork() or os._exit(0))
attempt("exec", lambda: os.execv("/bin/true", ["true"]))
attempt("spawn", lambda: subprocess.run(["true"]))
attempt("thread", lambda: threading.Thread(target=print).start())
attempt("kill", lambda: os.kill(victim, signal.SIGKILL))
attempt("import", lambda: __import__("wave"))
attempt("memory", lambda: np.ones(2**28))
attempt("bytes", lambda: bytearray(2**31))
attempt("memory of the permitted size", lambda: bytearray(2**27))
attempt("numpy", lambda: np.linalg.svd(rng.random((9, 9))))
{after}
"""
HARMLESS = {"memory of the permitted size", "numpy"}


def locked(tmp_path, before="", after="", skipped=()):
    """Runs LOCKED; whether the lock holds, what came of each attempt, and whether the process to be killed still lives."""
    (tmp_path / "kept").write_text("")
    before = f"rng = np.random.default_rng(0)\nkept = open({str(tmp_path / 'kept')!r}, 'a', buffering=1)\n{before}"
    with subprocess.Popen(["sleep", "60"]) as victim:
        command = [sys.executable, "-c", LOCKED.format(before=before, after=after), str(tmp_path), str(victim.pid), *skipped]
        environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
        alive = victim.poll() is None
        victim.kill()
    assert result.returncode == 0, result.stderr
    first, *lines = result.stdout.splitlines()
    return first, dict(line.rsplit(" ", 1) for line in lines), alive


def test_a_locked_process_can_compute_and_nothing_else(tmp_path):
    holds, attempts, alive = locked(tmp_path)
    assert holds == "True"
    assert {name for name, outcome in attempts.items() if outcome == "DONE"} == HARMLESS
    assert alive
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_text() == ""


def test_the_limits_hold_without_seccomp(tmp_path):
    others = ("exec", "spawn", "fork", "kill", "remove", "mkdir", "thread")
    holds, attempts, _ = locked(tmp_path, before="lock._seccomp = lambda *_: False", skipped=others)
    assert holds == "False"
    for name in ("read", "write", "append", "list", "socket", "pipe", "memory", "bytes"):
        assert attempts[name] != "DONE", name
    assert {attempts[name] for name in HARMLESS} == {"DONE"}


def test_seccomp_holds_without_the_limits(tmp_path):
    before = "import resource\nresource.setrlimit = lambda *_: None"
    _, attempts, alive = locked(tmp_path, before=before, skipped=("memory", "bytes"))
    # A file that was open before could be written; none is.
    assert {name for name, outcome in attempts.items() if outcome == "DONE"} == HARMLESS | {"append"}
    assert alive


def test_every_system_call_but_those_that_are_listed_is_refused(tmp_path):
    # 335 and 336, of the kernel's own probes, end the process by a signal.
    before = "libc = ctypes.CDLL(None, use_errno=True)\nallowed = (335, 336, *lock.SYSCALLS[os.uname().machine][1])"
    after = """
def is_refused(n):
    return libc.syscall(n, -1, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == 1
print("calls", str([n for n in range(600) if n not in allowed and not is_refused(n)]).replace(" ", ""))
print("x32", str([n for n in range(600) if n not in (335, 336) and not is_refused(0x40000000 + n)]).replace(" ", ""))
"""
    _, attempts, _ = locked(tmp_path, before=before, after=after)
    assert (attempts["calls"], attempts["x32"]) == ("[]", "[]")


def test_a_process_without_an_owner_ends_by_its_limit_of_cpu_time(tmp_path):
    before = "lock.FIRST_CPU_SECONDS = 1"
    command = [sys.executable, "-c", LOCKED.split("print(lock")[0].format(before=before) + "lock.lock_down()\nwhile True: pass"]
    result = subprocess.run(command, check=False, timeout=30, env={"PYTHONPATH": str(ROOT), **os.environ})
    assert result.returncode < 0
