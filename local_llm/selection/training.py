"""Trains for a choice: one run of ppo_camel.py for each arm and seed, and how many steps each run takes."""

import csv
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium as gym

from cleanrl_scripts.comparison.runs import Run
from llmwrappers import __version__
from llmwrappers.errors import UserError
from llmwrappers.making import image_refusal
from llmwrappers.priors.audition import Verdict

SCRIPT = Path(__file__).parents[2] / "cleanrl_scripts" / "ppo_camel.py"
# A run is whole rollouts, and so are its cloning steps: runs with and without a prior have the same evaluation steps and end.
ROLLOUT_STEPS = 2048
MOST_CLONE_STEPS = 20_000
# Audition and cloning need at least so many episodes of full length: five for the audition, one for cloning.
CLONE_EPISODES = 6
# The most candidates that are trained, and the fresh seeds of the last one.
MOST_TRAINED = 3
FINAL_SEEDS = 3


class TrainingFailed(RuntimeError):
    """Training without a prior failed, so that there is nothing to compare with."""


@dataclass
class Trained:
    """One training run: the evaluations of its agent alone, and what its audition found, if it has a prior."""

    candidate: int | None
    seed: int
    folder: str
    steps: list[int] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    verdict: Verdict | None = None

    def last_third(self) -> list[float]:
        """Returns the evaluations over the last third of the run.

        Example:
            >>> Trained(1, seed=0, folder="", steps=[0, 50, 100, 150], returns=[0.0, 10.0, 20.0, 40.0]).last_third()
            [20.0, 40.0]
        """
        evaluations = zip(self.steps, self.returns, strict=True)
        return [value for step, value in evaluations if 3 * step >= 2 * self.steps[-1]]

    def learned(self) -> float:
        """Returns their mean."""
        return fmean(self.last_third())


@dataclass(frozen=True)
class Outcome:
    """The outcome of a candidate: a kind for programs, a text (``str``) for people."""

    kind: str
    text: str = ""

    def __str__(self) -> str:
        return self.text or self.kind


def least_steps(time_limit: int | None) -> int:
    """Returns how short a run may be: cloning takes half of it, which holds whole episodes for the audition and the clone.

    Example:
        >>> least_steps(None), least_steps(200), least_steps(1000)
        (6144, 6144, 12288)
    """
    cloning = ROLLOUT_STEPS * math.ceil(CLONE_EPISODES * (time_limit or 0) / ROLLOUT_STEPS)
    return max(2 * cloning, 3 * ROLLOUT_STEPS)  # a last third of one evaluation would have no variance


def plan(candidates: int, budget_steps: int, time_limit: int | None) -> tuple[list[int], list[int], int]:
    """Returns how many candidates train at each rung, how many runs each rung has, and the steps of every run.

    Args:
        time_limit: of an episode; a run holds several whole episodes

    Raises:
        ValueError: ``budget_steps`` is too small

    Example:
        >>> plan(3, budget_steps=1_350_000, time_limit=1000)
        ([3, 2, 1], [4, 3, 6], 102400)
    """
    rungs = [max(candidates, 1)]
    while rungs[-1] > 1:
        rungs.append(math.ceil(rungs[-1] / 2))
    runs = [*(size + 1 for size in rungs[:-1]), 2 * FINAL_SEEDS]
    least = least_steps(time_limit)
    if budget_steps < sum(runs) * least:
        episodes = f", in which cloning takes {CLONE_EPISODES} episodes of {time_limit} steps" if time_limit else ""
        raise ValueError(
            f"budget_steps must be at least {sum(runs) * least}, {least} steps for each of the {sum(runs)} runs "
            f"of {rungs[0]} candidate{'s' * (rungs[0] > 1)}{episodes}, got {budget_steps}"
        )
    return rungs, runs, budget_steps // (sum(runs) * ROLLOUT_STEPS) * ROLLOUT_STEPS


def require_trainable(candidates: int, budget_steps: int, env: gym.Env) -> None:
    """Refuses, before anything runs, what keeps so many candidates from being trained.

    Raises:
        ValueError: too small a budget, or images that the network of the training script cannot take
        FileNotFoundError: the training script is not there
    """
    if not SCRIPT.is_file():
        raise FileNotFoundError(f"no {SCRIPT}: run from a checkout of the repository, or use select='probe'")
    if refusal := image_refusal(env.observation_space):
        raise ValueError(f"{SCRIPT.name}: {refusal}; or choose by episodes alone, with select 'probe'")
    plan(min(MOST_TRAINED, candidates), budget_steps, env.spec and env.spec.max_episode_steps)


