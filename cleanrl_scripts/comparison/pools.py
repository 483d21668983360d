"""Where runs train: LocalPool, in processes of this machine; RayPool, in tasks of a cluster."""

import logging
import math
import os
import platform
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import cleanrl_scripts
from cleanrl_scripts.comparison.runs import Run
from llmwrappers.errors import UserError

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None

# This program becomes the run; Linux kills it if the process that started it dies.
LAUNCH = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def start(run: Run) -> subprocess.Popen | None:
    """Starts or resumes a run in a process of one thread; None while another process trains it."""
    run.folder.mkdir(parents=True, exist_ok=True)
    with open(run.folder / ".lock", "w") as lock, open(run.log, "a") as log:
        try:
            if fcntl:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        if run.is_finished:
            command = [sys.executable, "-c", ""]
        elif run.run_dir:
            command = [sys.executable, str(run.script), "--resume", str(run.run_dir)]
        else:
            command = [sys.executable, str(run.script), *run.flags, "--runs-dir", str(run.folder)]
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", LAUNCH, str(os.getpid()), *command]
        # The child inherits the lock and holds it as long as it lives.
        # In a group of its own: Ctrl-C reaches only the program that trains, and that program stops its runs. In a
        # session of its own Linux's autogroup may starve it.
        streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "process_group": 0}
        kept = [lock.fileno()] if fcntl else []
        return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, pass_fds=kept, **streams)


class LocalPool:
    """Trains so many runs at a time, each in its own process."""

    def __init__(self, jobs: int):
        self.jobs = jobs
        self.running: dict[Run, subprocess.Popen] = {}

    def start(self, run: Run) -> bool:
        """False if another process trains this run."""
        if process := start(run):
            self.running[run] = process
        return process is not None

    def ended(self) -> Iterator[tuple[Run, str]]:
        """The runs that have ended since the last call, each with its error, if any."""
        for run, process in list(self.running.items()):
            if process.poll() is not None:
                del self.running[run]
                yield run, f"exit code {process.returncode}" if process.returncode else ""

    def close(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait()


def train_on_a_node(run: Run, token: Path, working_dir: str) -> str:
    """The Ray task: does what LocalPool does, on any node; returns the error, if any."""
    node, deadline = platform.node(), time.monotonic() + 30
    while not token.exists():  # a network file system may show a new file late
        if time.monotonic() > deadline:
            return f"the node {node} does not see {token.parent}: --output must be on a disk that all nodes share"
        time.sleep(1)
    if not run.script.exists():
        return f"the node {node} does not see {run.script}: it must be on a disk that all nodes share"
    if Path(working_dir).is_dir():
        os.chdir(working_dir)
    while (process := start(run)) is None:
        time.sleep(1)
    try:
        code = process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    return f"exit code {code} on {node}" if code else ""


class RayPool:
    """Hands all runs to a Ray cluster, one core each; if a node dies, its run continues on another."""

    jobs = math.inf

    def __init__(self, address: str, output: Path):
        try:
            import ray  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise UserError(f"--ray {address}: Ray is not installed; pip install 'llmwrappers[ray]'") from None
        try:
            host, _, port = address.rpartition(":")
            if host and "/" not in host:
                socket.create_connection((host, int(port)), timeout=10).close()  # ray.init would try for minutes
            # Ray hides the GPU from tasks that reserve none, unless told not to.
            environment = {"env_vars": {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}}
            handler = signal.getsignal(signal.SIGTERM)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, runtime_env=environment)
            signal.signal(signal.SIGTERM, handler)  # Ray sets its own
        except Exception as error:
            raise UserError(f"--ray {address}: {error} (`ray start --head` starts a cluster)") from None
        # A node that cannot import this package is to say which disk it does not see, not that.
        ray.cloudpickle.register_pickle_by_value(cleanrl_scripts)
        self.ray, self.token = ray, output.absolute() / f".token-{uuid.uuid4().hex}"
        self.token.touch()
        self.task = ray.remote(num_cpus=1, max_retries=-1)(train_on_a_node)
        self.running: dict[Run, ray.ObjectRef] = {}

    def start(self, run: Run) -> bool:
        self.running[run] = self.task.remote(run, self.token, os.getcwd())
        return True

    def ended(self) -> Iterator[tuple[Run, str]]:
        for run, task in list(self.running.items()):
            if not self.ray.wait([task], timeout=0)[0]:
                continue
            del self.running[run]
            try:
                yield run, self.ray.get(task)
            except self.ray.exceptions.RayError as error:
                yield run, str(error)

    def close(self) -> None:
        self.ray.shutdown()  # ends this program's tasks, and with them their runs
        self.token.unlink(missing_ok=True)
