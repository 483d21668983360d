"""Report: the tables of every environment and of all, the notes on what differs, and how to read them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from cleanrl_scripts.comparison.curves import GUIDED, Curves, Evaluation, align
from cleanrl_scripts.comparison.statistics import Estimate, better_than, difference, estimate, iqm

ALL = "all environments"
# Where on the way the returns are shown, too.
MILESTONES = (20_000, 100_000, 300_000)


@dataclass
class Report:
    """What curves.csv says: tables for people, estimates for the figures."""

    arms: list[str]
    curves: list[Curves]
    tables: list[tuple[str, list[str], list[list[str]]]]  # title, header, rows
    notes: list[str]
    final: dict[str, dict[str, Estimate]]  # environment -> arm
    better: dict[str, dict[str, Estimate]]  # environment, or ALL -> arm
    alone: dict[str, dict[str, np.ndarray]]  # environment -> policy that does not learn -> the return of each episode


def amount(value: float) -> str:
    """Three significant digits or more, of small numbers two decimals, with thousands separated."""
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{round(value, digits) + 0.0:,.{digits}f}"  # + 0.0: no minus zero


def duration(hours: float) -> str:
    """A time in hours, minutes or seconds, so that it is not rounded to nothing."""
    if hours >= 1:
        return f"{amount(hours)} hours"
    if hours >= 1 / 60:
        return f"{amount(60 * hours)} min"
    seconds = round(3600 * hours)
    return f"{seconds} s" if seconds else "less than a second"


def with_interval(e: Estimate | None) -> str:
    if e is None:
        return "-"
    if e.low is None or e.high is None:
        return amount(float(e.value))
    return f"{amount(float(e.value))} [{amount(float(e.low))}, {amount(float(e.high))}]"


def steps_to_threshold(steps: np.ndarray, hours: float | None = None) -> str:
    """The step by which half of the seeds have reached the threshold, and how many ever do if not all; the time, if known.

    Args:
        hours: a step takes so many
    """
    reached = int(np.isfinite(steps).sum())
    median = float(np.quantile(steps, 0.5, method="lower"))
    text = "never" if math.isinf(median) else f"{median:,.0f}" if median else "at the start"
    if hours and 0 < median < math.inf:
        text += f", {duration(hours * median)}"
    return text if reached == len(steps) else f"{text} ({reached} of {len(steps)} seeds)"


def make_report(
    evaluations: list[Evaluation],
    arms: Iterable[str] = (),
    threshold: float | None = None,
    notes: Iterable[str] = (),
    hours: Mapping[tuple[str, str], float] | None = None,
    alone: dict[str, dict[str, np.ndarray]] | None = None,
) -> Report:
    """Tables and estimates; the baseline is the first of the arms, which are completed by those that have curves.

    Args:
        hours: what a step of an environment and arm took
        alone: the returns of policies that do not learn, one an episode (see ``returns_alone``)
    """
    arms = list(dict.fromkeys([*arms, *(e.arm for e in evaluations)]))
    env_ids = list(dict.fromkeys(e.env_id for e in evaluations))
    everything = [align(env_id, arms, [e for e in evaluations if e.env_id == env_id]) for env_id in env_ids]
    report = Report(arms, everything, [], [*notes, *(note for curves in everything for note in curves.notes)], {}, {}, {})
    report.alone = {env_id: policies for env_id, policies in (alone or {}).items() if env_id in env_ids}
    few = sorted({f"{c.env_id}: {arm}" for c in everything for arm, seeds in c.seeds.items() if len(seeds) < 3})
    if few:
        report.notes.append(f"No interval from fewer than three seeds ({'; '.join(few)}).")
    for curves in everything:
        add_environment(report, curves, threshold, hours or {})
    if len(everything) > 1:
        add_all_environments(report)
    return report


def add_environment(report: Report, curves: Curves, threshold: float | None, hours: Mapping[tuple[str, str], float]) -> None:
    env_id, baseline = curves.env_id, report.arms[0]
    has_baseline = baseline in curves.seeds
    if not has_baseline:
        report.notes.append(f"{env_id}: no finished run of {baseline}, the baseline: nothing is compared with it.")
    limit = threshold
    if limit is None and has_baseline:
        began, ended = (float(returns.mean()) for returns in (curves.around(baseline, 0), curves.final(baseline)))
        limit = ended if ended > began else None  # else there is nothing to reach
    guided = [metric for metric in GUIDED if metric in curves.returns]
    on_the_way = [step for step in MILESTONES if curves.steps[0] < step < 0.9 * curves.steps[-1]]
    header = ["arm", "seeds", *(f"at {step:,}" for step in on_the_way), "final return", "mean", "area under the curve"]
    header += [f"steps to {'-' if limit is None else amount(limit)}", f"minus {baseline}", f"P(better than {baseline})"]
    header += [f"final return {GUIDED[metric]}" for metric in guided]
    report.final[env_id], report.better[env_id], rows = {}, {}, []
    for arm, seeds in curves.seeds.items():
        final = report.final[env_id][arm] = estimate(iqm, curves.final(arm))
        pair = None if arm == baseline else curves.paired(baseline, arm, curves.final)
        if pair is not None:
            report.better[env_id][arm] = better_than(pair)
        row = [arm, str(len(seeds))]
        row += [with_interval(estimate(iqm, curves.around(arm, step))) for step in on_the_way]
        row += [with_interval(final), amount(float(curves.final(arm).mean()))]
        row += [with_interval(estimate(iqm, curves.area(arm)))]
        row += ["-" if limit is None else steps_to_threshold(curves.steps_to(arm, limit), hours.get((env_id, arm)))]
        row += [with_interval(None if pair is None else estimate(difference, pair))]
        row += [with_interval(report.better[env_id].get(arm))]
        for metric in guided:
            has_metric = arm in curves.returns[metric]
            row.append(with_interval(estimate(iqm, curves.final(arm, metric)) if has_metric else None))
        rows.append(row)
    for name, returns in report.alone.get(env_id, {}).items():
        cells = {"arm": f"{name} alone", "seeds": f"{len(returns)} episodes"}
        cells |= {"final return": with_interval(estimate(np.mean, returns)), "mean": amount(float(returns.mean()))}
        rows.append([cells.get(column, "-") for column in header])
    report.tables.append((env_id, header, rows))


def add_all_environments(report: Report) -> None:
    """How often an arm is better, every environment counting the same."""
    baseline, rows = report.arms[0], []
    for arm in report.arms[1:]:
        pairs = {curves.env_id: curves.paired(baseline, arm, curves.final) for curves in report.curves}
        complete = [pair for pair in pairs.values() if pair is not None]
        if absent := [env_id for env_id, pair in pairs.items() if pair is None]:
            report.notes.append(f"{arm} is not in the table of {ALL}: no seed of it and {baseline} in {', '.join(absent)}.")
            continue
        better = report.better.setdefault(ALL, {})[arm] = better_than(*complete)
        rows.append([arm, str(sum(pair.shape[1] for pair in complete)), with_interval(better)])
    if rows:
        report.tables.append((ALL, ["arm", "runs", f"P(better than {baseline})"], rows))


def explanation(report: Report) -> list[str]:
    baseline = report.arms[0]
    alone = [
        "... alone: a policy that does not learn, so that its return is the same at every step; the mean over episodes, with "
        "its 95 % percentile bootstrap interval, episodes resampled."
    ]
    return [
        "Final return: the mean of the last tenth of a run's evaluations of the plain agent (of fewer than 20 evaluations "
        "the last one); over seeds the interquartile mean "
        "(of fewer than four seeds the mean). In brackets 95 % percentile bootstrap intervals, seeds resampled 10,000 times.",
        "With few seeds these intervals are too narrow: over three seeds one reaches from the lowest to the highest and holds "
        "the true value in some 75 of 100 cases, not 95, over five seeds in some 90 (if returns are normally distributed).",
        "At a step: the evaluation nearest to it. Area under the curve: the mean of the whole curve. Steps to: the first "
        "evaluation by which half of the seeds have reached that return, and the time that so many steps took, evaluations "
        f"included, where it is known (-: {baseline} ended no higher than it began). Minus {baseline}: the difference of the "
        "interquartile means over the seeds that both have, resampled in pairs.",
        f"P(better than {baseline}): the share of all pairs of a run of the arm and one of {baseline} in which the arm's ends "
        "higher, for all environments their mean; seeds as before, within each environment. A share that "
        "resampling cannot change has no interval; more seeds can change it.",
        *(alone if report.alone else []),
    ]


def markdown(report: Report) -> str:
    lines = []
    for title, header, rows in report.tables:
        lines += [f"## {title}", "", *(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)), ""]
    lines += [f"- {sentence}" for sentence in (*report.notes, *explanation(report))]
    return "\n".join(lines) + "\n"
