"""Agents before and after fine-tuning with an LLM's guidance: their returns on unseen grids, and a film strip of them.

    python benchmarks/stuck_agents.py --env-id llmwrappers/KeyCorridor-v0 \
        --agents stuck=llmwrappers/critical_states/shipped/llmwrappers-KeyCorridor-v0/agent.pt "led on=runs/.../agent.pt" \
        --output docs/pictures/key-corridor.png

An agent.pt plays alone. On Discrete spaces it samples its actions, as in the evaluations of ppo_ultra.py, but with other
seeds. A critical.py plays alone, too; if it has no action, a random one is played.
"""

import argparse
import json
import sys
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cleanrl_scripts.learning.actor_critic import ActorCritic
from llmwrappers import CriticalFunction
from llmwrappers.priors.measurement import keep_returns

FIRST_SEED = 1_000_000


class Player(NamedTuple):
    """What plays an episode."""

    act: Callable[[Any, np.random.Generator], Any]
    """(observation, random numbers) -> action"""
    begin: Callable[[], None]
    """begins an episode"""


def load(path: str, env: gym.Env) -> Player:
    if path.endswith(".py"):
        function = CriticalFunction(Path(path).read_text("utf-8"), env.action_space)

        def lead(observation: Any, rng: np.random.Generator) -> Any:
            advice = function(observation)
            return env.action_space.sample() if advice is None else advice[0]

        return Player(lead, function.reset)
    agent = ActorCritic(env.observation_space, env.action_space, np.random.default_rng(0), torch.device("cpu"))
    agent.load_state_dict(torch.load(path, map_location="cpu", weights_only=True)["agent"])
    return Player(lambda observation, rng: agent.act(observation, None if agent.policy.shape else rng), lambda: None)


def play(env: gym.Env, player: Player, seed: int, rendered: Container[int] = ()) -> tuple[float, int, list[tuple[int, Any]]]:
    """The return of an episode, its length, and (step, image) for the steps to be rendered."""
    rng = np.random.default_rng(seed)
    env.action_space.seed(seed)
    observation, _ = env.reset(seed=seed)
    player.begin()
    frames, episodic_return, step, done = [], 0.0, 0, False
    while True:
        if step in rendered:
            frames.append((step, env.render()))
        if done:
            return episodic_return, step, frames
        observation, reward, terminated, truncated, _ = env.step(player.act(observation, rng))
        episodic_return, step, done = episodic_return + float(reward), step + 1, terminated or truncated


def film(env: gym.Env, player: Player, seed: int, frames: int) -> list[tuple[int, Any]]:
    """(step, image), spread over an episode; it is played twice, for to render every step takes long."""
    steps = play(env, player, seed)[1]
    return play(env, player, seed, {int(step) for step in np.linspace(0, steps, frames).round()})[2]


def draw(strips: dict[str, list[tuple[int, np.ndarray]]], path: Path) -> None:
    """Frames in a row for each agent, each with its step."""
    columns, (height, width, _) = max(map(len, strips.values())), next(iter(strips.values()))[0][1].shape
    figure = Figure(figsize=(1.4 * columns + 0.3, (1.4 * height / width + 0.25) * len(strips)), dpi=110, layout="constrained")
    grid = figure.subplots(len(strips), columns, squeeze=False)
    for axes, (name, frames) in zip(grid, strips.items(), strict=True):
        axes[0].set_ylabel(name, fontsize=8)
        for ax, (step, frame) in zip(axes, frames, strict=False):
            ax.imshow(frame)
            ax.set(xticks=[], yticks=[])
            ax.set_title(f"step {step}", fontsize=7)
        for ax in axes[len(frames) :]:  # of an episode that is shorter than the strip
            ax.set_axis_off()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env-id", required=True)
    parser.add_argument("--env-kwargs", type=json.loads, default={}, metavar="JSON", help="arguments of gym.make")
    parser.add_argument("--agents", required=True, nargs="+", metavar="NAME=FILE", help="agent.pt of ppo_ultra.py, critical.py")
    parser.add_argument("--episodes", type=int, default=200, help="each with a seed, and so a grid, of its own")
    parser.add_argument("--csv", type=Path, help="also write each episode's return: the alone.csv of a comparison")
    parser.add_argument("--output", type=Path, help="the film strip to draw, a PNG")
    parser.add_argument("--film-seed", type=int, default=FIRST_SEED, help="of the episode that is drawn")
    parser.add_argument("--frames", type=int, default=8, help="of each agent, spread over its episode")
    args = parser.parse_args()
    env, strips = gym.make(args.env_id, render_mode="rgb_array" if args.output else None, **args.env_kwargs), {}
    for name, path in (agent.split("=", 1) for agent in args.agents):
        player = load(path, env)
        returns = [play(env, player, FIRST_SEED + episode)[0] for episode in range(args.episodes)]
        if args.csv:
            keep_returns(args.csv, args.env_id, name, returns, FIRST_SEED)
        above = np.mean(np.array(returns) > 0)
        print(f"{name}: mean return {np.mean(returns):.3f}, above 0 in {above:.1%} of {len(returns)} episodes")
        if args.output:
            strips[name] = film(env, player, args.film_seed, args.frames)
    if args.output:
        draw(strips, args.output)


if __name__ == "__main__":
    main()
