"""All learners after ten minutes on one core: return of the agent alone over training time, compilation included.

    python benchmarks/speed/ten_minutes.py                         # two runs at a time; runs in the CSV are not repeated
    python benchmarks/speed/ten_minutes.py --report-only           # the table and the figure

Each run is a process of one thread on a core of its own. Its clock is the processor time of the process and of the compilers it
started: on a quiet machine, wall-clock time. It starts before the learner is made, runs during audition, cloning and
compilation (nothing is cached), and stops while the agent is evaluated: every half minute, 5 episodes without exploration
noise, seeded 10000 to 10004. A script of ours stops after its 1 000 000 steps; its last evaluation holds until the end.

Hyperparameters are each library's defaults: those of ppo_camel.py and td3_camel.py, of Stable-Baselines3's PPO and SAC, of
SBX's TD3, SAC and CrossQ. None is tuned to an environment.
"""

import contextlib
import csv
import importlib
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import tyro
from history import ROOT
from machine import describe_machine, processor

FOLDER = ROOT / "benchmarks" / "comparisons" / "ten-minutes"
CONTESTANTS = ("ppo_camel", "ppo_camel none", "td3_camel", "SB3 PPO", "SB3 SAC", "SBX TD3", "SBX SAC", "SBX CrossQ")
EPISODES = 5
LATE_MINUTES = 0.1
"""An evaluation waits for the end of a training step; so much later it still counts for its minute."""
FIELDS = ("env_id", "contestant", "seed", "seconds", "steps", "episodic_return", "processor")


@dataclass
class Args:
    env_ids: tuple[str, ...] = ("Hopper-v4", "Walker2d-v4", "Ant-v4", "HalfCheetah-v4")
    """the environments"""
    contestants: tuple[str, ...] = CONTESTANTS
    """who runs"""
    seeds: tuple[int, ...] = (1, 2, 3)
    """the seeds"""
    minutes: float = 10.0
    """training time of a run"""
    every: float = 30.0
    """seconds of training between evaluations"""
    jobs: int = 2
    """runs at a time, each on a core"""
    report_only: bool = False
    """only makes the table and the figure"""
    one: tuple[str, ...] = ()
    """runs one in this process: environment, contestant, seed, CSV file"""


# ------------------------------------------------------------------------------------------------------------ one run


class TimeIsUp(Exception):
    """Ends a run."""


def seconds_used() -> float:
    """Processor time of this process and of those it started that have ended."""
    return sum(os.times()[:4])


class Clock:
    """Stands while the agent is evaluated; writes a row at each evaluation.

    Args:
        act: observation -> action of the environment, without exploration noise
    """

    def __init__(self, env_id: str, act: Callable, args: Args, path: Path, row: dict):
        self.env, self.act, self.args, self.path, self.row = gym.make(env_id), act, args, path, row
        self.started, self.paused, self.next, self.steps = seconds_used(), 0.0, args.every, 0

    def tick(self) -> None:
        """Called at every step of the training environment."""
        self.steps += 1
        if seconds_used() - self.started - self.paused >= self.next:
            self.evaluate()

    def evaluate(self) -> None:
        """Evaluates now, and ends the run where its time is up."""
        now = seconds_used()
        seconds, returns = now - self.started - self.paused, []
        for episode in range(EPISODES):
            observation, _ = self.env.reset(seed=10_000 + episode)
            total, done = 0.0, False
            while not done:
                observation, reward, terminated, truncated, _ = self.env.step(self.act(observation))
                total, done = total + float(reward), terminated or truncated
            returns.append(total)
        values = {**self.row, "seconds": f"{seconds:.1f}", "steps": self.steps, "episodic_return": f"{np.mean(returns):.2f}"}
        with open(self.path, "a", newline="") as file:
            csv.DictWriter(file, FIELDS).writerow(values)
        self.paused += seconds_used() - now
        self.next += self.args.every
        if seconds >= 60 * self.args.minutes:
            raise TimeIsUp


