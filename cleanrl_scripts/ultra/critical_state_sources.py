"""The agent to fine-tune and the critical states that guide it: finds, reads and checks their files."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Dict
from gymnasium.spaces.utils import flatdim
from gymnasium.wrappers import FlattenObservation

from cleanrl_scripts.common.arguments import CommonArgs
from cleanrl_scripts.learning.actor_critic import ActorCritic
from cleanrl_scripts.ultra.moved_states import random_states
from cleanrl_scripts.ultra.permuted_actions import PermutedActions
from cleanrl_scripts.ultra.statemask import statemask
from llmwrappers import CriticalFunction, CriticalStates, Trajectories
from llmwrappers.critical_states.guidance import SHIPPED, Guidance, load_guidance, shipped_guidance
from llmwrappers.errors import UserError
from llmwrappers.faults import MAX_IN_A_ROW, FaultCounts
from llmwrappers.files import folder_name, sha256
from llmwrappers.making import env_kwargs_of
from llmwrappers.priors import TRUSTED


@dataclass
class SourceArgs(CommonArgs):
    # The agent
    pretrain_timesteps: int = 0
    """if not 0: trains an agent with PPO alone for so many steps (a new one, or the one that --agent names), saves it and its
    episodes, and ends"""
    agent: str = "shipped"
    """the agent to fine-tune: shipped (env_id's), the agent.pt of a run, or none (a new agent)"""
    network_hidden: tuple[int, ...] | None = None
    """widths of a new agent's hidden layers, not of networks for images (default: 64 64); --agent has its own"""
    trajectory_episodes: int = 10
    """episodes of the final agent, with its exploration noise, to save beside it"""

    # The guidance
    arm: Literal["none", "a", "r", "ra", "random", "rnd", "statemask"] = "a"
    """none: PPO alone; a: the LLM's actions; r: its rewards; ra: both; random: the control (for code, other actions in the same
    states; for a table, the same at random states); rnd: a novelty bonus at the LLM's states; statemask: that bonus at the
    states that a learned mask network calls critical"""
    guidance: Literal["code", "table"] = "code"
    """which form of the guidance: code (critical.py), or a table (table.json, the paper's form)"""
    critical_states: str = "shipped"
    """shipped (env_id's), a shipped name, a folder, .json or .py that local_llm.find_critical_states wrote, or trusted:FILE.py,
    code of your own that runs with your rights; for --arm rnd also everywhere (a bonus in every state)"""
    patience_steps: int = 20_000
    """the run ends with an error if no critical state occurs in so many steps of an environment"""
    statemask_timesteps: int = 50_000
    """steps in which --arm statemask first trains its mask network"""
    fidelity_episodes: int = 0
    """if not 0: for so many episodes, plays the agent with random actions in the critical states, and in as many random
    states, prints the loss of return of each, and ends"""


SOURCE_RANGES = {
    "at least 0": ("pretrain_timesteps", "trajectory_episodes", "patience_steps", "fidelity_episodes"),
    "at least 1": ("network_hidden", "statemask_timesteps"),
}


FILES = {"code": "critical.py", "table": "table.json"}


def shipped(file: str) -> list[str]:
    """The ids of the environments whose shipped folder holds a file."""
    return sorted(path.parent.name.replace("llmwrappers-", "llmwrappers/") for path in SHIPPED.glob(f"*/{file}"))


def check_sources(args: SourceArgs) -> None:
    """Refuses what is not shipped and what does not fit together; pretraining starts with a new agent, without guidance."""
    if args.pretrain_timesteps and args.fidelity_episodes:
        raise UserError(
            f"--fidelity-episodes {args.fidelity_episodes} plays an agent that has been trained, and trains none; give it "
            "without --pretrain-timesteps"
        )
    if args.pretrain_timesteps:
        args.agent, args.arm = "none" if args.agent == "shipped" else args.agent, "none"
        return
    if args.agent == "shipped" and not (table_folder(args) / "agent.pt").is_file():
        raise UserError(
            f"no agent is shipped for --env-id {args.env_id} (shipped: {', '.join(shipped('agent.pt'))}). Train one with "
            "--pretrain-timesteps 300000 and give --agent RUN_DIR/agent.pt, or start with a new one: --agent none"
        )
    needed = args.arm != "none" or args.fidelity_episodes
    file = FILES[args.guidance]
    if args.critical_states == "shipped" and needed and not (table_folder(args) / file).is_file():
        raise UserError(
            f"no {args.guidance} is shipped for --env-id {args.env_id} (shipped: {', '.join(shipped(file))}). Let a model "
            f"write it: llmwrappers find-critical-states --env-id {args.env_id} --trajectories "
            "RUN_DIR/trajectories.npz; or train without: --arm none"
        )
    if args.critical_states == "everywhere" and args.arm != "rnd":
        raise UserError(
            f"--critical-states everywhere is for --arm rnd, got --arm {args.arm}: no LLM says what to do everywhere"
        )


def table_folder(args: SourceArgs) -> Path:
    """The shipped folder of the environment: table, agent and the agent's episodes."""
    return SHIPPED / folder_name(args.env_id)


def agent_path(args: SourceArgs) -> Path | None:
    if args.agent == "none":
        return None
    return table_folder(args) / "agent.pt" if args.agent == "shipped" else Path(args.agent)


def trajectories_path(args: SourceArgs) -> Path | None:
    """The episodes saved with the agent."""
    path = agent_path(args)
    return path and path.with_name("trajectories.npz")


def guidance_source(args: SourceArgs) -> Path | str:
    """The file or folder of the LLM's critical states, or a shipped name, if there is no such file or folder."""
    is_name = folder_name(args.critical_states) in shipped_guidance()
    folder = table_folder(args) if args.critical_states == "shipped" else Path(args.critical_states)
    if is_name and not folder.exists():
        folder = SHIPPED / folder_name(args.critical_states)
    if folder.is_dir() or args.critical_states == "shipped":
        return folder / FILES[args.guidance]
    return folder if folder.exists() else args.critical_states


def source_files(args: SourceArgs) -> dict[str, str]:
    """The hashes of the files that a run depends on; a resumed run refuses files that have changed."""
    paths = {"agent": agent_path(args), "trajectories": None if args.pretrain_timesteps else trajectories_path(args)}
    if args.arm != "none" and not args.pretrain_timesteps:
        paths["critical_states"] = Path(str(guidance_source(args)).removeprefix(TRUSTED))
    files = {name: path for name, path in paths.items() if path is not None and path.is_file()}
    return {name: sha256(path) for name, path in files.items()}


def load_agent(args: SourceArgs, make_agent: Callable[..., ActorCritic]) -> ActorCritic:
    """Returns the agent that --agent names, or a new one.

    Args:
        make_agent: widths of the hidden layers -> a new agent

    Raises:
        UserError: no such file, damaged, of an older version, of another environment or of another architecture
    """
    path = agent_path(args)
    if path is None:
        return make_agent(args.network_hidden or (64, 64))
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        saved_id, state = saved["env_id"], saved["agent"]
        is_old, sizes = "parameters" in state["network"], state.get("sizes")
    except Exception as error:
        raise UserError(f"--agent {path} is no agent.pt of this script: {type(error).__name__}: {error}") from None
    if is_old:
        raise UserError(f"--agent {path} is of an older version of this script; train it again with --pretrain-timesteps")
    if saved_id != args.env_id:
        raise UserError(f"--agent {path}: its env_id is {saved_id}, --env-id is {args.env_id}")
    agent = make_agent(args.network_hidden or (sizes or ())[1:-1])
    if sizes != agent.sizes:
        raise UserError(f"--agent {path}: its network's sizes are {sizes}, those of this run are {agent.sizes}")
    try:
        agent.load_state_dict(state)
    except ValueError as error:
        raise UserError(f"--agent {path}: {error}") from None
    except Exception as error:
        raise UserError(f"--agent {path} is damaged: {type(error).__name__}: {error}") from None
    trained_in = saved.get("env_kwargs", args.env_kwargs)  # older files do not tell
    if env_kwargs_of(trained_in) != env_kwargs_of(args.env_kwargs):
        print(f"note: --agent {path} was trained with --env-kwargs '{trained_in}', this run has '{args.env_kwargs}'")
    return agent


def matched_info(env: gym.Env) -> str | None:
    """The key of info that critical states are matched with, for an agent on pixels; None for the observation."""
    return "objects" if len(env.observation_space.shape or ()) == 3 else None


def require_answers(code: CriticalFunction, env: gym.Env, source: Path | str, seed: int) -> None:
    """Refuses code that fails from the start: it would be given up, and the run be PPO alone under another name."""
    actions, key = copy.deepcopy(env.action_space), matched_info(env)
    actions.seed(seed)
    observation, info = env.reset(seed=seed)
    code.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the error says it
        for _ in range(MAX_IN_A_ROW):
            code(info[key] if key else observation)
            observation, _, terminated, truncated, info = env.step(actions.sample())
            if terminated or truncated:
                observation, info = env.reset(seed=seed)
                code.reset()
    code.close()
    if code.faults.is_too_many:
        handed = f"info[{key!r}]" if key else _handed(env)
        raise UserError(
            f"--critical-states {source}: the code failed at each of the first {MAX_IN_A_ROW} observations, first with "
            f"{code.faults.first}. It is handed {handed}. Mend it, or train without it: --arm none"
        )
    code.faults.counts = FaultCounts()  # the run counts its own


def _handed(env: gym.Env) -> str:
    """What code is handed here; a Dict is flattened."""
    shape = f"an array of shape {env.observation_space.shape}"
    if not (isinstance(env, FlattenObservation) and isinstance(space := env.env.observation_space, Dict)):
        return shape
    places, end = [], 0
    for name, part in space.spaces.items():
        start, end = end, end + flatdim(part)
        places.append(f"{name} {start}" if end == start + 1 else f"{name} {start} to {end - 1}")
    return f"{shape}, a Dict flattened: {', '.join(places)}"


def load_critical_states(
    args: SourceArgs, env: gym.Env, agent: ActorCritic, rng: np.random.Generator, learner: Callable[..., Any]
) -> Guidance | None:
    """The guidance of this arm; None in the arm `none`.

    Args:
        learner: (args, envs, agent, rng) -> the learner that trains the mask network of --arm statemask
    """
    if args.arm == "none" and not args.fidelity_episodes:
        return None
    if args.arm in ("rnd", "statemask") and agent.images:
        raise UserError(f"--arm {args.arm} needs observations that are vectors; {args.env_id} has images")
    if args.critical_states == "everywhere":
        return lambda _: (None, 0.0)
    source = guidance_source(args)
    try:
        guidance = load_guidance(source, env, info_key=matched_info(env))
    except (ValueError, TypeError, OSError) as error:
        raise UserError(f"--critical-states {source}: {error}") from None
    if key := matched_info(env):
        info = env.reset(seed=0)[1]
        if key not in info:
            raise UserError(
                f"--critical-states {source}: in place of images, guidance reads info[{key!r}], a vector that the environment "
                f"must give at reset and step; its info has {sorted(info)}"
            )
        size = np.size(info[key])
        if isinstance(guidance, CriticalStates) and guidance.scale.size != size:
            raise UserError(
                f"--critical-states {source}: its states have {guidance.scale.size} entries, info[{key!r}] has {size}; give a "
                f"table of info[{key!r}]"
            )
    if isinstance(guidance, CriticalFunction):
        require_answers(guidance, env, source, args.seed)
    if args.arm not in ("random", "statemask"):
        return guidance
    if args.arm == "random" and isinstance(guidance, CriticalFunction):
        return PermutedActions.of(guidance, rng)
    if not isinstance(guidance, CriticalStates):
        raise UserError(f"--arm {args.arm} moves the states of a table; --critical-states {source} is none: --guidance table")
    path = trajectories_path(args)
    if path is None:
        raise UserError(f"--arm {args.arm} chooses states from the trajectories beside --agent, got --agent none")
    try:
        trajectories = Trajectories.load(path)
        if args.arm == "random":
            return random_states(guidance, trajectories, rng)
        return statemask(args, env, agent, guidance, trajectories, rng, learner)
    except ValueError as error:
        raise UserError(f"--arm {args.arm} chooses states from {path}: {error}") from None
