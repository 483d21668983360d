"""TD3 after 1 000 000 steps by CleanRL's measure: the last 100 episodes of training, noise and all; mean +- deviation of seeds.

python benchmarks/training_returns.py            # from results/camel-1m-training.csv
python benchmarks/training_returns.py --collect  # writes that first, from the runs of comparisons/paper-1m
"""

import csv
import sys
from pathlib import Path

import numpy as np

RUNS = Path(__file__).parent / "comparisons" / "paper-1m" / "runs" / "Hopper-v4" / "td3"
RETURNS = Path(__file__).parent / "results" / "camel-1m-training.csv"

if "--collect" in sys.argv:
    found = [
        [summary.parts[-3], row["global_step"], round(float(row["value"]))]
        for summary in sorted(RUNS.glob("*/*/summary.json"))  # a run that has none has not finished
        for row in csv.DictReader((summary.parent / "metrics.csv").open())
        if row["metric"] == "charts/episodic_return"
    ]
    if not found:
        sys.exit(f"--collect: there are no finished runs in {RUNS}")
    with RETURNS.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["seed", "global_step", "episodic_return"], *found])

rows = np.loadtxt(RETURNS, delimiter=",", skiprows=1)
last = {int(seed): rows[rows[:, 0] == seed][-100:] for seed in np.unique(rows[:, 0])}
for seed, episodes in last.items():
    print(f"seed {seed}: {episodes[:, 2].mean():.0f}, from step {episodes[0, 1]:.0f} on")
means = [episodes[:, 2].mean() for episodes in last.values()]
print(f"{np.mean(means):.0f} +- {np.std(means):.0f} over {len(means)} seeds; CleanRL 3135 +- 360 over three")
