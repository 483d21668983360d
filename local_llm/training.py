"""Trains for a choice: one run of ppo_camel.py an arm and seed, side by side, with a line that says how long it takes."""

import csv
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from statistics import fmean

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None

from llmwrappers import __version__

SCRIPT = Path(__file__).parents[1] / "cleanrl_scripts" / "ppo_camel.py"
# A run is whole rollouts, and so is its clone: runs with and without a prior are evaluated at the same steps and end together.
ROLLOUT_STEPS = 2048
MOST_CLONE_STEPS = 20_000
# Audition and clone need at least so many episodes, be they as long as they can: five for the audition, one for the clone.
CLONE_EPISODES = 6
# How a run's verdict begins if its prior has passed the audition.
TESTED = "The agent begins as a copy of"


class TrainingFailed(RuntimeError):
    """Training without a prior failed, so that there is nothing to compare with."""


@dataclass
class Run:
    """One training run: the evaluations of its agent alone, and what its audition found."""

    candidate: int | None
    seed: int
    folder: str
    steps: list[int] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    verdict: str = ""

    def last_third(self) -> list[float]:
        """Returns the evaluations over the last third of the run.

        Example:
            >>> Run(1, seed=0, folder="", steps=[0, 50, 100, 150], returns=[0.0, 10.0, 20.0, 40.0]).last_third()
            [20.0, 40.0]
        """
        evaluations = zip(self.steps, self.returns, strict=True)
        return [value for step, value in evaluations if 3 * step >= 2 * self.steps[-1]]

    def learned(self) -> float:
        """Returns their mean."""
        return fmean(self.last_third())


def cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def least_steps(time_limit: int | None) -> int:
    """Returns how short a run may be: the clone, half of it, holds whole episodes of the audition and of its own.

    Example:
        >>> least_steps(None), least_steps(200), least_steps(1000)
        (4096, 4096, 12288)
    """
    return 2 * ROLLOUT_STEPS * max(1, math.ceil(CLONE_EPISODES * (time_limit or 0) / ROLLOUT_STEPS))


def training_settings(steps: int, time_limit: int | None) -> dict[str, float]:
    """Returns the arguments of a training run of so many steps that are scaled to its length.

    Example:
        >>> training_settings(102_400, 1000)["eval_every"]
        8533
        >>> [training_settings(steps, 1000)["clone_steps"] for steps in (12_288, 14_336, 102_400)]
        [6144, 6144, 18432]
    """
    # Up to half the run: a copy of too few steps is a poor one, whatever the prior.
    most = max(MOST_CLONE_STEPS, least_steps(time_limit) // 2)
    return {
        "total_timesteps": steps,
        "clone_steps": min(steps // 2, most) // ROLLOUT_STEPS * ROLLOUT_STEPS,
        "num_steps": ROLLOUT_STEPS,
        "eval_every": max(steps // 12, ROLLOUT_STEPS),
        "eval_episodes": 3,
        "checkpoint_every": steps // 4,
    }


def train(
    env_id: str,
    settings: dict[str, float],
    arms: dict[int | None, Path | None],
    seeds: range,
    run_dir: Path,
    execute: Callable[[dict[Path, list[str]]], dict[Path, str]],
) -> tuple[list[Run], dict[int, str]]:
    """Trains every arm with every seed; returns the runs that count, and why a candidate is out.

    A run that has finished in ``run_dir`` before, with the same settings and code, is not repeated; one that was interrupted
    is resumed. A run whose audition refused its prior never played it, and does not count.

    Args:
        arms: the file of each candidate; of None, no prior, there is none
        execute: runs commands, each with its folder, and returns why those failed that did

    Raises:
        TrainingFailed: training without a prior failed
    """
    words = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    words += ["--no-cuda", "--no-save-model"]
    training_code = [file.read_text("utf-8") for file in (SCRIPT, *sorted(SCRIPT.parent.glob("common/*.py")))]
    folders, commands = {}, {}
    for seed in seeds:
        for number, path in arms.items():
            # A run is what its settings and its code are: other ones go into another folder.
            code = path.read_text("utf-8") if path else ""
            key = hashlib.sha256(json.dumps([__version__, training_code, env_id, words, code]).encode()).hexdigest()
            name = f"{'none' if number is None else f'candidate-{number}'}-seed-{seed}-{key[:8]}"
            folder = folders[number, seed] = run_dir.resolve() / name
            if (folder / "finished").is_file():
                continue
            started = sorted(folder.glob("*/args.json"))
            arguments = ["--env-id", env_id, "--prior", str(path.resolve()) if path else "none", *words]
            arguments += ["--seed", str(seed), "--runs-dir", str(folder)]
            arguments = ["--resume", str(started[-1].parent)] if started else arguments
            commands[folder] = [sys.executable, str(SCRIPT), *arguments]
    failures = execute(commands)
    runs, out, untested = [], {}, {}
    for (number, seed), folder in folders.items():
        run = None if folder in failures else _read_run(number, seed, folder)
        if run is None or not all(map(math.isfinite, run.returns)):
            why = failures.get(folder, f"it diverged: {folder} has an evaluation that is no number")
            if number is None:
                raise TrainingFailed(f"training without a prior failed with seed {seed}: {why}")
            out[number] = f"failed in training with seed {seed}: {why}"
        elif number is None or run.verdict.startswith(TESTED):
            runs.append(run)
        else:
            untested.setdefault(number, []).append(run.verdict)
    for number, verdicts in untested.items():
        if len(seeds) - len(verdicts) < min(2, len(seeds)):  # a standard error needs two
            out.setdefault(number, f"not tested: {verdicts[0]}")
    return runs, out


def _read_run(candidate: int | None, seed: int, folder: Path) -> Run:
    run_dir = sorted(folder.glob("*/args.json"))[-1].parent
    run = Run(candidate, seed, folder.name, verdict=json.loads((run_dir / "summary.json").read_text("utf-8"))["verdict"])
    with open(run_dir / "metrics.csv", newline="") as file:
        for line in csv.DictReader(file):
            if line["metric"] == "eval/episodic_return":
                run.steps.append(int(line["global_step"]))
                run.returns.append(float(line["value"]))
    return run


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
            if steps:
                progress.update(len(commands) - len(waiting) - len(running), list(running))
    finally:
        progress.erase()
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
    return failures
