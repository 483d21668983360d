"""compiled: a script's update as one compiled function, if that works and saves time."""

import importlib
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

from cleanrl_scripts.common.arguments import RunArgs

PAYS_FROM_STEPS = 300_000
"""A shorter run does not regain the time of a first compilation, half a minute for each function."""


def compiled(update: Callable, args: RunArgs, device: torch.device, images: bool = False) -> tuple[Callable, str]:
    """Returns an update, compiled or not, and what it runs on, in words; both forms compute the same.

    ``--compile auto`` compiles it on a CPU, if there is a C++ compiler and torch can trace gradients, in runs that are long
    enough, and not for images.
    """
    threads = torch.get_num_threads()
    hardware = str(device) if device.type != "cpu" else f"cpu, {threads} thread{'s' * (threads > 1)}"
    steps = getattr(args, "pretrain_timesteps", 0) or args.total_timesteps
    pays = device.type == "cpu" and not images and steps >= PAYS_FROM_STEPS
    if args.compile == "off" or (args.compile == "auto" and not pays):
        return update, hardware
    if not hasattr(torch._dynamo.config, "trace_autograd_ops"):
        return _as_it_is(update, f"torch {torch.__version__} does not trace gradients"), hardware
    if not any(shutil.which(name) for name in (os.environ.get("CXX"), "g++", "clang++") if name):
        return _as_it_is(update, "no C++ compiler was found (g++, clang++)"), hardware
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "llmwrappers" / "torchinductor"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))  # torch's default is in /tmp
    with warnings.catch_warnings(action="ignore"):  # of torch about torch
        importlib.import_module("torch._inductor.compile_fx")
    torch._dynamo.config.trace_autograd_ops = True  # pyright: ignore[reportAttributeAccessIssue]
    function = torch.compile(update, fullgraph=True, dynamic=False, options={"cpp_wrapper": True})
    return function, f"{hardware}, compiled"


def _as_it_is(update: Callable, why: str) -> Callable:
    print(f"note: the update is not compiled: {why}", flush=True)
    return update