class Ticking(gym.Wrapper):
    """Tells a clock of every step."""

    def __init__(self, env: gym.Env, clock: Callable[[], Clock]):
        super().__init__(env)
        self.clock = clock

    def step(self, action):
        self.clock().tick()
        return self.env.step(action)


def train_ours(env_id: str, contestant: str, seed: int, new_clock: Callable[[Callable], Clock]) -> None:
    """Runs a script; its learner is what it makes, its training environment what it trains on first."""
    sys.path.insert(0, str(ROOT))
    name, _, prior = contestant.partition(" ")
    script: Any = importlib.import_module(f"cleanrl_scripts.{name}")
    learners: list[Any] = []
    make = script.PPO if name == "ppo_camel" else script.TD3

    def make_learner(*arguments):
        learners.append(make(*arguments))
        return learners[-1]

    if name == "ppo_camel":
        clock = new_clock(lambda observation: learners[0].agent.act(observation))
        script.PPO = lambda args, envs, *others: make_learner(args, [Ticking(env, lambda: clock) for env in envs], *others)
        play = script.DAgger.play

        def play_and_count(self, env, most_steps):
            episode = play(self, env, most_steps)
            clock.steps += len(episode.rewards)
            return episode

        script.DAgger.play = play_and_count
    else:
        clock = new_clock(lambda observation: learners[0].act(observation))
        script.TD3, make_env, made = make_learner, script.make_env, []
        limits = gym.make(env_id).action_space
        clock.act = lambda observation: np.clip(learners[0].act(observation), -1, 1) * limits.high  # pyright: ignore

        def make_ticking(*arguments):
            made.append(make_env(*arguments))
            return Ticking(made[0], lambda: clock) if len(made) == 1 else made[-1]

        script.make_env = make_ticking
    with tempfile.TemporaryDirectory() as runs:
        command = f"--env-id {env_id} --seed {seed} --no-cuda --eval-every 1000000000 --eval-episodes 1 --runs-dir {runs}"
        script.main([*command.split(), *(["--prior", prior] if prior else []), "--checkpoint-every", "1000000000"])
    clock.evaluate()  # its whole run fitted into the time


def train_theirs(env_id: str, contestant: str, seed: int, new_clock: Callable[[Callable], Clock]) -> None:
    """Runs a learner of Stable-Baselines3 or of SBX with its defaults."""
    library, _, name = contestant.partition(" ")
    module: Any = importlib.import_module({"SB3": "stable_baselines3", "SBX": "sbx"}[library])
    models: list[Any] = []
    clock = new_clock(lambda observation: models[0].predict(observation, deterministic=True)[0])
    models.append(getattr(module, name)("MlpPolicy", Ticking(gym.make(env_id), lambda: clock), seed=seed, device="cpu"))
    models[0].learn(10**9)


def run_one(args: Args) -> None:
    env_id, contestant, seed, path = args.one
    row = {"env_id": env_id, "contestant": contestant, "seed": seed, "processor": processor()}

    def new_clock(act: Callable) -> Clock:
        return Clock(env_id, act, args, Path(path), row)

    train = train_theirs if contestant.startswith("SB") else train_ours
    with contextlib.suppress(TimeIsUp):
        train(env_id, contestant, int(seed), new_clock)


# ------------------------------------------------------------------------------------------------------------ all runs


