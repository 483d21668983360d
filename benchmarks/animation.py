"""The film of the README: random actions, the policy that an LLM wrote, and the agent after a minute of training on it.

    python cleanrl_scripts/ppo_camel.py --env-id Walker2d-v4 --total-timesteps 200000    # a minute on a free core
    MUJOCO_GL=egl python benchmarks/animation.py --agent runs/.../agent.pt               # docs/walker.gif

Side by side, each alone, and from the start again when its episode ends. Above a picture are the mean return of episodes
whose seeds neither training nor the choice of the prior has seen, and the distance so far.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium as gym
import numpy as np
from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cleanrl_scripts.common.priors_of_arms import expert_prior
from llmwrappers import load_prior
from llmwrappers.priors.measurement import measure

ENV_ID, FIRST_SEED, BAR = "Walker2d-v4", 1_000_000, 44
FONT = font_manager.findfont("DejaVu Sans")


def film(act: Callable[[Any], Any], steps: int, every: int, side: int) -> list[tuple[np.ndarray, float]]:
    """Every so many steps (image, metres from the start), one episode after another."""
    env = gym.make(ENV_ID, render_mode="rgb_array", width=side, height=side, camera_name="track")
    seed = FIRST_SEED
    observation, info, frames = env.reset(seed=seed)[0], {}, []
    for step in range(steps):
        if step % every == 0:
            frames.append((np.asarray(env.render()), float(info.get("x_position", 0.0))))
        observation, _, terminated, truncated, info = env.step(act(observation))
        if terminated or truncated:
            seed += 1
            observation, info = env.reset(seed=seed)[0], {}
    env.close()
    return frames


def side_by_side(films: dict[str, list[tuple[np.ndarray, float]]], returns: dict[str, float]) -> list[Image.Image]:
    """One picture of all films for each moment, with what they are above them."""
    side, title = len(next(iter(films.values()))[0][0]), ImageFont.truetype(FONT, 13)
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
        pictures.append(picture)
    return pictures


def save(pictures: list[Image.Image], path: Path, seconds: float) -> None:
    """An endless GIF; one palette for all pictures, without dithering, so that what stands still costs nothing."""
    palette = pictures[len(pictures) // 2].quantize(48, dither=Image.Dither.NONE)
    first, *rest = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
    first.save(path, save_all=True, append_images=rest, duration=round(1000 * seconds), loop=0, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", required=True, metavar="FILE", help=f"agent.pt of ppo_camel.py, trained on {ENV_ID}")
    parser.add_argument("--output", type=Path, default=Path("docs/walker.gif"), help="the GIF to write")
    parser.add_argument("--episodes", type=int, default=20, help="of which the returns are means")
    parser.add_argument("--steps", type=int, default=640, help="of the film; 125 are a second of the simulation")
    parser.add_argument("--every", type=int, default=10, help="steps from one picture to the next")
    parser.add_argument("--side", type=int, default=220, help="of a picture, in pixels")
    args = parser.parse_args()
    env = gym.make(ENV_ID)
    env.action_space.seed(FIRST_SEED)
    players = {
        "random actions": lambda observation: env.action_space.sample(),
        "what the LLM wrote": load_prior(ENV_ID),
        "after a minute of training": expert_prior(args.agent, ENV_ID, env.observation_space, env.action_space),
    }
    returns = {name: fmean(measure(env, act, args.episodes, FIRST_SEED).returns) for name, act in players.items()}
    for name, value in returns.items():
        print(f"{name}: mean return {value:.1f} over {args.episodes} episodes")
    films = {name: film(act, args.steps, args.every, args.side) for name, act in players.items()}
    save(side_by_side(films, returns), args.output, args.every * float(env.unwrapped.dt))  # pyright: ignore[reportAttributeAccessIssue]
    print(f"wrote {args.output}, {args.output.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
