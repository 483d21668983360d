# Makes the film of the README: random actions, a policy that an LLM wrote, an agent after a minute of training.
#
#   python cleanrl_scripts/demo.py                                         # demo.gif, in a minute
#   python cleanrl_scripts/demo.py --output docs/pictures/walker.gif --episodes 20    # the one of the README
#
# They play side by side, each from the start again when its episode ends. Above each are its distance so far and its mean
# return; these episodes have seeds that neither training nor the choice of the prior used.
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium as gym
import numpy as np
import tyro

from cleanrl_scripts.common.films import save_film
from cleanrl_scripts.common.stop import run_script
from llmwrappers import load_agent, load_prior
from llmwrappers.__main__ import program
from llmwrappers.errors import UserError
from llmwrappers.making import make, make_rendering
from llmwrappers.priors.measurement import measure

ENV_ID, FIRST_SEED, BAR = "Walker2d-v4", 1_000_000, 44


@dataclass
class Args:
    """Trains a walker for a minute and makes a film: random actions, the LLM's policy, the agent.

    Example: llmwrappers demo --output walker.gif
    """

    output: Path = Path("demo.gif")
    """the film to write, a .gif or an .mp4"""
    total_timesteps: int = 200_000
    """steps of training, of which audition and cloning take 20 000"""
    run: str | None = None
    """a run folder of ppo_camel.py on Walker2d-v4 to use instead of training"""
    episodes: int = 10
    """episodes of each mean return"""
    steps: int = 640
    """steps of the film; 125 are a second of the simulation"""
    every: int = 10
    """steps from one picture to the next"""
    side: int = 220
    """side length of a picture, in pixels"""


def main(argv: list[str] | None = None) -> None:
    args = tyro.cli(Args, prog=program(), args=argv)
    if args.output.suffix not in (".mp4", ".gif"):
        raise UserError(f"--output must end in .mp4 or .gif, got {args.output}")
    for name in ("total_timesteps", "episodes", "steps", "every", "side"):
        if getattr(args, name) < 1:
            raise UserError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(args, name)}")
    try:
        make_rendering(ENV_ID).close()  # before a minute of training
        agent = load_agent(args.run) if args.run else None
    except (gym.error.Error, OSError, ValueError) as error:
        raise UserError(str(error)) from None
    if agent is not None and agent.env_id != ENV_ID:
        raise UserError(f"--run {args.run} is of {agent.env_id}; the film is of {ENV_ID}")
    agent = agent or load_agent(train(args.total_timesteps))
    env = make(ENV_ID)
    env.action_space.seed(FIRST_SEED)
    players: dict[str, Callable[[Any], Any]] = {
        "random actions": lambda observation: env.action_space.sample(),
        "what the LLM wrote": load_prior(ENV_ID),
        "the agent" if args.run else f"after {args.total_timesteps:,} steps": agent,
    }
    returns = {name: fmean(measure(env, act, args.episodes, FIRST_SEED).returns) for name, act in players.items()}
    for name, value in returns.items():
        print(f"{name}: mean return {value:.1f} over {args.episodes} episodes", flush=True)
    films = {name: film(act, args.steps, args.every, args.side) for name, act in players.items()}
    fps = 1 / (args.every * float(env.unwrapped.dt))  # pyright: ignore[reportAttributeAccessIssue]
    save_film(args.output, side_by_side(films, returns), fps)
    print(f"wrote {args.output}, {args.output.stat().st_size / 1e6:.2f} MB")


def train(total_timesteps: int) -> Path:
    """Trains an agent from the shipped priors; returns its run folder."""
    command, before = [sys.executable, "-m", "cleanrl_scripts.ppo_camel", "--env-id", ENV_ID], {*Path("runs").glob("*")}
    trained = subprocess.run([*command, "--total-timesteps", str(total_timesteps)], check=False)
    if trained.returncode:
        raise UserError("the training failed, see above")
    return max({*Path("runs").glob(f"{ENV_ID}__ppo_camel__auto__1__*")} - before)


def film(act: Callable[[Any], Any], steps: int, every: int, side: int) -> list[tuple[np.ndarray, float]]:
    """Every so many steps (image, metres from the start), one episode after another."""
    env = make_rendering(ENV_ID, width=side, height=side)
    seed = FIRST_SEED
    observation, info, frames = env.reset(seed=seed)[0], {}, []
    for step in range(steps):
        if step % every == 0:
            frames.append((np.array(env.render()), float(info.get("x_position", 0.0))))
        observation, _, terminated, truncated, info = env.step(act(observation))
        if terminated or truncated:
            seed += 1
            observation, info = env.reset(seed=seed)[0], {}
    env.close()
    return frames


def side_by_side(films: dict[str, list[tuple[np.ndarray, float]]], returns: dict[str, float]) -> list[np.ndarray]:
    """One picture of all films for each moment, with what they are above them."""
    from PIL import Image, ImageDraw, ImageFont

    side, title = len(next(iter(films.values()))[0][0]), ImageFont.load_default(13)
    pictures = []
    for moment in zip(*films.values(), strict=True):
        picture = Image.new("RGB", (len(films) * side, side + BAR), "white")
        draw = ImageDraw.Draw(picture)
        for column, (name, (image, metres)) in enumerate(zip(films, moment, strict=True)):
            middle = (column + 0.5) * side
            picture.paste(Image.fromarray(image), (column * side, BAR))
            draw.text((middle, 13), name, fill="black", font=title, anchor="mm")
            draw.text((middle - 30, 31), f"return {returns[name]:,.0f}", fill="#0b5cad", font=title, anchor="mm")
            draw.text((middle + 55, 31), f"{max(metres, 0):.1f} m", fill="#666666", font=title, anchor="mm")
        pictures.append(np.asarray(picture))
    return pictures


if __name__ == "__main__":
    run_script(main, "demo.py")
