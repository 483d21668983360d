"""Which teacher the audition of ppo_camel.py chooses, and how often: a shipped candidate, a random prior, a bad one.

    python benchmarks/auditions.py --seeds 20

Each line is an environment and a kind of prior: in how many seeds each candidate was chosen, and the mean share of
--clone-steps that the auditions took. Nothing is trained.
"""

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

sys.path.insert(0, str(Path(__file__).parents[1]))  # as the scripts do, from anywhere

from cleanrl_scripts.common.environments import make_flat_env
from cleanrl_scripts.learning.priors_of_arms import load_priors
from cleanrl_scripts.ppo_camel import Args as ScriptArgs
from llmwrappers.priors.audition import audition, contestants

BAD = Path(__file__).parent / "bad_priors"


@dataclass
class Args:
    env_ids: tuple[str, ...] = (
        "Hopper-v4",
        "Walker2d-v4",
        "Ant-v4",
        "BipedalWalker-v3",
        "HalfCheetah-v4",
        "Humanoid-v4",
        "InvertedPendulum-v4",
        "Pendulum-v1",
        "MountainCarContinuous-v0",
        "LunarLanderContinuous-v3",
    )
    """environments with shipped candidates"""
    priors: tuple[str, ...] = ("auto", "random", f"auto:{BAD}")
    """what auditions, as in --prior"""
    seeds: int = 20
    """auditions each, with the seeds 1, 2, ..."""


def main(argv: list[str] | None = None) -> None:
    given = tyro.cli(Args, args=argv)
    for env_id in given.env_ids:
        for prior in given.priors:
            appointed, shares = Counter(), []
            for seed in range(1, given.seeds + 1):
                args = ScriptArgs(env_id=env_id, prior=prior, seed=seed)
                env = make_flat_env(args)
                teachers = contestants(env, load_priors(args, env), np.asarray, args.prior_input, args.radius, seed)
                found = audition(teachers, args.clone_steps, np.random.default_rng(seed))
                appointed[found.teacher or "none"] += 1
                shares.append(found.steps / args.clone_steps)
                env.close()
            counts = ", ".join(f"{name} {count}" for name, count in sorted(appointed.items()))
            kind = "bad" if prior.startswith("auto:") else prior
            print(f"{env_id:26} {kind:7} {np.mean(shares):4.0%} of the steps   {counts}", flush=True)


if __name__ == "__main__":
    main()
