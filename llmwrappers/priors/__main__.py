"""Measures prior policies alone, over seeded episodes, and applies the rule that chose the shipped defaults.

::

    python -m llmwrappers.priors                                        # every candidate of every shipped prior
    python -m llmwrappers.priors --env-id Ant-v5 --candidate 3
    python -m llmwrappers.priors --env-id Pendulum-v1 --prior path/to/policy.py

The rule: of the candidates that never fault and travel at least half as far forward as the one that travels furthest,
the highest mean return. Return alone is fooled by standing still, which the reward for staying healthy pays well;
distance alone by a dash whose actions cost more than it gains. Where ``info`` has no ``x_position``, faults and return
decide.

A call faults if the policy raises or returns a wrong shape, NaN or Inf; the middle of the action space is executed
instead.
"""

import argparse
import time
import warnings
from dataclasses import dataclass, field

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box

from llmwrappers.priors import PriorPolicy, _candidates, _folders, load_prior

RULE = (
    "of the candidates that never fault and travel at least half as far forward as the one that travels furthest, "
    "the highest mean return"
)
# A component counts as saturated within 1 % of half its range from a bound.
SATURATED = 0.99
HEADER = f"{'policy':<8}{'return':^18}{'steps':^16}{'forward (m)':^18}{'saturated':>11}{'us/call':>9}{'faults':>8}"


@dataclass
class Measurement:
    """What a policy did alone: the lists have one entry an episode, the rest is over all calls."""

    returns: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    distances: list[float] = field(default_factory=list)
    saturation: float = 0.0
    microseconds: float = 0.0
    faults: int = 0
    first_fault: str = ""


def measure(env: gym.Env, policy: PriorPolicy, episodes: int, seed: int) -> Measurement:
    """Runs a policy alone for some episodes, seeded ``seed``, ``seed + 1``, ... .

    ``distances`` stays empty where the environment does not report ``info["x_position"]``. Where only step reports it,
    as in the v4 environments, the distance counts from the end of the first step.
    """
    space = env.action_space
    assert isinstance(space, Box)
    middle, half_range = (space.low + space.high) / 2, (space.high - space.low) / 2
    result, seconds, saturated = Measurement(), [], []
    for episode in range(episodes):
        observation, info = env.reset(seed=seed + episode)
        positions = [info["x_position"]] if "x_position" in info else []
        episodic_return, steps, done = 0.0, 0, False
        while not done:
            # A policy may write into what it is given.
            own_observation = observation.copy()
            start = time.perf_counter()
            try:
                action = policy(own_observation)
                seconds.append(time.perf_counter() - start)
                action = np.asarray(action, dtype=np.float64)
                if action.shape != space.shape:
                    raise ValueError(f"returned shape {action.shape}, the action space has {space.shape}")
                if not np.isfinite(action).all():
                    raise ValueError(f"returned {action}")
            except Exception as error:
                result.faults += 1
                result.first_fault = result.first_fault or f"{type(error).__name__}: {error}"
                action = middle
            action = np.clip(action, space.low, space.high).astype(space.dtype)
            saturated.append(np.mean(np.abs(action - middle) >= SATURATED * half_range))
            observation, reward, terminated, truncated, info = env.step(action)
            if "x_position" in info:
                positions.append(info["x_position"])
            episodic_return += float(reward)
            steps += 1
            done = terminated or truncated
        result.returns.append(episodic_return)
        result.steps.append(steps)
        if positions:
            result.distances.append(float(positions[-1] - positions[0]))
    result.saturation = float(np.mean(saturated))
    result.microseconds = float(np.median(seconds or [np.nan])) * 1e6
    return result


def choose(measurements: dict[int, Measurement]) -> int | None:
    """Returns the candidate that the rule takes, or None if every candidate faults.

    Example:
        >>> stands_still = Measurement(returns=[1034.0], distances=[0.1])
        >>> hops = Measurement(returns=[900.0], distances=[4.0])
        >>> choose({1: stands_still, 2: hops})
        2
    """
    faultless = {number: m for number, m in measurements.items() if m.faults == 0}
    distance = {number: np.mean(m.distances) if m.distances else 0.0 for number, m in faultless.items()}
    furthest = max(distance.values(), default=0.0)
    # min: half of a backward distance would be further than the furthest.
    moving = [number for number in faultless if distance[number] >= min(furthest, furthest / 2)]
    return max(moving, key=lambda number: np.mean(faultless[number].returns), default=None)


