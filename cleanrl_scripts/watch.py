# Shows how a prior or the agent of a run plays: in a window if there is a display, else as a film.
#
#   python cleanrl_scripts/watch.py --env-id Walker2d-v4             # the shipped prior; random actions if there is none
#   python cleanrl_scripts/watch.py --env-id Pendulum-v1 --prior my_policy.py --output pendulum.gif
#   python cleanrl_scripts/watch.py --run runs/Walker2d-v4__ppo_camel__auto__1__1795786501
import functools
import math
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import tyro

from cleanrl_scripts.common.films import MOST_FPS, save_film
from cleanrl_scripts.common.stop import run_script
from llmwrappers import PriorPolicy, load_agent, load_prior
from llmwrappers.__main__ import program
from llmwrappers.action_spaces import require_action_space
from llmwrappers.errors import UserError
from llmwrappers.making import env_kwargs_of, has_display, make_rendering
from llmwrappers.priors import shipped_priors
from llmwrappers.priors.measurement import play, random_actions


@dataclass
class Args:
    """Shows how a prior or the agent of a run plays: in a window if there is a display, else as a film.

    Example: llmwrappers watch --env-id Walker2d-v4 --output walker.gif
    """

    env_id: str | None = None
    """the environment; with --run, that of the run"""
    run: str | None = None
    """a run folder: its final agent plays"""
    sampled: bool = False
    """with --run, on Discrete actions: sample, as ppo_ultra.py does in evaluations, instead of the most probable action"""
    prior: str | None = None
    """a shipped prior's name | FILE.py | trusted:FILE.py | FOLDER"""
    candidate: int | None = None
    """which candidate of a shipped prior, or of a folder of write-policy"""
    prior_of_another_env: bool = False
    """allow a prior that was written for another environment"""
    env_kwargs: str = "{}"
    """arguments of gym.make, as a JSON object"""
    seed: int = 0
    """seed of the first episode"""
    episodes: int = 1
    """number of episodes"""
    output: str | None = None
    """a film, NAME.mp4 or NAME.gif; without it a window, or ENVIRONMENT.mp4 if there is no display"""


def main(argv: list[str] | None = None) -> None:
    args = tyro.cli(Args, prog=program(), args=argv)
    if args.episodes < 1:
        raise UserError(f"--episodes must be at least 1, got {args.episodes}")
    if args.seed < 0:
        raise UserError(f"--seed must be at least 0, got {args.seed}")
    if args.output and Path(args.output).suffix not in (".mp4", ".gif"):
        raise UserError(f"--output must end in .mp4 or .gif, got {args.output}")
    try:
        if args.output:
            Path(args.output).parent.mkdir(parents=True, exist_ok=True)  # an error must not cost what was played
        env, policy, name = player(args)
    except (ValueError, TypeError, OSError, ImportError, gym.error.Error) as error:
        raise UserError(str(error)) from None
    fps, frames = int(env.metadata.get("render_fps") or 30), []
    every = math.ceil(fps / MOST_FPS)  # Hopper would have 125 a second
    for episode in range(args.episodes):
        total, steps, faults = 0.0, 0, []
        for step in play(env, policy, args.seed + episode):
            if env.render_mode == "rgb_array" and steps % every == 0:
                frames.append(np.array(env.render()))  # some draw the next picture into the same array
            total, steps = total + step.reward, steps + 1
            if step.fault:
                faults.append(step.fault)
        if len(faults) == steps:
            raise UserError(f"{name} failed in every step, the first time with: {faults[0]}")
        failed = f"; {len(faults)} calls failed, the first with: {faults[0]}" if faults else ""
        print(f"{name}, seed {args.seed + episode}: return {total:.1f}, {steps} steps{failed}", flush=True)
    if frames:
        path = Path(args.output or f"{env.unwrapped.spec.id.replace('/', '-')}.mp4")  # pyright: ignore[reportOptionalMemberAccess]
        save_film(path, frames, fps / every)
        print(f"wrote {path}")
    env.close()


def player(args: Args) -> tuple[gym.Env, PriorPolicy, str]:
    """The environment, the policy that plays in it, and the name of that policy."""
    if (args.run is None) == (args.env_id is None):
        raise UserError("give either --run, a run folder, or --env-id, an environment")
    if args.run and (args.prior or args.candidate is not None):
        raise UserError("--run and --prior: one of them plays")
    if args.sampled and not args.run:
        raise UserError("--sampled is for the agent of a --run")
    if args.run and args.env_kwargs != "{}":
        raise UserError("--env-kwargs is for --env-id; a run folder knows its environment")
    mode = "human" if has_display() and args.output is None else "rgb_array"
    if args.run:
        agent = load_agent(args.run)
        env = agent.make(render_mode=mode)
        if args.sampled and not isinstance(env.action_space, gym.spaces.Discrete):
            raise UserError(f"--sampled is for Discrete actions, got {env.action_space} in {agent.env_id}")
        policy = functools.partial(agent, rng=np.random.default_rng(args.seed)) if args.sampled else agent
        return env, policy, "the agent"
    assert args.env_id is not None
    env = make_rendering(args.env_id, **{**env_kwargs_of(args.env_kwargs), "render_mode": mode})
    require_action_space(env.action_space)
    if args.prior or args.env_id in shipped_priors() or args.candidate is not None:
        prior = args.prior or args.env_id
        return env, load_prior(prior, args.candidate, env, args.prior_of_another_env), f"the prior {prior}"
    return env, random_actions(env.action_space, args.seed), "random actions"


if __name__ == "__main__":
    run_script(main, "watch.py")
