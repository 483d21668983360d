"""Steps per second of td3_camel.py (--prior none), of the TD3 of Stable-Baselines3, SBX and CleanRL, interleaved in one run.

    python benchmarks/speed/td3_speed.py                 # Hopper-v4 and Ant-v4, on one core and on two; a quarter of an hour
    python benchmarks/speed/td3_speed.py --cleanrl FOLDER    # one more: CleanRL, from a checkout of it
    python benchmarks/speed/td3_speed.py --bfloat16      # one more row: td3_camel.py --matmul bfloat16, which is not exact

All contestants: actor and both critics 256-256 ReLU, batch 256, one update an environment step, policy delay 2, Adam 3e-4,
tau 0.005, gamma 0.99, exploration noise 0.1, CPU. Each lives in a process of its own, restricted to the same cores, and runs
its own training loop, untouched: all that is added is a wrapper around the environment (`Gate`), which counts steps and
between segments waits for this process. So one contestant trains while the others sleep; every round has another order.

The limit is the update's floating point operations at the rate of a 256 x 256 x 256 float32 product, plus a step of the
bare environment, both measured in the same rounds on the same cores. The share is limit seconds / measured seconds.

Use a quiet machine: torch's threads wait for each other by spinning, so on busy cores two of them can be 10 times slower than
one, while JAX's suffer little: the ratios then mean nothing either. Linux only.
"""

import contextlib
import importlib
import importlib.metadata
import multiprocessing
import os
import runpy
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import tyro
from history import ROOT, extract
from machine import describe_machine

warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)

# The last commit before the update was compiled: its networks had a backward written by hand.
BEFORE = "fbbba62"
BATCH, WIDTH = 256, 256
BASELINES = ("SB3", "SBX", "CleanRL", "td3_camel before")


@dataclass
class Args:
    env_ids: tuple[str, ...] = ("Hopper-v4", "Ant-v4")
    """the environments"""
    threads: tuple[int, ...] = (1, 2)
    """the numbers of threads, each on as many cores"""
    steps: int = 2000
    """steps of a segment"""
    rounds: int = 5
    """segments of each contestant"""
    fill: int = 10_000
    """random steps that fill the replay buffer before learning starts"""
    warmup: int = 500
    """training steps before the first segment; JAX compiles in them"""
    cleanrl: str | None = None
    """a checkout of CleanRL: also runs its td3_continuous_action.py"""
    bfloat16: bool = False
    """also runs td3_camel.py --matmul bfloat16, whose products are not exact where the processor has matrix units for it"""


# ------------------------------------------------------------------------------------------------ in a worker process


class Gate(gym.Wrapper):
    """Counts the steps of a training loop; at the end of a segment reports its seconds and waits for the next one.

    It stops the loop before a step of the environment, so a segment of n steps holds the n updates that follow them.
    """

    def __init__(self, env: gym.Env, connection: Connection, first_segment: int):
        super().__init__(env)
        self.connection, self.count, self.boundary = connection, 0, first_segment
        self.started = time.perf_counter()

    def step(self, action):
        if self.count == self.boundary:
            self.connection.send(self.report(time.perf_counter() - self.started))
            self.boundary += self.connection.recv()
            self.started = time.perf_counter()
        self.count += 1
        return self.env.step(action)

    def report(self, seconds: float) -> Any:
        return seconds


def options_of(name: str) -> str:
    """The arguments of a contestant of ours; puts its scripts, those of now or of before, where they are imported from."""
    sys.path.insert(0, os.environ["CAMEL_BEFORE"] if "before" in name else str(ROOT))
    matmul = " --matmul bfloat16" if "bfloat16" in name else ""
    return matmul + ("" if "before" in name else " --compile off" if "eager" in name else " --compile on")


def train_camel(gated, name: str, env_id: str, args: Args, runs_dir: str) -> None:
    """Runs td3_camel.py; the gate goes around the environment that it trains on, which is the first that it makes."""
    options = options_of(name)
    script: Any = importlib.import_module("cleanrl_scripts.td3_camel")
    make_env, made = script.make_env, []

    def make_gated_env(*arguments):
        made.append(make_env(*arguments))
        return gated(made[0]) if len(made) == 1 else made[-1]

    script.make_env = make_gated_env
    never = 10**9
    command = f"--env-id {env_id} --prior none --no-cuda --learning-starts {args.fill} --eval-episodes 1{options}"
    command += f" --total-timesteps {never} --eval-every {never} --checkpoint-every {never}"
    script.main([*command.split(), "--runs-dir", runs_dir])


