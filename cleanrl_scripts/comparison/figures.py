"""The two figures of a report: the curves with their bands, and a summary of final returns."""

import io
import itertools
import math

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cleanrl_scripts.comparison.curves import GUIDED, PLAIN
from cleanrl_scripts.comparison.statistics import estimate, iqm
from cleanrl_scripts.comparison.tables import Report

# The colours of Okabe and Ito, which the colour-blind can tell apart; markers do so in grey. Eight and seven: 56 arms differ.
COLORS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
MARKERS = "os^DvPX"
DOTS = (":", (0, (1, 4)), (0, (3, 2, 1, 2)))  # of policies that do not learn
STYLE: dict = {"font.size": 9, "axes.titlesize": 10, "axes.spines.top": False, "axes.spines.right": False}
STYLE |= {"savefig.dpi": 200, "svg.hashsalt": "compare", "axes.formatter.useoffset": False}


def style(report: Report, arm: str) -> dict:
    index = report.arms.index(arm)
    return {"color": COLORS[index % len(COLORS)], "marker": MARKERS[index % len(MARKERS)]}


def thousands(value: float, _=None) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def write_at_the_ends(axis, ends: list[tuple[float, str, dict]]) -> None:
    """Writes the name of each curve at its end; moves names apart that would overlap."""
    low, high = axis.get_ylim()
    ends, gap = sorted(ends, key=lambda end: end[0]), 0.075
    positions = [(value - low) / (high - low) for value, _, _ in ends]
    for _ in range(100):
        for i in range(len(positions) - 1):
            overlap = max(0.0, gap - (positions[i + 1] - positions[i]))
            positions[i] -= overlap / 2
            positions[i + 1] += overlap / 2
        if positions:
            positions[0] = max(0.0, positions[0])  # not on the numbers of the x axis
    for position, (_, text, look) in zip(positions, ends, strict=True):
        axis.plot(1.03, position, markersize=5, transform=axis.transAxes, clip_on=False, **look)
        axis.text(1.06, position, text, transform=axis.transAxes, va="center")


@matplotlib.rc_context(STYLE)
def curves_figure(report: Report) -> Figure:
    """One panel for each environment: interquartile mean over seeds, its interval as a band, and the number of seeds."""
    columns = 2 if len(report.curves) == 4 else min(3, len(report.curves))
    rows = math.ceil(len(report.curves) / columns)
    figure = Figure(figsize=(4.2 * columns, 3.0 * rows + 0.3), layout="constrained")
    used = set()
    for axis, curves in itertools.zip_longest(figure.subplots(rows, columns, squeeze=False).flat, report.curves):
        if curves is None:
            axis.set_visible(False)
            continue
        ends = []
        for metric, by_arm in curves.returns.items():
            for arm, returns in by_arm.items():
                mean, low, high = estimate(iqm, returns, n_resamples=2_000)
                look = style(report, arm)
                dashed = {} if metric == PLAIN else {"linestyle": (0, (4, 2)), "linewidth": 1.0, "alpha": 0.8}
                every = max(1, len(curves.steps) // 8)
                every = (report.arms.index(arm) % every, every)  # so that markers of close curves do not hide each other
                axis.plot(curves.steps, mean, **{"linewidth": 1.8, "markersize": 4, "markevery": every, **look, **dashed})
                if metric != PLAIN:
                    used.add(GUIDED[metric])
                    continue
                ends.append((float(mean[-1]), f"{arm} ({len(curves.seeds[arm])})", look))
                if low is not None and high is not None:
                    axis.fill_between(curves.steps, low, high, color=look["color"], alpha=0.15, linewidth=0)
        for index, (name, returns) in enumerate(report.alone.get(curves.env_id, {}).items()):
            look = {"color": "#666666", "linestyle": DOTS[index % len(DOTS)], "linewidth": 1.2}
            axis.axhline(returns.mean(), **look)
            ends.append((float(returns.mean()), f"{name} alone", {"color": "#666666", "marker": "_"}))
        write_at_the_ends(axis, ends)
        axis.set(title=curves.env_id, xlabel="environment steps", ylabel="return")
        axis.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axis.xaxis.set_major_formatter(thousands)
        axis.yaxis.set_major_formatter(thousands)
    caption = "interquartile means over seeds (how many), bands: 95 % intervals"
    if used:
        caption += ";\n" if len(report.curves) == 1 else "; "  # one panel is narrower than the line
        caption += f"solid: the agent alone, dashed: {' or '.join(sorted(used))}"
    figure.supxlabel(caption, fontsize=8)
    return figure


@matplotlib.rc_context(STYLE)
def summary_figure(report: Report) -> Figure:
    """Final returns, and below the probability of being better than the baseline; a marker without an interval is hollow."""
    titles, rows = list(dict.fromkeys([*report.final, *report.better])), 2 if len(report.arms) > 1 else 1
    size = (max(4.2, 2.8 * len(titles)), rows * (0.9 + 0.3 * len(report.arms)))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, len(titles), squeeze=False, sharey="row")
    for row, (all_estimates, arms) in enumerate(((report.final, report.arms), (report.better, report.arms[1:]))[:rows]):
        for axis, title in zip(axes[row], titles, strict=True):
            if title not in all_estimates:
                axis.set_visible(False)
                continue
            for arm, (value, low, high) in all_estimates[title].items():
                y, look = -arms.index(arm), style(report, arm)
                if low is not None and high is not None:
                    axis.plot([low, high], [y, y], color=look["color"], linewidth=2.5, solid_capstyle="butt", alpha=0.6)
                axis.plot(value, y, markersize=6, markerfacecolor="white" if low is None else look["color"], **look)
            axis.set_yticks([-index for index in range(len(arms))], arms)
            axis.set_ylim(0.5 - len(arms), 0.5)
            axis.tick_params(axis="y", length=0)
            axis.grid(axis="x", alpha=0.25)
            if row == 0:
                axis.set(title=title, xlabel="final return")
                axis.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
                axis.xaxis.set_major_formatter(thousands)
            else:
                axis.axvline(0.5, color="#777777", linewidth=0.8, linestyle=":")
                axis.set(xlim=(-0.03, 1.03), xlabel=f"P(better than {report.arms[0]})")
                if title not in report.final:
                    axis.set_title(title)
    return figure


def image(figure: Figure, kind: str) -> bytes:
    """A figure as "png" on white, or as "svg" for any background: no white, and the text's colour instead of black."""
    data = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        if kind == "png":
            figure.savefig(data, format="png")
            return data.getvalue()
        figure.savefig(data, format="svg", metadata={"Date": None}, transparent=True)
    svg = data.getvalue().decode().replace("#000000", "currentColor").replace("fill: #ffffff", "fill: none")
    return svg.replace("<svg ", '<svg fill="currentColor" ', 1).encode()  # of black text, for which Matplotlib names no colour
