"""First evidence for CAMEL: TD3 alone against TD3 with the LLM's prior in the paper's form, without and with the mask.

    python benchmarks/handover.py            # runs what is missing (an interrupted run resumes), collects, plots
    python benchmarks/handover.py --collect-only  # only collects the finished runs and plots

Each run is the command that `commands()` prints. The raw evaluations go to benchmarks/results/handover.csv, the plot to
benchmarks/results/handover.png: thin lines are seeds, thick lines their mean. The dotted line is the prior alone, 20 episodes.
"""

import csv
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import tyro

from llmwrappers import load_prior
from llmwrappers.priors.measurement import make, measure

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SETTINGS = [
    "--total-timesteps",
    "100000",
    "--learning-starts",
    "5000",
    "--eval-every",
    "5000",
    "--eval-episodes",
    "5",
    "--no-cuda",
]
EVALUATIONS = ("eval/episodic_return", "eval/masked_return")


def commands(env_ids: list[str], seeds: int) -> list[list[str]]:
    """The runs, those of one seed together, so that what is finished at any time can be compared."""
    return [
        [
            "cleanrl_scripts/td3_camel.py",
            "--env-id",
            env_id,
            "--prior",
            prior,
            "--form",
            "paper",
            "--seed",
            str(seed),
            *SETTINGS,
        ]
        for seed in range(1, seeds + 1)
        for env_id in env_ids
        for prior in ("none", env_id)
    ]


def run(command: list[str]) -> None:
    """Runs one command with one thread in a runs folder of its own; an interrupted one resumes, a finished one is kept."""
    env_id, prior, seed = command[2], command[4], command[8]
    folder = ROOT / "runs" / "handover" / f"{env_id}-{'none' if prior == 'none' else 'llm'}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    started = list(folder.glob("*/args.json"))
    if list(folder.glob("*/model.pt")):
        return
    arguments = [command[0], "--resume", str(started[0].parent)] if started else [*command, "--runs-dir", str(folder)]
    with open(folder / "log.txt", "a") as log:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, stdout=log, stderr=log, check=True)
    print("finished:", "OMP_NUM_THREADS=1 python", *command, flush=True)


def collect() -> list[dict[str, str]]:
    """The evaluations of all finished runs."""
    rows = []
    for model in sorted((ROOT / "runs" / "handover").glob("*/*/model.pt")):
        env_id, arm, seed = model.parents[1].name.rsplit("-", 2)
        with open(model.parent / "metrics.csv", newline="") as file:
            for row in csv.DictReader(file):
                if row["metric"] in EVALUATIONS:
                    rows.append({"env_id": env_id, "arm": arm, "seed": seed, **row})
    for env_id in sorted({row["env_id"] for row in rows}):
        returns = measure(make(env_id), load_prior(env_id), episodes=20, seed=0).returns
        alone = {"arm": "prior_alone", "seed": "", "global_step": "0", "metric": "eval/episodic_return"}
        rows.append({"env_id": env_id, **alone, "value": repr(float(np.mean(returns)))})
    return rows


def plot(rows: list[dict[str, str]], path: Path) -> None:
    """One panel an environment; three curves: TD3, and TD3 with the LLM's prior without and with the mask."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    curves = {
        ("none", "eval/episodic_return"): ("TD3", "#555555", "-"),
        ("llm", "eval/masked_return"): ("TD3 + LLM mask, evaluated with the mask", "#d95f02", "--"),
        ("llm", "eval/episodic_return"): ("TD3 + LLM mask, evaluated without it", "#1b6ca8", "-"),
    }
    env_ids = sorted({row["env_id"] for row in rows})
    total = max(int(row["global_step"]) for row in rows)
    figure, axes = plt.subplots(1, len(env_ids), figsize=(5.2 * len(env_ids), 3.8), squeeze=False, layout="constrained")
    for axis, env_id in zip(axes[0], env_ids, strict=True):
        axis.axvspan(0, 0.2 * total, color="#f2e6d8", label="the mask fades from always to never", zorder=0)
        alone = [float(row["value"]) for row in rows if row["env_id"] == env_id and row["arm"] == "prior_alone"]
        axis.axhline(alone[0], color="#d95f02", linestyle=":", linewidth=1.2, label="the LLM's policy alone")
        for (arm, metric), (label, color, style) in curves.items():
            seeds: dict[str, dict[int, float]] = {}
            for row in rows:
                if (row["env_id"], row["arm"], row["metric"]) == (env_id, arm, metric):
                    seeds.setdefault(row["seed"], {})[int(row["global_step"])] = float(row["value"])
            if not seeds:
                continue
            for curve in seeds.values():
                axis.plot(list(curve), list(curve.values()), style, color=color, linewidth=0.7, alpha=0.45)
            steps = sorted(set.intersection(*(set(curve) for curve in seeds.values())))
            means = [np.mean([curve[step] for curve in seeds.values()]) for step in steps]
            axis.plot(
                steps, means, style, color=color, linewidth=2.2, label=f"{label}, {len(seeds)} seed{'s' * (len(seeds) > 1)}"
            )
        axis.set(title=env_id, xlabel="thousand environment steps", xlim=(0, total))
        axis.xaxis.set_major_formatter(lambda step, _: f"{step / 1000:g}")
        axis.grid(alpha=0.25)
    axes[0][0].set_ylabel("evaluated return")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)


def main(
    seeds: int = 3, jobs: int = 2, collect_only: bool = False, env_ids: tuple[str, ...] = ("Ant-v4", "Hopper-v4", "Walker2d-v4")
) -> None:
    """Runs, collects and plots.

    Args:
        seeds: seeds of each arm
        jobs: runs at a time; one a core
        collect_only: do not run, only collect and plot
        env_ids: the environments
    """
    if not collect_only:
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(run, commands(list(env_ids), seeds)))
    rows = collect()
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / "handover.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    plot(rows, RESULTS / "handover.png")
    print(f"{len(rows)} evaluations in {RESULTS / 'handover.csv'}, plot in {RESULTS / 'handover.png'}")


if __name__ == "__main__":
    tyro.cli(main)
