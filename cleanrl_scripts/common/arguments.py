"""RunArgs: the arguments that every script has; reads and checks arguments, and compares those of a resumed run."""

import contextlib
import dataclasses
import importlib.metadata
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import gymnasium as gym
import tyro

from llmwrappers.__main__ import program
from llmwrappers.errors import UserError
from llmwrappers.making import env_kwargs_of, import_module_of
from llmwrappers.physics import note_on_returns


@dataclass
class CommonArgs:
    """What people set most. A script's own arguments come next in --help, and those of RunArgs last."""

    env_id: str = "Hopper-v4"
    """the id of the environment"""
    env_kwargs: str = "{}"
    """arguments of gym.make, as a JSON object such as '{"obs_type": "ram"}'"""
    total_timesteps: int = 1000000
    """total timesteps of the experiments"""
    seed: int = 1
    """seed of the experiment"""
    track: bool = False
    """if toggled, this experiment will be tracked with Weights and Biases (WANDB_MODE=offline needs no account)"""


@dataclass
class RunArgs(CommonArgs):
    # How the run is evaluated, kept and logged
    resume: str | None = None
    """a run folder: continues that run with its own arguments, as if it had never stopped; more total_timesteps may be given"""
    runs_dir: str = "runs"
    """the folder in which the run folder is made"""
    exp_name: str = ""
    """the name of this experiment"""
    eval_every: int = 20_000
    """steps between evaluations"""
    eval_episodes: int = 10
    """episodes of an evaluation"""
    max_episode_steps: int | None = None
    """steps after which an episode is cut; by default the environment's own limit, or 10 000 where it has none"""
    checkpoint_every: int = 50_000
    """steps between checkpoints; a checkpoint ends all current episodes"""
    save_model: bool = True
    """whether to save the final agent into the run folder"""
    capture_video: bool = False
    """whether to record the first episode of every evaluation (check out the `videos` folder)"""
    wandb_project_name: str = "llmwrappers"
    """the wandb's project name"""
    wandb_entity: str | None = None
    """the entity (team) of wandb's project"""
    wandb_arm: str | None = None
    """the arm by which wandb groups the run (default: its prior or guidance); compare.py gives the name of its arm"""
    wandb_tags: tuple[str, ...] = ()
    """tags of the wandb run"""
    torch_deterministic: bool = True
    """if toggled, torch uses deterministic algorithms only"""
    cuda: bool = True
    """if toggled, uses a GPU if there is one (PPO: only for images; small networks are faster on a CPU)"""
    compile: Literal["auto", "on", "off"] = "auto"
    """whether the update is compiled; auto: on a CPU with a C++ compiler, in runs of 300 000 steps or more"""

    @property
    def make_kwargs(self) -> dict[str, Any]:
        """The arguments of gym.make; raises a ValueError where ``env_kwargs`` is no JSON object."""
        limit = {} if self.max_episode_steps is None else {"max_episode_steps": self.max_episode_steps}
        return env_kwargs_of(self.env_kwargs) | limit


# Conditions on the value of an argument, beyond its type.
CONDITIONS: dict[str, Callable[[float], bool]] = {
    "at least 0": lambda value: value >= 0,
    "at least 1": lambda value: value >= 1,
    "finite and above 0": lambda value: 0 < value < math.inf,
    "finite and at least 0": lambda value: 0 <= value < math.inf,
    "in [0, 1]": lambda value: 0 <= value <= 1,
    "in [0, 1)": lambda value: 0 <= value < 1,
    "in (0, 1]": lambda value: 0 < value <= 1,
    "in (0, 2]": lambda value: 0 < value <= 2,
}
RUN_RANGES = {
    "at least 0": ("seed",),
    "at least 1": ("total_timesteps", "checkpoint_every", "eval_every", "eval_episodes", "max_episode_steps"),
}


def check_ranges(args: RunArgs, *ranges: Mapping[str, Iterable[str]]) -> None:
    """Refuses arguments outside their ranges; a range is condition -> names.

    Raises:
        UserError: naming the first such argument, its value and what it must be
    """
    for words, names in ((words, names) for group in (RUN_RANGES, *ranges) for words, names in group.items()):
        for name in names:
            given = getattr(args, name)
            for value in given if isinstance(given, tuple) else (given,):
                if value is not None and not CONDITIONS[words](value):
                    raise UserError(f"--{name.replace('_', '-')} must be {words}, got {value}")


