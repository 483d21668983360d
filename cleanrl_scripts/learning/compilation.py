"""compiled: a script's update as one compiled function, if that works and saves time."""

import functools
import os
import shutil
import sys
import warnings
from collections.abc import Callable

import torch

from cleanrl_scripts.common.arguments import RunArgs
from llmwrappers.errors import UserError

PAYS_FROM_STEPS = 300_000
"""A shorter run does not regain the time of a first compilation, half a minute for each function."""


def compiled(update: Callable, args: RunArgs, device: torch.device, images: bool = False) -> tuple[Callable, str]:
    """Returns an update, compiled or not, and what it runs on, in words; both forms compute the same.

    ``--compile auto`` compiles it on a CPU, if there is a C++ compiler that works and torch can trace gradients, in runs that
    are long enough, and not for images. Compiled code cannot choose by the value of a tensor. A plain number that changes in a
    run is compiled anew for each value, and the ninth ends the run: make it a tensor, as ppo_ultra.py's imitation_coef is.
    """
    threads = torch.get_num_threads()
    hardware = str(device) if device.type != "cpu" else f"cpu, {threads} thread{'s' * (threads > 1)}"
    steps = getattr(args, "pretrain_timesteps", 0) or args.total_timesteps
    pays = device.type == "cpu" and not images and steps >= PAYS_FROM_STEPS
    if args.compile == "off" or (args.compile == "auto" and not pays) or not can_compile():
        return update, hardware
    return _explained(_compile(update)), f"{hardware}, compiled"


@functools.cache
def can_compile() -> bool:
    """Whether torch compiles here, tried on a small function; if not, a note says why.

    The update needs what that makes and loads, so a run takes no longer.
    """
    compiler = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    if not shutil.which(compiler):
        why = f"no C++ compiler was found ({compiler}; the variable CXX may name another)"
    elif not hasattr(torch._dynamo.config, "trace_autograd_ops"):
        why = f"torch {torch.__version__} does not trace gradients"
    else:
        torch._dynamo.config.trace_autograd_ops = True  # pyright: ignore[reportAttributeAccessIssue]
        try:
            with warnings.catch_warnings(action="ignore"):  # of torch about torch
                _compile(torch.neg)(torch.zeros(1))
            return True
        except Exception as error:  # whatever a compiler, its headers or a disk may lack
            lines = str(getattr(error, "inner_exception", error)).splitlines()
            why = next((line for line in lines if "error:" in line), lines[0])
    print(f"note: the update is not compiled: {why}", flush=True)
    return False


def _explained(update: Callable) -> Callable:
    """The compiled update; what torch cannot compile ends the run with the way out."""

    def explained(*batch: torch.Tensor):
        try:
            return update(*batch)
        except Exception as error:
            if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
                raise
            raise UserError(
                f"torch cannot compile the update ({str(error).splitlines()[0]}). Give --compile off, also to --resume; or "
                "make a number that changes a tensor, and leave out what depends on the value of a tensor, prints and "
                "optimizers of torch.optim"
            ) from error

    return explained


def _compile(function: Callable) -> Callable:
    return torch.compile(function, fullgraph=True, dynamic=False, options={"cpp_wrapper": True})
