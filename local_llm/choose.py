"""Chooses without a person: which candidate makes an agent return more, or that none of them does.

What counts is what an agent that began as the prior's copy returns alone, after training, not what the prior scores.
``select="probe"`` only plays episodes, in seconds. ``select="return"`` also trains, for a few minutes.
"""

import csv
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None

from llmwrappers import __version__
from llmwrappers.priors import PriorPolicy
from llmwrappers.priors.measurement import HEADER, RULE, Measurement, choose, make, measure, random_actions, row

SCRIPT = Path(__file__).parents[1] / "cleanrl_scripts" / "ppo_camel.py"
MOST_TRAINED = 3
FINAL_SEEDS = 3
# A run is whole rollouts, and so is its clone: runs with and without a prior are evaluated at the same steps and end together.
ROLLOUT_STEPS = 2048
MOST_CLONE_STEPS = 10_000
# How a run's verdict begins if its prior has passed the audition.
TESTED = "The agent begins as a copy of"

RULES = {
    "probe": (
        "Episodes alone: among the candidates whose mean return exceeds that of random actions by more than twice the standard "
        f"error of the difference (Welch), {RULE}. Nothing was trained."
    ),
    "return": (
        f"Of the candidates that never fault, the {MOST_TRAINED} best by episodes are trained: agents begin as their copies, "
        "and go on with PPO, always beside an agent without a prior; all runs take equally many steps. What a run learned is "
        "the mean return of its evaluations, of the agent alone, over its last third. One run each, then the better half goes "
        "on, and so forth, until one is left; better is what learned more over all its runs. The last one is trained with "
        f"{FINAL_SEEDS} fresh seeds. It helps if the mean of what it learned in these exceeds the mean of what all runs "
        "without a prior learned by more than twice the standard error of the difference (Welch). A run at whose audition the "
        "candidate was not better than random actions, beyond chance, is PPO alone: it is left out, and a candidate of which "
        "too few runs remain was not tested."
    ),
}


@dataclass
class Candidate:
    """A policy that a model wrote: its code, the file it is in, and the function, or why there is none."""

    number: int
    source: str
    path: Path
    policy: PriorPolicy | None = None
    rejected: str = ""


@dataclass
class Run:
    """One training run: the evaluations of its agent alone, and what its audition found."""

    candidate: int | None
    seed: int
    folder: str
    steps: list[int] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    verdict: str = ""

    def learned(self) -> float:
        """Returns the mean of the evaluations over the last third of the run.

        Example:
            >>> Run(1, seed=0, folder="", steps=[0, 50, 100, 150], returns=[0.0, 10.0, 20.0, 40.0]).learned()
            30.0
        """
        evaluations = zip(self.steps, self.returns, strict=True)
        return fmean([value for step, value in evaluations if 3 * step >= 2 * self.steps[-1]])


@dataclass
class Comparison:
    """What was learned with a candidate and without a prior: one number a run."""

    candidate: list[float]
    none: list[float]


@dataclass
class Choice:
    """Which candidate was chosen, and everything that the choice rests on; ``dataclasses.asdict`` of it fits JSON.

    Attributes:
        candidate: None if none of them helps or could be used
        best: the best of them, be it good enough or not; None if none could be used
        verdict: one sentence that a person can act on
        rule: what was compared
        outcomes: what became of every candidate
        measurements: of the candidates that ran; ``random``, of random actions
        runs: all training runs; those without a prior have no candidate
        settings: what every training run was given
        comparison: of the last candidate that was trained with no prior
    """

    env_id: str
    select: str
    seed: int
    candidate: int | None
    best: int | None
    verdict: str
    rule: str
    outcomes: dict[int, str]
    measurements: dict[int, Measurement]
    random: Measurement
    runs: list[Run] = field(default_factory=list)
    settings: dict[str, float] = field(default_factory=dict)
    comparison: Comparison | None = None


class TrainingFailed(RuntimeError):
    """Training without a prior failed, so that there is nothing to compare with."""


def run_commands(commands: dict[Path, list[str]], jobs: int, log: Callable[[str], object]) -> dict[Path, str]:
    """Runs each command with one thread, its output in its folder's log.txt; returns why those failed that did.

    A folder whose command ended well gets a file named ``finished``. Whatever ends this function, ends the commands; one that
    outlives it all the same, after kill -9, keeps its folder locked, and a second command in it fails.
    """
    waiting, running, failures = list(commands), {}, {}
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
                log(f"  {done} of {len(commands)}: {folder.name} {'failed, ' + failures[folder] if code else 'finished'}")
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
    return failures