def train_baseline(gated, env_id: str, args: Args, name: str) -> None:
    """Runs the TD3 of Stable-Baselines3 or of SBX with td3_camel.py's hyperparameters."""
    from stable_baselines3.common.noise import NormalActionNoise

    env = gym.make(env_id, disable_env_checker=True)
    observation_dim, action_dim = (space.shape[0] for space in (env.observation_space, env.action_space) if space.shape)
    settings = {
        "learning_rate": 3e-4,
        "learning_starts": args.fill,
        "batch_size": BATCH,
        "tau": 0.005,
        "gamma": 0.99,
        "train_freq": 1,
        "gradient_steps": 1,
        "policy_delay": 2,
        "action_noise": NormalActionNoise(np.zeros(action_dim), 0.1 * np.ones(action_dim)),
        "policy_kwargs": {"net_arch": [WIDTH, WIDTH]},  # Stable-Baselines3's own choice would be 400-300
        "seed": 1,
        "device": "cpu",
    }
    if name == "SB3":
        from stable_baselines3 import TD3

        model = TD3("MlpPolicy", gated(env), **settings)
        sizes = [sum(p.numel() for p in network.parameters()) for network in (model.actor, model.critic)]
    else:
        import jax  # pyright: ignore[reportMissingImports]
        import sbx  # pyright: ignore[reportMissingImports]

        model = sbx.TD3("MlpPolicy", gated(env), **settings)
        states = (model.policy.actor_state, model.policy.qf_state)
        sizes = [sum(p.size for p in jax.tree.leaves(state.params)) for state in states]
    actor, critic = products(observation_dim, action_dim)
    expected = [actor + 2 * WIDTH + action_dim, 2 * (critic + 2 * WIDTH + 1)]  # weights and biases, of two critics
    if sizes != expected:
        raise RuntimeError(f"{name}'s actor and critics have {sizes} parameters; td3_camel.py's have {expected}")
    model.learn(10**9)


def train_cleanrl(gated, file: str, env_id: str, options: str = "") -> None:
    """Runs a file of CleanRL as it is, on what it needs of Gymnasium 0.29: vector environments and TransformObservation."""

    class VectorEnv(gym.vector.SyncVectorEnv):
        def __init__(self, env_fns):
            super().__init__(env_fns, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)

        def step(self, actions):
            *transition, infos = super().step(actions)
            return *transition, {"final_observation": infos["final_obs"]} if "final_obs" in infos else {}

    make, transform = gym.make, gym.wrappers.TransformObservation
    patches: dict[Any, Any] = {
        gym: {"make": lambda *arguments, **options: gated(make(*arguments, **options))},
        gym.vector: {"SyncVectorEnv": VectorEnv},
        gym.wrappers: {"TransformObservation": lambda env, function: transform(env, function, env.observation_space)},
    }
    for module, names in patches.items():
        vars(module).update(names)
    sys.path.insert(0, str(Path(file).parents[1]))
    sys.argv = [file, *f"--env-id {env_id} --total-timesteps 1000000000 --no-cuda {options}".split()]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # it writes runs/ where it stands
        runpy.run_path(file, run_name="__main__")


def measure_limit(connection: Connection, env_id: str, steps: int) -> None:
    """Reports the seconds of a 256 x 256 x 256 product and of a bare step, as often as it is asked."""
    import torch

    sys.path.insert(0, str(ROOT))
    importlib.import_module("cleanrl_scripts.learning.matmul").choose_matmul("float32")  # the faster library, where it is exact
    a, b = torch.randn(2, 256, 256)
    product = torch.empty(256, 256)
    env = gym.make(env_id, disable_env_checker=True)
    env.reset(seed=1)
    env.action_space.seed(1)
    while True:
        product_seconds, step_seconds = [], 0.0
        for _ in range(100):
            started = time.perf_counter()
            for _ in range(20):
                torch.mm(a, b, out=product)
            product_seconds.append((time.perf_counter() - started) / 20)
        for _ in range(steps):
            action = env.action_space.sample()
            started = time.perf_counter()
            _, _, terminated, truncated, _ = env.step(action)
            step_seconds += time.perf_counter() - started
            if terminated or truncated:
                env.reset()
        connection.send((statistics.median(product_seconds), step_seconds / steps))
        connection.recv()


