"""with_pong_defaults: Pong by its usual name, with CleanRL's defaults for Atari where they differ."""

import dataclasses
from typing import TypeVar

from cleanrl_scripts.common.arguments import RunArgs, parse

PONG = {
    "num_envs": 8, "num_steps": 128, "num_minibatches": 4, "update_epochs": 4, "clip_coef": 0.1, "ent_coef": 0.01,
    "learning_rate": 2.5e-4, "alpha": 0.5,
}  # fmt: skip

AnyArgs = TypeVar("AnyArgs", bound=RunArgs)


def with_pong_defaults(args: AnyArgs, argv: list[str] | None) -> AnyArgs:
    """The arguments unchanged, or for Pong argv on top of its defaults; ALE/Pong-v5 becomes llmwrappers/PongObjects-v0."""
    if args.env_id != "ALE/Pong-v5" and not args.env_id.startswith("llmwrappers/Pong"):
        return args
    if args.env_id == "ALE/Pong-v5":
        print(
            "ALE/Pong-v5 is played from its object state here, llmwrappers/PongObjects-v0 (80x80 grid: llmwrappers/PongGrid-v0)"
        )
    defaults = dataclasses.replace(type(args)(), **PONG)  # pyright: ignore[reportCallIssue]
    args = parse(type(args), argv, defaults)
    args.env_id = args.env_id.replace("ALE/Pong-v5", "llmwrappers/PongObjects-v0")
    return args
