"""Evaluations from runs and CSV files, and Curves: evaluations on common steps, with notes on all that differs."""

import csv
import io
import itertools
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.integrate

from cleanrl_scripts.comparison.runs import Run
from llmwrappers.errors import UserError
from llmwrappers.files import write_atomically

# The metrics that the scripts log under eval/, and how each is drawn. All statistics are of the agent alone.
PLAIN = "episodic_return"
GUIDED = {"masked_return": "with the mask", "guided_return": "with the LLM's actions"}
METRICS = (PLAIN, *GUIDED)
LOGGED = {f"eval/{metric}": metric for metric in METRICS}


class Evaluation(NamedTuple):
    env_id: str
    arm: str
    seed: int
    step: int
    returns: dict[str, float]  # of METRICS
    source: str


def number(text: str, what: str, where: str, whole: bool = False) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or (whole and (value % 1 or value < 0)):
        kind = "whole number of at least 0" if whole and math.isfinite(value) else "finite number"
        raise UserError(f"{where}: {what} is {text!r}, which is no {kind}")
    return value


def csv_rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a CSV file, each with its file and line; every row has as many fields as the header."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            header = [name.strip() for name in next(reader, [])]
            for row in filter(None, reader):  # a blank line is no row
                where = f"{path}, line {reader.line_num}"
                if len(row) != len(header):
                    raise UserError(f"{where}: {len(row)} fields, where the header has {len(header)}")
                yield where, dict(zip(header, row, strict=True))
            if not header:
                raise UserError(f"{path} is empty")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    except csv.Error as error:
        raise UserError(f"{path}: {error}") from None


def from_runs(runs: Iterable[Run]) -> tuple[list[Evaluation], dict[Run, str]]:
    """The evaluations of finished runs, and why some have no usable ones: they diverged, or were not evaluated."""
    evaluations, left_out = [], {}
    for run in runs:
        assert run.run_dir is not None
        steps: dict[int, dict[str, float]] = {}
        try:
            for where, row in csv_rows(run.run_dir / "metrics.csv"):
                logged = row.get("metric", "")
                if logged in LOGGED:
                    step = int(number(row["global_step"], "global_step", where, whole=True))
                    steps.setdefault(step, {})[LOGGED[logged]] = number(row["value"], logged, where)
            if not steps or any(PLAIN not in values for values in steps.values()):
                raise UserError(f"metrics.csv lacks eval/{PLAIN}")
        except UserError as error:
            left_out[run] = str(error).replace(f"{run.run_dir}{os.sep}", "")
            print(f"note: {run.name} is left out: {left_out[run]}")
            continue
        source = str(run.run_dir)
        evaluations += [Evaluation(run.env_id, run.arm, run.seed, step, values, source) for step, values in steps.items()]
    return evaluations, left_out


def from_csv(path: Path, env_ids: Iterable[str]) -> list[Evaluation]:
    """The rows of a CSV file; if only one environment is compared, the file may leave out env_id."""
    evaluations, env_ids = [], list(dict.fromkeys(env_ids))
    for where, row in csv_rows(path):
        for name in ("step", PLAIN, "seed"):
            if name not in row:
                raise UserError(f"{path} has no column {name}; it has {', '.join(row)}")
        if "env_id" not in row and len(env_ids) > 1:
            raise UserError(f"{path} has no column env_id, and {len(env_ids)} environments are compared: {', '.join(env_ids)}")
        env_id = row.get("env_id", env_ids[0] if env_ids else "environment")
        arm = row.get("arm", path.stem)
        if not env_id or not arm or re.search(r"[|$\\\n]", env_id + arm):
            raise UserError(f"{where}: env_id and arm must have a name without |, $ and \\, got {env_id!r} and {arm!r}")
        returns = {name: number(row[name], name, where) for name in METRICS if name == PLAIN or row.get(name)}
        seed, step = (int(number(row[name], name, where, whole=True)) for name in ("seed", "step"))
        evaluations.append(Evaluation(env_id, arm, seed, step, returns, where))
    if not evaluations:
        raise UserError(f"{path} has no rows")
    return evaluations


