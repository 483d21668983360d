"""Returns at given steps of a comparison's curves.csv: interquartile means over seeds, and every seed; interpolated linearly.

python benchmarks/camel_returns.py benchmarks/comparisons/ppo-camel/curves.csv
"""

import csv
import sys
from collections import defaultdict

import numpy as np
from scipy.stats import trim_mean

STEPS = (20_000, 100_000, 300_000, 1_000_000)


def main(path: str) -> None:
    curves = defaultdict(lambda: defaultdict(list))
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            curves[row["env_id"], row["arm"]][int(row["seed"])].append((int(row["step"]), float(row["episodic_return"])))
    for (env_id, arm), seeds in curves.items():
        cells = []
        for step in STEPS:
            # The last evaluation of a run lies within a rollout of its end.
            ended = {seed: sorted(curve) for seed, curve in seeds.items() if max(curve)[0] > step - 3_000}
            points = [np.array(ended[seed]).T for seed in sorted(ended)]
            values = [float(np.interp(step, steps, returns)) for steps, returns in points]
            if values:
                cells.append(f"{step:,}: {trim_mean(values, 0.25):.0f} ({', '.join(f'{value:.0f}' for value in values)})")
        print(f"{env_id:12} {arm:8} {'  '.join(cells)}")


if __name__ == "__main__":
    main(sys.argv[1])
