"""What the curves of comparisons/camel say seed by seed: the figures of EVIDENCE.md that no table has.

python benchmarks/camel_curves.py
"""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np

CURVES = Path(__file__).parent / "comparisons" / "camel" / "curves.csv"
PRIOR = {"Hopper-v4": 1802, "Walker2d-v4": 2440, "Ant-v4": 1687}  # the LLM's policy alone: python -m llmwrappers.priors
MASK_ENDS, TRAINED = 60_000, 20_000  # steps; before TRAINED all agents are close to untrained


def read() -> tuple[np.ndarray, dict, dict]:
    """The steps, and of each environment and arm the returns without and with the mask, (seeds, steps)."""
    rows = list(csv.DictReader(CURVES.open()))
    steps = np.unique([int(row["step"]) for row in rows])
    alone, masked = defaultdict(list), defaultdict(list)
    for row in rows:  # sorted by seed and step
        key = row["env_id"], row["arm"]
        alone[key].append(float(row["episodic_return"]))
        masked[key].append(float(row["masked_return"] or "nan"))
    shape = (-1, len(steps))
    arrays = [{key: np.reshape(values, shape) for key, values in by.items()} for by in (alone, masked)]
    return steps, arrays[0], arrays[1]


def first_above(curves: np.ndarray, level: float) -> np.ndarray:
    """The step of each curve's first evaluation above a level once the mask is gone, NaN for none."""
    above = (curves > level) & (steps >= MASK_ENDS)
    return np.where(above.any(axis=1), steps[above.argmax(axis=1)], np.nan)


def numbers(values) -> str:
    return ", ".join(f"{value:.0f}" for value in values)


steps, alone, masked = read()
highest = {key: np.maximum.accumulate(returns, axis=1) for key, returns in alone.items()}  # evaluation so far
last = max(1, len(steps) // 10)
span = steps[-1] - steps[0]
for env_id, prior in PRIOR.items():
    td3, paper, taught = (alone[env_id, arm] for arm in ("td3", "paper", "taught"))
    final = {arm: curves[:, -last:].mean(axis=1) for (env, arm), curves in alone.items() if env == env_id}
    print(f"\n{env_id}, the LLM's policy alone {prior}; one number a seed")
    controls = [arm for arm in ("paper-random", "paper-expert") if arm in final]
    pairs = [("paper", "td3"), ("taught", "td3"), ("taught", "paper")]
    for arm, other in (*pairs, *((arm, other) for arm in controls for other in ("td3", "paper"))):
        seeds = min(len(final[arm]), len(final[other]))  # of the controls there are fewer
        print(f"  final return, {arm} less {other}: {numbers(final[arm][:seeds] - final[other][:seeds])}")
    for arm in controls:
        print(f"  {arm}: final {numbers(final[arm])}; highest {numbers(alone[env_id, arm].max(axis=1))}")
    if "paper-expert" in final:
        curves, expert = alone[env_id, "paper-expert"], paper[1, -1]  # the agent that the paper's form had at the end of seed 2
        print(f"  expert alone {expert:.0f}; with its mask, when that goes: {numbers(curves[:, steps == MASK_ENDS][:, 0])}")
        print(f"  first above the expert at step: {numbers(first_above(curves, expert))}")
        for step in (10_000, 50_000):
            print(f"  with the expert's mask at step {step}: {numbers(masked[env_id, 'paper-expert'][:, steps == step][:, 0])}")
    late = steps >= MASK_ENDS
    passes = [curve[late] > prior for curve in paper]
    print(f"  paper when the mask goes: {numbers(paper[:, late][:, 0])}")
    print(f"  paper first above the LLM's policy at step: {numbers(first_above(paper, prior))}")
    print(f"  evaluations below it after that: {numbers(np.sum(~above[np.argmax(above) :]) for above in passes)}")
    for step in (0, 10_000, 50_000):
        print(f"  paper with the mask at step {step}: {numbers(masked[env_id, 'paper'][:, steps == step][:, 0])}")
    others = np.concatenate([highest[env_id, arm] for arm in ("td3", "paper")])
    print(f"  taught above the highest so far of all runs of both at: {numbers(steps[taught.min(0) > others.max(0)])}")
    area, paper_area, bound = (np.trapezoid(y, steps) / span for y in (taught, paper, highest[env_id, "paper"]))
    print(f"  area under the curve, taught less paper: {numbers(area - paper_area)}")
    print(f"  taught less the highest so far of paper: {numbers(area - bound)}")
    for arm, curves in (("td3", td3), ("paper", paper), ("taught", taught)):
        trained = curves[:, steps >= TRAINED]
        fall = (np.maximum.accumulate(trained, axis=1) - trained).max(axis=1)
        print(f"  deepest below the highest so far, {arm}: {numbers(fall)}")
    print(f"  taught at step 100000: {numbers(taught[:, steps == 100_000][:, 0])}; final {numbers(final['taught'])}")
