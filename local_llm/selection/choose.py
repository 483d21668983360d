"""Chooses without a person: which candidate makes an agent return more, or that none of them does.

The measure is the return of a trained agent that was warm-started from the candidate, not the candidate's own return.
``select="probe"`` only plays episodes; ``select="return"`` also trains, which takes longer.
"""

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium as gym

from cleanrl_scripts.comparison.runs import Run
from cleanrl_scripts.comparison.training import train
from llmwrappers.making import make
from llmwrappers.priors.chance import exceeds_by_welch
from llmwrappers.priors.measurement import HEADER, RULE, Measurement, choose, doing_nothing, measure, random_actions, row
from local_llm.prompting.rollouts import fingerprint
from local_llm.prompting.wording import number_text
from local_llm.selection import training
from local_llm.selection.candidate import Candidate
from local_llm.selection.episode_pools import CHOOSING_EPISODES, CHOOSING_SEED, HELD_OUT_EPISODES, HELD_OUT_SEED
from local_llm.selection.training import FINAL_SEEDS, MOST_TRAINED, Outcome, Trained

# With three candidates 13 runs of 102 400 steps.
BUDGET_STEPS = 1_350_000

RULES = {
    "probe": (
        "Episodes alone decide; nothing was trained. The mean return of a candidate must exceed that of random actions, and "
        "that of doing nothing, by more than twice the standard error of the difference (Welch). The choice among those that "
        f"do: {RULE}."
    ),
    "return": (
        f"Of the candidates that never fault, the {MOST_TRAINED} best by episodes are tested: PPO trains an agent that is "
        "warm-started from the candidate, and beside it one without a prior. All runs take equally many steps. The result "
        "of a run is the mean return of the agent alone, over the evaluations in its last third. Each candidate gets one "
        "run; then the better half gets another, and so on, until one candidate is left. The better candidate is the one "
        "with the higher mean result of all its runs; if the difference is within twice the standard error of these "
        f"evaluations, the one that is better by episodes. The last candidate is trained with {FINAL_SEEDS} fresh seeds. "
        "It helps if its mean result with these exceeds the mean result of all runs of PPO alone by more than twice the "
        "standard error of the difference (Welch). If the audition of a run refused the candidate, because it was not "
        "significantly better than random actions or did not differ significantly from doing nothing, that run was PPO "
        "alone and is left out. A candidate with too few runs left counts as not tested."
    ),
}


@dataclass
class Comparison:
    """The results with a candidate and without a prior: one number a run."""

    candidate: list[float]
    none: list[float]


@dataclass
class Choice:
    """Which candidate was chosen, and everything that the choice rests on; ``dataclasses.asdict`` of it fits JSON.

    Attributes:
        candidate: None if none of them helps or could be used
        best: the best of them, whether it helps or not; None if none could be used
        verdict: what a person should know and do
        rule: what was compared
        outcomes: what became of every candidate
        measurements: of the candidates that ran; ``random``, of random actions; ``nothing``, of doing nothing, on a Box
        runs: all training runs; those without a prior have no candidate
        settings: what every training run was given
        comparison: the last trained candidate against no prior
        held_out: of the best candidate, in episodes that nothing was chosen by
    """

    env_id: str
    select: str
    seed: int
    rule: str
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    candidate: int | None = None
    best: int | None = None
    verdict: str = ""
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    measurements: dict[int, Measurement] = field(default_factory=dict)
    random: Measurement = field(default_factory=Measurement)
    nothing: Measurement | None = None
    runs: list[Trained] = field(default_factory=list)
    settings: dict[str, float] = field(default_factory=dict)
    comparison: Comparison | None = None
    held_out: Measurement | None = None

    @property
    def first_episode(self) -> int:
        """The seed of the first episode of ``measurements``."""
        return self.seed + CHOOSING_SEED


