# Compares the arms of a script: does the LLM help, and by how much? From one command to a figure with intervals.
#
#   for every environment, arm and seed:
#       finished: skip it;  started: resume it;  else: start it       processes of one thread each, or tasks of a Ray cluster
#   curves.csv <- the evaluations of all finished runs, of other people's CSVs, of runs in W&B
#   table.md, curves.png, summary.png, index.html <- curves.csv       interquartile means, 95 % bootstrap intervals over seeds
#
#   python cleanrl_scripts/compare.py --env-ids Hopper-v4 Walker2d-v4 --arms none llm random expert --seeds 1-8 \
#       --total-timesteps 300000 --learning-starts 5000               what it does not know itself goes to the script
#
# Many machines: the same command with --ray auto on a Ray cluster (pip install 'llmwrappers[ray]'). Under Slurm one line starts
# cluster and comparison; the folder must be on a disk that all nodes share:
#   srun --nodes=4 --ntasks-per-node=1 ray symmetric-run --address $(hostname):6379 --min-nodes 4 -- \
#       python cleanrl_scripts/compare.py --ray auto ...
import csv
import dataclasses
import datetime
import html
import importlib.metadata
import itertools
import json
import math
import os
import platform
import re
import shlex
import shutil
import signal
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
import numpy as np
import scipy.integrate
import scipy.stats
import tyro

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

FOLDER = Path(__file__).resolve().parent


@dataclass
class Args:
    env_ids: tuple[str, ...] = ()
    """the ids of the environments"""
    arms: tuple[str, ...] = ("none", "llm")
    """what is compared, the baseline first. td3_camel.py: none, llm, random, expert (the best run of `none`); other scripts:
    what they take as --arm; an arm of your own: "wide=--prior shipped --radius 0.6" """
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
        "random": ["--prior", "random"],
        "expert": ["--prior", "expert:{expert_model}"],
    }
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


def parse_arms(arms: Iterable[str], script: str) -> dict[str, list[str]]:
    """The flags of every arm."""
    flags = {}
    for arm in arms:
        name, has_flags, own = arm.partition("=")
        known = ARMS.get(script)
        if not re.fullmatch(r"[\w.-]+", name) or (has_flags and not own.startswith("--")):
            raise UserError(f'--arms {arm!r}: give a name, or name and flags as in "wide=--prior shipped --radius 0.6"')
        if name in flags:
            raise UserError(f"--arms names {name} twice")
        if not has_flags and known is not None and name not in known:
            raise UserError(
                f'--arms {name}: {script} has {", ".join(known)}; an arm of your own has its flags with it: "{name}=--prior ..."'
            )
        flags[name] = shlex.split(own) if has_flags else known[name] if known else ["--arm", name]
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


def plan(args: Args, extra: list[str]) -> tuple[Path, list[Run]]:
    """The folder of the comparison and its runs; refuses a folder that holds another comparison."""
    script = next((path for path in (FOLDER / args.script, Path(args.script)) if path.is_file()), None)
    if script is None or script.resolve() == Path(__file__).resolve():
        found = ", ".join(sorted(path.name for path in FOLDER.glob("*.py") if path.name != "compare.py"))
        raise UserError(f"--script {args.script}: no such script; {FOLDER} has {found}")
    seeds, arms = parse_seeds(args.seeds), parse_arms(args.arms, script.name)
    if args.total_timesteps < 1:
        raise UserError(f"--total-timesteps must be at least 1, got {args.total_timesteps}")
    if args.jobs is not None and args.jobs < 1:
        raise UserError(f"--jobs must be at least 1, got {args.jobs}")
    for name, instead in (("--env-id", "--env-ids"), ("--seed", "--seeds"), ("--runs-dir", "--output"), ("--arm", "--arms")):
        if name in by_name(extra):
            raise UserError(f"{name} {by_name(extra)[name]}: compare.py sets it for every run; give {instead}")
    if "--resume" in by_name(extra):
        raise UserError("--resume: the same command goes on with every run that was cut")
    for arm, flags in arms.items():
        if both := sorted(set(by_name(flags)) & set(by_name(extra))):
            raise UserError(f"{both[0]} {by_name(extra)[both[0]]}: the arm {arm} sets it, too")

    stem = "_".join([f"{script.stem}-{args.env_ids[0]}", *args.env_ids[1:]]).replace("/", "-").replace(":", "-")
    output = Path(args.output or f"comparisons/{stem}").absolute()
    needs_none = args.expert_models is None and any("{expert_model}" in flag for flags in arms.values() for flag in flags)
    runs = []
    for seed, env_id, (arm, arm_flags) in itertools.product(seeds, args.env_ids, arms.items()):
        folder = env_id.replace("/", "-").replace(":", "-")
        model = output / "experts" / f"{folder}.pt"
        if args.expert_models is not None:
            model = Path(args.expert_models.format(env_id=env_id)).absolute()
        if arm == "expert" and not model.exists() and args.expert_models is not None:
            raise UserError(f"--expert-models {args.expert_models}: there is no {model}")
        if needs_none and arm == "expert" and not model.exists() and "none" not in arms:
            raise UserError("--arms expert needs `none` among the arms, whose best run is the expert, or --expert-models")
        flags = [flag.replace("{expert_model}", str(model)) for flag in arm_flags]
        flags = ["--env-id", env_id, *flags, "--seed", str(seed), "--total-timesteps", str(args.total_timesteps), *extra]
        path = output / "runs" / folder / arm / str(seed)
        runs.append(Run(env_id, arm, seed, args.total_timesteps, path, script.resolve(), tuple(flags)))
    describe(output, args, script.name, arms, seeds, extra)
    for run in runs:
        refuse_other_arguments(run)
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