def choose_candidate(
    env_id: str,
    candidates: list[Candidate],
    *,
    select: str = "return",
    budget_steps: int = 200_000,
    episodes: int = 10,
    seed: int = 0,
    run_dir: Path = Path("runs"),
    jobs: int | None = None,
    log: Callable[[str], object] = print,
    execute: Callable[[dict[Path, list[str]], int, Callable], dict[Path, str]] = run_commands,
) -> Choice:
    """Chooses the candidate that helps most, or none of them, by the rule in ``RULES[select]``.

    A training run that has finished in ``run_dir`` before, with the same settings and code, is not repeated; one that was
    interrupted is resumed.

    Args:
        env_id: the environment; for "return" one that ``ppo_camel.py`` can train
        candidates: those that were rejected too, so that the verdict counts them
        select: "return" (episodes, then training) or "probe" (episodes alone)
        budget_steps: training steps of all runs together, for three candidates 13. The clone has up to half of a run: in
            short ones it is poor, and whether PPO alone would overtake a good one later, only longer ones show
        episodes: episodes of each candidate, seeded ``seed``, ``seed + 1``, ...; at least 2
        seed: seed of the first episode and of the first training run
        run_dir: the folder of the training runs
        jobs: training runs at a time; one a core if None
        log: gets a line now and then
        execute: runs the training commands

    Raises:
        gymnasium.error.Error: the environment cannot be made
        ValueError: no candidates, two of the same number, an unknown ``select``, too few ``episodes`` or ``budget_steps``, an
            action space that cannot be measured
        FileNotFoundError: for "return", the training script is not there
        TrainingFailed: training without a prior failed

    Example:
        >>> from llmwrappers import load_prior
        >>> hops = Candidate(1, "def policy(obs): ...", Path("policy-1.py"), load_prior("Hopper-v5"))
        >>> wrong = Candidate(2, "import os", Path("policy-2.py"), rejected="line 1: imports os")
        >>> choice = choose_candidate("Hopper-v5", [hops, wrong], select="probe", episodes=2, log=lambda line: None)
        >>> choice.candidate, choice.outcomes
        (1, {1: 'chosen', 2: 'rejected: line 1: imports os'})
    """
    if select not in RULES:
        raise ValueError(f"select must be 'return' or 'probe', got {select!r}")
    if not candidates or len({candidate.number for candidate in candidates}) < len(candidates):
        numbers = [candidate.number for candidate in candidates]
        raise ValueError(f"candidates must be one or more, each with a number of its own, got the numbers {numbers}")
    if episodes < 2:
        raise ValueError(f"episodes must be at least 2, or there is no standard error, got {episodes}")
    jobs = cores() if jobs is None else jobs
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    env = make(env_id)
    try:
        if select == "return":
            require_trainable(sum(candidate.policy is not None for candidate in candidates), budget_steps)
        log(HEADER)
        random = measure(env, random_actions(env.action_space, seed), episodes, seed)
        log(row("random", random))
        outcomes, measurements, first_with = {}, {}, {}
        for candidate in candidates:
            number = candidate.number
            if candidate.policy is None:
                outcomes[number] = f"rejected: {candidate.rejected}"
                continue
            first = first_with.setdefault(candidate.source, number)
            if first != number:
                outcomes[number] = f"repeated: the same code as candidate {first}"
                continue
            measured = measurements[number] = measure(env, candidate.policy, episodes, seed)
            log(row(str(number), measured))
            if measured.faults:
                outcomes[number] = f"faulted in {measured.faults} of {sum(measured.steps)} steps: {measured.first_fault}"
    finally:
        env.close()

    choice = Choice(env_id, select, seed, None, None, "", RULES[select], outcomes, measurements, random)
    usable = {number: m for number, m in measurements.items() if m.faults == 0}
    if usable and select == "probe":
        _choose_by_episodes(choice, usable)
    elif usable:
        paths = {candidate.number: candidate.path for candidate in candidates}
        train = partial(_train, choice, run_dir=run_dir, execute=lambda commands: execute(commands, jobs, log))
        _choose_by_training(choice, usable, paths, budget_steps, train, log)
    if not choice.verdict:
        choice.verdict = _none_usable(choice)
    choice.outcomes = dict(sorted(choice.outcomes.items()))
    log(choice.verdict)
    return choice


def require_trainable(candidates: int, budget_steps: int) -> None:
    """Finds before anything runs what would keep so many candidates from being trained.

    Raises:
        ValueError: too small a budget
        FileNotFoundError: the training script is not there
    """
    if not SCRIPT.is_file():
        raise FileNotFoundError(f"no {SCRIPT}: run from a checkout of the repository, or use select='probe'")
    plan(min(MOST_TRAINED, candidates), budget_steps)