def choose_candidate(
    env_id: str,
    candidates: list[Candidate],
    *,
    env_kwargs: dict[str, Any] | None = None,
    select: str = "return",
    budget_steps: int = BUDGET_STEPS,
    episodes: int = CHOOSING_EPISODES,
    held_out_episodes: int = HELD_OUT_EPISODES,
    seed: int = 0,
    run_dir: Path = Path("runs"),
    jobs: int | None = None,
    log: Callable[[str], object] = print,
    execute: Callable[..., dict[Run, str]] = train,
) -> Choice:
    """Chooses the candidate that helps most, or none of them, by the rule in ``RULES[select]``.

    A training run that has finished in ``run_dir`` with the same environment, settings and code is not repeated; an interrupted
    one is resumed.

    Args:
        env_id: the environment; for "return" one that ``ppo_camel.py`` can train
        env_kwargs: arguments of gym.make
        candidates: all of them, the rejected ones too, so that the verdict counts them
        select: "return" (episodes, then training) or "probe" (episodes alone)
        budget_steps: training steps of all runs together (three candidates take 13 runs). Only longer runs show whether PPO
            alone would overtake a good prior later
        episodes: episodes that each candidate is chosen by, at least 2
        held_out_episodes: episodes in which the best one is measured after the choice, at least 1. Each kind has seeds of its
            own (see ``episode_pools``)
        seed: seed of the first training run; the episodes' seeds follow from it
        run_dir: the folder of the training runs
        jobs: training runs at a time; one a core if None
        log: called with each line of progress
        execute: trains runs, as ``cleanrl_scripts.comparison.training.train`` does

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
        >>> few = {"episodes": 2, "held_out_episodes": 1, "log": lambda line: None}
        >>> choice = choose_candidate("Hopper-v5", [hops, wrong], select="probe", **few)
        >>> choice.candidate, [str(outcome) for outcome in choice.outcomes.values()]
        (1, ['chosen', 'rejected: line 1: imports os'])
    """
    if select not in RULES:
        raise ValueError(f"select must be 'return' or 'probe', got {select!r}")
    if not candidates or len({candidate.number for candidate in candidates}) < len(candidates):
        numbers = [candidate.number for candidate in candidates]
        raise ValueError(f"candidates must be one or more, each with a number of its own, got the numbers {numbers}")
    if episodes < 2:
        raise ValueError(f"episodes must be at least 2, or there is no standard error, got {episodes}")
    if held_out_episodes < 1:
        raise ValueError(f"held_out_episodes must be at least 1, got {held_out_episodes}")
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    with make(env_id, **(env_kwargs or {})) as env:
        if select == "return":
            training.require_trainable(sum(candidate.policy is not None for candidate in candidates), budget_steps, env)
        choice = Choice(env_id, select, seed, RULES[select], env_kwargs or {})
        _play_all(env, choice, candidates, episodes, log)
        usable = {number: m for number, m in choice.measurements.items() if m.faults == 0}
        if usable and select == "probe":
            _choose_by_episodes(choice, usable)
        elif usable:
            paths = {candidate.number: candidate.path for candidate in candidates}
            _choose_by_training(choice, usable, paths, env, budget_steps, run_dir, jobs, execute, log)
        if not choice.verdict:
            choice.verdict = _none_usable(choice)
        choice.outcomes = dict(sorted(choice.outcomes.items()))
        log(choice.verdict)
        if choice.best is not None:
            best = next(c.policy for c in candidates if c.policy is not None and c.number == choice.best)
            choice.held_out = measure(env, best, held_out_episodes, seed + HELD_OUT_SEED)
            log(f"candidate {choice.best} in {held_out_episodes} episodes that nothing was chosen by:")
            log(row("held out", choice.held_out))
    return choice


def _play_all(env: gym.Env, choice: Choice, candidates: list[Candidate], episodes: int, log: Callable) -> None:
    """Measures random actions, doing nothing and all candidates in the same episodes."""
    first = choice.first_episode
    log(HEADER)
    choice.random = measure(env, random_actions(env.action_space, first), episodes, first)
    log(row("random", choice.random))
    if isinstance(env.action_space, gym.spaces.Box):
        choice.nothing = measure(env, doing_nothing(env.action_space), episodes, first)
        log(row("nothing", choice.nothing))
    first_with: dict[str, int] = {}
    for candidate in candidates:
        number = candidate.number
        if candidate.policy is None:
            choice.outcomes[number] = Outcome("rejected", f"rejected: {candidate.rejected}")
            continue
        same = first_with.setdefault(candidate.source, number)
        if same != number:
            choice.outcomes[number] = Outcome("repeated", f"repeated: the same code as candidate {same}")
            continue
        measured = choice.measurements[number] = measure(env, candidate.policy, episodes, first)
        log(row(str(number), measured))
        if measured.faults:
            how_often = f"faulted in {measured.faults} of {sum(measured.steps)} steps"
            choice.outcomes[number] = Outcome("faulted", f"{how_often}: {measured.first_fault}")


def _choose_by_episodes(choice: Choice, usable: dict[int, Measurement]) -> None:
    better = {}
    for number, measured in usable.items():
        if not exceeds_by_welch(measured.returns, choice.random.returns):
            choice.outcomes[number] = Outcome("no better than random actions")
        elif choice.nothing and not exceeds_by_welch(measured.returns, choice.nothing.returns):
            choice.outcomes[number] = Outcome("no better than doing nothing")
        else:
            better[number] = measured
    choice.candidate, choice.best = choose(better), choose(better or usable)
    assert choice.best is not None
    alone, by_chance = (number_text(fmean(m.returns)) for m in (usable[choice.best], choice.random))
    by_chance += f", doing nothing {number_text(fmean(choice.nothing.returns))}" if choice.nothing else ""
    episodes = len(choice.random.returns)
    if choice.candidate is None:
        choice.verdict = (
            f"None of them is significantly better by episodes: the best, candidate {choice.best}, returns {alone} over "
            f"{episodes} episodes, random actions {by_chance}. Ask for other candidates."
        )
        return
    choice.outcomes |= dict.fromkeys(better, Outcome("worse by the rule")) | {choice.candidate: Outcome("chosen")}
    choice.verdict = (
        f"Candidate {choice.candidate} is the best by episodes alone: it returns {alone} over {episodes} episodes, random "
        f"actions {by_chance}. Only training shows whether an agent learns more with it."
    )


