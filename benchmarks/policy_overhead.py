"""Microseconds that GeneratedPolicy adds to a call of each shipped policy, in process and in a process, and seconds to vet it.

    python benchmarks/policy_overhead.py

The bare function is the same file, executed. The three take turns in every round, on observations of a seeded rollout; a
number is the median over the rounds of the difference to the bare function in the same round. They must agree to the bit.
"""

import statistics
import time
from collections.abc import Callable

import numpy as np
import tyro
from machine import describe_machine

from llmwrappers import GeneratedPolicy, load_prior, priors, vet_policy
from llmwrappers.making import make
from llmwrappers.priors.measurement import play

GOAL = 10.0


def bare_policy(source: str) -> Callable:
    """The function as plain Python has it."""
    namespace: dict = {}
    exec(source, namespace)
    return namespace["policy"]


def microseconds(policy: Callable, observations: list[np.ndarray]) -> float:
    """The mean time of a call."""
    start = time.perf_counter()
    for observation in observations:
        policy(observation)
    return (time.perf_counter() - start) / len(observations) * 1e6


def main(rounds: int = 31, steps: int = 200) -> None:
    """Prints the table.

    Args:
        rounds: rounds in which the contestants take turns
        steps: observations a round
    """
    print(describe_machine("numpy", "gymnasium"))
    print(f"\nmicroseconds; median (least-greatest) of {rounds} rounds; goal for 'in process': {GOAL:.0f}\n")
    print(f"{'policy':<28}{'bare':>8}  {'in process':>20}  {'process':>24}  {'vetted in':>9}")
    additions = []
    for env_id in sorted({folder.name for folder in priors._folders().values()}):
        env = make(env_id)
        for number in priors._candidates(priors._folders()[env_id])[0]:
            source = load_prior(env_id, number).source  # pyright: ignore[reportFunctionMemberAccess]
            start = time.perf_counter()
            policy = vet_policy(source, env.observation_space, env.action_space, env=env)
            seconds = time.perf_counter() - start
            contestants = {
                "bare": bare_policy(source),
                "in process": policy,
                "process": GeneratedPolicy(source, policy.action_dim, "process"),
            }
            observations = []
            for seed in range(100):
                observations += [step.observation for step in play(env, policy, seed)]
                if len(observations) >= steps:
                    break
            del observations[steps:]
            for observation in observations:
                actions = [contestant(observation.copy()) for contestant in contestants.values()]
                assert all(np.array_equal(actions[0], action) for action in actions[1:]), "the contestants disagree"
            times = [{name: microseconds(call, observations) for name, call in contestants.items()} for _ in range(rounds)]
            cells = []
            for name in ("in process", "process"):
                added = [round_[name] - round_["bare"] for round_ in times]
                cells.append(f"+{statistics.median(added):.1f} ({min(added):.1f} to {max(added):.1f})")
                if name == "in process":
                    additions.append(statistics.median(added))
            bare = statistics.median(round_["bare"] for round_ in times)
            print(f"{f'{env_id} {number}':<28}{bare:>8.1f}  {cells[0]:>20}  {cells[1]:>24}  {seconds:>7.2f} s", flush=True)
    met = sum(added <= GOAL for added in additions)
    print(f"\nin process: median +{statistics.median(additions):.1f}; {met} of {len(additions)} within {GOAL:.0f}")


if __name__ == "__main__":
    tyro.cli(main)
