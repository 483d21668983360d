"""Runs trainings as processes side by side, each with a folder of its own, and says how long they will still take."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None


def cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def training_command(script: Path, folder: Path, arguments: list[str]) -> list[str] | None:
    """Returns the command that trains in a folder, or goes on with what was cut there; None if it has finished."""
    if (folder / "finished").is_file():
        return None
    started = sorted(folder.glob("*/args.json"))
    return [sys.executable, str(script), *(["--resume", str(started[-1].parent)] if started else arguments)]


class Progress:
    """How long the runs will still take, said now and then: a live line on a terminal.

    Args:
        runs: those still to come, those of later rungs included
        steps: of each run
        log: gets the line where there is no terminal: after some seconds, then every minute
    """

    def __init__(self, runs: int, steps: int, log: Callable[[str], object]):
        self.total, self.steps, self.log = runs * steps, steps, log
        self.start, self.next, self.at_start = time.monotonic(), 5.0, None
        self.is_live, self.width = log is print and sys.stdout.isatty(), 0

    def erase(self) -> None:
        if self.width:
            print("\r" + " " * self.width, end="\r", flush=True)
            self.width = 0

    def update(self, finished: int, running: list[Path]) -> None:
        """Says where things stand, if it is time to; by the logs of the folders that are running."""
        seconds = time.monotonic() - self.start
        if seconds < self.next:
            return
        self.next = seconds + 1  # where there is nothing to say yet, the logs are not read at every turn
        done = finished * self.steps + sum(map(_steps_of, running))
        if self.at_start is None:  # runs may be resumed; and until one has begun, there is no telling
            if done:
                self.at_start, self.start, self.next = done, time.monotonic(), 3.0
            return
        if done == self.at_start:
            return
        left = timedelta(seconds=round((self.total - done) * seconds / (done - self.at_start)))
        line = f"  about {left} left"
        if self.is_live:
            self.erase()
            print(line, end="", flush=True)
            self.width = len(line)
        else:
            self.log(line)
            self.next = seconds + 60


def _steps_of(folder: Path) -> int:
    """The last step that a run's log speaks of."""
    try:
        with open(folder / "log.txt", "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4000))
            return int((re.findall(rb"global_step (\d+)", file.read()) or [0])[-1])
    except OSError:
        return 0


def run_commands(
    commands: dict[Path, list[str]], jobs: int, log: Callable[[str], object], steps: int = 0, later: int = 0
) -> dict[Path, str]:
    """Runs each command with one thread, its output in its folder's log.txt; returns why those failed that did.

    A folder whose command ended well gets a file named ``finished``. Whatever ends this function, ends the commands; one that
    outlives it all the same, after kill -9, keeps its folder locked, and a second command in it fails.

    Args:
        jobs: how many run at a time
        steps: of each run, for the time that is left; 0 for no such line
        later: how many runs are to come after these
    """
    waiting, running, failures = list(commands), {}, {}
    progress = Progress(len(commands) + later, steps, log)
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                folder = waiting.pop(0)
                folder.mkdir(parents=True, exist_ok=True)
                with open(folder / "log.txt", "ab") as file, open(folder / ".lock", "w") as lock:
                    try:
                        if fcntl:
                            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        failures[folder] = f"another process is still at work in {folder}; wait for it, or end it"
                        continue
                    running[folder] = subprocess.Popen(
                        commands[folder],
                        stdin=subprocess.DEVNULL,
                        stdout=file,
                        stderr=subprocess.STDOUT,
                        env={**os.environ, "OMP_NUM_THREADS": "1"},
                        pass_fds=[lock.fileno()] if fcntl else [],  # the lock is the child's, too
                    )
            time.sleep(0.05)
            for folder in [folder for folder, process in running.items() if process.poll() is not None]:
                code = running.pop(folder).returncode
                if code == 0:
                    (folder / "finished").touch()
                else:
                    lines = (folder / "log.txt").read_text("utf-8", errors="replace").splitlines()
                    failures[folder] = f"exit status {code}, {folder / 'log.txt'} ends with:\n" + "\n".join(lines[-5:])
                done = len(commands) - len(waiting) - len(running)
                progress.erase()
                log(f"  {done} of {len(commands)}: {folder.name} {'failed, ' + failures[folder] if code else 'finished'}")
            if steps and running:
                progress.update(len(commands) - len(waiting) - len(running), list(running))
    finally:
        progress.erase()
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
    return failures