def _choose_by_training(
    choice: Choice,
    usable: dict[int, Measurement],
    paths: dict[int, Path],
    env: gym.Env,
    budget_steps: int,
    run_dir: Path,
    jobs: int | None,
    execute: Callable[..., dict[Run, str]],
    log: Callable[[str], object],
) -> None:
    """Trains by successive halving, and writes all results into the choice."""
    ranking, rest = [], dict(usable)
    while (best := choose(rest)) is not None:
        ranking.append(best)
        del rest[best]
    for number in ranking[MOST_TRAINED:]:
        choice.outcomes[number] = Outcome("untrained", f"untrained: not among the {MOST_TRAINED} best by episodes")
    arms = ranking[:MOST_TRAINED]
    time_limit, behaviour = env.spec and env.spec.max_episode_steps, fingerprint(env)
    rungs, runs, steps = training.plan(len(arms), budget_steps, time_limit)
    choice.settings = training.training_settings(steps, time_limit)
    log(
        f"training {len(arms)} of them, and without a prior: {sum(runs)} runs of {number_text(steps)} steps; the time left is "
        "known when the first ones run"
    )

    def learned(number: int | None) -> list[float]:
        return [run.learned() for run in choice.runs if run.candidate == number]

    seed = choice.seed
    for rung, size in enumerate(rungs):
        going_on = go_on(arms, size, choice.runs)
        choice.outcomes |= dict.fromkeys(set(arms) - set(going_on), Outcome("dropped", "dropped: others learned more"))
        arms = going_on
        seeds = range(seed, seed + (FINAL_SEEDS if size == 1 else 1))
        seed = seeds.stop
        files: dict[int | None, Path | None] = {None: None, **{number: paths[number] for number in arms}}
        run_all = functools.partial(execute, output=run_dir, jobs=jobs, log=log, later=sum(runs[rung + 1 :]))
        final, out = training.train(
            choice.env_id, choice.env_kwargs, behaviour, choice.settings, files, seeds, run_dir, run_all
        )
        choice.runs += final
        choice.outcomes |= out
        lost, arms = arms, [number for number in arms if number not in out]
        if not arms:
            if dropped := [number for number, outcome in choice.outcomes.items() if outcome.kind == "dropped"]:
                choice.best = max(dropped, key=lambda number: fmean(learned(number)))
                choice.verdict = (
                    f"Undecided: candidate {lost[0]} {choice.outcomes[lost[0]]}. Of the others an agent learned most with "
                    f"candidate {choice.best}. The same command repeats the runs that failed."
                )
            return
        log("learned so far: " + ", ".join(f"{_name(n)} {number_text(fmean(learned(n)))}" for n in [None, *arms]))

    (choice.best,) = (last,) = arms
    comparison = choice.comparison = Comparison([run.learned() for run in final if run.candidate == last], learned(None))
    helps = exceeds_by_welch(comparison.candidate, comparison.none)
    choice.candidate = last if helps else None
    choice.outcomes[last] = Outcome("chosen" if helps else "the best of them, but does not help")
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
        advice = "The difference is not significant; a larger budget may decide"
    else:
        advice = "Train without a prior, or ask for other candidates"
    choice.verdict = f"None of them helps: with the best, candidate {last}, {numbers}. {advice}."


def go_on(arms: list[int], size: int, runs: list[Trained]) -> list[int]:
    """Returns which of the candidates, best by episodes first, go on: those that learned most; of equals, the first.

    Equal: not significantly different, by the evaluations of the last thirds, from the last candidate that would go on.

    Example:
        >>> last_thirds = {1: [3.0, 5.0], 2: [4.0, 6.0], 3: [8.0, 8.1]}
        >>> runs = [Trained(n, 0, "", [0, 9, 10], [0.0, *returns]) for n, returns in last_thirds.items()]
        >>> go_on([1, 2, 3], size=1, runs=runs), go_on([1, 2, 3], size=2, runs=runs)
        ([3], [3, 1])
    """
    if len(arms) <= size:
        return arms
    last_thirds = {n: [value for run in runs if run.candidate == n for value in run.last_third()] for n in arms}
    bar = last_thirds[sorted(arms, key=lambda n: -fmean(last_thirds[n]))[size - 1]]
    better = [n for n in arms if exceeds_by_welch(last_thirds[n], bar)]
    equal = [n for n in arms if n not in better and not exceeds_by_welch(bar, last_thirds[n])]
    return [*better, *equal][:size]


def _name(number: int | None) -> str:
    return "without a prior" if number is None else f"candidate {number}"


def _none_usable(choice: Choice) -> str:
    """The verdict if no candidate is left to choose from."""
    kinds = Counter(outcome.kind for outcome in choice.outcomes.values())
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    first, outcome = min(choice.outcomes.items())
    return f"No candidate could be used: {'all ' if len(kinds) == 1 else ''}{counts}; candidate {first} {outcome}"
