"""Makes environments for the scripts: recorded if wanted, with observations that are vectors or images."""

import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.spaces.utils import flatten_space

from cleanrl_scripts.common.arguments import RunArgs
from cleanrl_scripts.common.checked_env import CheckedEnv
from llmwrappers.action_spaces import transformed_actions
from llmwrappers.bounded_episodes import MAX_EPISODE_STEPS, bounded
from llmwrappers.errors import UserError
from llmwrappers.far_actions import far_actions
from llmwrappers.making import (
    accept_older_versions,
    image_refusal,
    is_image,
    render_without_display,
    way_out,
    without_text,
)


def make_env(args: RunArgs, video_dir: Path | None = None) -> gym.Env:
    """The environment with raw observations, without text, and native actions; recorded, if there is a folder for videos.

    Raises:
        UserError: Gymnasium cannot make it, or cannot render it; or ``--env-kwargs`` is no JSON object
    """
    try:
        options = args.make_kwargs
    except ValueError as error:
        raise UserError(str(error)) from None
    options |= {"render_mode": "rgb_array"} if video_dir else {}
    accept_older_versions()
    if video_dir:
        render_without_display()
        warnings.filterwarnings("ignore", message=".*Overwriting existing videos")  # a resumed run's own
    try:
        made = gym.make(args.env_id, disable_env_checker=True, **options)
        env: gym.Env = CheckedEnv(bounded(without_text(made)), args.env_id)
        if video_dir:
            env.reset(seed=0)
            if env.render() is None:
                raise ValueError("render() returned None where an image was asked for, so there is nothing to record")
            env = gym.wrappers.RecordVideo(
                env, str(video_dir), episode_trigger=lambda n: n % args.eval_episodes == 0, disable_logger=True
            )
    except UserError:  # its message is complete
        raise
    except Exception as error:
        option = f" --env-kwargs '{args.env_kwargs}'" if args.env_kwargs != "{}" else ""
        option += " --capture-video" if video_dir else ""
        raise UserError(
            f"--env-id {args.env_id}{option}: {type(error).__name__}: {error}{way_out(error, rendering=bool(video_dir))}"
        ) from None
    return env


def make_flat_env(args: RunArgs, video_dir: Path | None = None) -> gym.Env:
    """An environment for PPO: native actions, observations that are vectors or images."""
    env = make_env(args, video_dir)
    refuse_action_space(args.env_id, "this PPO", env.action_space, discrete=True, bounded=False)
    return flattened(env, args.env_id, images=True)


def flattened(env: gym.Env, env_id: str, images: bool = False) -> gym.Env:
    """The environment with observations that are vectors, or images that a network here takes."""
    space = env.observation_space
    if isinstance(space, Box) and len(space.shape) == 1:
        return env
    if not (is_image(space) or _flattens(space)):
        raise UserError(f"--env-id {env_id}: {_what_stays(space)}")
    if is_image(space) and not images:
        raise UserError(f"--env-id {env_id}: td3_camel.py has no network for images, got {space}; ppo_camel.py has one")
    if refusal := image_refusal(space):
        raise UserError(f"--env-id {env_id}: {refusal}")
    return env if is_image(space) else gym.wrappers.FlattenObservation(env)


def _flattens(space: gym.Space) -> bool:
    try:
        return isinstance(flatten_space(space), Box)
    except NotImplementedError:
        return False


def _what_stays(space: gym.Space) -> str:
    entries = [key for key, part in space.spaces.items() if not _flattens(part)] if isinstance(space, Dict) else []
    if not entries:
        return f"cannot flatten {space} to a vector"
    return (
        f"cannot make numbers of {', '.join(map(repr, entries))} in the observation; register the environment with "
        "gymnasium.wrappers.FilterObservation, which leaves out entries"
    )


def refuse_action_space(env_id: str, algorithm: str, space: gym.Space, discrete: bool, bounded: bool) -> None:
    """Refuses what is neither a Box of floats (with finite low < high, if ``bounded``) nor, if they are served, Discrete."""
    is_float = isinstance(space, Box) and np.issubdtype(space.dtype, np.floating)
    is_served = is_float or (discrete and isinstance(space, Discrete))
    if bounded and isinstance(space, Box):
        is_served = is_float and space.is_bounded("both") and bool((space.low < space.high).all())
    if not is_served:
        box = "a Box action space of floats" + " with finite low < high" * bounded
        way_out = "" if is_float or isinstance(space, Discrete) else f"; {transformed_actions(space)}"
        if not (discrete or isinstance(space, Box)):
            way_out += "; ppo_camel.py takes it"
        raise UserError(f"--env-id {env_id}: {algorithm} needs {box}{' or a Discrete one' * discrete}, got {space}{way_out}")


def note_endless_episodes(env: gym.Env, env_id: str) -> None:
    """Prints how long an episode may be, if the environment has no limit."""
    if env.spec is not None and env.spec.max_episode_steps is None:
        print(
            f"note: {env_id} is registered without max_episode_steps; its episodes end after {MAX_EPISODE_STEPS} steps at the "
            "latest (--max-episode-steps)",
            flush=True,
        )


def note_far_actions(env: gym.Env, env_id: str) -> None:
    """Prints that PPO's network, whose outputs are native actions and begin near 0, is slow to reach the action range."""
    if far := far_actions(env.action_space):
        print(f"note: {env_id}: {far}", flush=True)
