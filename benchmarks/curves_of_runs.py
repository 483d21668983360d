"""Writes the evaluations of run folders, finished or cut, as the CSV that compare.py --from-csv reads.

    python benchmarks/curves_of_runs.py benchmarks/comparisons/ppo-camel/runs --until 300000 --output curves.csv

Folders are those of compare.py, ENVIRONMENT/ARM/SEED/RUN. Arms of another comparison can stand beside them:

    --beside benchmarks/comparisons/camel/curves.csv --arms td3 paper
"""

import csv
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro


@dataclass
class Args:
    runs: tyro.conf.Positional[Path]
    """the folder of the runs"""
    output: Path
    """the CSV file to write"""
    until: int = sys.maxsize
    """steps after which evaluations are left out; a run that has not come so far, too, unless it has finished"""
    beside: Path | None = None
    """curves.csv of another comparison"""
    arms: tuple[str, ...] = ()
    """those of its arms that are taken"""


def main() -> None:
    args = tyro.cli(Args)
    rows = []
    for path in sorted(args.runs.glob("*/*/*/*/metrics.csv")):
        arm, seed = path.parts[-4], int(path.parts[-3])
        env_id = json.loads((path.parent / "args.json").read_text())["args"]["env_id"]
        with open(path, newline="") as file:
            found = [row for row in csv.DictReader(file) if row["metric"] == "eval/episodic_return"]
        curve = [(env_id, arm, seed, int(row["global_step"]), float(row["value"])) for row in found]
        if not curve or (curve[-1][3] < args.until and not (path.parent / "summary.json").exists()):
            print(f"left out: {path.parent} is at step {curve[-1][3] if curve else 0}")
            continue
        # The first evaluation behind the limit is kept, so that the curve spans it.
        rows += [row for n, row in enumerate(curve) if n == 0 or curve[n - 1][3] < args.until]
    if args.beside:
        with open(args.beside, newline="") as file:
            for row in csv.DictReader(file):
                if row["arm"] in args.arms:
                    rows.append(tuple(row[name] for name in ("env_id", "arm", "seed", "step", "episodic_return")))
    rows.sort(key=lambda row: row[1] != "none")  # the baseline first
    with open(args.output, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["env_id", "arm", "seed", "step", "episodic_return"])
        writer.writerows(rows)


if __name__ == "__main__":
    main()