def curves_of(folder: Path) -> list[Evaluation]:
    """The rows of a comparison's curves.csv; none if there is no such file."""
    return from_csv(folder / "curves.csv", ()) if (folder / "curves.csv").exists() else []


def merge(before: list[Evaluation], runs: list[Evaluation], imported: list[Evaluation]) -> list[Evaluation]:
    """All curves: a run replaces the same run of before, an imported arm all that was imported of it before."""
    new_runs, new_arms = {(e.env_id, e.arm, e.seed) for e in runs}, {(e.env_id, e.arm) for e in imported}
    kept = [e for e in before if (e.env_id, e.arm, e.seed) not in new_runs and (e.env_id, e.arm) not in new_arms]
    return kept + runs + imported


def keep_curves(output: Path, evaluations: list[Evaluation], description: dict) -> None:
    """Writes curves.csv, one row for each evaluation; refuses what cannot be compared.

    Environments and arms are in the order of comparison.json, the baseline first; all others follow.
    """
    if not evaluations:
        raise UserError(f"no run in {output} has finished with usable evaluations: there is nothing to compare")
    env_ids = list(dict.fromkeys([*description.get("env_ids", ()), *(e.env_id for e in evaluations)]))
    arms = list(dict.fromkeys([*description.get("arms", ()), *(e.arm for e in evaluations)]))
    rows = sorted(evaluations, key=lambda e: (env_ids.index(e.env_id), arms.index(e.arm), e.seed, e.step))
    refuse_unaligned(rows)
    metrics = [name for name in METRICS if any(name in e.returns for e in rows)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["env_id", "arm", "seed", "step", *metrics])
    for e in rows:
        writer.writerow([e.env_id, e.arm, e.seed, e.step, *(repr(e.returns[m]) if m in e.returns else "" for m in metrics)])
    write_atomically(output / "curves.csv", text.getvalue())


def refuse_unaligned(evaluations: list[Evaluation]) -> None:
    """Refuses evaluations that are there twice, or have no steps in common."""
    by_env: dict[str, list[Evaluation]] = {}
    for e in evaluations:
        by_env.setdefault(e.env_id, []).append(e)
    for env_id, curves in by_env.items():
        align(env_id, list(dict.fromkeys(e.arm for e in curves)), curves)


