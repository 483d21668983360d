"""train: starts all unfinished runs in order, those with an expert when it is ready; Display: their progress."""

import csv
import json
import math
import shutil
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from cleanrl_scripts.comparison.pools import LocalPool, RayPool, cores
from cleanrl_scripts.comparison.runs import EXPERT, Run
from llmwrappers.agent import AGENT_FILE
from llmwrappers.errors import UserError
from llmwrappers.files import write_atomically


def tail(path: Path, size: int = 4000) -> str:
    """The end of a text file."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def end_of(log: Path) -> str:
    """The lines of a log that say why a run failed: of tyro's box, if the log ends with it, the first ones, else the last."""
    text = tail(log, 20_000).rstrip()
    box = text.rfind("╭")
    is_last = box >= 0 and "\n" not in text[text.rfind("╰") :]
    return "\n".join(text[box:].splitlines()[:12] if is_last else text.splitlines()[-12:])


def status(run: Run) -> tuple[int, str, float]:
    """The step, the latest return and the steps per second, from the end of a run's metrics.csv."""
    step, latest, rate = 0, "", 0.0
    text = tail(run.run_dir / "metrics.csv", 65_536) if run.run_dir else ""
    for row in csv.reader(text.split("\n")[1:-1]):  # the first line is cut or the header, the last one is still written
        step, value = int(row[0]), float(row[2])
        if row[1] in ("charts/episodic_return", "eval/episodic_return"):
            latest = f"{value:.1f}"
        elif row[1] == "charts/SPS":
            rate = value
    return step, latest, rate


class Display:
    """Shows one live line for each run and one for all; without a terminal, a block from time to time.

    Args:
        log: called with the lines; ``print`` is live on a terminal
        later: how many runs like these will follow
    """

    def __init__(self, runs: list[Run], log: Callable[[str], object], later: int = 0):
        self.runs, self.log, self.later = runs, log, later
        self.is_live = log is print and sys.stdout.isatty()
        self.drawn, self.last = 0, -math.inf

    def print(self, text: str) -> None:
        self.erase()
        self.log(text)
        sys.stdout.flush()
        self.last = -math.inf if self.is_live else self.last

    def erase(self) -> None:
        if self.drawn:
            sys.stdout.write(f"\x1b[{self.drawn}F\x1b[J")
            self.drawn = 0

    def update(self, running: list[Run], waiting: list[Run], failed: int) -> None:
        """Draws, if enough time has passed."""
        if time.monotonic() - self.last < (1 if self.is_live else 30):
            return
        self.last = time.monotonic()
        lines, width = [], max(len(run.name) for run in self.runs)
        steps_left = sum(run.total_timesteps for run in waiting) + self.later * self.runs[0].total_timesteps
        rates, longest = 0.0, 0.0
        for run in running:
            step, latest, rate = status(run)
            steps_left, rates = steps_left + run.total_timesteps - step, rates + rate
            line = f"{run.name:<{width}}  {step:>9,}/{run.total_timesteps:,}  return {latest:>9}"
            if rate:
                left = (run.total_timesteps - step) / rate
                longest = max(longest, left)
                line += f"  SPS {rate:5.0f}  left {timedelta(seconds=int(left))}"
            lines.append(line)
        finished = len(self.runs) - len(running) - len(waiting) - failed
        left = f", left {timedelta(seconds=int(max(longest, steps_left / rates)))}" if rates else ""
        failures = f", {failed} failed" if failed else ""
        counts = f"{finished} of {len(self.runs)} runs finished, {len(running)} running, {len(waiting)} wait"
        later = f", {self.later} come later" if self.later else ""
        lines.append(f"{counts}{later}{failures}{left}")
        if self.is_live:
            columns, rows = shutil.get_terminal_size()
            lines = [line[: columns - 1] for line in lines[-(rows - 1) :]]
        self.erase()
        self.log("\n".join(lines))
        sys.stdout.flush()
        self.drawn = len(lines) if self.is_live else 0