def training_settings(steps: int, time_limit: int | None) -> dict[str, float]:
    """Returns the arguments that depend on the length of a training run.

    Example:
        >>> training_settings(102_400, 1000)["eval_every"]
        8533
        >>> [training_settings(steps, 1000)["clone_steps"] for steps in (12_288, 14_336, 102_400)]
        [6144, 6144, 18432]
    """
    # Up to half the run: too few cloning steps make a poor clone of any prior.
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
    env_kwargs: dict[str, Any],
    fingerprint: int,
    settings: dict[str, float],
    arms: dict[int | None, Path | None],
    seeds: range,
    run_dir: Path,
    execute: Callable[[list[Run]], dict[Run, str]],
) -> tuple[list[Trained], dict[int, Outcome]]:
    """Trains every arm with every seed; returns the runs that count, and why a candidate is out.

    A run that has finished in ``run_dir`` with the same environment, settings and code is not repeated; an interrupted one is
    resumed. A run whose audition refused its prior is PPO alone, and does not count.

    Args:
        fingerprint: of the environment: its own code may change
        arms: the file of each candidate; None has no prior and no file
        execute: trains the runs that are not finished; returns the failed ones, each with the reason

    Raises:
        TrainingFailed: training without a prior failed
    """
    words = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    words += ["--no-cuda", "--no-save-model"]
    words += ["--env-kwargs", json.dumps(env_kwargs)] if env_kwargs else []
    files = [SCRIPT, *(file for room in ("common", "learning") for file in sorted(SCRIPT.parent.glob(f"{room}/*.py")))]
    training_code = [file.read_text("utf-8") for file in files]
    begun: dict[tuple[int | None, int], Run] = {}
    for seed in seeds:
        for number, path in arms.items():
            # A run of a changed environment, with other settings or other code goes into another folder.
            facts = [__version__, training_code, env_id, fingerprint, words, path.read_text("utf-8") if path else ""]
            key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
            arm = "none" if number is None else f"candidate-{number}"
            folder = run_dir.resolve() / f"{arm}-seed-{seed}-{key[:8]}"
            flags = ("--env-id", env_id, "--prior", str(path.resolve()) if path else "none", *words, "--seed", str(seed))
            begun[number, seed] = Run(env_id, arm, seed, int(settings["total_timesteps"]), folder, SCRIPT, flags)
    try:
        failures = execute([*begun.values()])
    except UserError as error:
        raise TrainingFailed(str(error)) from None
    runs, out, untested = [], {}, {}
    for (number, seed), run in begun.items():
        trained = None if run in failures else _read(number, run)
        if trained is None or not all(map(math.isfinite, trained.returns)):
            why = failures.get(run, f"it diverged: {run.folder} has an evaluation that is no number")
            if number is None:
                raise TrainingFailed(f"training without a prior failed with seed {seed}: {why}")
            out.setdefault(number, Outcome("failed", f"failed in training with seed {seed}: {why}"))
        elif number is None or (trained.verdict and trained.verdict.taught):
            runs.append(trained)
        else:
            untested.setdefault(number, []).append(trained.verdict)
    for number, verdicts in untested.items():
        if len(seeds) - len(verdicts) < min(2, len(seeds)):  # a standard error needs two
            out.setdefault(number, Outcome("not tested", f"not tested: {verdicts[0]}"))
    return runs, out


def _read(candidate: int | None, run: Run) -> Trained:
    assert run.run_dir is not None
    audition = json.loads((run.run_dir / "summary.json").read_text("utf-8"))["audition"]
    trained = Trained(candidate, run.seed, run.folder.name, verdict=Verdict(**audition) if audition else None)
    with open(run.run_dir / "metrics.csv", newline="") as file:
        for line in csv.DictReader(file):
            if line["metric"] == "eval/episodic_return":
                trained.steps.append(int(line["global_step"]))
                trained.returns.append(float(line["value"]))
    return trained
