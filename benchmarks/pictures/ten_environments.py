"""The figure of the README: PPO alone, PPO warm-started from its prior, and the prior alone, in ten small panels.

    python benchmarks/pictures/ten_environments.py

Reads comparisons/ppo-camel and ppo-camel-short, writes comparisons/ppo-camel.png. The prior is the shipped
default, played alone for 20 episodes.
"""

import sys
import warnings
from pathlib import Path
from statistics import fmean

import gymnasium as gym
import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

sys.path.insert(0, str(Path(__file__).parents[2]))  # as the scripts do, from anywhere

from cleanrl_scripts.comparison.curves import PLAIN, align, curves_of
from cleanrl_scripts.comparison.figures import COLORS, STYLE, thousands
from cleanrl_scripts.comparison.statistics import estimate, iqm
from llmwrappers import load_prior
from llmwrappers.priors.measurement import measure

COMPARISONS = Path(__file__).parents[1] / "comparisons"
ARMS = {"none": ("PPO alone", COLORS[0]), "auto": ("PPO warm-started from its prior", COLORS[2])}


@matplotlib.rc_context({**STYLE, "font.size": 8, "axes.titlesize": 9, "savefig.dpi": 150})
def main() -> None:
    warnings.filterwarnings("ignore", message=".*out of date")  # v4, which the papers use
    evaluations = [e for name in ("ppo-camel", "ppo-camel-short") for e in curves_of(COMPARISONS / name) if e.arm in ARMS]
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    for axis, env_id in zip(figure.subplots(2, 5).flat, dict.fromkeys(e.env_id for e in evaluations), strict=True):
        curves = align(env_id, list(ARMS), [e for e in evaluations if e.env_id == env_id])
        for arm, returns in curves.returns[PLAIN].items():
            name, color = ARMS[arm]
            mean, low, high = estimate(iqm, returns, n_resamples=2_000)
            axis.plot(curves.steps / 1000, mean, color=color, linewidth=1.5, label=name)
            axis.fill_between(curves.steps / 1000, low, high, color=color, alpha=0.15, linewidth=0)
        with gym.make(env_id) as env:
            prior = fmean(measure(env, load_prior(env_id), episodes=20, seed=0).returns)
        axis.axhline(prior, color="#666666", linestyle=":", linewidth=1.2, label="the prior alone")
        axis.set_title(env_id)
        axis.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        axis.yaxis.set_major_locator(MaxNLocator(4))
        axis.yaxis.set_major_formatter(thousands)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    figure.supxlabel("thousands of steps; interquartile mean of the return over five seeds, 95 % interval", fontsize=8)
    figure.savefig(COMPARISONS / "ppo-camel.png")


if __name__ == "__main__":
    main()