def run_all(args: Args) -> None:
    """Runs what is not in the CSV yet; the rows of a run are added when it has ended."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    curves = FOLDER / "minutes.csv"
    if not curves.exists():
        curves.write_text(",".join(FIELDS) + "\n")
    done = {(row["env_id"], row["contestant"], row["seed"]) for row in csv.DictReader(open(curves))}  # noqa: SIM115
    todo: queue.Queue = queue.Queue()
    for seed in args.seeds:
        for env_id in args.env_ids:
            for contestant in args.contestants:
                if (env_id, contestant, str(seed)) not in done:
                    todo.put((env_id, contestant, str(seed)))
    cores, lock = sorted(os.sched_getaffinity(0)), threading.Lock()
    one_thread = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    environment = {**os.environ, **one_thread, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "XLA_FLAGS": flags}
    environment["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no pool of compilers, whose time would be counted when it ends

    def work(core: int) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                one = todo.get_nowait()
                with tempfile.NamedTemporaryFile("r", suffix=".csv") as rows, tempfile.TemporaryDirectory() as cache:
                    command = [sys.executable, __file__, "--minutes", str(args.minutes), "--every", str(args.every)]
                    command = ["taskset", "-c", str(core), *command, "--one", *one, rows.name]
                    ended = subprocess.run(
                        command,
                        env={**environment, "TORCHINDUCTOR_CACHE_DIR": cache},
                        capture_output=True,
                        text=True,
                        check=False,
                    )
                    with lock:
                        if ended.returncode:
                            print(f"{' '.join(one)} failed: {ended.stderr[-2000:]}", flush=True)
                            continue
                        with open(curves, "a") as file:
                            file.write(rows.read())
                        print(f"{' '.join(one)}: done, {todo.qsize()} wait", flush=True)

    threads = [threading.Thread(target=work, args=(core,)) for core in cores[: args.jobs]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# ------------------------------------------------------------------------------------------------------------ the report


def report(args: Args) -> None:
    """The table at 1, 3 and 10 minutes, mean over seeds, and the figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with open(FOLDER / "minutes.csv") as file:
        rows = list(csv.DictReader(file))
    runs: dict[tuple, list[tuple[float, int, float]]] = {}
    for row in rows:
        key = row["env_id"], row["contestant"], row["seed"]
        runs.setdefault(key, []).append((float(row["seconds"]) / 60, int(row["steps"]), float(row["episodic_return"])))
    env_ids = [env_id for env_id in args.env_ids if any(key[0] == env_id for key in runs)]
    header = "| environment | contestant | seeds | steps | at 1 minute | at 3 minutes | at 10 minutes |"
    lines = [header, "| --- " * 7 + "|"]
    figure, axes = plt.subplots(1, len(env_ids), figsize=(4.2 * len(env_ids), 3.8), squeeze=False)
    grid = np.linspace(0, args.minutes, 101)
    for axis, env_id in zip(axes[0], env_ids, strict=True):
        for contestant in args.contestants:
            curves = [sorted(curve) for key, curve in runs.items() if key[:2] == (env_id, contestant)]
            if not curves:
                continue
            # The evaluation before a minute is what one has at that minute.
            at = np.array([[_held(curve, minute) for minute in grid] for curve in curves])
            axis.plot(grid, at.mean(axis=0), label=contestant)
            axis.fill_between(grid, at.min(axis=0), at.max(axis=0), alpha=0.15)
            cells = []
            for minute in (1, 3, 10):
                values = [_held(curve, minute) for curve in curves]
                ends = f" [{min(values):,.0f}, {max(values):,.0f}]" if len(values) > 1 else ""
                cells.append(f"{np.mean(values):,.0f}{ends}")
            taken = f"{np.mean([steps for *_, (_, steps, _) in curves]):,.0f}"
            lines.append(f"| {env_id} | {contestant} | {len(curves)} | {taken} | {' | '.join(cells)} |")
        axis.set(title=env_id, xlabel="minutes on one core", ylabel="return of the agent alone")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="lower center", ncols=len(args.contestants), frameon=False)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(FOLDER / "figure.png", dpi=110)
    lines += [
        "",
        "Mean over seeds of the last evaluation before that minute [least, greatest].",
        "Steps of ppo_camel: without its audition.",
    ]
    table = "\n".join(lines) + "\n"
    (FOLDER / "table.md").write_text(table)
    print(table)


def _held(curve: list[tuple[float, int, float]], minute: float) -> float:
    before = [value for when, _, value in curve if when <= minute + LATE_MINUTES]
    return before[-1] if before else float("nan")


def main(args: Args) -> None:
    if args.one:
        return run_one(args)
    if not args.report_only:
        print(describe_machine("torch", "stable-baselines3", "sbx-rl", "jax", "gymnasium", "mujoco", "numpy"), flush=True)
        run_all(args)
    report(args)


if __name__ == "__main__":
    main(tyro.cli(Args))
