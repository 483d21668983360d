"""Microseconds of a call of each shipped policy: plain, as load_prior plays it, in a locked process, and in the forms before.

    python benchmarks/speed/policy_overhead.py                # on one core
    python benchmarks/speed/policy_overhead.py --no-one-core  # on as many as there are

Plain is the same file, executed. The forms before are those of ``BEFORE``, the last commit that had them: a restricted language
in this process, and the same in another. All take turns in every round, on observations of seeded rollouts, and must agree to
the bit. A time is the median over the calls of a round; a cell the median over the rounds.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import tyro
from history import extract
from machine import describe_machine

import llmwrappers
from llmwrappers import ContainedPolicy, load_prior, priors
from llmwrappers.making import make
from llmwrappers.priors.measurement import play

BEFORE = "ff741b1"
GOAL = 10.0


def forms_before(folder: str) -> type:
    """Takes the package of the forms before out of the history, and puts it where it was."""
    extract(BEFORE, folder, "llmwrappers/sandbox")
    llmwrappers.__path__.append(f"{folder}/llmwrappers")
    from llmwrappers.sandbox.generated_policy import GeneratedPolicy  # pyright: ignore[reportMissingImports]

    return GeneratedPolicy


def microseconds(policy: Callable, observations: list[np.ndarray]) -> float:
    """The median time of a call."""
    times = []
    for observation in observations:
        start = time.perf_counter()
        policy(observation)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def seconds_to_start() -> tuple[float, float]:
    """The median times until a locked process has answered once, and of a Python that imports NumPy, in turn."""

    def numpy() -> None:
        subprocess.run([sys.executable, "-c", "import numpy"], check=True)

    def contained() -> None:
        policy = ContainedPolicy("import numpy as np\ndef policy(obs):\n    return np.zeros(1)")
        policy(np.zeros(3))
        policy.close()

    times: dict[Callable, list[float]] = {contained: [], numpy: []}
    for _ in range(11):
        for call, seconds in times.items():
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
    return statistics.median(times[contained]), statistics.median(times[numpy])


def main(rounds: int = 11, steps: int = 200, one_core: bool = True) -> None:
    """Prints the table.

    Args:
        rounds: rounds in which the contestants take turns
        steps: observations a round
        one_core: whether this process, and with it all others, stays on one core
    """
    if one_core:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(describe_machine("numpy", "gymnasium"))
    print(f"\nmicroseconds a call, median of {rounds} rounds; {len(os.sched_getaffinity(0))} cores\n")
    names = ("plain", "as shipped", "contained", "before", "before, process")
    print(f"{'policy':<28}" + "".join(f"{name:>17}" for name in names), flush=True)
    added: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        before = forms_before(folder)
        for env_id in sorted({folder.name for folder in priors._folders().values()}):
            env = make(env_id)
            size = env.action_space.shape
            for number in priors._candidates(priors._folders()[env_id])[0]:
                shipped = load_prior(env_id, number)
                source = shipped.source  # pyright: ignore[reportFunctionMemberAccess]
                namespace: dict = {}
                exec(source, namespace)
                contestants = dict(zip(names, (namespace["policy"], shipped, ContainedPolicy(source)), strict=False))
                contestants |= {"before": before(source, size), "before, process": before(source, size, "process")}
                observations: list[np.ndarray] = []
                for seed in range(100):
                    # The forms before were handed float64.
                    observations += [step.observation.astype(np.float64) for step in play(env, shipped, seed)]
                    if len(observations) >= steps:
                        break
                del observations[steps:]
                for observation in observations:
                    actions = [contestant(observation.copy()) for contestant in contestants.values()]
                    assert all(np.array_equal(actions[0], action) for action in actions[1:]), "the contestants disagree"
                times = [{name: microseconds(call, observations) for name, call in contestants.items()} for _ in range(rounds)]
                medians = {name: statistics.median(round_[name] for round_ in times) for name in names}
                for name in names:
                    added[name].append(statistics.median(round_[name] - round_["plain"] for round_ in times))
                print(f"{f'{env_id} {number}':<28}" + "".join(f"{medians[name]:>17.1f}" for name in names), flush=True)
                for name in ("contained", "before, process"):
                    contestants[name].close()  # pyright: ignore[reportFunctionMemberAccess]
    print(f"\n{'added, median of all':<28}" + "".join(f"{statistics.median(added[name]):>+17.1f}" for name in names))
    within = sum(more <= GOAL for more in added["contained"])
    print(f"contained: at most {GOAL:.0f} more in {within} of {len(added['contained'])}")
    contained, numpy = seconds_to_start()
    print(f"to start a process: {contained / numpy:.2f} times python -c 'import numpy'")


if __name__ == "__main__":
    tyro.cli(main)
