"""Tutorial: write a prior for Pendulum by hand, look at the interval around it, train with it, see whether it helps."""

# --8<-- [start:setup]
import argparse
import csv
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
from matplotlib.figure import Figure

from llmwrappers import EpsilonMaskSchedule, LLMActionMask

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=40_000, help="of each training run")
parser.add_argument("--output", type=Path, default=Path("runs/tutorial"), help="the folder for all files")
args = parser.parse_args()
output = args.output.resolve()
output.mkdir(parents=True, exist_ok=True)
# --8<-- [end:setup]

# 1. A prior by hand.
# --8<-- [start:prior]
PRIOR = """\
import numpy as np

def policy(obs):
    cos, sin, velocity = obs
    if cos > 0.9:                                       # near the top: hold
        return [-12.0 * sin - 3.0 * velocity]
    energy = velocity**2 / 6 + 5 * cos                  # 5 at the top
    direction = 1.0 if velocity >= 0 else -1.0
    return [2.0 * direction if energy < 5.2 else 0.0]   # push with the swing
"""
prior = output / "my_policy.py"
prior.write_text(PRIOR)
# --8<-- [end:prior]

# 2. The mask, over one episode of random actions.
# --8<-- [start:mask]
env = LLMActionMask(gym.make("Pendulum-v1"), prior=str(prior), radius=0.3)
env = EpsilonMaskSchedule(env, total_timesteps=200, mask_fraction=0.5)
env.action_space.seed(0)
observation, info = env.reset(seed=0)
lows, highs, actions = [], [], []
for _ in range(200):
    lows.append(info["action_low"][0])  # the interval of the next action
    highs.append(info["action_high"][0])
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    actions.append(info["executed_action"][0])
# --8<-- [end:mask]

# --8<-- [start:draw]
figure = Figure(figsize=(8, 3), layout="constrained")
axis = figure.subplots()
axis.fill_between(np.arange(200), lows, highs, step="mid", alpha=0.25, color="#009E73", label="interval")
axis.plot(actions, ".", markersize=4, color="black", label="executed action, random in the interval")
axis.set(xlabel="step", ylabel="torque")
axis.set_title("The mask applies ever less often, and never after step 100")
axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2, frameon=False)
figure.savefig(output / "tutorial-interval.png", dpi=120)
# --8<-- [end:draw]


# 3. Training, with the prior and without.
# --8<-- [start:train]
def train(prior: str) -> tuple[list[int], list[float]]:
    """Steps and returns of the evaluations of a run; the agent plays them alone."""
    runs = output / "runs"
    before = set(runs.glob("*"))
    command = ["cleanrl_scripts/ppo_camel.py", "--env-id", "Pendulum-v1", "--prior", prior]
    command += ["--total-timesteps", str(args.steps), "--eval-every", str(args.steps // 10)]
    command += ["--clone-steps", str(args.steps // 4), "--num-steps", "512"]
    command += ["--runs-dir", str(runs)]
    subprocess.run([sys.executable, *command], cwd=Path(__file__).parents[1], check=True)
    (run,) = set(runs.glob("*")) - before
    with open(run / "metrics.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "eval/episodic_return"]
    return [int(row["global_step"]) for row in rows], [float(row["value"]) for row in rows]


# --8<-- [end:train]

# --8<-- [start:compare]
figure = Figure(figsize=(8, 3), layout="constrained")
axis = figure.subplots()
arms = [("with the prior", str(prior), "#0072B2"), ("PPO alone", "none", "#000000")]
for name, value, color in arms:
    steps, returns = train(value)
    axis.plot(steps, returns, marker="o", markersize=3, color=color, label=name)
    print(f"{name}: return {returns[-1]:.0f} after {steps[-1]:,} steps")
axis.set(xlabel="steps", ylabel="return of the agent alone", title="Pendulum-v1, one seed")
axis.legend(frameon=False)
figure.savefig(output / "tutorial-curves.png", dpi=120)
# --8<-- [end:compare]