def final_return(run_dir: Path) -> float:
    """NaN where a user's script writes none."""
    try:
        return float(json.loads((run_dir / "summary.json").read_text())["eval/episodic_return"])
    except (ValueError, KeyError, TypeError):
        return math.nan


def choose_expert(run: Run, model: Path) -> str:
    """Saves the agent of the environment's best run of EXPERT; returns why it cannot, if so."""
    if model.exists():
        return ""
    finished = sorted(path.parent for path in (run.folder.parents[1] / EXPERT).glob("*/*/summary.json"))
    kept = [folder for folder in finished if (folder / AGENT_FILE).exists() and math.isfinite(final_return(folder))]
    if not kept:
        return (
            f"there is no finished run of `{EXPERT}` with an {AGENT_FILE}, which the expert would be; give --expert-models "
            "(a run leaves none with --no-save-model, or with a layer without a form in NumPy)"
        )
    model.parent.mkdir(exist_ok=True)
    write_atomically(model, (max(kept, key=final_return) / AGENT_FILE).read_bytes())
    return ""


def train(
    runs: list[Run],
    output: Path,
    jobs: int | None = None,
    ray: str | None = None,
    log: Callable[[str], object] = print,
    later: int = 0,
) -> dict[Run, str]:
    """Trains the unfinished runs; returns the failed ones, each with the reason.

    When it ends, for any reason, its runs end, too; the next call continues from their last checkpoints.

    Args:
        output: the folder of all runs
        jobs: runs at a time on this machine; one per core if None
        ray: the address of a Ray cluster, to train there
        log, later: see ``Display``

    Raises:
        UserError: the very first run did not start
    """
    waiting = [run for run in runs if not run.is_finished]
    if not waiting:
        log("all runs are finished; nothing to train")
        return {}
    jobs = jobs or cores()
    pool = RayPool(ray, output) if ray else LocalPool(jobs)
    where = f"on the Ray cluster {ray}" if ray else f"{jobs} at a time"
    display = Display(runs, log, later)
    display.print(f"training {len(waiting)} of {len(runs)} runs, {where}, in {output}")
    failed: dict[Run, str] = {}
    refused: set[tuple[str, str]] = set()  # environments and arms
    # Until one run trains, no other is started: so a mistake in the command is one failure, not one for each run.
    has_begun = any(run.run_dir for run in runs)

    def waits_for_others(run: Run) -> bool:
        """Whether a run must wait for the runs that its expert is chosen from."""
        if run.expert is None or run.expert.exists():
            return False
        return any((other.env_id, other.arm) == (run.env_id, EXPERT) for other in (*waiting, *pool.running))

    def fail(run: Run, reason: str) -> None:
        failed[run] = reason
        display.print(f"failed: {run.name}: {reason}")

    try:
        while waiting or pool.running:
            for run in list(waiting):
                if len(pool.running) >= pool.jobs or (pool.running and not has_begun):
                    break
                if waits_for_others(run):
                    continue
                if run.expert and (obstacle := choose_expert(run, run.expert)):
                    waiting.remove(run)
                    fail(run, obstacle)
                elif pool.start(run):
                    waiting.remove(run)
            for run, problem in pool.ended():
                if not problem and run.is_finished:
                    assert run.run_dir is not None
                    display.print(f"finished: {run.name}: return {final_return(run.run_dir):.1f}")
                    continue
                lines = end_of(run.log)
                if run.run_dir is None and not has_begun:
                    raise UserError(f"the first run, {run.name}, did not start: {problem or 'it ended'}\n{lines}")
                if run.run_dir is None and (run.env_id, run.arm) in refused:
                    failed[run] = problem
                    continue
                fail(run, f"{problem or 'it ended without a summary.json'}; the end of {run.log}:\n{lines}")
                if run.run_dir is None:
                    refused.add((run.env_id, run.arm))
            for run in [run for run in waiting if (run.env_id, run.arm) in refused]:
                waiting.remove(run)
                fail(run, "not started, because another seed was refused")
            has_begun = has_begun or any(run.run_dir for run in runs)
            display.update(list(pool.running), waiting, len(failed))
            time.sleep(0.2)
    finally:
        display.erase()
        pool.close()
    return failed
