"""evaluate_agent: the return of an actor-critic with its most probable actions, with samples, and with an LLM's actions."""

from typing import Any

import gymnasium as gym
import numpy as np

from cleanrl_scripts.common.arguments import RunArgs
from cleanrl_scripts.common.evaluation import evaluate
from cleanrl_scripts.learning.actor_critic import ActorCritic
from llmwrappers.critical_states.guidance import GuidanceCounts


def evaluate_agent(
    agent: ActorCritic, env: gym.Env, guided_env: gym.Env | None, args: RunArgs, video_name: str
) -> dict[str, float]:
    """The agent's mean returns, the main one first.

    On a Box the main one is that of the most probable actions: a Gaussian's noise is for exploration. On a Discrete space it
    is that of samples: a sampled action may go on where the most probable action repeats without effect.

    Args:
        guided_env: the environment with the LLM's actions, if there are any
        video_name: the name of a recorded episode
    """
    samples = np.random.default_rng((args.seed, 2))
    ways: dict[str, Any] = {"deterministic": agent.act, "sampled": lambda observation: agent.act(observation, samples)}
    headline, other = ("deterministic", "sampled") if agent.policy.shape else ("sampled", "deterministic")
    values = {
        "eval/episodic_return": evaluate(env, ways[headline], args.seed, args.eval_episodes, video_name),
        f"eval/{other}_return": evaluate(env, ways[other], args.seed, args.eval_episodes, f"{video_name}-{other}"),
    }
    if guided_env:
        guided_env.set_wrapper_attr("counts", GuidanceCounts(), force=False)  # code that was given up is called again
        values["eval/guided_return"] = evaluate(guided_env, ways[headline], args.seed, args.eval_episodes)
    return values


def in_words(values: dict[str, float]) -> str:
    """The same for a line of the log."""
    (_, headline), *others = values.items()
    rest = (f"{name.removeprefix('eval/').removesuffix('_return')} {value:.4g}" for name, value in others)
    return f"return {headline:.4g} ({', '.join(rest)})"