AnyArgs = TypeVar("AnyArgs", bound=RunArgs)


def check_env_id(env_id: str) -> None:
    """Refuses an id that Gymnasium does not know; ``module:Id`` first imports the module that registers it."""
    try:
        import_module_of(env_id)
    except gym.error.Error as error:
        raise UserError(f"--env-id {env_id}: {error}") from None


def parse(script: type[AnyArgs], argv: list[str] | None, default: AnyArgs | None = None) -> AnyArgs:
    """Reads the arguments of a script; 1e6 is accepted as a whole number."""
    words = with_whole_numbers(script, argv)
    if default is None:
        return tyro.cli(script, prog=program(), args=words)
    return tyro.cli(script, prog=program(), args=words, default=default)


def with_whole_numbers(script: type, argv: list[str] | None) -> list[str]:
    """The words of a command line; 1e6, where a whole number belongs, becomes 1000000."""
    words = list(sys.argv[1:] if argv is None else argv)
    kinds = int, "int", int | None, "int | None"
    whole = {f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(script) if field.type in kinds}
    for i, word in enumerate(words):
        name, equals, value = word.partition("=") if word.startswith("--") else (words[i - 1] if i else "", "", word)
        if name.replace("_", "-") in whole and re.fullmatch(r"\d+(\.\d+)?[eE]\+?\d+", value) and float(value).is_integer():
            words[i] = f"{name}={int(float(value))}" if equals else str(int(float(value)))
    return words


def resumed_args(
    args: AnyArgs,
    argv: list[str] | None,
    file_hashes: Callable[[AnyArgs], dict[str, str]],
    schedules: Callable[[AnyArgs], dict[str, float]],
) -> AnyArgs:
    """The arguments of the run that ``args.resume`` names; refuses other arguments, and files that have changed.

    Only the total number of steps may grow. Then the schedules follow the new total, and a note says so.

    Args:
        file_hashes: the hashes of the files that a run reads, by the argument that names each
        schedules: what falls to 0 in a run, and at which step

    Raises:
        UserError: no run folder of this script, a different argument, or a file that has changed
    """
    run_dir, script = args.resume, type(args)
    path = Path(str(run_dir)) / "args.json"
    try:
        description = json.loads(path.read_text())
        saved = script(**description["args"])
        tuples = {name: tuple(value) for name, value in vars(saved).items() if isinstance(value, list)}  # JSON has no tuples
        saved = dataclasses.replace(saved, resume=run_dir, **tuples)
        args = parse(script, argv, default=saved)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"--resume {run_dir}: no run of this script: {path}: {error}") from None
    check_env_id(args.env_id)
    if getattr(args, "prior", None) == "shipped":
        args.prior = args.env_id  # as in the run  # pyright: ignore[reportAttributeAccessIssue]
    total = "pretrain_timesteps" if getattr(saved, "pretrain_timesteps", 0) else "total_timesteps"
    for field in dataclasses.fields(script):
        given, before, option = getattr(args, field.name), getattr(saved, field.name), field.name.replace("_", "-")
        if field.name == total and given < before:
            raise UserError(f"--{option} {given}: the run in {run_dir} has {before}; --resume takes more steps, not fewer")
        if field.name not in (total, "compile") and given != before:
            raise UserError(
                f"--{option} {given}: the run in {run_dir} has {before}; --resume takes no other arguments, but more "
                f"--{total.replace('_', '-')}, and --compile"
            )
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        mujoco = description.get("versions", {}).get("mujoco"), importlib.metadata.version("mujoco")
        if note := note_on_returns([args.env_id], *mujoco):
            print(note, flush=True)
    now = file_hashes(args)
    for name, sha256 in description.get("sha256", {}).items():
        if now.get(name) != sha256:
            option = f"--{name.replace('_', '-')}"
            if name not in now:
                raise UserError(f"--resume {run_dir}: {option} {getattr(args, name, '')}: no such file, seen from {Path.cwd()}")
            raise UserError(f"--resume {run_dir}: the file of {option} is not the one that the run began with")
    steps, before = getattr(args, total), getattr(saved, total)
    if steps > before:
        old = schedules(saved)
        changes = [
            f"{name} falls to 0 at step {end:.0f} instead of {old[name]:.0f}{', and rises first' * (end > before)}"
            for name, end in schedules(args).items()
        ]
        longer = f"the run goes on to {steps} steps instead of {before}"
        print(f"note: {'; '.join([longer, *changes])}", flush=True)
    return args
