"""Agents before and after an LLM led them on: what they return on grids that nobody has seen, and a film strip of both.

    python benchmarks/stuck_agents.py --env-id llmwrappers/KeyCorridor-v0 \
        --agents stuck=llmwrappers/critical_states/shipped/llmwrappers-KeyCorridor-v0/agent.pt "led on=runs/.../agent.pt" \
        --output docs/key-corridor.png

Agents play alone, and sample their actions on Discrete spaces, as in the evaluations of ppo_ultra.py, whose seeds are others.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import llmwrappers  # noqa: F401  registers its environments
from cleanrl_scripts.common.actor_critic import ActorCritic

FIRST_SEED = 1_000_000


def load(path: str, env: gym.Env) -> ActorCritic:
    agent = ActorCritic(env.observation_space, env.action_space, np.random.default_rng(0), torch.device("cpu"))
    agent.load_state_dict(torch.load(path, map_location="cpu", weights_only=True)["agent"])
    return agent


def play(env: gym.Env, agent: ActorCritic, seed: int, images: bool = False) -> tuple[float, list[Any]]:
    """The return of an episode, and its images."""
    rng = None if agent.policy.shape else np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed)
    frames, episodic_return, done = [env.render()] if images else [], 0.0, False
    while not done:
        observation, reward, terminated, truncated, _ = env.step(agent.act(observation, rng))
        episodic_return, done = episodic_return + float(reward), terminated or truncated
        if images:
            frames.append(env.render())
    return episodic_return, frames


def draw(strips: dict[str, list[tuple[int, np.ndarray]]], path: Path) -> None:
    """Frames in a row for each agent, each with its step."""
    columns, (height, width, _) = len(next(iter(strips.values()))), next(iter(strips.values()))[0][1].shape
    figure = Figure(figsize=(1.4 * columns + 0.3, (1.4 * height / width + 0.25) * len(strips)), dpi=110, layout="constrained")
    grid = figure.subplots(len(strips), columns, squeeze=False)
    for axes, (name, frames) in zip(grid, strips.items(), strict=True):
        for column, (ax, (step, frame)) in enumerate(zip(axes, frames, strict=True)):
            ax.imshow(frame)
            ax.set(xticks=[], yticks=[])
            ax.set_title(f"step {step}", fontsize=7)
            if column == 0:
                ax.set_ylabel(name, fontsize=8)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env-id", required=True)
    parser.add_argument("--agents", required=True, nargs="+", metavar="NAME=FILE", help="agent.pt files of ppo_ultra.py")
    parser.add_argument("--episodes", type=int, default=200, help="each with a seed, and so a grid, of its own")
    parser.add_argument("--output", type=Path, help="the film strip to draw, a PNG")
    parser.add_argument("--frames", type=int, default=8, help="of each agent, spread over its episode")
    args = parser.parse_args()
    env, strips = gym.make(args.env_id, render_mode="rgb_array" if args.output else None), {}
    for name, path in (agent.split("=", 1) for agent in args.agents):
        agent = load(path, env)
        returns = [play(env, agent, FIRST_SEED + episode)[0] for episode in range(args.episodes)]
        above = np.mean(np.array(returns) > 0)
        print(f"{name}: mean return {np.mean(returns):.3f}, above 0 in {above:.1%} of {len(returns)} episodes")
        if args.output:
            images = play(env, agent, FIRST_SEED, images=True)[1]
            steps = np.linspace(0, len(images) - 1, args.frames).round().astype(int)
            strips[name] = [(int(step), images[step]) for step in steps]
    if args.output:
        draw(strips, args.output)


if __name__ == "__main__":
    main()
