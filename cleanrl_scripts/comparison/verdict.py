"""The verdict of a report in one sentence, and what its arms are."""

import shlex
from collections.abc import Iterable

from cleanrl_scripts.comparison.runs import meaning
from cleanrl_scripts.comparison.tables import Report, with_interval


def verdict(report: Report) -> str:
    """Which arm has the highest final return in which environments, and whether its interval overlaps the baseline's.

    If the baseline has the highest return, its interval is compared with all the others.
    """
    claims: dict[tuple[str, str], list[str]] = {}  # (arm, how sure) -> environments
    for curves in report.curves:
        arm, how_sure = _highest(report, curves.env_id)
        claims.setdefault((arm, how_sure), []).append(curves.env_id)
    clauses, has = [], "has the highest final return in"
    for (arm, how_sure), env_ids in claims.items():
        where = _listed(env_ids)
        if not arm:
            clauses.append(f"{how_sure} in {where}")
            continue
        if len(report.curves) == 1:
            where += f", {with_interval(report.final[env_ids[0]][arm])}"
        clauses.append(f"{arm}{', the baseline,' if arm == report.arms[0] else ''} {has} {where}{how_sure}")
        has = "in"
    seeds = sorted({len(of_arm) for curves in report.curves for of_arm in curves.seeds.values()})
    text = f"{'; '.join(clauses)} ({_count(seeds)} an arm)."
    begins_with_arm = next(iter(claims))[0] != ""  # an arm's name keeps its case
    return text if begins_with_arm else text[0].upper() + text[1:]


def _count(seeds: list[int]) -> str:
    few, many = seeds[0], seeds[-1]
    return f"{few} to {many} seeds" if few < many else "1 seed" if many == 1 else f"{many} seeds"


def _highest(report: Report, env_id: str) -> tuple[str, str]:
    """The arm with the highest final return in an environment, and how sure that is; "" if there is no such arm."""
    final, baseline = report.final[env_id], report.arms[0]
    values = {arm: float(found.value) for arm, found in final.items()}
    arm = max(values, key=values.__getitem__)
    if len(final) == 1:
        return "", f"only {arm} has curves"
    if list(values.values()).count(values[arm]) > 1:
        return "", "several arms share the highest final return"
    others = [other for other in final if other != arm] if arm == baseline else [baseline]
    if others == [baseline] and baseline not in final:
        return arm, f" (there is no {baseline}, the baseline)"
    whom = "of every other arm" if arm == baseline else f"of {baseline}, the baseline"
    lows, highs = final[arm].low, [final[other].high for other in others]
    if lows is None or any(high is None for high in highs):
        return arm, ", but fewer than three seeds tell no interval"
    if lows > max(high for high in highs if high is not None):
        return arm, f", with an interval above that {whom}"
    overlapping = [other for other, high in zip(others, highs, strict=True) if high is not None and high >= lows]
    return arm, f", but its interval overlaps that of {_listed(overlapping)}, so that it may be chance"


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def arms_explained(report: Report, description: dict) -> list[tuple[str, str, str]]:
    """The name of each arm, what it is (if known) and its flags; none if nothing was trained here."""
    if "arms" not in description:
        return []
    lines = []
    for arm in report.arms:
        flags = description["arms"].get(arm)
        words = ", the baseline" if arm == report.arms[0] else ""
        if what := "curves from elsewhere" if flags is None else meaning(arm, flags, description["script"]):
            words += f": {what}"
        lines.append((arm, words, shlex.join(flags or [])))
    return lines