def work(connection: Connection, name: str, env_id: str, args: Args, runs_dir: str) -> None:
    """The life of a worker; what goes wrong is sent to the parent as text."""

    def gated(env: gym.Env) -> Gate:
        return Gate(env, connection, args.fill + args.warmup)

    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            if name == "limit":
                measure_limit(connection, env_id, args.steps)
            elif name == "CleanRL":
                file = f"{args.cleanrl}/cleanrl/td3_continuous_action.py"
                train_cleanrl(gated, file, env_id, f"--learning-starts {args.fill}")
            elif name in ("SB3", "SBX"):
                train_baseline(gated, env_id, args, name)
            else:
                train_camel(gated, name, env_id, args, runs_dir)
    except EOFError:
        pass  # the parent has closed the connection: it wants no more segments
    except Exception:
        connection.send(traceback.format_exc())


# ------------------------------------------------------------------------------------------------ in the parent process


def products(observation_dim: int, action_dim: int) -> tuple[int, int]:
    """Weights of the actor and of one critic: the multiplications of one transition's way through."""
    actor = observation_dim * WIDTH + WIDTH * WIDTH + WIDTH * action_dim
    critic = (observation_dim + action_dim) * WIDTH + WIDTH * WIDTH + WIDTH
    return actor, critic


def update_flop(observation_dim: int, action_dim: int) -> float:
    """Floating point operations of the matrix products of one TD3 update, the actor's step counted by half."""
    actor, critic = products(observation_dim, action_dim)
    critic_deltas = WIDTH * WIDTH + WIDTH  # backward through the two layers above the first
    actor_deltas = WIDTH * WIDTH + WIDTH * action_dim
    target = actor + 2 * critic
    critics_step = 2 * (critic + critic + critic_deltas)  # forward, weights' gradients, deltas
    # actor and one critic forward, back through that critic to its actions, the actor's gradients
    actor_step = actor + critic + critic_deltas + action_dim * WIDTH + actor + actor_deltas
    return 2.0 * BATCH * (target + critics_step + actor_step / 2)


def start_environment(threads: int, cores: list[int]) -> None:
    """Sets what processes started from now on inherit: their cores, and how many threads each library starts."""
    os.sched_setaffinity(0, cores[:threads])
    for library in ("OMP", "MKL", "OPENBLAS", "NUMEXPR"):
        os.environ[f"{library}_NUM_THREADS"] = str(threads)
    os.environ["CUDA_VISIBLE_DEVICES"], os.environ["JAX_PLATFORMS"] = "", "cpu"
    # JAX takes as many threads as it has cores; with one, it is kept from handing work to a pool at all.
    one_thread = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["XLA_FLAGS"] = one_thread if threads == 1 else ""


@contextlib.contextmanager
def checkout_before() -> Iterator[None]:
    """Has the scripts of BEFORE in a folder, for the workers that run them."""
    with tempfile.TemporaryDirectory() as folder:
        extract(BEFORE, folder, "cleanrl_scripts", "llmwrappers", "prompts")
        os.environ["CAMEL_BEFORE"] = folder
        yield


def receive(name: str, connection: Connection):
    """What a worker reports at the end of a segment."""
    report = connection.recv()
    if isinstance(report, str):
        raise RuntimeError(f"{name} failed:\n{report}")
    return report