@dataclass
class Curves:
    """The curves of one environment at those evaluations of the baseline that all span, and at their end; one column a seed."""

    env_id: str
    steps: np.ndarray
    seeds: dict[str, list[int]]
    returns: dict[str, dict[str, np.ndarray]]  # metric -> arm -> (steps, seeds)
    evaluated: dict[str, list[dict[int, float]]]  # arm -> step -> return, as it was evaluated, of each seed
    notes: list[str]

    def final(self, arm: str, metric: str = PLAIN) -> np.ndarray:
        """Mean of the last tenth of the evaluations of each seed."""
        return self.returns[metric][arm][-max(1, len(self.steps) // 10) :].mean(axis=0)

    def around(self, arm: str, step: int) -> np.ndarray:
        """The evaluation of each seed that is nearest to a step."""
        return self.returns[PLAIN][arm][np.abs(self.steps - step).argmin()]

    def area(self, arm: str) -> np.ndarray:
        """Mean over the curve of each seed."""
        span = self.steps[-1] - self.steps[0]
        returns = self.returns[PLAIN][arm]
        return scipy.integrate.trapezoid(returns, self.steps, axis=0) / span if span else returns[0]

    def steps_to(self, arm: str, threshold: float) -> np.ndarray:
        """The first evaluation of each seed, up to the common end, that reaches the threshold; inf if none does."""
        reached = ([step for step, value in curve.items() if value >= threshold] for curve in self.evaluated[arm])
        return np.array([min((step for step in steps if step <= self.steps[-1]), default=np.inf) for steps in reached])

    def paired(self, baseline: str, arm: str, scores: Callable[[str], np.ndarray]) -> np.ndarray | None:
        """The scores of both for their common seeds, (2, seeds)."""
        common = sorted(set(self.seeds.get(baseline, [])) & set(self.seeds.get(arm, [])))
        if not common:
            return None
        return np.stack([scores(name)[[self.seeds[name].index(seed) for seed in common]] for name in (baseline, arm)])


def align(env_id: str, arms: list[str], evaluations: list[Evaluation]) -> Curves:
    """Brings the curves of one environment onto common steps, and notes what differs between them."""
    raw: dict[str, dict[int, dict[str, dict[int, float]]]] = {}  # arm -> seed -> metric -> step
    sources: dict[tuple, str] = {}
    for e in evaluations:
        if first := sources.get((e.arm, e.seed, e.step)):
            raise UserError(f"{env_id}, {e.arm}, seed {e.seed}, step {e.step} is there twice: in {first} and in {e.source}")
        sources[e.arm, e.seed, e.step] = e.source
        for metric, value in e.returns.items():
            raw.setdefault(e.arm, {}).setdefault(e.seed, {}).setdefault(metric, {})[e.step] = value
    arms = [arm for arm in arms if arm in raw]
    seeds = {arm: sorted(raw[arm]) for arm in arms}
    plain = {(arm, seed): raw[arm][seed][PLAIN] for arm in arms for seed in seeds[arm]}
    notes = []

    first, last = max(min(curve) for curve in plain.values()), min(max(curve) for curve in plain.values())
    for word, preposition, ends, common in (("begin", "from", min, first), ("end", "up to", max, last)):
        found: dict[int, list[str]] = {}
        for (arm, seed), curve in plain.items():
            found.setdefault(ends(curve), []).append(f"{arm} seed {seed}")
        if len(found) > 1:
            where = "; ".join(f"{step:,}: {', '.join(names)}" for step, names in sorted(found.items()))
            notes.append(f"the curves {word} at different steps ({where}); all are compared {preposition} step {common:,}.")
    steps = np.array(sorted({step for step in next(iter(plain.values())) if first <= step <= last} | {last}))
    if first > last:
        raise UserError(f"{env_id}: the curves have no steps in common: {'; '.join(notes)}")
    if moved := sorted({arm for (arm, _), curve in plain.items() if not set(steps[:-1].tolist()) <= set(curve)}):
        notes.append(f"evaluated at other steps than {arms[0]} and interpolated linearly: {', '.join(moved)}.")

    everyone = sorted(set().union(*seeds.values()))
    for arm in arms:
        if missing := [str(seed) for seed in everyone if seed not in raw[arm]]:
            notes.append(f"{arm} has no seed {', '.join(missing)}; where arms are compared, the seeds that both have count.")
    returns: dict[str, dict[str, np.ndarray]] = {}
    for metric, arm in itertools.product(METRICS, arms):
        curves = [raw[arm][seed].get(metric, {}) for seed in seeds[arm]]
        columns = [np.interp(steps, sorted(c), [c[step] for step in sorted(c)], np.nan, np.nan) for c in curves if c]
        if len(columns) == len(curves) and np.isfinite(columns).all():
            returns.setdefault(metric, {})[arm] = np.stack(columns, axis=1)
        elif columns:
            notes.append(f"{metric} of {arm} is not in all evaluations; it is left out.")
    idle = [arm for arm, values in returns[PLAIN].items() if len(steps) > 1 and not np.ptp(values, axis=0).any()]
    if idle:
        why = "all evaluations are the same; for td3_camel.py, is --learning-starts too late?"
        notes.append(f"nothing was learned by {', '.join(idle)}: {why}")
    evaluated = {arm: [plain[arm, seed] for seed in seeds[arm]] for arm in arms}
    return Curves(env_id, steps, seeds, returns, evaluated, [f"{env_id}: {note}" for note in notes])
