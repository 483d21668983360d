"""Microseconds that wrappers add to a step, and seconds that `import llmwrappers` adds.

    python benchmarks/speed/wrapper_overhead.py

The environment does nothing: its step returns the same arrays every time. The prior returns a constant array, and the time
of calling it is measured alone and taken off. LLMActionOverride and CriticalStateRewarder look every observation up in a table
of 500 states: in one that it is far from, and ("critical") in one that has it. That is not taken off, but `match` is also
measured alone. The contestants take turns in every round; a number is the median over the rounds of the difference to the
bare environment in the same round.
"""

import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import gymnasium as gym
import numpy as np
import tyro
from gymnasium.spaces import Box
from machine import describe_machine
from td3_speed import spread

from llmwrappers import CriticalStateRewarder, CriticalStates, EpsilonMaskSchedule, LLMActionMask, LLMActionOverride, load_prior

warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)

GOALS = {"mask on": 15.0, "mask off for good": 3.0}
IMPORT_GOAL = 0.3
STATES = 500


class Nothing(gym.Env):
    """Returns the same observation for every action and never ends."""

    def __init__(self, observation_dim: int, action_dim: int):
        self.observation_space = Box(-np.inf, np.inf, (observation_dim,), np.float64)
        self.action_space = Box(-1.0, 1.0, (action_dim,), np.float32)
        self.observation = np.zeros(observation_dim)

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        return self.observation, {}

    def step(self, action):
        return self.observation, 0.0, False, False, {}


def microseconds(call: Callable, argument: np.ndarray, calls: int) -> float:
    """The time of one call."""
    repetitions = range(calls)
    started = time.perf_counter()
    for _ in repetitions:
        call(argument)
    return (time.perf_counter() - started) / calls * 1e6


def tables(observation_dim: int, action_dim: int) -> dict[str, CriticalStates]:
    """Random states, without and with the observation of `Nothing` among them."""
    states = np.random.default_rng(1).standard_normal((STATES, observation_dim))
    states_with = np.vstack([np.zeros((1, observation_dim)), states[1:]])
    actions, rewards, scale = np.full((STATES, action_dim), 0.2), np.ones(STATES), np.ones(observation_dim)
    both = {"": states, ", critical": states_with}
    return {name: CriticalStates(table, actions, rewards, scale, tolerance=0.1) for name, table in both.items()}


def contestants(observation_dim: int, action_dim: int) -> tuple[dict[str, Callable], Callable]:
    """The `step` of each environment, and the prior."""
    center = np.full(action_dim, 0.2, np.float32)

    def prior(_observation):
        return center

    bare = Nothing(observation_dim, action_dim)
    masked = LLMActionMask(Nothing(observation_dim, action_dim), prior)
    finished = LLMActionMask(Nothing(observation_dim, action_dim), prior)
    envs = {
        "bare": bare,
        "mask on": EpsilonMaskSchedule(masked, total_timesteps=10**12, mask_fraction=1.0),
        "mask off for good": EpsilonMaskSchedule(finished, total_timesteps=1, mask_fraction=1.0),
        "RescaleAction": gym.wrappers.RescaleAction(Nothing(observation_dim, action_dim), np.float32(-1), np.float32(1)),
    }
    for name, table in tables(observation_dim, action_dim).items():
        for wrapper in (LLMActionOverride, CriticalStateRewarder):
            envs[wrapper.__name__ + name] = wrapper(Nothing(observation_dim, action_dim), table, patience_steps=0)
    action = np.zeros(action_dim, np.float32)
    for name, env in envs.items():
        env.reset(seed=1)
        for _ in range(3):
            info = env.step(action)[4]
        if env is envs["mask on"] or env is envs["mask off for good"]:
            assert info["mask_active"] == (env is envs["mask on"]), info
        assert info.get("critical", False) == name.endswith("critical"), info
    envs["mask off for good"].reset(seed=2)  # from then on the prior rests
    return {name: env.step for name, env in envs.items()}, prior


