"""Stable-Baselines3's learners with and without a prior: PPO with a warm start, TD3 and SAC in the mask; the agent alone.

    python benchmarks/sb3_learners.py --output benchmarks/results/sb3-ppo.csv --arms ppo ppo-same begin-as
    python benchmarks/sb3_learners.py --output benchmarks/results/sb3-td3.csv --arms td3 td3-chosen td3-executed
    python cleanrl_scripts/compare.py --from-csv benchmarks/results/sb3-ppo.csv --output benchmarks/comparisons/sb3-ppo

Arms: ppo (in a VecNormalize, other settings the library's), begin-as (llmwrappers.sb3.begin_as with all shipped candidates,
gamma 0.995, batches of 128), ppo-same (the same gamma, batches and initial exploration noise without a prior), td3 and sac
(networks 64-64, other settings the library's), td3-chosen (in the mask, the buffer stores the agent's action), td3-executed
(ExecutedActionReplayBuffer), each with -clip for the other mapping. The mask has faded after a fifth of the steps. The agent
is evaluated without it, 5 episodes. Runs that are in the file are not repeated.
"""

import csv
import json
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import tyro
from speed.machine import describe_machine

sys.path.insert(0, str(Path(__file__).parents[1]))  # as the scripts do, from anywhere

from cleanrl_scripts.common.evaluation import evaluate
from llmwrappers import EpsilonMaskSchedule, LLMActionMask
from llmwrappers.sb3 import ExecutedActionReplayBuffer, begin_as, unmasked

ROOT = Path(__file__).parents[1]
FIELDS = ("env_id", "arm", "seed", "step", "episodic_return")


@dataclass
class Args:
    output: Path
    """the CSV file of curves, which grows"""
    arms: tuple[str, ...]
    """the arms, the baseline first"""
    env_ids: tuple[str, ...] = ("Walker2d-v4", "Hopper-v4", "Ant-v4")
    """the environments"""
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    """the seeds"""
    total_timesteps: int = 60_000
    """steps of a run, including audition and cloning"""
    eval_every: int = 20_000
    """steps between evaluations"""
    jobs: int = 1
    """runs at a time"""
    one: tuple[str, ...] = ()
    """trains one run in this process: environment, arm, seed"""


def make_model(env_id: str, arm: str, seed: int, total_timesteps: int) -> Any:
    """The learner of an arm, before its first step of training."""
    from stable_baselines3 import PPO, SAC, TD3
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    if arm in ("ppo", "ppo-same", "begin-as"):
        settings: dict[str, Any] = {} if arm == "ppo" else {"gamma": 0.995, "batch_size": 128}
        if arm == "ppo-same":
            settings["policy_kwargs"] = {"log_std_init": math.log(0.2)}  # actions lie in [-1, 1]
        envs = VecNormalize(make_vec_env(env_id, seed=seed), gamma=settings.get("gamma", 0.99))
        model = PPO("MlpPolicy", envs, seed=seed, device="cpu", **settings)
        if arm == "begin-as":
            begin_as(model, env_id, total_timesteps)
        return model
    name, *form = arm.split("-")
    env = gym.make(env_id)
    if form:
        env = LLMActionMask(env, env_id, mapping="clip" if "clip" in form else "rescale")
        env = EpsilonMaskSchedule(env, total_timesteps)
    buffer: dict[str, Any] = {"replay_buffer_class": ExecutedActionReplayBuffer} if "executed" in form else {}
    networks = {"net_arch": [64, 64]}
    return {"td3": TD3, "sac": SAC}[name]("MlpPolicy", env, seed=seed, device="cpu", policy_kwargs=networks, **buffer)


def train(args: Args) -> list[dict]:
    """The curve of one run."""
    env_id, arm, seed = args.one[0], args.one[1], int(args.one[2])
    bare, rows = gym.make(env_id), []
    model = make_model(env_id, arm, seed, args.total_timesteps)

    def evaluate_from(steps: int) -> bool:
        if not rows or model.num_timesteps - rows[-1]["step"] >= steps:
            returned = evaluate(bare, unmasked(model), seed, 5)
            rows.append({"env_id": env_id, "arm": arm, "seed": seed, "step": model.num_timesteps, "episodic_return": returned})
        return True

    evaluate_from(0)
    left = args.total_timesteps - model.num_timesteps
    model.learn(left, callback=lambda *_: evaluate_from(args.eval_every), reset_num_timesteps=False)
    evaluate_from(1)
    return rows


def main(args: Args) -> None:
    if args.one:
        print("\n".join(map(json.dumps, train(args))))
        return
    print(describe_machine("torch", "stable-baselines3", "gymnasium", "mujoco", "numpy"), flush=True)
    if not args.output.exists():
        args.output.write_text(",".join(FIELDS) + "\n")
    with open(args.output) as file:
        done = {(row["env_id"], row["arm"], row["seed"]) for row in csv.DictReader(file)}
    runs = [(env_id, arm, str(seed)) for env_id in args.env_ids for seed in args.seeds for arm in args.arms]

    def run(one: tuple[str, ...]) -> None:
        options = [f"--{name.replace('_', '-')}={getattr(args, name)}" for name in ("output", "total_timesteps", "eval_every")]
        command = [sys.executable, __file__, *options, "--arms", "-", "--one", *one]
        ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
        if ended.returncode:
            print(f"{' '.join(one)} failed: {ended.stderr[-2000:]}", flush=True)
            return
        with open(args.output, "a", newline="") as file:
            csv.DictWriter(file, FIELDS).writerows(map(json.loads, ended.stdout.splitlines()))
        print(f"{' '.join(one)}: done", flush=True)

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(run, [one for one in runs if one not in done]))


if __name__ == "__main__":
    main(tyro.cli(Args))