def describe(output: Path, args: Args, script: str, arms: dict, seeds: list[int], extra: list[str]) -> None:
    """Writes comparison.json. Environments, arms and seeds may be added to one that is there; all else must be the same."""
    path = output / "comparison.json"
    now: dict = {
        "script": script,
        "env_ids": list(args.env_ids),
        "arms": arms,
        "seeds": seeds,
        "total_timesteps": args.total_timesteps,
        "expert_models": args.expert_models,
        "flags": extra,
        "threshold": args.threshold,
        "versions": versions(),
        "command": sys.argv,
    }
    if path.exists():
        try:
            before = json.loads(path.read_text())
            different = [name for name in ("script", "total_timesteps", "expert_models") if now[name] != before[name]]
            if different or by_name(extra) != by_name(before["flags"]):
                name = different[0] if different else "flags"
                option = f"--{name.replace('_', '-')} " if different else ""
                given, had = (shlex.join(value) if different == [] else value for value in (now[name], before[name]))
                raise UserError(
                    f"{option}{given or 'no other arguments'}: the comparison in {output} has {had or 'no other arguments'}; "
                    "give another --output"
                )
            for arm in set(arms) & set(before["arms"]):
                if arms[arm] != before["arms"][arm]:
                    raise UserError(
                        f"--arms {arm}={shlex.join(arms[arm])}: the comparison in {output} has {shlex.join(before['arms'][arm])}"
                        "; give the arm another name"
                    )
            now["env_ids"] = list(dict.fromkeys([*before["env_ids"], *now["env_ids"]]))
            now["arms"] = {**before["arms"], **arms}
            now["seeds"] = sorted({*before["seeds"], *seeds})
            changed = {name: version for name, version in before["versions"].items() if now["versions"].get(name) != version}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path} is damaged: {type(error).__name__}: {error}") from None
        if changed:
            print("note: runs of other versions are in this comparison:", ", ".join(f"{k} {v}" for k, v in changed.items()))
    output.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(now, indent=2) + "\n")


def write_atomically(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8", newline="\n")
    os.replace(partial, path)


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
    import fcntl  # which Windows does not have; reports need none

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
            import ray
        except ImportError:
            raise UserError(f"--ray {address}: Ray is not installed; pip install 'llmwrappers[ray]'") from None
        try:
            # Ray hides the GPU from tasks that reserve none, unless told not to.
            environment = {"env_vars": {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}}
            ray.init(address=address, log_to_driver=False, logging_level="error", runtime_env=environment)
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
        lines.append(f"{finished} of {len(self.runs)} runs finished, {len(running)} running, {len(waiting)} wait{failures}{left}")
        if self.is_live:
            columns, rows = shutil.get_terminal_size()
            lines = [line[: columns - 1] for line in lines[-(rows - 1) :]]
        self.erase()
        self.stream.write("".join(line + "\n" for line in lines))
        self.stream.flush()
        self.drawn = len(lines) if self.is_live else 0


def choose_expert(run: Run, output: Path) -> str:
    """Keeps the model of the best run of `none`; returns what is in the way."""
    folder = run.folder.parents[1]
    model = output / "experts" / f"{folder.name}.pt"
    if model.exists():
        return ""
    best, best_return = None, -math.inf
    for path in sorted((folder / "none").glob("*/*/summary.json")):
        value = json.loads(path.read_text())["eval/episodic_return"]
        if (path.parent / "model.pt").exists() and value > best_return:
            best, best_return = path.parent / "model.pt", value
    if best is None:
        return "there is no finished run of `none` with a model.pt, which the expert would be"
    model.parent.mkdir(exist_ok=True)
    shutil.copy(best, model.with_suffix(".partial"))
    os.replace(model.with_suffix(".partial"), model)
    return ""


def train(args: Args, output: Path, runs: list[Run]) -> int:
    """Trains what is not finished; returns how many runs failed."""
    waiting = [run for run in runs if not run.is_finished]
    if not waiting:
        print(f"all {len(runs)} runs are finished; nothing to train")
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
        if not any(flag.endswith(str(Path("experts") / f"{run.folder.parents[1].name}.pt")) for flag in run.flags):
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
                if run.arm == "expert" and args.expert_models is None and (obstacle := choose_expert(run, output)):
                    waiting.remove(run)
                    fail(run, obstacle)
                elif pool.start(run):
                    waiting.remove(run)
            for run, problem in pool.ended():
                if not problem and run.is_finished:
                    display.print(f"finished: {run.name}: return {status(run).episodic_return}")
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
