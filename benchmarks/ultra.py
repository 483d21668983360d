"""First evidence for ULTRA: PPO going on from the shipped agents, alone, with the LLM's critical states, with random ones.

    python benchmarks/ultra.py                 # runs what is missing (an interrupted run resumes), collects, plots
    python benchmarks/ultra.py --collect-only  # only collects the finished runs and plots

Each run is the command that `commands()` prints. The raw evaluations of the plain agents, and of those with the LLM's actions,
go to benchmarks/results/ultra.csv, the plot to benchmarks/results/ultra.png: thin lines are seeds, thick lines their mean.
"""

import csv
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import tyro

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SETTINGS = {
    "Hopper-v4": ["--total-timesteps", "500000", "--eval-every", "20000", "--eval-episodes", "10"],
    "ALE/Pong-v5": ["--total-timesteps", "500000", "--eval-every", "25000", "--eval-episodes", "5"],
}
ARMS = {
    "none": ("PPO goes on", "#555555", ["--arm", "none"]),
    "ra": ("PPO + the LLM's actions and rewards", "#1b6ca8", ["--arm", "ra"]),
    "random": ("PPO + the same at random states", "#d95f02", ["--arm", "random"]),
    "code": ("PPO + actions and rewards by the LLM's code", "#1b9e77", ["--arm", "ra", "--guidance", "code"]),
}
EVALUATIONS = ("eval/episodic_return", "eval/guided_return")


def commands(seeds: int) -> dict[str, list[str]]:
    """The runs by name, those of one seed together, so that what is finished at any time can be compared."""
    return {
        f"{env_id.replace('/', '-')}_{arm}_{seed}": [
            "cleanrl_scripts/ppo_ultra.py", "--env-id", env_id, *flags, "--seed", str(seed), *settings,
        ]
        for seed in range(1, seeds + 1)
        for arm, (_, _, flags) in ARMS.items()
        for env_id, settings in SETTINGS.items()
    }  # fmt: skip


def run(name: str, command: list[str]) -> None:
    """Runs one command with one thread in a runs folder of its own; an interrupted one resumes, a finished one is kept."""
    folder = ROOT / "runs" / "ultra" / name
    folder.mkdir(parents=True, exist_ok=True)
    started = list(folder.glob("*/args.json"))
    if list(folder.glob("*/agent.pt")):
        return
    arguments = [command[0], "--resume", str(started[0].parent)] if started else [*command, "--runs-dir", str(folder)]
    with open(folder / "log.txt", "a") as log:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, stdout=log, stderr=log, check=True)
    print("finished:", "OMP_NUM_THREADS=1 python", *command, flush=True)


def collect() -> list[dict[str, str]]:
    """The evaluations of all finished runs."""
    rows = []
    for agent in sorted((ROOT / "runs" / "ultra").glob("*/*/agent.pt")):
        env_id, arm, seed = agent.parents[1].name.split("_")
        with open(agent.parent / "metrics.csv", newline="") as file:
            for row in csv.DictReader(file):
                if row["metric"] in EVALUATIONS:
                    rows.append({"env_id": env_id, "arm": arm, "seed": seed, **row})
    return rows


def plot(rows: list[dict[str, str]], path: Path) -> None:
    """One panel an environment, one curve an arm: the return of the plain agent."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    env_ids = sorted({row["env_id"] for row in rows}, reverse=True)
    figure, axes = plt.subplots(1, len(env_ids), figsize=(5.2 * len(env_ids), 3.8), squeeze=False, layout="constrained")
    for axis, env_id in zip(axes[0], env_ids, strict=True):
        for arm, (label, color, _) in ARMS.items():
            seeds: dict[str, dict[int, float]] = {}
            for row in rows:
                if (row["env_id"], row["arm"], row["metric"]) == (env_id, arm, EVALUATIONS[0]):
                    seeds.setdefault(row["seed"], {})[int(row["global_step"])] = float(row["value"])
            if not seeds:
                continue
            for curve in seeds.values():
                axis.plot(list(curve), list(curve.values()), color=color, linewidth=0.7, alpha=0.45)
            steps = sorted(set.intersection(*(set(curve) for curve in seeds.values())))
            means = [np.mean([curve[step] for curve in seeds.values()]) for step in steps]
            axis.plot(steps, means, color=color, linewidth=2.2, label=f"{label}, {len(seeds)} seed{'s' * (len(seeds) > 1)}")
        axis.set(title=env_id, xlabel="thousand environment steps of fine-tuning")
        axis.xaxis.set_major_formatter(lambda step, _: f"{step / 1000:g}")
        axis.grid(alpha=0.25)
    axes[0][0].set_ylabel("evaluated return of the plain agent")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)


def table(rows: list[dict[str, str]]) -> str:
    """Return of the plain agent, mean of the last five evaluations, one number a seed, as Markdown."""
    lines = ["| environment | " + " | ".join(ARMS) + " |", "| --- " * (1 + len(ARMS)) + "|"]
    for env_id in sorted({row["env_id"] for row in rows}, reverse=True):
        cells = []
        for arm in ARMS:
            chosen = [r for r in rows if (r["env_id"], r["arm"], r["metric"]) == (env_id, arm, EVALUATIONS[0])]
            seeds = sorted({row["seed"] for row in chosen})
            last = [[float(row["value"]) for row in chosen if row["seed"] == seed][-5:] for seed in seeds]
            cells.append(", ".join(f"{np.mean(values):.1f}" for values in last))
        lines.append(f"| {env_id} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(seeds: int = 3, jobs: int = 2, collect_only: bool = False) -> None:
    """Runs, collects and plots.

    Args:
        seeds: seeds of each arm
        jobs: runs at a time; one a core
        collect_only: do not run, only collect and plot
    """
    if not collect_only:
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(run, *zip(*commands(seeds).items(), strict=True)))
    rows = collect()
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / "ultra.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    plot(rows, RESULTS / "ultra.png")
    print(f"{table(rows)}\n\n{len(rows)} evaluations in {RESULTS / 'ultra.csv'}, plot in {RESULTS / 'ultra.png'}")


if __name__ == "__main__":
    tyro.cli(main)
