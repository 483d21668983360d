"""The run folder: what one needs to repeat the run, its checkpoints, its files at the end; its errors are one sentence."""

import contextlib
import dataclasses
import errno
import importlib.metadata
import io
import json
import os
import platform
import random
import shlex
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from cleanrl_scripts.common.arguments import RunArgs
from llmwrappers.__main__ import program
from llmwrappers.agent import AGENT_FILE, Agent, Layer, load_agent, save_agent
from llmwrappers.errors import UserError
from llmwrappers.files import folder_name, write_atomically

OF_A_DISK = errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS
"""Errors that come without the name of a file while it is written."""


@contextlib.contextmanager
def run_folder(args: RunArgs, arm: str, env: gym.Env, sha256: dict[str, str]) -> Iterator[Path]:
    """Makes the run folder, or opens that of ``--resume``; an error of its disk during the run becomes one sentence.

    Args:
        arm: the arm of a comparison, a part of the folder's name
        env: the environment of the run, whose spec is kept
        sha256: the hashes of the files that the run reads, by the argument that names each
    """
    run_dir = Path(args.resume or Path(args.runs_dir) / f"{folder_name(args.env_id)}__{args.exp_name}__{arm}__{args.seed}")
    if not args.resume:
        try:
            run_dir = _new_folder(run_dir)
            write_description(run_dir, describe(args, env, sha256))
        except OSError as error:
            raise UserError(f"--runs-dir {args.runs_dir}: cannot make the run folder {run_dir}: {error.strerror}") from None
    # A full disk also stops TensorBoard's writer thread, which would print a traceback of its own.
    threading.excepthook = lambda hook: None if isinstance(hook.exc_value, OSError) else threading.__excepthook__(hook)
    try:
        if args.resume:
            keep_changes(args, run_dir)
        yield run_dir
    except OSError as error:
        if not (error.errno in OF_A_DISK or _is_in(run_dir, error.filename)):
            raise  # of the environment: a connection, a file of its own
        raise UserError(
            f"cannot read or write {error.filename or run_dir}: {error.strerror or error}. What was written before is kept: "
            f"{how_to_resume(run_dir)}"
        ) from None


def _new_folder(path: Path) -> Path:
    """Makes a folder named after the second, or after the next one that no other run has: many may start at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    second = int(time.time())
    while True:
        folder = path.with_name(f"{path.name}__{second}")
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            second += 1


def _is_in(folder: Path, file: object) -> bool:
    return isinstance(file, str | os.PathLike) and Path(file).absolute().is_relative_to(folder.absolute())


def write_description(run_dir: Path, description: dict) -> None:
    """Writes args.json."""
    write_atomically(run_dir / "args.json", json.dumps(description, indent=2, default=str))


def keep_changes(args: RunArgs, run_dir: Path) -> None:
    """Writes what a resumed run does otherwise (steps, compile) into its args.json, with what it was and the command."""
    description = json.loads((run_dir / "args.json").read_text())
    steps = {name: getattr(args, name) for name in ("total_timesteps", "pretrain_timesteps", "compile") if hasattr(args, name)}
    before = {name: description["args"].get(name) for name, now in steps.items() if description["args"].get(name) != now}
    if before:
        description.setdefault("resumed", []).append({"args_before": before, "command": sys.argv})
        description["args"] |= steps
        write_description(run_dir, description)


def how_to_resume(run_dir: Path) -> str:
    """The command that continues a run folder, and from where."""
    from_where = "goes on from its last checkpoint" if (run_dir / "checkpoint.pt").exists() else "starts it again"
    return f"{program()} --resume {shlex.quote(str(run_dir))} {from_where}"


def save_checkpoint(run_dir: Path, state: dict) -> None:
    """Replaces the checkpoint as a whole, or leaves the old one; numbers of NumPy in it become Python's, which it may hold."""
    save_torch(run_dir / "checkpoint.pt", _plain(state))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value.item() if isinstance(value, np.generic) else value


@contextlib.contextmanager
def checkpoint_of(run_dir: Path, device: torch.device | str = "cpu") -> Iterator[dict | None]:
    """The checkpoint, or None if there is none; any error in this context means that the checkpoint is damaged."""
    try:
        path = run_dir / "checkpoint.pt"
        yield torch.load(path, weights_only=True, map_location=device) if path.exists() else None
    except Exception as error:
        raise UserError(f"--resume {run_dir}: its checkpoint is damaged or of another run: {error}") from None


