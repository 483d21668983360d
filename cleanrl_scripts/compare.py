# Compares the arms of a script: does the LLM help, and by how much? From one command to a figure with intervals.
#
#   for every environment, arm and seed:
#       finished or in curves.csv: skip;  started: resume;  else: start    processes of one thread, or tasks of a Ray cluster
#   curves.csv <- the evaluations of all finished runs, of other people's CSVs, of runs in W&B
#   table.md, curves.png, summary.png, index.html <- curves.csv       interquartile means, 95 % bootstrap intervals over seeds
#
#   python cleanrl_scripts/compare.py --env-ids Hopper-v4 Walker2d-v4 --arms none llm random expert --seeds 1-8 \
#       --total-timesteps 300000 --learning-starts 7500               what it does not know itself goes to the script
#
# Many machines: the same command with --ray auto on a Ray cluster (pip install 'llmwrappers[ray]'); --output must be on a disk
# that all nodes share. In a Slurm job script one line (Ray 2.49 or newer) starts the cluster, compares, and stops the cluster:
#   srun --ntasks-per-node=1 ray symmetric-run --address $(hostname):6379 --min-nodes $SLURM_NNODES \
#       --num-cpus $SLURM_CPUS_ON_NODE -- python cleanrl_scripts/compare.py --ray auto ...
import contextlib
import csv
import datetime
import html
import importlib.metadata
import io
import itertools
import json
import logging
import math
import os
import platform
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import matplotlib
import matplotlib.ticker
import numpy as np
import scipy.integrate
import scipy.stats
import tyro

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FOLDER = Path(__file__).resolve().parent


@dataclass
class Args:
    env_ids: tuple[str, ...] = ()
    """the ids of the environments"""
    arms: tuple[str, ...] = ("none", "llm")
    """what is compared, the baseline first. td3_camel.py: none, llm, paper, auto, random, expert (the best run of `none`);
    other scripts: what they take as --arm; an arm of your own: "wide=--prior shipped --radius 0.6"; {env_id} stands for the
    environment's id """
    seeds: str = "1-3"
    """1-8, or 1,3,5, or 4"""
    total_timesteps: int = 1000000
    """total timesteps of each run"""
    script: str = "td3_camel.py"
    """a script of this folder, or a path: one that writes the same run folder. It receives every argument not listed here"""
    expert_models: str | None = None
    """the model.pt of the arm `expert`, with {env_id} in it, as in experts/{env_id}.pt, instead of the best run of `none`"""
    output: str | None = None
    """the folder of the comparison (default: comparisons/SCRIPT-ENVIRONMENTS)"""
    jobs: int | None = None
    """runs at a time on this machine (default: one for each core)"""
    ray: str | None = None
    """trains on a Ray cluster: auto, or its address; --output must be on a disk that all nodes share"""
    threshold: float | None = None
    """the return of "steps to" (default: the mean final return of the baseline, in each environment)"""
    report_only: bool = False
    """trains nothing: table, figures and page from the curves.csv in --output (default: benchmarks/comparisons/*)"""
    from_csv: tuple[str, ...] = ()
    """curves to show beside: files with the columns step, episodic_return, seed and, if there are several, env_id, arm"""
    from_wandb: tuple[str, ...] = ()
    """tracked runs of the scripts to show beside: entity/project, or folders that hold offline-run-*"""
    track: bool = False
    """if toggled, table and figures go to Weights and Biases (WANDB_MODE=offline needs no account)"""
    wandb_project_name: str = "llmwrappers"
    """the wandb's project name"""
    wandb_entity: str | None = None
    """the entity (team) of wandb's project"""


class UserError(Exception):
    """What the user gave cannot work; the message says why and what would."""


# ------------------------------------------------------------------------------------------------- what is compared

# The arms' names in scripts that do not call them --arm NAME.
ARMS = {
    "td3_camel.py": {
        "none": ["--prior", "none"],
        "llm": ["--prior", "shipped"],
        "paper": ["--prior", "shipped", "--form", "paper"],
        "auto": ["--prior", "auto"],
        "random": ["--prior", "random"],
        "expert": ["--prior", "expert:{expert_model}"],
    }
}

# What compare.py tells every run, and which of its own arguments says so.
SET = {
    "--env-id": "--env-ids",
    "--seed": "--seeds",
    "--total-timesteps": "one for all runs",
    "--runs-dir": "--output",
}


@dataclass(frozen=True)
class Run:
    """One environment, arm and seed: a folder that holds the script's run folder, its log and a lock."""

    env_id: str
    arm: str
    seed: int
    total_timesteps: int
    folder: Path
    script: Path
    flags: tuple[str, ...]
    expert: Path | None = None  # where the model of the best run of `none` goes, for which this run waits

    @property
    def name(self) -> str:
        return f"{self.env_id} {self.arm} seed {self.seed}"

    @property
    def run_dir(self) -> Path | None:
        """The script's run folder, if the run has been started."""
        found = sorted(path.parent for path in self.folder.glob("*/args.json"))
        if len(found) > 1:
            raise UserError(f"{self.folder} holds {len(found)} runs, {' and '.join(path.name for path in found)}: keep one")
        return found[0] if found else None

    @property
    def is_finished(self) -> bool:
        return self.run_dir is not None and (self.run_dir / "summary.json").exists()

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"


def parse_seeds(text: str) -> list[int]:
    """Reads 1-8, or 1,3,5, or 4."""
    seeds = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise UserError(f"--seeds {text}: {part!r} is no seed or range; give 1-8, or 1,3,5, or 4")
        seeds += range(first, last + 1)
    return sorted(set(seeds))


def usual_flags(arm: str, script: str) -> list[str] | None:
    """The flags of an arm that is named without any; None if the script has no such arm."""
    return ARMS[script].get(arm) if script in ARMS else ["--arm", arm]


def parse_arms(arms: Iterable[str], script: str) -> dict[str, list[str]]:
    """The flags of every arm."""
    flags = {}
    for arm in arms:
        name, has_flags, own = arm.partition("=")
        usual = usual_flags(name, script)
        if not re.fullmatch(r"\w[\w.-]*", name) or (has_flags and not own.startswith("--")):
            raise UserError(f'--arms {arm!r}: give a name, or name and flags as in "wide=--prior shipped --radius 0.6"')
        if name in flags:
            raise UserError(f"--arms names {name} twice")
        if not has_flags and usual is None:
            raise UserError(
                f"--arms {name}: {script} has {', '.join(ARMS[script])}; "
                f'give an arm of your own with its flags: "{name}=--prior ..."'
            )
        try:
            flags[name] = shlex.split(own) if has_flags else usual
        except ValueError as error:
            raise UserError(f"--arms {arm!r}: {error}") from None
    return flags


def by_name(flags: Iterable[str]) -> dict[str, str]:
    """--name value --other -> {"--name": "value", "--other": ""}."""
    named: dict[str, list[str]] = {}
    name = ""
    for flag in flags:
        if re.match(r"--?[a-zA-Z]", flag):
            name, equals, value = flag.partition("=")
            name = name.replace("_", "-")
            named[name] = [value] if equals else []
        else:
            named.setdefault(name, []).append(flag)
    return {name: " ".join(values) for name, values in named.items()}