def measure(observation_dim: int, action_dim: int, steps: int, rounds: int) -> dict[str, list[float]]:
    """Microseconds that each contestant adds to the bare step, one number a round."""
    calls, prior = contestants(observation_dim, action_dim)
    observation, action = np.zeros(observation_dim), np.full(action_dim, 0.5, np.float32)
    added: dict[str, list[float]] = {name: [] for name in calls if name != "bare"}
    names = list(calls)
    for number in range(rounds):
        first = number % len(names)
        times = {name: microseconds(calls[name], action, steps) for name in names[first:] + names[:first]}
        times["mask on"] -= microseconds(prior, observation, steps)
        for name, values in added.items():
            values.append(times[name] - times["bare"])
    return added


def match_microseconds(observation_dim: int, calls: int, rounds: int) -> dict[str, list[float]]:
    """The time of one lookup in each table, one number a round."""
    both, observation = tables(observation_dim, action_dim=1), np.zeros(observation_dim)
    times: dict[str, list[float]] = {name: [] for name in both}
    for _ in range(rounds):
        for name, table in both.items():
            times[name].append(microseconds(table.match, observation, calls))
    return times


def prior_microseconds(env_id: str, calls: int = 1000) -> float:
    """The time of one call of a shipped prior, on the observations of random actions."""
    env, prior = gym.make(env_id, disable_env_checker=True), load_prior(env_id)
    env.action_space.seed(1)
    observation, _ = env.reset(seed=1)
    seconds = []
    for _ in range(calls):
        started = time.perf_counter()
        prior(observation)
        seconds.append(time.perf_counter() - started)
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            observation, _ = env.reset()
    return statistics.median(seconds) * 1e6


def import_seconds(processes: int) -> tuple[float, float]:
    """Medians of `import gymnasium` and of `import llmwrappers`, each in fresh processes that take turns."""
    seconds: dict[str, list[float]] = {"gymnasium": [], "llmwrappers": []}
    for _ in range(processes + 1):
        for module, values in seconds.items():
            code = (
                f"import sys, time; started = time.perf_counter(); import {module}; print(time.perf_counter() - started)\n"
                "assert not {'torch', 'transformers'} & set(sys.modules), 'torch or transformers was imported'"
            )
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            values.append(float(done.stdout))
    # The first of each warms the disk's cache.
    return statistics.median(seconds["gymnasium"][1:]), statistics.median(seconds["llmwrappers"][1:])


def verdict(value: float, goal: float | None) -> str:
    return "" if goal is None else f"goal {goal:g}: {'met' if value <= goal else 'missed'}"


def main(steps: int = 20_000, rounds: int = 15, processes: int = 11) -> None:
    """Measures and prints.

    Args:
        steps: steps of each contestant in a round
        rounds: rounds
        processes: fresh processes for each import
    """
    print(describe_machine("gymnasium", "numpy", "mujoco"), "\n")
    print("microseconds added to a step, without the prior's own time: median (least-greatest) of the rounds")
    for observation_dim, action_dim in ((11, 3), (27, 8)):
        for name, values in measure(observation_dim, action_dim, steps, rounds).items():
            line = f"{observation_dim:3d} observations, {action_dim} actions  {name:32s}{spread(values, 2)}"
            print(line.ljust(81), verdict(statistics.median(values), GOALS.get(name)))
    print(f"\nmicroseconds of CriticalStates.match alone: a table of {STATES} states, 27 numbers each")
    for name, values in match_microseconds(27, steps, rounds).items():
        print(f"{'match' + name:18s}{spread(values, 2)}")
    print("\nmicroseconds of a call of a shipped prior, for comparison")
    for env_id in ("Hopper-v4", "Ant-v4"):
        print(f"{env_id:18s}{prior_microseconds(env_id):6.1f}")
    gymnasium_seconds, llmwrappers_seconds = import_seconds(processes)
    added = llmwrappers_seconds - gymnasium_seconds
    print(f"\nimport gymnasium {gymnasium_seconds:.3f} s, import llmwrappers {llmwrappers_seconds:.3f} s")
    print(f"import llmwrappers adds {added:.3f} s, {verdict(added, IMPORT_GOAL)}")


if __name__ == "__main__":
    tyro.cli(main)