def row(name: str, m: Measurement, mark: str = "") -> str:
    """Formats one measurement as a line under ``HEADER``, with a line more if the policy faulted."""

    def spread(values: list, digits: int) -> str:
        return f"{np.mean(values):.{digits}f} +- {np.std(values):.{digits}f}" if values else "-"

    first_fault = f"\n        first fault: {m.first_fault}" if m.faults else ""
    return (
        f"{name:<8}{spread(m.returns, 1):^18}{spread(m.steps, 1):^16}{spread(m.distances, 2):^18}"
        f"{m.saturation:>10.1%} {m.microseconds:>9.1f}{m.faults:>8}{mark}{first_fault}"
    )


def make(env_id: str) -> gym.Env:
    """Makes an environment that can be measured.

    Raises:
        gymnasium.error.Error: the environment does not exist or a package that it needs is missing
        ValueError: the observations are not arrays, or the action space is not a Box with finite bounds
    """
    with warnings.catch_warnings():
        # The shipped priors were written for the v4 environments.
        warnings.filterwarnings("ignore", message=".*is out of date.*", category=DeprecationWarning)
        env = gym.make(env_id)
    space = env.action_space
    if not (isinstance(env.observation_space, Box) and isinstance(space, Box) and space.is_bounded("both")):
        raise ValueError(
            f"needs array observations and a Box action space with finite bounds, got {env.observation_space}, {space}"
        )
    return env


def main(argv: list[str] | None = None) -> None:
    """Runs the command; the arguments are the command line's if ``argv`` is None."""
    parser = argparse.ArgumentParser(
        prog="python -m llmwrappers.priors",
        description="Measures prior policies alone, over seeded episodes; +- is the standard deviation over episodes.",
        epilog=f"The rule that chooses the default: {RULE}.",
    )
    parser.add_argument("--env-id", nargs="+", help="Gymnasium environments (default: those of the shipped priors)")
    parser.add_argument("--prior", metavar="PATH", help="a Python file that defines policy, to measure alone")
    parser.add_argument("--candidate", type=int, metavar="N", help="only this one of the shipped candidates")
    parser.add_argument("--episodes", type=int, default=20, help="episodes a policy (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first episode (default: %(default)s)")
    args = parser.parse_args(argv)
    if args.episodes < 1:
        parser.error(f"--episodes must be at least 1, got {args.episodes}")
    if args.seed < 0:
        parser.error(f"--seed must not be negative, got {args.seed}")
    if args.prior and not args.env_id:
        parser.error("--prior needs --env-id, the environment to measure it in")

    folders = _folders()
    env_ids = args.env_id or sorted({folder.name for folder in folders.values()})
    for env_id in env_ids:
        try:
            make(env_id).close()
            if args.prior or args.candidate is not None:
                load_prior(args.prior or env_id, args.candidate)
        except (gym.error.Error, ImportError, OSError, ValueError) as error:
            parser.error(f"{env_id}: {error}")
        if not args.prior and env_id not in folders:
            served = ", ".join(sorted(folders))
            parser.error(f"{env_id}: no shipped prior serves it (they serve {served}); name one with --prior")

    if not args.prior and args.candidate is None:
        print(f"The rule: {RULE}.\n")
    for env_id in env_ids:
        env = make(env_id)
        last_seed = args.seed + args.episodes - 1
        print(f"{env_id}, episodes seeded {args.seed} to {last_seed}\n{HEADER}", flush=True)
        if args.prior:
            print(row("yours", measure(env, load_prior(args.prior), args.episodes, args.seed)))
        else:
            candidates, default = _candidates(folders[env_id])
            measurements = {}
            for number in candidates if args.candidate is None else [args.candidate]:
                measurements[number] = measure(env, load_prior(env_id, number), args.episodes, args.seed)
                mark = "   default" if number == default else ""
                print(row(str(number), measurements[number], mark), flush=True)
            if args.candidate is None:
                print_choice(choose(measurements), default)
        print()
        env.close()


def print_choice(winner: int | None, default: int) -> None:
    """Prints which candidate the rule takes, loudly where it is not the shipped default."""
    if winner == default:
        print(f"The rule takes {default}, the shipped default.")
    elif winner is None:
        print(f"!!! WARNING: every candidate faults, so the rule takes none; the shipped default is {default}.")
    else:
        print(f"!!! WARNING: the rule takes {winner} here, but the shipped default is {default}.")


if __name__ == "__main__":
    main()
