"""The film strips of docs/priors.md: one episode of each shipped default prior, alone.

    MUJOCO_GL=egl python benchmarks/pictures/film_strips.py    # docs/films/*.jpg

The episodes' seed is one that neither training nor the choice of the priors has seen.
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # stuck_agents.py

from stuck_agents import FIRST_SEED, Player, draw, film

from llmwrappers import load_prior
from llmwrappers.priors import SHIPPED
from llmwrappers.priors.contract import begin_episode

FRAMES, FOLDER, SEED = 8, Path("docs/films"), FIRST_SEED + 10  # in which Pendulum begins hanging
WALKERS = ("Ant", "HalfCheetah", "Hopper", "Humanoid", "Walker2d")  # their models have a camera that goes with them


def main() -> None:
    warnings.filterwarnings("ignore", message=".*out of date")  # v4, which the papers use
    FOLDER.mkdir(exist_ok=True)
    for env_id in sorted(path.name for path in SHIPPED.iterdir() if path.is_dir()):
        camera: dict[str, Any] = {"camera_name": "track"} if env_id.startswith(WALKERS) else {}
        env = gym.make(env_id, render_mode="rgb_array", **camera)
        prior = load_prior(env_id)
        player = Player(lambda observation, rng, prior=prior: prior(observation), lambda prior=prior: begin_episode(prior))
        frames = film(env, player, SEED, FRAMES)
        draw({"": frames}, FOLDER / f"{env_id}.jpg")
        env.close()


if __name__ == "__main__":
    main()