def plan(args: Args, extra: list[str], external: list["Evaluation"]) -> tuple[Path, list[Run]]:
    """The folder of the comparison and its runs; refuses a folder that holds another comparison, and curves of its arms."""
    script = next((path for path in (FOLDER / args.script, Path(args.script)) if path.is_file()), None)
    if script is None or script.resolve() == Path(__file__).resolve():
        found = ", ".join(sorted(path.name for path in FOLDER.glob("*.py") if path.name != "compare.py"))
        raise UserError(f"--script {args.script}: no such script; {FOLDER} has {found}")
    seeds, arms = parse_seeds(args.seeds), parse_arms(args.arms, script.name)
    args.env_ids = tuple(dict.fromkeys(args.env_ids))
    if not arms:
        raise UserError("--arms: name at least one")
    if args.total_timesteps < 1:
        raise UserError(f"--total-timesteps must be at least 1, got {args.total_timesteps}")
    if args.jobs is not None and args.jobs < 1:
        raise UserError(f"--jobs must be at least 1, got {args.jobs}")
    if "--arm" in by_name(extra):  # which the flags of an arm may hold
        raise UserError(f"--arm {by_name(extra)['--arm']}: compare.py sets it for every run; give --arms")
    for flags in (extra, *arms.values()):
        given = by_name(flags)
        for name, instead in SET.items():
            if name in given:
                raise UserError(f"{name} {given[name]}: compare.py sets it for every run; give {instead}")
        if "--resume" in given:
            raise UserError("--resume: the same command goes on with every run that was cut")
    for arm, flags in arms.items():
        if both := sorted(set(by_name(flags)) & set(by_name(extra))):
            raise UserError(f"{both[0]} {by_name(extra)[both[0]]}: the arm {arm} sets it, too")

    stem = "_".join([f"{script.stem}-{args.env_ids[0]}", *args.env_ids[1:]]).replace("/", "-").replace(":", "-")
    output = Path(args.output or f"comparisons/{stem}").absolute()
    runs = []
    for seed, env_id, (arm, arm_flags) in itertools.product(seeds, args.env_ids, arms.items()):
        folder = env_id.replace("/", "-").replace(":", "-")
        model = output / "experts" / f"{folder}.pt"
        if args.expert_models is not None:
            model = Path(args.expert_models.replace("{env_id}", env_id)).absolute()
        needs_expert = any("{expert_model}" in flag for flag in arm_flags)
        if needs_expert and not model.exists() and args.expert_models is not None:
            raise UserError(f"--expert-models {args.expert_models}: there is no {model}")
        if needs_expert and not model.exists() and "none" not in arms:
            raise UserError(f"--arms {arm} needs `none` among the arms, whose best run is the expert, or --expert-models")
        flags = [flag.replace("{expert_model}", str(model)).replace("{env_id}", env_id) for flag in arm_flags]
        flags = ["--env-id", env_id, *flags, "--seed", str(seed), "--total-timesteps", str(args.total_timesteps), *extra]
        path = output / "runs" / folder / arm / str(seed)
        expert = model if needs_expert and args.expert_models is None else None
        runs.append(Run(env_id, arm, seed, args.total_timesteps, path, script.resolve(), tuple(flags), expert))
    with its_turn(output):
        description = describe(output, args, script.name, arms, seeds, extra)
        for run in runs:
            refuse_other_arguments(run)
        if taken := [e for e in external if e.arm in description["arms"]]:
            raise UserError(f"{taken[0].source}: {taken[0].arm} is an arm that is trained here; give the curves another name")
        write_atomically(output / "comparison.json", json.dumps(description, indent=2) + "\n")
    return output, runs


def refuse_other_arguments(run: Run) -> None:
    """A run that was started must have been started with these arguments."""
    if run.run_dir is None:
        return
    path = run.run_dir / "args.json"
    try:
        before = by_name(json.loads(path.read_text())["command"][1:])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}): remove {run.run_dir}, and the run starts again") from None
    before.pop("--runs-dir", None)
    now = by_name(run.flags)
    for name in {**now, **before}:
        if now.get(name) != before.get(name):
            given, had = (f"{name} {flags[name]}".strip() if name in flags else f"no {name}" for flags in (now, before))
            raise UserError(f"two runs of one name with different arguments: {given} is asked for, {had} is in {run.run_dir}")


def versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in ("llmwrappers", "numpy", "torch", "gymnasium", "mujoco"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def describe(output: Path, args: Args, script: str, arms: dict, seeds: list[int], extra: list[str]) -> dict:
    """What comparison.json is to say. To one that has runs, environments, arms and seeds may be added; all else is the same.

    The baseline is the first arm, and stays it unless a command names another before it.
    """
    path, curves = output / "comparison.json", curves_of(output)
    now: dict = {
        "script": script,
        "env_ids": list(args.env_ids),
        "arms": arms,
        "seeds": seeds,
        "total_timesteps": args.total_timesteps,
        "expert_models": args.expert_models,
        "flags": extra,
        "threshold": args.threshold,
        "from_csv": list(args.from_csv),
        "from_wandb": list(args.from_wandb),
        "versions": versions(),
    }
    trained = {*description_of(output).get("arms", ()), *(folder.name for folder in output.glob("runs/*/*"))}
    if imported := sorted({e.arm for e in curves} & set(arms) - trained):
        raise UserError(
            f"--arms {imported[0]}: {output / 'curves.csv'} has it from --from-csv or --from-wandb; give the arm another name"
        )
    if path.exists() and (curves or any(output.glob("runs/*/*/*/*/args.json"))):
        try:
            before = json.loads(path.read_text())
            different = [name for name in ("script", "total_timesteps", "expert_models") if now[name] != before[name]]
            if different or by_name(extra) != by_name(before["flags"]):
                name = different[0] if different else "flags"
                option = f"--{name.replace('_', '-')}"
                if different:
                    given, had = (
                        f"no {option}" if value is None else f"{option} {value}" for value in (now[name], before[name])
                    )
                else:
                    given, had = (shlex.join(value) or "no other arguments" for value in (now[name], before[name]))
                raise UserError(f"{given}: the comparison in {output} has {had}; give another --output")
            for arm in set(arms) & set(before["arms"]):
                if arms[arm] != before["arms"][arm]:
                    raise UserError(
                        f"--arms {arm}={shlex.join(arms[arm])}: the comparison in {output} has "
                        f"{shlex.join(before['arms'][arm])}; give the arm another name"
                    )
            now["env_ids"] = list(dict.fromkeys([*before["env_ids"], *now["env_ids"]]))
            is_moved = next(iter(before["arms"])) in list(arms)[1:]
            now["arms"] = {**arms, **before["arms"]} if is_moved else {**before["arms"], **arms}
            now["seeds"] = sorted({*before["seeds"], *seeds})
            if args.threshold is None:
                now["threshold"] = before["threshold"]
            for name in ("from_csv", "from_wandb"):
                now[name] = list(dict.fromkeys([*before.get(name, ()), *now[name]]))
            if "runs" in before:
                now["runs"] = before["runs"]
            here, now["versions"] = now["versions"], before["versions"]
            changed = [f"{name} {version}" for name, version in before["versions"].items() if here.get(name) != version]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path} is damaged: {type(error).__name__}: {error}") from None
        if changed:
            print("note: this comparison began with other versions:", ", ".join(changed))
    now["command"] = whole_command(args, now)
    return now


def whole_command(args: Args, description: dict) -> list[str]:
    """What trains all of a comparison from the beginning, however many commands it grew by."""
    arms = [
        name if flags == usual_flags(name, description["script"]) else f"{name}={shlex.join(flags)}"
        for name, flags in description["arms"].items()
    ]
    seeds = description["seeds"]
    is_range = seeds == list(range(seeds[0], seeds[-1] + 1)) and len(seeds) > 1
    command = ["cleanrl_scripts/compare.py", "--script", args.script, "--env-ids", *description["env_ids"], "--arms", *arms]
    command += ["--seeds", f"{seeds[0]}-{seeds[-1]}" if is_range else ",".join(map(str, seeds))]
    command += ["--total-timesteps", str(args.total_timesteps), *description["flags"]]
    for name, value in (
        ("--expert-models", description["expert_models"]), ("--threshold", description["threshold"]), ("--output", args.output)
    ):  # fmt: skip
        if value is not None:
            command += [name, str(value)]
    for name in ("from_csv", "from_wandb"):
        if value := description[name]:
            command += [f"--{name.replace('_', '-')}", *value]
    return command