def peak_memory(pid: int | None) -> float:
    """The most memory that a process has held so far, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def race(env_id: str, args: Args, names: list[str], work=work) -> tuple[dict[str, list], dict[str, float]]:
    """What each worker, living as ``work`` says, reported of its segments, one report a round; and its peak memory."""
    context = multiprocessing.get_context("spawn")  # a fresh interpreter each
    workers, connections, reports, peaks = [], {}, {name: [] for name in names}, {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name in names:
                connections[name], theirs = context.Pipe()
                arguments = (theirs, name, env_id, args, f"{folder}/{name}")
                workers.append(context.Process(target=work, args=arguments, daemon=True))
                workers[-1].start()
                theirs.close()
                receive(name, connections[name])  # its warm-up ends
            for number in range(args.rounds):
                first = number % len(names)
                for name in names[first:] + names[:first]:
                    time.sleep(0.2)  # the threads of the one before stop spinning
                    connections[name].send(args.steps)
                    reports[name].append(receive(name, connections[name]))
            peaks = {name: peak_memory(worker.pid) for name, worker in zip(names, workers, strict=True)}
        finally:
            for connection in connections.values():
                connection.close()
            for worker in workers:
                worker.join(timeout=20)
                worker.kill()
                worker.join()
    return reports, peaks


def spread(values: list[float], digits: int) -> str:
    """Median, and in brackets least and greatest."""
    median, least, greatest = (f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return f"{median} ({least}-{greatest})"


def table_rows(
    env_id: str, threads: int, args: Args, reports: dict[str, list], peaks: dict[str, float]
) -> tuple[list[list[str]], str]:
    """One row a contestant, and a line about the limit."""
    limits = reports.pop("limit")
    product_seconds, step_seconds = (statistics.median(column) for column in zip(*limits, strict=True))
    env = gym.make(env_id, disable_env_checker=True)
    flop = update_flop(*(space.shape[0] for space in (env.observation_space, env.action_space) if space.shape))
    rate = 2 * 256**3 / product_seconds
    limit = flop / rate + step_seconds
    rows = []
    for name, seconds in reports.items():
        row = [env_id, str(threads), name, spread([args.steps / second for second in seconds], 0)]
        for baseline in (name for name in BASELINES if name in reports):
            ratios = [other / own for other, own in zip(reports[baseline], seconds, strict=True)]
            row.append("1" if name == baseline else spread(ratios, 2))
        rows.append([*row, f"{limit * args.steps / statistics.median(seconds):.0%}", f"{peaks[name]:.0f}"])
    line = (
        f"limit of {env_id} on {threads} thread{'s' * (threads > 1)}: {flop / 1e6:.0f} MFLOP at {rate / 1e9:.0f} GFLOP/s = "
        f"{flop / rate * 1e3:.2f} ms, and {step_seconds * 1e3:.2f} ms of environment: {1 / limit:.0f} steps/s"
    )
    return rows, line


def print_table(rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def main(args: Args) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if max(args.threads) > len(cores):
        sys.exit(f"td3_speed.py: error: --threads {max(args.threads)}: this process may use {len(cores)} cores")
    print(describe_machine("torch", "stable-baselines3", "sbx-rl", "jax", "gymnasium", "mujoco", "numpy"))
    print(f"median (least-greatest) of {args.rounds} rounds of {args.steps} steps, after {args.fill + args.warmup} steps\n")
    if os.getloadavg()[0] > 0.5:
        print(
            f"warning: the load average is {os.getloadavg()[0]:.1f}; with other work on these cores the numbers mean nothing\n"
        )
    names = ["td3_camel", "td3_camel eager", "td3_camel before", "SB3", "SBX", *(["CleanRL"] if args.cleanrl else []), "limit"]
    names += ["td3_camel bfloat16 (not exact)"] * args.bfloat16
    times = [f"times {name}" for name in BASELINES if name in names]
    rows = [["environment", "threads", "contestant", "steps/s", *times, "share of the limit", "peak MB"]]
    lines = []
    for env_id in args.env_ids:
        for threads in args.threads:
            start_environment(threads, cores)
            with checkout_before():
                more_rows, line = table_rows(env_id, threads, args, *race(env_id, args, names))
            rows += more_rows
            lines.append(line)
            print(f"{env_id}, {threads} thread{'s' * (threads > 1)}: done", file=sys.stderr)
    print_table(rows)
    print("", *lines, sep="\n")


if __name__ == "__main__":
    main(tyro.cli(Args))
