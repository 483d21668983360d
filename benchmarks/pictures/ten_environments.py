"""The figure of the README: two baselines, PPO warm-started from its prior, and the prior alone, in ten small panels.

    python benchmarks/pictures/ten_environments.py

Reads comparisons/ppo-camel, ppo-camel-short, ppo-quiet, ppo-quiet-short and, for the noise that HalfCheetah-v4's clones have,
ppo-quiet-halfcheetah; writes comparisons/ppo-camel.png.
"""

import sys
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

sys.path.insert(0, str(Path(__file__).parents[2]))  # as the scripts do, from anywhere

from cleanrl_scripts.comparison.alone import returns_alone
from cleanrl_scripts.comparison.curves import PLAIN, align, curves_of
from cleanrl_scripts.comparison.figures import COLORS, STYLE, thousands
from cleanrl_scripts.comparison.statistics import estimate, iqm

COMPARISONS = Path(__file__).parents[1] / "comparisons"
NAMES = ("ppo-camel", "ppo-camel-short", "ppo-quiet", "ppo-quiet-short", "ppo-quiet-halfcheetah")
FOLDERS = [COMPARISONS / name for name in NAMES]
ARMS = {
    "none": ("PPO alone", COLORS[0]),
    "ppo-quiet": ("PPO alone with a clone's hyperparameters", COLORS[1]),
    "auto": ("PPO warm-started from its prior", COLORS[2]),
}


@matplotlib.rc_context({**STYLE, "font.size": 8, "axes.titlesize": 9, "savefig.dpi": 150})
def main() -> None:
    less_noise = (COMPARISONS / "ppo-quiet", "HalfCheetah-v4")
    evaluations = [e for folder in FOLDERS for e in curves_of(folder) if e.arm in ARMS and (folder, e.env_id) != less_noise]
    alone = {env_id: policies for folder in FOLDERS for env_id, policies in returns_alone(folder).items()}
    lines = {}
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    for axis, env_id in zip(figure.subplots(2, 5).flat, dict.fromkeys(e.env_id for e in evaluations), strict=True):
        curves = align(env_id, list(ARMS), [e for e in evaluations if e.env_id == env_id])
        for arm, returns in curves.returns[PLAIN].items():
            name, color = ARMS[arm]
            mean, low, high = estimate(iqm, returns, n_resamples=2_000)
            (lines[name],) = axis.plot(curves.steps / 1000, mean, color=color, linewidth=1.5)
            axis.fill_between(curves.steps / 1000, low, high, color=color, alpha=0.15, linewidth=0)
        prior = alone[env_id]["prior"].mean()
        lines["the prior alone"] = axis.axhline(prior, color="#666666", linestyle=":", linewidth=1.2)
        axis.set_title(env_id)
        axis.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        axis.yaxis.set_major_locator(MaxNLocator(4))
        axis.yaxis.set_major_formatter(thousands)
    figure.legend(lines.values(), lines, loc="outside upper center", ncols=4, frameon=False)
    figure.supxlabel("thousands of steps; interquartile mean of the return over five seeds, 95 % interval", fontsize=8)
    figure.savefig(COMPARISONS / "ppo-camel.png")


if __name__ == "__main__":
    main()