def plan(candidates: int, budget_steps: int) -> tuple[list[int], int]:
    """Returns how many candidates train at each rung, and the steps of every run.

    Raises:
        ValueError: ``budget_steps`` is too small

    Example:
        >>> plan(3, budget_steps=200_000)  # 4 + 3 + 6 runs
        ([3, 2, 1], 14336)
    """
    rungs = [max(candidates, 1)]
    while rungs[-1] > 1:
        rungs.append(math.ceil(rungs[-1] / 2))
    runs = sum(size + 1 for size in rungs[:-1]) + 2 * FINAL_SEEDS
    if budget_steps < runs * 2 * ROLLOUT_STEPS:
        raise ValueError(
            f"budget_steps must be at least {runs * 2 * ROLLOUT_STEPS}, {2 * ROLLOUT_STEPS} steps for each of the {runs} runs "
            f"of {rungs[0]} candidate{'s' * (rungs[0] > 1)}, got {budget_steps}"
        )
    return rungs, budget_steps // (runs * ROLLOUT_STEPS) * ROLLOUT_STEPS


def training_settings(steps: int) -> dict[str, float]:
    """Returns the arguments of a training run of so many steps that are scaled to its length.

    Example:
        >>> training_settings(163_840)["eval_every"], [training_settings(n)["clone_steps"] for n in (4096, 14_336, 163_840)]
        (13653, [2048, 6144, 8192])
    """
    # Up to half the run: a copy of too few steps is a poor one, whatever the prior.
    clone = min(steps // 2, MOST_CLONE_STEPS) // ROLLOUT_STEPS
    return {
        "total_timesteps": steps,
        "clone_steps": clone * ROLLOUT_STEPS,
        "num_steps": ROLLOUT_STEPS,
        "eval_every": max(steps // 12, ROLLOUT_STEPS),
        "eval_episodes": 3,
        "checkpoint_every": steps // 4,
    }


def exceeds(values: Sequence[float], others: Sequence[float]) -> bool:
    """Tells whether the mean of some values exceeds that of others by more than twice the difference's standard error.

    Example:
        >>> exceeds([5.0, 7.0], [1.0, 2.0]), exceeds([5.0, 7.0], [1.0, 5.0])
        (True, False)
    """
    a, b = np.array(values), np.array(others)
    standard_error = math.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    return bool(a.mean() - b.mean() > 2 * standard_error)


def cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def number_text(value: float) -> str:
    """Returns a number as one says it: whole if it is large, else with three significant digits.

    Example:
        >>> number_text(15360), number_text(-0.01234), number_text(81.26)
        ('15 360', '-0.0123', '81.3')
    """
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 100 or value == 0 else f"{value:.3g}"


def _choose_by_episodes(choice: Choice, usable: dict[int, Measurement]) -> None:
    better = {}
    for number, measured in usable.items():
        if exceeds(measured.returns, choice.random.returns):
            better[number] = measured
        else:
            choice.outcomes[number] = "no better than random actions"
    choice.candidate, choice.best = choose(better), choose(better or usable)
    assert choice.best is not None
    alone, by_chance = (number_text(fmean(m.returns)) for m in (usable[choice.best], choice.random))
    episodes = len(choice.random.returns)
    if choice.candidate is None:
        choice.verdict = (
            f"None of them helps: the best, candidate {choice.best}, returns {alone} over {episodes} episodes, random actions "
            f"{by_chance}, and chance explains that as well; ask for other candidates."
        )
        return
    choice.outcomes |= dict.fromkeys(better, "worse by the rule") | {choice.candidate: "chosen"}
    choice.verdict = (
        f"Candidate {choice.candidate} is the best by episodes alone: it returns {alone} over {episodes} episodes, random "
        f"actions {by_chance}; whether an agent learns more with it, only training tells."
    )


def _choose_by_training(
    choice: Choice,
    usable: dict[int, Measurement],
    paths: dict[int, Path],
    budget_steps: int,
    train: Callable[[dict[int | None, Path | None], range], list[Run]],
    log: Callable[[str], object],
) -> None:
    """Trains by successive halving, and writes everything that comes of it into the choice."""
    ranking, rest = [], dict(usable)
    while (best := choose(rest)) is not None:
        ranking.append(best)
        del rest[best]
    for number in ranking[MOST_TRAINED:]:
        choice.outcomes[number] = f"untrained: not among the {MOST_TRAINED} best by episodes"
    arms = ranking[:MOST_TRAINED]
    rungs, steps = plan(len(arms), budget_steps)
    choice.settings = training_settings(steps)
    log(f"training {len(arms)} of them, and without a prior, {number_text(steps)} steps a run")

    def learned(number: int | None) -> list[float]:
        return [run.learned() for run in choice.runs if run.candidate == number]

    seed = choice.seed
    for size in rungs:
        arms.sort(key=lambda number: -fmean(learned(number) or [0.0]))
        for number in arms[size:]:
            choice.outcomes[number] = "dropped: others learned more"
        arms = arms[:size]
        seeds = range(seed, seed + (FINAL_SEEDS if size == 1 else 1))
        seed = seeds.stop
        final = train({None: None, **{number: paths[number] for number in arms}}, seeds)
        arms = [number for number in arms if number not in choice.outcomes]
        if not arms:
            return
        log("learned so far: " + ", ".join(f"{_name(n)} {number_text(fmean(learned(n)))}" for n in [None, *arms]))

    (choice.best,) = (last,) = arms
    comparison = choice.comparison = Comparison([run.learned() for run in final if run.candidate == last], learned(None))
    helps = exceeds(comparison.candidate, comparison.none)
    choice.candidate = last if helps else None
    choice.outcomes[last] = "chosen" if helps else "the best of them, but does not help"
    with_prior, without = (number_text(fmean(values)) for values in (comparison.candidate, comparison.none))
    numbers = (
        f"after {number_text(steps)} steps the agent returns {with_prior} ({len(comparison.candidate)} seeds, least "
        f"{number_text(min(comparison.candidate))}), against {without} without a prior ({len(comparison.none)} seeds, greatest "
        f"{number_text(max(comparison.none))})"
    )
    if helps:
        choice.verdict = f"Candidate {last} helps: {numbers}."
        return
    if fmean(comparison.candidate) > fmean(comparison.none):
        advice = "chance explains this difference as well, and a larger budget may tell"
    else:
        advice = "train without a prior, or ask for other candidates"
    choice.verdict = f"None of them helps: with the best, candidate {last}, {numbers}; {advice}."


def _train(
    choice: Choice,
    arms: dict[int | None, Path | None],
    seeds: range,
    run_dir: Path,
    execute: Callable[[dict[Path, list[str]]], dict[Path, str]],
) -> list[Run]:
    """Trains every arm with every seed, and adds the runs, or why a candidate's failed, to the choice."""
    settings = [word for name, value in choice.settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    settings += ["--no-cuda", "--no-save-model"]
    training_code = [file.read_text("utf-8") for file in (SCRIPT, *sorted(SCRIPT.parent.glob("common/*.py")))]
    folders, commands = {}, {}
    for run_seed in seeds:
        for number, path in arms.items():
            # A run is what its settings and its code are: other ones go into another folder.
            code = path.read_text("utf-8") if path else ""
            what = [__version__, training_code, choice.env_id, settings, code]
            key = hashlib.sha256(json.dumps(what).encode()).hexdigest()
            name = f"{'none' if number is None else f'candidate-{number}'}-seed-{run_seed}-{key[:8]}"
            folder = folders[number, run_seed] = run_dir.resolve() / name
            if (folder / "finished").is_file():
                continue
            started = sorted(folder.glob("*/args.json"))
            arguments = ["--env-id", choice.env_id, "--prior", str(path.resolve()) if path else "none", *settings]
            arguments += ["--seed", str(run_seed), "--runs-dir", str(folder)]
            arguments = ["--resume", str(started[-1].parent)] if started else arguments
            commands[folder] = [sys.executable, str(SCRIPT), *arguments]
    failures = execute(commands)
    runs, untested = [], {}
    for (number, run_seed), folder in folders.items():
        run = None if folder in failures else _read_run(number, run_seed, folder)
        if run is None or not all(map(math.isfinite, run.returns)):
            why = failures.get(folder, f"it diverged: {folder} has an evaluation that is no number")
            if number is None:
                raise TrainingFailed(f"training without a prior failed with seed {run_seed}: {why}")
            choice.outcomes[number] = f"failed in training with seed {run_seed}: {why}"
        elif number is None or run.verdict.startswith(TESTED):
            runs.append(run)
        else:
            untested.setdefault(number, []).append(run.verdict)
    for number, verdicts in untested.items():
        if len(seeds) - len(verdicts) < min(2, len(seeds)):  # a standard error needs two
            choice.outcomes.setdefault(number, f"not tested: {verdicts[0]}")
    choice.runs += runs
    return runs


def _read_run(candidate: int | None, seed: int, folder: Path) -> Run:
    run_dir = sorted(folder.glob("*/args.json"))[-1].parent
    run = Run(candidate, seed, folder.name, verdict=json.loads((run_dir / "summary.json").read_text("utf-8"))["verdict"])
    with open(run_dir / "metrics.csv", newline="") as file:
        for line in csv.DictReader(file):
            if line["metric"] == "eval/episodic_return":
                run.steps.append(int(line["global_step"]))
                run.returns.append(float(line["value"]))
    return run


def _name(number: int | None) -> str:
    return "without a prior" if number is None else f"candidate {number}"


def _none_usable(choice: Choice) -> str:
    """The verdict where nothing is left to choose from."""
    kinds = Counter(re.findall(r"not tested|\w+", outcome)[0] for outcome in choice.outcomes.values())
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    first, why = min(choice.outcomes.items())
    return f"No candidate could be used: {'all ' if len(kinds) == 1 else ''}{counts}; candidate {first} {why}"