def save_torch(path: Path, state: dict) -> None:
    """torch.save that writes the whole state, or leaves the old file."""
    write_atomically(path, serialize(state))


def save_agent_file(
    run_dir: Path,
    args: RunArgs,
    head: str,
    layers: list[Layer] | None,
    space: gym.Space,
    arrays: dict[str, np.ndarray],
    act: Callable[[np.ndarray], Any],
    observations: Iterable[np.ndarray],
) -> None:
    """Writes agent.npz, which needs no torch (see ``llmwrappers.load_agent``), if it acts as the script's own agent does.

    Args:
        act: the native action of the script's agent at one observation; an edited agent may act otherwise than its layers
        observations: where the two are compared
    """
    facts = {"env_id": args.env_id, "env_kwargs": json.dumps(args.make_kwargs), "script": args.exp_name, "head": head}
    if layers is None:
        why = "load_agent does not support one of your layers"
    else:
        save_agent(run_dir, facts, layers, space, arrays)
        if _acts_as(load_agent(run_dir), act, observations):
            return
        (run_dir / AGENT_FILE).unlink()
        why = "load_agent would act otherwise than your edited agent"
    print(f"note: no {AGENT_FILE}, because {why}; {run_dir} has torch's file")


def _acts_as(agent: Agent, act: Callable[[np.ndarray], Any], observations: Iterable[np.ndarray]) -> bool:
    """Whether both act alike, up to the rounding of float32."""
    try:
        pairs = np.array([(agent(observation), act(observation)) for observation in observations], np.float64)
    except ValueError:  # the layers have outputs of another shape than the actions
        return False
    return np.allclose(pairs[:, 0], pairs[:, 1], rtol=1e-3, atol=1e-3 * np.abs(pairs).max())


def serialize(state: dict) -> memoryview:
    """torch.save into memory, where a full disk does not matter."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getbuffer()


def describe(args: RunArgs, env: gym.Env, sha256: dict[str, str]) -> dict:
    """What is needed to repeat a run."""
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in ("llmwrappers", "numpy", "torch", "gymnasium", "mujoco", "ale-py"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    commit = _git("rev-parse", "HEAD")
    # A committed comparison may grow: no run depends on it.
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)benchmarks/comparisons")
    return {
        "args": dataclasses.asdict(args),
        "versions": versions,
        "git_commit": commit and commit + ("-dirty" if changed else ""),
        "command": sys.argv,
        "sha256": sha256,
        "wandb_id": uuid.uuid4().hex,
        "env_spec": env.unwrapped.spec and _with_text_keys(dataclasses.asdict(env.unwrapped.spec)),
    }


def _with_text_keys(value: Any) -> Any:
    """JSON has no other keys; an environment's arguments may have."""
    if isinstance(value, dict):
        return {str(key): _with_text_keys(part) for key, part in value.items()}
    return [_with_text_keys(part) for part in value] if isinstance(value, list | tuple) else value


def _git(*command: str) -> str | None:
    if not (Path(__file__).parents[2] / ".git").exists():  # installed, maybe inside a repository of the user's
        return None
    try:
        done = subprocess.run(["git", *command], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    except OSError:  # no git on this machine
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def prepare_torch(deterministic: bool, seed: int, threads: int | None = None) -> None:
    """The settings of torch for every run; the seeds are for layers that torch initialises, and environments without their own.

    The scripts' random numbers come from a generator of their own.
    """
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    # Where the compiler keeps what it makes. The next settings import it, and it would choose a folder in /tmp; so it does
    # where there is no home to write to.
    with contextlib.suppress(OSError, RuntimeError):
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "llmwrappers" / "torchinductor"
        cache.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(deterministic)
    # True would fill every torch.empty with NaN, to find reads of memory that was not written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # pyright: ignore[reportAttributeAccessIssue]
    torch.set_flush_denormal(True)  # the moments of small gradients decay to denormals, on which Adam takes ten times as long
    if threads:
        torch.set_num_threads(threads)
