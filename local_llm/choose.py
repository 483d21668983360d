"""Chooses without a person: which candidate makes an agent learn more, or that none of them does.

What counts is what the agent learns, not what the prior scores: a prior that stands still perfectly returns a lot and teaches
nothing. ``select="probe"`` only plays episodes, in seconds. ``select="return"`` also trains, for a few minutes.
"""

import csv
import hashlib
import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None

from llmwrappers import __version__
from llmwrappers.priors import PriorPolicy
from llmwrappers.priors.measurement import HEADER, RULE, Measurement, choose, make, measure, random_actions, row

SCRIPT = Path(__file__).parents[1] / "cleanrl_scripts" / "td3_camel.py"
MOST_TRAINED = 3
FINAL_SEEDS = 3
# A run's steps are a multiple of this, so that its evaluations and its last third fall on whole steps.
STEPS_UNIT = 60

RULES = {
    "probe": (
        "Episodes alone: among the candidates whose mean return exceeds that of random actions by more than twice the standard "
        f"error of the difference (Welch), {RULE}. Nothing was trained."
    ),
    "return": (
        f"Of the candidates that never fault, the {MOST_TRAINED} best by episodes are trained with their mask, always beside "
        "an agent without a prior; all runs take equally many steps. What a run learned is the mean return of its evaluations "
        "over its last third. One run each, then the better half goes on, and so forth, until one is left; better is what "
        "learned more over all its runs, without and with the mask together, because with it a difference shows first. The "
        f"last one is trained with {FINAL_SEEDS} fresh seeds. It helps if the mean of what it learned in these without the "
        "mask exceeds the mean of what all runs without a prior learned by more than twice the standard error of the "
        "difference (Welch)."
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
    """One training run: its evaluations without the mask and, if it had one, with it."""

    candidate: int | None
    seed: int
    folder: str
    steps: list[int] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    masked_returns: list[float] = field(default_factory=list)

    def learned(self, masked: bool = False) -> float:
        """Returns the mean of the evaluations over the last third of the run.

        Example:
            >>> Run(1, seed=0, folder="", steps=[0, 50, 100, 150], returns=[0.0, 10.0, 20.0, 40.0]).learned()
            30.0
        """
        values = self.masked_returns if masked else self.returns
        return fmean([value for step, value in zip(self.steps, values, strict=True) if 3 * step >= 2 * self.steps[-1]])


@dataclass
class Comparison:
    """What was learned with a candidate, evaluated without and with its mask, and without a prior: one number a run."""

    candidate: list[float]
    masked: list[float]
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
        env_id: the environment; for "return" one that ``td3_camel.py`` can train
        candidates: those that were rejected too, so that the verdict counts them
        select: "return" (episodes, then training) or "probe" (episodes alone)
        budget_steps: training steps of all runs together. Short runs can miss what a prior teaches: in the paper's form it
            showed on Hopper-v4 from some 50 000 steps a run (benchmarks/RESULTS.md), for three candidates 650 000
        episodes: episodes of each candidate, seeded ``seed``, ``seed + 1``, ...; at least 2
        seed: seed of the first episode and of the first training run
        run_dir: the folder of the training runs
        jobs: training runs at a time; one a core if None
        log: gets a line now and then
        execute: runs the training commands

    Raises:
        gymnasium.error.Error: the environment cannot be made
        ValueError: no candidates, two of the same number, an unknown ``select``, too few ``episodes`` or ``budget_steps``, an
            action space that cannot be measured or, for "return", not trained
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
            require_trainable(env, sum(candidate.policy is not None for candidate in candidates), budget_steps)
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


def require_trainable(env: gym.Env, candidates: int, budget_steps: int) -> None:
    """Finds before anything runs what would keep so many candidates from being trained.

    Raises:
        ValueError: an action space that is no Box, or too small a budget
        FileNotFoundError: the training script is not there
    """
    if not isinstance(env.action_space, Box):
        raise ValueError(
            f"select='return' trains TD3, which needs a Box action space, got {env.action_space}: use select='probe'"
        )
    if not SCRIPT.is_file():
        raise FileNotFoundError(f"no {SCRIPT}: run from a checkout of the repository, or use select='probe'")
    plan(min(MOST_TRAINED, candidates), budget_steps)


def plan(candidates: int, budget_steps: int) -> tuple[list[int], int]:
    """Returns how many candidates train at each rung, and the steps of every run.

    Raises:
        ValueError: ``budget_steps`` is too small

    Example:
        >>> plan(3, budget_steps=200_000)  # 4 + 3 + 6 runs
        ([3, 2, 1], 15360)
    """
    rungs = [max(candidates, 1)]
    while rungs[-1] > 1:
        rungs.append(math.ceil(rungs[-1] / 2))
    runs = sum(size + 1 for size in rungs[:-1]) + 2 * FINAL_SEEDS
    if budget_steps < runs * STEPS_UNIT:
        raise ValueError(
            f"budget_steps must be at least {runs * STEPS_UNIT} for the {runs} runs that {candidates} candidates need "
            f"(thousands a run to mean anything), got {budget_steps}"
        )
    return rungs, budget_steps // (runs * STEPS_UNIT) * STEPS_UNIT


def training_settings(steps: int) -> dict[str, float]:
    """Returns the arguments of a training run of so many steps that are scaled to its length.

    Example:
        >>> training_settings(15_360)["eval_every"]
        1280
    """
    return {
        "total_timesteps": steps,
        "learning_starts": steps // 20,
        "mask_fraction": 0.2,
        "eval_every": steps // 12,
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

    def learned(number: int | None, masked: bool = False) -> list[float]:
        return [run.learned(masked) for run in choice.runs if run.candidate == number]

    seed = choice.seed
    for size in rungs:
        arms.sort(key=lambda number: -fmean(learned(number) + learned(number, masked=True) or [0.0]))
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
    fresh = [run for run in final if run.candidate == last]
    comparison = choice.comparison = Comparison(
        [run.learned() for run in fresh], [run.learned(masked=True) for run in fresh], learned(None)
    )
    helps = exceeds(comparison.candidate, comparison.none)
    choice.candidate = last if helps else None
    choice.outcomes[last] = "chosen" if helps else "the best of them, but does not help"
    with_prior, masked, without = (
        number_text(fmean(values)) for values in (comparison.candidate, comparison.masked, comparison.none)
    )
    numbers = (
        f"after {number_text(steps)} steps the agent returns {with_prior} without the mask ({FINAL_SEEDS} seeds, least "
        f"{number_text(min(comparison.candidate))}) and {masked} with it, against {without} without a prior "
        f"({len(comparison.none)} seeds, greatest {number_text(max(comparison.none))})"
    )
    if helps:
        choice.verdict = f"Candidate {last} helps: {numbers}."
        return
    if exceeds(comparison.masked, comparison.none):
        alone = number_text(fmean(usable[last].returns))
        advice = (
            f"the mask helps as long as it is on (the policy alone returns {alone}), so longer training, which a larger budget "
            "allows, may carry that over"
        )
    elif fmean(comparison.candidate) > fmean(comparison.none):
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
    folders, commands = {}, {}
    for run_seed in seeds:
        for number, path in arms.items():
            # A run is what its settings and its code are: other ones go into another folder.
            code = path.read_text("utf-8") if path else ""
            what = [__version__, SCRIPT.read_text("utf-8"), choice.env_id, settings, code]
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
    runs = []
    for (number, run_seed), folder in folders.items():
        run = None if folder in failures else _read_run(number, run_seed, folder)
        if run is not None and all(map(math.isfinite, run.returns + run.masked_returns)):
            runs.append(run)
            continue
        why = failures.get(folder, f"it diverged: {folder} has an evaluation that is no number")
        if number is None:
            raise TrainingFailed(f"training without a prior failed with seed {run_seed}: {why}")
        choice.outcomes[number] = f"failed in training with seed {run_seed}: {why}"
    choice.runs += runs
    return runs


def _read_run(candidate: int | None, seed: int, folder: Path) -> Run:
    run = Run(candidate, seed, folder.name)
    with open(sorted(folder.glob("*/args.json"))[-1].with_name("metrics.csv"), newline="") as file:
        for line in csv.DictReader(file):
            if line["metric"] == "eval/episodic_return":
                run.steps.append(int(line["global_step"]))
                run.returns.append(float(line["value"]))
            elif line["metric"] == "eval/masked_return":
                run.masked_returns.append(float(line["value"]))
    return run


def _name(number: int | None) -> str:
    return "without a prior" if number is None else f"candidate {number}"


def _none_usable(choice: Choice) -> str:
    """The verdict where nothing is left to choose from."""
    kinds = Counter(outcome.split()[0].rstrip(":") for outcome in choice.outcomes.values())
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    first, why = min(choice.outcomes.items())
    return f"No candidate could be used: {'all ' if len(kinds) == 1 else ''}{counts}; candidate {first} {why}"