@contextlib.contextmanager
def its_turn(output: Path) -> Iterator[None]:
    """Waits until no other compare.py is at this place in the same folder: each adds to what the other wrote."""
    try:
        import fcntl
    except ImportError:  # on Windows, where nothing is trained
        yield
        return
    (output / "runs").mkdir(parents=True, exist_ok=True)
    with open(output / "runs" / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_atomically(path: Path, data: str | bytes) -> None:
    """So that one who reads it meanwhile, or another compare.py that writes the same, finds it whole."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(data.encode() if isinstance(data, str) else data)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


# ---------------------------------------------------------------------------------------------------------- training

# Becomes the run, which Linux then kills should the process that started it die.
LAUNCH = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


def start(run: Run) -> subprocess.Popen | None:
    """Starts or resumes a run in a process of one thread; None while another process trains it."""
    import fcntl

    run.folder.mkdir(parents=True, exist_ok=True)
    with open(run.folder / ".lock", "w") as lock, open(run.log, "a") as log:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        if run.is_finished:
            command = [sys.executable, "-c", ""]
        elif run.run_dir:
            command = [sys.executable, str(run.script), "--resume", str(run.run_dir)]
        else:
            command = [sys.executable, str(run.script), *run.flags, "--runs-dir", str(run.folder)]
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", LAUNCH, str(os.getpid()), *command]
        # The lock is the child's, too, and so is held for as long as it lives.
        return subprocess.Popen(
            command,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[lock.fileno()],
            start_new_session=True,  # Ctrl-C reaches compare.py alone, which stops its runs
        )


class LocalPool:
    """Trains so many runs at a time, each in a process of its own."""

    def __init__(self, jobs: int):
        self.jobs = jobs
        self.processes: dict[Run, subprocess.Popen] = {}

    def is_full(self) -> bool:
        return len(self.processes) >= self.jobs

    def start(self, run: Run) -> bool:
        """False if another process trains this run."""
        process = start(run)
        if process is not None:
            self.processes[run] = process
        return process is not None

    def running(self) -> list[Run]:
        return list(self.processes)

    def ended(self) -> Iterator[tuple[Run, str]]:
        """The runs that have ended since, with what went wrong."""
        for run, process in list(self.processes.items()):
            if process.poll() is not None:
                del self.processes[run]
                yield run, f"exit code {process.returncode}" if process.returncode else ""

    def close(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait()


def train_on_a_node(run: Run, token: Path, working_dir: str) -> str:
    """The Ray task: what LocalPool does, on whatever node; returns what went wrong."""
    node, deadline = platform.node(), time.monotonic() + 30
    while not token.exists():  # a network file system may show a new file late
        if time.monotonic() > deadline:
            return f"the node {node} does not see {token.parent}: --output must be on a disk that all nodes share"
        time.sleep(1)
    if not run.script.exists():
        return f"the node {node} does not see {run.script}: it must be on a disk that all nodes share"
    if Path(working_dir).is_dir():
        os.chdir(working_dir)
    while (process := start(run)) is None:
        time.sleep(1)
    try:
        code = process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    return f"exit code {code} on {node}" if code else ""


class RayPool:
    """Hands all runs to a Ray cluster, which gives each a core; a run whose node dies goes on elsewhere."""

    def __init__(self, address: str, output: Path):
        try:
            import ray  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise UserError(f"--ray {address}: Ray is not installed; pip install 'llmwrappers[ray]'") from None
        try:
            host, _, port = address.rpartition(":")
            if host and "/" not in host:
                socket.create_connection((host, int(port)), timeout=10).close()  # ray.init would try for minutes
            # Ray hides the GPU from tasks that reserve none, unless told not to.
            environment = {"env_vars": {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}}
            handler = signal.getsignal(signal.SIGTERM)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, runtime_env=environment)
            signal.signal(signal.SIGTERM, handler)  # Ray sets its own
        except Exception as error:
            raise UserError(f"--ray {address}: {error} (`ray start --head` starts a cluster)") from None
        self.ray, self.token = ray, output / f".token-{uuid.uuid4().hex}"
        self.token.touch()
        self.task = ray.remote(num_cpus=1, max_retries=-1)(train_on_a_node)
        self.refs: dict = {}

    def is_full(self) -> bool:
        return False

    def start(self, run: Run) -> bool:
        self.refs[self.task.remote(run, self.token, os.getcwd())] = run
        return True

    def running(self) -> list[Run]:
        return list(self.refs.values())

    def ended(self) -> Iterator[tuple[Run, str]]:
        if not self.refs:
            return
        done, _ = self.ray.wait(list(self.refs), num_returns=len(self.refs), timeout=0)
        for ref in done:
            run = self.refs.pop(ref)
            try:
                yield run, self.ray.get(ref)
            except self.ray.exceptions.RayError as error:
                yield run, str(error)

    def close(self) -> None:
        self.ray.shutdown()  # ends this program's tasks, and with them their runs
        self.token.unlink(missing_ok=True)


def tail(path: Path, size: int = 4000) -> str:
    """The end of a text file."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


class Status(NamedTuple):
    step: int
    episodic_return: str
    rate: float


def status(run: Run) -> Status:
    """Where a run is, by the lines of its log."""
    text = tail(run.log)
    step, latest, rate = 0, "", 0.0
    for match in re.finditer(r"global_step (\d+)/\d+  return (\S+)  SPS (\d+)|eval at global_step (\d+): return (\S+)", text):
        step, latest = int(match[1] or match[4]), match[2] or match[5]
        rate = float(match[3] or rate)
    return Status(step, latest, rate)


def duration(seconds: float) -> str:
    return str(datetime.timedelta(seconds=int(seconds)))


class Display:
    """One live line a run and one for all; where there is no terminal, a block now and then."""

    def __init__(self, runs: list[Run], stream: IO[str]):
        self.runs, self.stream, self.is_live = runs, stream, stream.isatty()
        self.drawn, self.last = 0, -math.inf

    def print(self, text: str) -> None:
        self.erase()
        print(text, file=self.stream, flush=True)
        self.last = -math.inf if self.is_live else self.last

    def erase(self) -> None:
        if self.drawn:
            self.stream.write(f"\x1b[{self.drawn}F\x1b[J")
            self.drawn = 0

    def update(self, running: list[Run], waiting: list[Run], failed: int) -> None:
        """Draws, if it is time to."""
        if time.monotonic() - self.last < (1 if self.is_live else 30):
            return
        self.last = time.monotonic()
        lines, statuses = [], {run: status(run) for run in running}
        width = max(len(run.name) for run in self.runs)
        steps_left = sum(run.total_timesteps for run in waiting)
        longest = 0.0
        for run, (step, latest, rate) in statuses.items():
            left = (run.total_timesteps - step) / rate if rate else math.nan
            steps_left += run.total_timesteps - step
            longest = max(longest, 0.0 if math.isnan(left) else left)
            numbers = f"return {latest:>9}  SPS {rate:5.0f}  left {duration(left)}" if rate else f"return {latest:>9}"
            lines.append(f"{run.name:<{width}}  {step:>9,}/{run.total_timesteps:,}  {numbers}")
        rate = sum(status.rate for status in statuses.values())
        finished = len(self.runs) - len(running) - len(waiting) - failed
        left = f", left {duration(max(longest, steps_left / rate))}" if rate else ""
        failures = f", {failed} failed" if failed else ""
        lines.append(
            f"{finished} of {len(self.runs)} runs finished, {len(running)} running, {len(waiting)} wait{failures}{left}"
        )
        if self.is_live:
            columns, rows = shutil.get_terminal_size()
            lines = [line[: columns - 1] for line in lines[-(rows - 1) :]]
        self.erase()
        self.stream.write("".join(line + "\n" for line in lines))
        self.stream.flush()
        self.drawn = len(lines) if self.is_live else 0


def final_return(run: Run) -> float:
    assert run.run_dir is not None
    return json.loads((run.run_dir / "summary.json").read_text())["eval/episodic_return"]


def choose_expert(run: Run, model: Path) -> str:
    """Keeps the model of the environment's best run of `none`; returns what is in the way."""
    if model.exists():
        return ""
    best, best_return = None, -math.inf
    for path in sorted((run.folder.parents[1] / "none").glob("*/*/summary.json")):
        value = json.loads(path.read_text())["eval/episodic_return"]
        if (path.parent / "model.pt").exists() and value > best_return:
            best, best_return = path.parent / "model.pt", value
    if best is None:
        return "there is no finished run of `none` with a model.pt, which the expert would be; give --expert-models"
    model.parent.mkdir(exist_ok=True)
    write_atomically(model, best.read_bytes())
    return ""


def train(args: Args, output: Path, runs: list[Run]) -> int:
    """Trains what is not finished; returns how many runs failed."""
    waiting = [run for run in runs if not run.is_finished]
    if not waiting:
        print("all runs are finished; nothing to train")
        return 0
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    pool = RayPool(args.ray, output) if args.ray else LocalPool(args.jobs or cores)
    where = f"on the Ray cluster {args.ray}" if args.ray else f"{args.jobs or cores} at a time"
    print(f"training {len(waiting)} of {len(runs)} runs, {where}, in {output}", flush=True)
    display = Display(runs, sys.stdout)
    failed: dict[Run, str] = {}
    refused: set[tuple[str, str]] = set()  # environments and arms
    # Until one run has begun, none is started beside it: a mistake in the command is then one failure, not one a run.
    has_begun = any(run.run_dir for run in runs)

    def follows(run: Run) -> list[Run]:
        """The runs that must end before this one can start."""
        if run.expert is None or run.expert.exists():
            return []
        return [other for other in (*waiting, *pool.running()) if (other.env_id, other.arm) == (run.env_id, "none")]

    def fail(run: Run, reason: str, log: str = "") -> None:
        failed[run] = reason
        display.print(f"failed: {run.name}: {reason}{log}")

    try:
        while waiting or pool.running():
            for run in list(waiting):
                if pool.is_full() or (pool.running() and not has_begun):
                    break
                if follows(run):
                    continue
                if run.expert and (obstacle := choose_expert(run, run.expert)):
                    waiting.remove(run)
                    fail(run, obstacle)
                elif pool.start(run):
                    waiting.remove(run)
            for run, problem in pool.ended():
                if not problem and run.is_finished:
                    display.print(f"finished: {run.name}: return {final_return(run):.1f}")
                    continue
                lines = "\n".join(tail(run.log).splitlines()[-12:])
                if run.run_dir is None and not has_begun:
                    raise UserError(f"the first run, {run.name}, did not start: {problem or 'it ended'}\n{lines}")
                if run.run_dir is None and (run.env_id, run.arm) in refused:
                    failed[run] = problem
                    continue
                fail(run, problem or "it ended without a summary.json", f"; the end of {run.log}:\n{lines}")
                if run.run_dir is None:
                    refused.add((run.env_id, run.arm))
            for run in [run for run in waiting if (run.env_id, run.arm) in refused]:
                waiting.remove(run)
                fail(run, "not started, for another seed was refused")
            has_begun = has_begun or any(run.run_dir for run in runs)
            display.update(pool.running(), waiting, len(failed))
            time.sleep(0.2)
    except (KeyboardInterrupt, SystemExit):
        display.print("stopped; the same command goes on from the last checkpoints")
        raise
    finally:
        display.erase()
        pool.close()
    return len(failed)


# ------------------------------------------------------------------------------------------------------------ curves

# What is evaluated, as the scripts log it under eval/, and how it is drawn. The plain agent is what all statistics are about.
PLAIN = "episodic_return"
GUIDED = {"masked_return": "with the mask", "guided_return": "with the LLM's actions"}
METRICS = (PLAIN, *GUIDED)


class Evaluation(NamedTuple):
    env_id: str
    arm: str
    seed: int
    step: int
    returns: dict[str, float]  # of METRICS
    source: str


def number(text: str, what: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{where}: {what} is {text!r}, which is no finite number")
    return value


def whole(text: str, what: str, where: str) -> int:
    value = number(text, what, where)
    if value != int(value) or value < 0:
        raise UserError(f"{where}: {what} is {text!r}, which is no whole number of at least 0")
    return int(value)


def csv_rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a CSV file, each with its file and line; every row has as many fields as the header."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            header = [name.strip() for name in next(reader, [])]
            for row in filter(None, reader):  # a blank line is no row
                where = f"{path}, line {reader.line_num}"
                if len(row) != len(header):
                    raise UserError(f"{where}: {len(row)} fields, where the header has {len(header)}")
                yield where, dict(zip(header, row, strict=True))
            if not header:
                raise UserError(f"{path} is empty")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    except csv.Error as error:
        raise UserError(f"{path}: {error}") from None


def from_runs(runs: Iterable[Run]) -> tuple[list[Evaluation], dict[Run, str]]:
    """The evaluations of finished runs, and why some have none that can be used: they diverged, or were not evaluated."""
    evaluations, left_out = [], {}
    for run in runs:
        assert run.run_dir is not None
        steps: dict[int, dict[str, float]] = {}
        try:
            for where, row in csv_rows(run.run_dir / "metrics.csv"):
                if not {"global_step", "metric", "value"} <= set(row):
                    raise UserError(f"{where}: the columns are {', '.join(row)}, not global_step, metric, value")
                metric = row["metric"].removeprefix("eval/")
                if row["metric"].startswith("eval/") and metric in METRICS:
                    step = whole(row["global_step"], "global_step", where)
                    steps.setdefault(step, {})[metric] = number(row["value"], row["metric"], where)
            if not steps or any(PLAIN not in values for values in steps.values()):
                raise UserError(f"metrics.csv lacks eval/{PLAIN}")
        except UserError as error:
            left_out[run] = str(error).replace(f"{run.run_dir}{os.sep}", "")
            print(f"note: {run.name} is left out: {left_out[run]}")
            continue
        source = str(run.run_dir)
        evaluations += [Evaluation(run.env_id, run.arm, run.seed, step, values, source) for step, values in steps.items()]
    return evaluations, left_out


def from_csv(path: Path, env_ids: Iterable[str]) -> list[Evaluation]:
    """The rows of a CSV file; env_ids are those compared, of which it may leave out the only one."""
    evaluations, env_ids = [], list(dict.fromkeys(env_ids))
    for where, row in csv_rows(path):
        for name in ("step", PLAIN, "seed"):
            if name not in row:
                raise UserError(f"{path} has no column {name}; it has {', '.join(row)}")
        if "env_id" not in row and len(env_ids) > 1:
            raise UserError(f"{path} has no column env_id, and {len(env_ids)} environments are compared: {', '.join(env_ids)}")
        env_id = row.get("env_id", env_ids[0] if env_ids else "environment")
        arm = row.get("arm", path.stem)
        if not env_id or not arm or re.search(r"[|$\\\n]", env_id + arm):
            raise UserError(f"{where}: env_id and arm must have a name without |, $ and \\, got {env_id!r} and {arm!r}")
        returns = {name: number(row[name], name, where) for name in METRICS if name == PLAIN or row.get(name)}
        seed, step = whole(row["seed"], "seed", where), whole(row["step"], "step", where)
        evaluations.append(Evaluation(env_id, arm, seed, step, returns, where))
    if not evaluations:
        raise UserError(f"{path} has no rows")
    return evaluations


def wandb_records(path: Path) -> Iterator:
    """The records of a .wandb file: a header of 7 bytes, then LevelDB's log format, 32 KiB blocks of pieces of records."""
    from wandb.proto import wandb_internal_pb2

    data, record = path.read_bytes(), b""
    at = 7 if data.startswith(b":W&B") else len(data)
    while at + 7 <= len(data):
        left_in_block = 32768 - at % 32768
        _, length, kind = struct.unpack_from("<IHB", data, at)
        if left_in_block < 7 or kind == 0:
            at += left_in_block
            continue
        if at + 7 + length > len(data):
            return  # cut while it was written
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or its last piece
            message = wandb_internal_pb2.Record()  # pyright: ignore[reportAttributeAccessIssue]
            message.ParseFromString(record)
            yield message
            record = b""


def offline_runs(folder: Path) -> Iterator[tuple[str, dict, dict[int, dict[str, float]]]]:
    """Name, arguments and evaluations of the W&B runs below a folder; a resumed run has several files."""
    configs: dict[str, dict] = {}
    histories: dict[str, dict[int, dict[str, float]]] = {}
    for path in sorted(folder.rglob("*.wandb")):
        run_id = ""
        for record in wandb_records(path):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                run_id = record.run.run_id
                config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
                configs[run_id] = configs.get(run_id, {}) | config
            elif kind == "history":
                items = {item.key or ".".join(item.nested_key): item.value_json for item in record.history.item}
                values = {name: float(json.loads(items[f"eval/{name}"])) for name in METRICS if f"eval/{name}" in items}
                if values:
                    histories.setdefault(run_id, {})[int(json.loads(items["_step"]))] = values
    for run_id, config in configs.items():
        yield run_id, config, histories.get(run_id, {})


def online_runs(project: str) -> Iterator[tuple[str, dict, dict[int, dict[str, float]]]]:
    """The same of a project on W&B's server."""
    import wandb

    try:
        for run in wandb.Api().runs(project):
            history: dict[int, dict[str, float]] = {}
            for name in METRICS:
                for row in run.scan_history(keys=["_step", f"eval/{name}"]):
                    history.setdefault(int(row["_step"]), {})[name] = float(row[f"eval/{name}"])
            yield run.name, dict(run.config), history
    except Exception as error:
        raise UserError(f"--from-wandb {project}: neither a folder nor a project that W&B shows: {error}") from None


def curves_of(folder: Path) -> list[Evaluation]:
    """The rows of a comparison's curves.csv, or none."""
    return from_csv(folder / "curves.csv", ()) if (folder / "curves.csv").exists() else []


def from_wandb(source: str) -> list[Evaluation]:
    evaluations = []
    for name, config, history in offline_runs(Path(source)) if Path(source).is_dir() else online_runs(source):
        if not history or not {"env_id", "seed", "arm"} <= set(config):
            print(f"note: {source}: {name} is no run of the scripts with evaluations: left out")
            continue
        # PPO ends with its last whole rollout.
        rollout = config.get("num_envs", 1) * config.get("num_steps", 1)
        if max(history) <= config.get("total_timesteps", 0) - rollout:
            print(f"note: {source}: {name} ends at step {max(history)} of {config['total_timesteps']}: left out")
            continue
        for step, returns in sorted(history.items()):
            for metric, value in returns.items():
                number(str(value), f"eval/{metric} at step {step}", f"{source}, {name}")
            evaluations.append(Evaluation(config["env_id"], config["arm"], config["seed"], step, returns, name))
    if not evaluations:
        raise UserError(f"--from-wandb {source}: no finished run with evaluations")
    return evaluations


def merge(before: list[Evaluation], now: list[Evaluation]) -> list[Evaluation]:
    """The curves of both; where both have a run, that of now."""
    known = {(e.env_id, e.arm, e.seed) for e in now}
    return [e for e in before if (e.env_id, e.arm, e.seed) not in known] + now


def record_runs(output: Path, runs: list[Run], left_out: dict[Run, str]) -> None:
    """Notes in comparison.json what each run took, was made with and said at its end, for its folder is not kept."""
    description = description_of(output)
    for run in runs:
        assert run.run_dir is not None
        summary, made = (json.loads((run.run_dir / name).read_text()) for name in ("summary.json", "args.json"))
        versions = made.get("versions", {}).items()
        note = {
            "hours": round(summary["seconds"] / 3600, 3) if "seconds" in summary else None,
            "commit": made.get("git_commit"),
            "versions": {name: found for name, found in versions if found != description["versions"].get(name)} or None,
            "verdict": summary.get("verdict"),
            "left_out": left_out.get(run),
        }
        note = {name: value for name, value in note.items() if value is not None}
        description.setdefault("runs", {}).setdefault(run.env_id, {}).setdefault(run.arm, {})[str(run.seed)] = note
    if runs:
        write_atomically(output / "comparison.json", json.dumps(description, indent=2) + "\n")


def keep_curves(output: Path, evaluations: list[Evaluation]) -> None:
    """Writes curves.csv, one row an evaluation; refuses what cannot be compared.

    Environments and arms are in the order of comparison.json, the baseline first, then others as they come.
    """
    if not evaluations:
        raise UserError(f"no run in {output} is finished: there is nothing to compare")
    description = description_of(output)
    env_ids = list(dict.fromkeys([*description.get("env_ids", ()), *(e.env_id for e in evaluations)]))
    arms = list(dict.fromkeys([*description.get("arms", ()), *(e.arm for e in evaluations)]))
    rows = sorted(evaluations, key=lambda e: (env_ids.index(e.env_id), arms.index(e.arm), e.seed, e.step))
    for env_id, curves in itertools.groupby(rows, key=lambda e: e.env_id):
        align(env_id, arms, list(curves))
    metrics = [name for name in METRICS if any(name in e.returns for e in rows)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["env_id", "arm", "seed", "step", *metrics])
    for e in rows:
        writer.writerow([e.env_id, e.arm, e.seed, e.step, *(repr(e.returns[m]) if m in e.returns else "" for m in metrics)])
    write_atomically(output / "curves.csv", text.getvalue())


# -------------------------------------------------------------------------------------------------------- statistics


@dataclass
class Curves:
    """The curves of one environment, on the steps of the baseline's evaluations that all of them span; one column a seed."""

    env_id: str
    steps: np.ndarray
    seeds: dict[str, list[int]]
    returns: dict[str, dict[str, np.ndarray]]  # metric -> arm -> (steps, seeds)
    notes: list[str]

    def final(self, arm: str, metric: str = PLAIN) -> np.ndarray:
        """Mean of the last tenth of the evaluations of each seed."""
        return self.returns[metric][arm][-max(1, len(self.steps) // 10) :].mean(axis=0)

    def area(self, arm: str) -> np.ndarray:
        """Mean over the curve of each seed."""
        span = self.steps[-1] - self.steps[0]
        returns = self.returns[PLAIN][arm]
        return scipy.integrate.trapezoid(returns, self.steps, axis=0) / span if span else returns[0]

    def steps_to(self, arm: str, threshold: float) -> np.ndarray:
        """The first evaluation of each seed that reaches the threshold; inf if none does."""
        reached = self.returns[PLAIN][arm] >= threshold
        return np.where(reached.any(axis=0), self.steps[reached.argmax(axis=0)], np.inf)

    def paired(self, baseline: str, arm: str, scores: Callable[[str], np.ndarray]) -> np.ndarray | None:
        """The scores of both for their common seeds, (2, seeds)."""
        common = sorted(set(self.seeds.get(baseline, [])) & set(self.seeds.get(arm, [])))
        if not common:
            return None
        return np.stack([scores(name)[[self.seeds[name].index(seed) for seed in common]] for name in (baseline, arm)])


def align(env_id: str, arms: list[str], evaluations: list[Evaluation]) -> Curves:
    """Brings the curves of one environment onto common steps and names whatever differs between them."""
    raw: dict[str, dict[int, dict[str, dict[int, float]]]] = {}
    sources: dict[tuple, str] = {}
    for e in evaluations:
        key = (e.arm, e.seed, e.step)
        if key in sources:
            raise UserError(
                f"{env_id}, {e.arm}, seed {e.seed}, step {e.step} is there twice: in {sources[key]} and in {e.source}"
            )
        sources[key] = e.source
        for metric, value in e.returns.items():
            raw.setdefault(e.arm, {}).setdefault(e.seed, {}).setdefault(metric, {})[e.step] = value
    arms = [arm for arm in arms if arm in raw]
    plain = {(arm, seed): raw[arm][seed][PLAIN] for arm in arms for seed in sorted(raw[arm])}
    notes = []

    first, last = max(min(curve) for curve in plain.values()), min(max(curve) for curve in plain.values())
    for word, ends, common in (("begin", min, first), ("end", max, last)):
        found: dict[int, list[str]] = {}
        for (arm, seed), curve in plain.items():
            found.setdefault(ends(curve), []).append(f"{arm} seed {seed}")
        if len(found) > 1:
            where = "; ".join(f"{step:,}: {', '.join(names)}" for step, names in sorted(found.items()))
            preposition = "from" if word == "begin" else "up to"
            notes.append(
                f"{env_id}: the curves {word} at different steps ({where}); all are compared {preposition} step {common:,}."
            )
    grid = next(iter(plain.values()))
    steps = np.array([step for step in sorted(grid) if first <= step <= last])
    if len(steps) == 0:
        raise UserError(f"{env_id}: the curves have no steps in common: {'; '.join(notes)}")
    moved = sorted({arm for (arm, _), curve in plain.items() if not set(steps.tolist()) <= set(curve)})
    if moved:
        notes.append(f"{env_id}: evaluated at other steps than {arms[0]} and interpolated linearly: {', '.join(moved)}.")

    everyone = sorted(set().union(*(raw[arm] for arm in arms)))
    for arm in arms:
        if missing := [str(seed) for seed in everyone if seed not in raw[arm]]:
            notes.append(
                f"{env_id}: {arm} has no seed {', '.join(missing)}; where arms are compared, the seeds that both have count."
            )
    returns: dict[str, dict[str, np.ndarray]] = {}
    for metric, arm in itertools.product(METRICS, arms):
        curves = [raw[arm][seed].get(metric, {}) for seed in sorted(raw[arm])]
        columns = [np.interp(steps, sorted(c), [c[step] for step in sorted(c)], np.nan, np.nan) for c in curves if c]
        if len(columns) == len(curves) and np.isfinite(columns).all():
            returns.setdefault(metric, {})[arm] = np.stack(columns, axis=1)
        elif columns:
            notes.append(f"{env_id}: {metric} of {arm} is not in all evaluations; it is left out.")
    idle = [arm for arm, values in returns[PLAIN].items() if len(steps) > 1 and not np.ptp(values, axis=0).any()]
    if idle:
        notes.append(
            f"{env_id}: nothing was learned: all evaluations are the same (is --learning-starts too late?): {', '.join(idle)}."
        )
    return Curves(env_id, steps, {arm: sorted(raw[arm]) for arm in arms}, returns, notes)


# The statistics take the scores of an arm, (seeds,), or of two arms, (2, seeds). Only the last combines environments, for it
# has no unit: an interquartile mean over environments would leave out those that differ from the rest.


def iqm(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    """Interquartile mean: of the middle half of the scores; of fewer than four, the mean."""
    return scipy.stats.trim_mean(scores, 0.25, axis=axis)


def difference(pair: np.ndarray, axis: int = -1) -> np.ndarray:
    """Interquartile mean of the second arm less that of the first."""
    return iqm(pair[1], axis=axis) - iqm(pair[0], axis=axis)


def improvement(*pairs: np.ndarray, axis: int = -1) -> np.ndarray:
    """Probability that a run of the second arm beats one of the first: Mann-Whitney's U / (n m), mean over environments."""
    probabilities = []
    for first, second in pairs:
        larger = second[..., :, None] - first[..., None, :]
        probabilities.append(np.mean((np.sign(larger) + 1) / 2, axis=(-2, -1)))
    return np.mean(probabilities, axis=0)


class Estimate(NamedTuple):
    value: np.ndarray
    low: np.ndarray | None = None  # no interval from fewer than three seeds
    high: np.ndarray | None = None


def estimate(statistic, *samples: np.ndarray, n_resamples: int = 10_000) -> Estimate:
    """A statistic with its 95 % interval: percentile bootstrap over seeds, stratified by environment, the same every time."""
    value = statistic(*samples)
    if min(sample.shape[-1] for sample in samples) < 3:
        return Estimate(value)
    largest = max(sample.size * sample.shape[-1] for sample in samples)
    interval = scipy.stats.bootstrap(
        samples, statistic, axis=-1, vectorized=True, method="percentile", n_resamples=n_resamples,
        batch=max(1, 4_000_000 // largest), rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    return Estimate(value, interval.low, interval.high)


def better_than(*pairs: np.ndarray) -> Estimate:
    """The probability of improvement; without an interval where it is 0 or 1, for no resampling changes that."""
    found = estimate(improvement, *pairs)
    return Estimate(found.value) if found.value in (0, 1) else found


# ------------------------------------------------------------------------------------------------------------ report


def amount(value: float) -> str:
    """Three significant digits or more, of small numbers two decimals, with thousands separated."""
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{round(value, digits) + 0.0:,.{digits}f}"  # + 0.0: no minus zero


def with_interval(e: Estimate | None) -> str:
    if e is None:
        return "-"
    if e.low is None or e.high is None:
        return amount(float(e.value))
    return f"{amount(float(e.value))} [{amount(float(e.low))}, {amount(float(e.high))}]"


def steps_to_threshold(steps: np.ndarray) -> str:
    """The step by which half of the seeds have reached the threshold, and how many ever do if not all."""
    reached = int(np.isfinite(steps).sum())
    median = float(np.quantile(steps, 0.5, method="lower"))
    text = f"{median:,.0f}" if math.isfinite(median) else "never"
    return text if reached == len(steps) else f"{text} ({reached} of {len(steps)} seeds)"


@dataclass
class Report:
    """What curves.csv says: tables for people, estimates for the figures."""

    arms: list[str]
    curves: list[Curves]
    tables: list[tuple[str, list[str], list[list[str]]]]  # title, header, rows
    notes: list[str]
    final: dict[str, dict[str, Estimate]]  # environment -> arm
    better: dict[str, dict[str, Estimate]]  # environment, or ALL -> arm


ALL = "all environments"


def make_report(
    evaluations: list[Evaluation], arms: Iterable[str] = (), threshold: float | None = None, notes: Iterable[str] = ()
) -> Report:
    """Tables and estimates; the baseline is the first of the arms, which are completed by those that have curves."""
    arms = list(dict.fromkeys([*arms, *(e.arm for e in evaluations)]))
    env_ids = list(dict.fromkeys(e.env_id for e in evaluations))
    everything = [align(env_id, arms, [e for e in evaluations if e.env_id == env_id]) for env_id in env_ids]
    report = Report(arms, everything, [], [*notes, *(note for curves in everything for note in curves.notes)], {}, {})
    baseline = arms[0]
    few = sorted({f"{c.env_id}: {arm}" for c in everything for arm, seeds in c.seeds.items() if len(seeds) < 3})
    if few:
        report.notes.append(f"No interval from fewer than three seeds ({'; '.join(few)}).")
    for curves in everything:
        add_environment(report, curves, baseline, threshold)
    if len(everything) > 1:
        add_all_environments(report, baseline)
    return report


def add_environment(report: Report, curves: Curves, baseline: str, threshold: float | None) -> None:
    has_baseline = baseline in curves.seeds
    if not has_baseline:
        report.notes.append(f"{curves.env_id}: no finished run of {baseline}, the baseline: nothing is compared with it.")
    limit = threshold if threshold is not None else float(curves.final(baseline).mean()) if has_baseline else None
    guided = [metric for metric in GUIDED if metric in curves.returns]
    steps_to = "-" if limit is None else amount(limit)
    header = ["arm", "seeds", "final return", "mean", "area under the curve", f"steps to {steps_to}"]
    header += [f"minus {baseline}", f"P(better than {baseline})", *(f"final return {GUIDED[m]}" for m in guided)]
    rows = []
    report.final[curves.env_id], report.better[curves.env_id] = {}, {}
    for arm, seeds in curves.seeds.items():
        final = estimate(iqm, curves.final(arm))
        report.final[curves.env_id][arm] = final
        pair = None if arm == baseline else curves.paired(baseline, arm, curves.final)
        better = None if pair is None else better_than(pair)
        if better is not None:
            report.better[curves.env_id][arm] = better
        row = [arm, str(len(seeds)), with_interval(final), amount(float(curves.final(arm).mean()))]
        row += [with_interval(estimate(iqm, curves.area(arm)))]
        row += ["-" if limit is None else steps_to_threshold(curves.steps_to(arm, limit))]
        row += [with_interval(None if pair is None else estimate(difference, pair)), with_interval(better)]
        for metric in guided:
            has_metric = arm in curves.returns[metric]
            row.append(with_interval(estimate(iqm, curves.final(arm, metric))) if has_metric else "-")
        rows.append(row)
    report.tables.append((curves.env_id, header, rows))


def add_all_environments(report: Report, baseline: str) -> None:
    """How often an arm is better, every environment counting the same."""
    rows = []
    for arm in report.arms[1:]:
        pairs = {curves.env_id: curves.paired(baseline, arm, curves.final) for curves in report.curves}
        complete = [pair for pair in pairs.values() if pair is not None]
        if absent := [env_id for env_id, pair in pairs.items() if pair is None]:
            report.notes.append(f"{arm} is not in the table of {ALL}: no seed of it and {baseline} in {', '.join(absent)}.")
            continue
        better = report.better.setdefault(ALL, {})[arm] = better_than(*complete)
        rows.append([arm, str(sum(pair.shape[1] for pair in complete)), with_interval(better)])
    if rows:
        report.tables.append((ALL, ["arm", "runs", f"P(better than {baseline})"], rows))


def explanation(report: Report) -> list[str]:
    baseline = report.arms[0]
    return [
        "Final return: the mean of the last tenth of a run's evaluations of the plain agent; over seeds the interquartile mean "
        "(of fewer than four seeds the mean). In brackets 95 % percentile bootstrap intervals, seeds resampled 10,000 times.",
        "With few seeds these intervals are too narrow: over three seeds one reaches from the lowest to the highest and holds "
        "the true value in some 75 of 100 cases, not 95, over five seeds in some 90 (if returns are normally distributed).",
        "Area under the curve: the mean of the whole curve. Steps to: the first evaluation by which half of the seeds have "
        f"reached that return. Minus {baseline}: the difference of the interquartile means over the seeds that both have, "
        "resampled in pairs.",
        f"P(better than {baseline}): the share of all pairs of a run of the arm and one of {baseline} in which the arm's ends "
        "higher, for all environments their mean; seeds as before, within each environment. A share of 0 or 1 has no interval: "
        "resampling cannot change it, more seeds can.",
    ]


def markdown(report: Report) -> str:
    lines = []
    for title, header, rows in report.tables:
        lines += [f"## {title}", "", *(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)), ""]
    lines += [f"- {sentence}" for sentence in (*report.notes, *explanation(report))]
    return "\n".join(lines) + "\n"


# The colours of Okabe and Ito, which the colour-blind can tell apart; markers do so in grey. Eight and seven: 56 arms differ.
COLORS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
MARKERS = "os^DvPX"
STYLE: dict = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "savefig.dpi": 200,
    "svg.hashsalt": "compare",
    "axes.formatter.useoffset": False,
}


def style(report: Report, arm: str) -> dict:
    index = report.arms.index(arm)
    return {"color": COLORS[index % len(COLORS)], "marker": MARKERS[index % len(MARKERS)]}


def thousands(value: float, _=None) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def write_at_the_ends(axis, ends: list[tuple[float, str, dict]]) -> None:
    """Names the curves where they end, pushed apart where they would overlap."""
    low, high = axis.get_ylim()
    ends, gap = sorted(ends, key=lambda end: end[0]), 0.075
    positions = [(value - low) / (high - low) for value, _, _ in ends]
    for _ in range(100):
        for i in range(len(positions) - 1):
            overlap = max(0.0, gap - (positions[i + 1] - positions[i]))
            positions[i] -= overlap / 2
            positions[i + 1] += overlap / 2
    for position, (_, text, look) in zip(positions, ends, strict=True):
        axis.plot(1.03, position, markersize=5, transform=axis.transAxes, clip_on=False, **look)
        axis.text(1.06, position, text, transform=axis.transAxes, va="center")


def curves_figure(report: Report):
    """One panel an environment: interquartile mean over seeds with its interval as a band, and how many seeds there are."""
    columns = 2 if len(report.curves) == 4 else min(3, len(report.curves))
    rows = math.ceil(len(report.curves) / columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.2 * columns, 3.0 * rows + 0.3), squeeze=False, layout="constrained")
    used = set()
    for axis, curves in itertools.zip_longest(axes.flat, report.curves):
        if curves is None:
            axis.set_visible(False)
            continue
        ends = []
        for metric, by_arm in curves.returns.items():
            for arm, returns in by_arm.items():
                mean, low, high = estimate(iqm, returns, n_resamples=2_000)
                look = style(report, arm)
                dashed = {} if metric == PLAIN else {"linestyle": (0, (4, 2)), "linewidth": 1.0, "alpha": 0.8}
                every = max(1, len(curves.steps) // 8)
                every = (report.arms.index(arm) % every, every)  # so that markers of close curves do not hide each other
                axis.plot(curves.steps, mean, **{"linewidth": 1.8, "markersize": 4, "markevery": every, **look, **dashed})
                if metric == PLAIN:
                    ends.append((float(mean[-1]), f"{arm} ({len(curves.seeds[arm])})", look))
                    if low is not None and high is not None:
                        axis.fill_between(curves.steps, low, high, color=look["color"], alpha=0.15, linewidth=0)
                else:
                    used.add(GUIDED[metric])
        write_at_the_ends(axis, ends)
        axis.set(title=curves.env_id, xlabel="environment steps", ylabel="return")
        axis.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(5, steps=[1, 2, 5, 10]))
        axis.xaxis.set_major_formatter(thousands)
        axis.yaxis.set_major_formatter(thousands)
    caption = "interquartile means over seeds (how many), bands: 95 % intervals"
    if used:
        caption += ";\n" if len(report.curves) == 1 else "; "  # one panel is narrower than the line
        caption += f"solid: the agent alone, dashed: {' or '.join(sorted(used))}"
    figure.supxlabel(caption, fontsize=8)
    return figure


def summary_figure(report: Report):
    """Final returns, and below them the probability of being better than the baseline; hollow if there is no interval."""
    titles, rows = list(dict.fromkeys([*report.final, *report.better])), 2 if len(report.arms) > 1 else 1
    size = (max(4.2, 2.8 * len(titles)), rows * (0.9 + 0.3 * len(report.arms)))
    figure, axes = plt.subplots(rows, len(titles), figsize=size, squeeze=False, sharey="row", layout="constrained")
    for row, (all_estimates, arms) in enumerate(((report.final, report.arms), (report.better, report.arms[1:]))[:rows]):
        for axis, title in zip(axes[row], titles, strict=True):
            if title not in all_estimates:
                axis.set_visible(False)
                continue
            for arm, (value, low, high) in all_estimates[title].items():
                y, look = -arms.index(arm), style(report, arm)
                if low is not None and high is not None:
                    axis.plot([low, high], [y, y], color=look["color"], linewidth=2.5, solid_capstyle="butt", alpha=0.6)
                axis.plot(value, y, markersize=6, markerfacecolor="white" if low is None else look["color"], **look)
            axis.set_yticks([-index for index in range(len(arms))], arms)
            axis.set_ylim(0.5 - len(arms), 0.5)
            axis.tick_params(axis="y", length=0)
            axis.grid(axis="x", alpha=0.25)
            if row == 0:
                axis.set(title=title, xlabel="final return")
                axis.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(4, steps=[1, 2, 5, 10]))
                axis.xaxis.set_major_formatter(thousands)
            else:
                axis.axvline(0.5, color="#777777", linewidth=0.8, linestyle=":")
                axis.set(xlim=(-0.03, 1.03), xlabel=f"P(better than {report.arms[0]})")
                if title not in report.final:
                    axis.set_title(title)
    return figure


def html_page(report: Report, name: str, command: str | None, figures: dict[str, str]) -> str:
    """One file that needs no other."""
    parts = []
    for title, header, rows in report.tables:
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows)
        parts.append(f"<h2>{html.escape(title)}</h2>\n<table><tr>{head}</tr>\n{body}</table>")
    drawn = "\n".join(f"<figure>{svg[svg.index('<svg') :]}</figure>" for svg in figures.values())
    notes = "".join(f"<li>{html.escape(note)}</li>\n" for note in report.notes)
    notes = f"<h2>To know</h2>\n<ul>{notes}</ul>" if notes else ""
    how = f"<h2>Command</h2>\n<pre>{html.escape(command)}</pre>" if command else ""
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{html.escape(name)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto }}
th, td {{ text-align: right; padding: .25rem .7rem; border-bottom: 1px solid #ddd }}
th {{ vertical-align: bottom }} th:first-child, td:first-child {{ text-align: left }}
figure {{ margin: 1.5rem 0 }} svg {{ max-width: 100%; height: auto }}
pre {{ white-space: pre-wrap; background: #f4f4f4; padding: .7rem }}
</style></head><body>
<h1>{html.escape(name)}</h1>
{drawn}
{"".join(part + chr(10) for part in parts)}
{notes}
<h2>How to read it</h2>
{"".join(f"<p>{html.escape(sentence)}</p>" for sentence in explanation(report))}
{how}
</body></html>
"""


def description_of(folder: Path) -> dict:
    path = folder / "comparison.json"
    try:
        return json.loads(path.read_text()) if path.exists() else {}
    except ValueError as error:
        raise UserError(f"{path} is damaged: {error}") from None


def cost(description: dict, runs: int) -> list[str]:
    """What the runs have cost, as far as it is known: a note, or none."""
    hours: dict[str, list[float]] = {}
    for arms in description.get("runs", {}).values():
        for arm, seeds in arms.items():
            hours.setdefault(arm, []).extend(note["hours"] for note in seeds.values() if "hours" in note)
    hours = {arm: values for arm, values in hours.items() if values}
    if not hours:
        return []
    every = [value for values in hours.values() for value in values]
    known, length = len(every), description["total_timesteps"]
    each = ", ".join(f"{arm} {amount(sum(hours[arm]) / len(hours[arm]))}" for arm in description["arms"] if arm in hours)
    note = (
        f"Cost: {known} runs of {length:,} steps, {known * length:,} in all, took {amount(sum(every))} hours (a run: {each})."
    )
    return [note if known == runs else f"{note} The hours of the other {runs - known} are not known."]


def write_report(folder: Path, threshold: float | None) -> Report:
    """table.md, the figures and index.html of a folder that holds curves.csv."""
    description = description_of(folder)
    threshold = description.get("threshold") if threshold is None else threshold
    evaluations = from_csv(folder / "curves.csv", ())
    seen = {(e.env_id, e.arm, e.seed) for e in evaluations}
    names = [description.get(name, []) for name in ("env_ids", "arms", "seeds")]
    missing: dict[str, list[str]] = {}
    for env_id, arm, seed in itertools.product(*names):
        if (env_id, arm, seed) not in seen:
            run = description.get("runs", {}).get(env_id, {}).get(arm, {}).get(str(seed), {})
            why = f"Left out, which may flatter its arm ({run['left_out']})" if "left_out" in run else "Not finished"
            missing.setdefault(why, []).append(f"{env_id} {arm} seed {seed}")
    notes = [f"{why}: {', '.join(runs)}." for why, runs in missing.items()]
    report = make_report(evaluations, description.get("arms", ()), threshold, notes)
    report.notes += cost(description, len(seen))
    write_atomically(folder / "table.md", markdown(report))
    figures: dict[str, str] = {}
    with matplotlib.rc_context(STYLE):
        for name, figure in (("curves", curves_figure(report)), ("summary", summary_figure(report))):
            for kind, metadata in (("png", {}), ("svg", {"Date": None})):
                data = io.BytesIO()
                figure.savefig(data, format=kind, metadata=metadata)
                write_atomically(folder / f"{name}.{kind}", data.getvalue())
            plt.close(figure)
            figures[name] = data.getvalue().decode()
    command = description.get("command")
    page = html_page(report, folder.name, command and f"python {shlex.join(command)}", figures)
    write_atomically(folder / "index.html", page)
    return report


def track(args: Args, folder: Path, report: Report) -> None:
    """Sends tables and figures to W&B."""
    import wandb

    try:
        run = wandb.init(
            project=args.wandb_project_name,
            entity=args.wandb_entity,
            name=folder.name,
            job_type="compare",
            dir=str(folder),
            config=description_of(folder),
        )
        for title, header, rows in report.tables:
            run.log({f"compare/{title}": wandb.Table(columns=[*header], data=rows)})
        run.log({f"compare/{name}": wandb.Image(str(folder / f"{name}.png")) for name in ("curves", "summary")})
        run.finish()
    except Exception as error:
        raise UserError(f"--track: {error} (WANDB_MODE=offline needs neither account nor network)") from None


# -------------------------------------------------------------------------------------------------------------- main


def finished_runs(output: Path) -> list[Run]:
    """All finished runs of a comparison, also those that this command does not name."""
    description = description_of(output)
    runs = []
    for env_id, arm, seed in itertools.product(description["env_ids"], description["arms"], description["seeds"]):
        folder = output / "runs" / env_id.replace("/", "-").replace(":", "-") / arm / str(seed)
        runs.append(Run(env_id, arm, seed, description["total_timesteps"], folder, Path(description["script"]), ()))
    return [run for run in runs if run.is_finished]


def main(argv: list[str] | None = None) -> int:
    args, extra = tyro.cli(Args, args=argv, return_unknown_args=True)
    sources = [*args.from_csv, *args.from_wandb]
    if extra and (args.report_only or not args.env_ids):
        raise UserError(f"{shlex.join(extra)}: not an argument of compare.py, and no script is run that could take it")
    if args.report_only and (args.env_ids or sources):
        raise UserError("--report-only shows what is in a folder, or all committed: name it with --output, and nothing else")
    if args.threshold is not None and not math.isfinite(args.threshold):
        raise UserError(f"--threshold must be finite, got {args.threshold}")
    failures = 0
    if args.report_only:
        committed = sorted(path.parent for path in (FOLDER.parent / "benchmarks" / "comparisons").glob("*/curves.csv"))
        folders = [Path(args.output)] if args.output else committed
        if not folders:
            raise UserError("--report-only: there is no benchmarks/comparisons/*/curves.csv; name a folder with --output")
        if not (folders[0] / "curves.csv").is_file():
            raise UserError(f"--report-only --output {folders[0]}: there is no curves.csv in it")
    else:
        if not args.env_ids and not sources:
            raise UserError("--env-ids: name at least one environment, or curves to show: --from-csv, --from-wandb")
        external = [e for source in args.from_wandb for e in from_wandb(source)]
        env_ids = [*args.env_ids, *(e.env_id for e in external)]
        external += [e for source in args.from_csv for e in from_csv(Path(source), env_ids)]
        if args.env_ids:
            output, runs = plan(args, extra, external)
            done = {(e.env_id, e.arm, e.seed) for e in curves_of(output)}
            todo = [run for run in runs if run.run_dir or (run.env_id, run.arm, run.seed) not in done]
            if len(todo) < len(runs):
                print(f"{len(runs) - len(todo)} of {len(runs)} runs are in {output / 'curves.csv'} already")
            failures = train(args, output, todo)
            with its_turn(output):
                finished = finished_runs(output)
                evaluations, left_out = from_runs(finished)
                record_runs(output, finished, left_out)
                keep_curves(output, merge(curves_of(output), evaluations + external))
        else:
            output = Path(args.output or f"comparisons/from-{Path(sources[0]).stem}")
            if (output / "comparison.json").exists():
                raise UserError(f"--output {output} holds a comparison: name its --env-ids, or another --output")
            output.mkdir(parents=True, exist_ok=True)
            keep_curves(output, external)
        folders = [output]
    for folder in folders:
        with its_turn(folder):
            report = write_report(folder, args.threshold)
        print(f"\n{markdown(report)}\n{folder / 'index.html'}: the same with figures; {folder / 'curves.csv'}: the curves")
        if args.track:
            track(args, folder, report)
    if failures:
        print(f"{failures} runs failed; the same command tries them again", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except (UserError, OSError) as error:
        sys.exit(f"compare.py: error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
