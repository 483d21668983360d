"""Evaluates an agent of Stable-Baselines3 without mask and guidance, continues its schedule, and deploys it."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium as gym
from gymnasium.spaces import Box
from gymnasium.wrappers import RescaleAction
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from llmwrappers.action_masks.intervals import to_native
from llmwrappers.priors.written_for import found_below
from llmwrappers.sb3.replay_buffers import REPLACED

Env = TypeVar("Env", gym.Env, VecEnv)


def alone(env: Env) -> Env:
    """Turns the mask and the guidance of an environment off for good, to evaluate the agent alone; returns the environment.

    Args:
        env: an environment for evaluation, not the one for training; or a VecEnv of them

    Raises:
        ValueError: there is no LLMActionMask, LLMActionOverride or CriticalStateRewarder
        TypeError: ``env`` is one of Gymnasium's vectors

    Example:
        >>> from llmwrappers import EpsilonMaskSchedule, LLMActionMask
        >>> def make():
        ...     return EpsilonMaskSchedule(LLMActionMask(gym.make("Pendulum-v1"), "Pendulum-v1"), total_timesteps=1000)
        >>> env = alone(make())
        >>> obs, info = env.reset(seed=0)
        >>> bool(info["mask_active"]), env.get_wrapper_attr("mask_epsilon")
        (False, 0.0)
    """
    if isinstance(env, gym.vector.VectorEnv):
        way_out = "envs = SyncVectorEnv([lambda: alone(make())] * n)"
        raise TypeError(f"alone takes an environment or a VecEnv of Stable-Baselines3, got {env}; make each alone: {way_out}")
    turned_off = [_set_in_wrappers(env, "mask_epsilon", 0.0), _set_in_wrappers(env, "is_guided", False)]
    if not any(turned_off):
        raise ValueError(f"alone needs an environment with an LLMActionMask, or with an LLM's guidance, got {env}")
    _set_in_wrappers(env, "elapsed_steps", math.inf)
    return env


def continue_schedule(model: BaseAlgorithm) -> None:
    """Sets the EpsilonMaskSchedule of a loaded model's environments to the steps that it has trained for.

    Raises:
        ValueError: the model has no environments, or they have no EpsilonMaskSchedule

    Example:
        >>> from stable_baselines3 import TD3
        >>> from llmwrappers import EpsilonMaskSchedule, LLMActionMask
        >>> env = EpsilonMaskSchedule(LLMActionMask(gym.make("Pendulum-v1"), "Pendulum-v1"), total_timesteps=1000)
        >>> model = TD3("MlpPolicy", env)  # or TD3.load(path, env)
        >>> model.num_timesteps = 50
        >>> continue_schedule(model)
        >>> env.get_wrapper_attr("mask_epsilon")
        0.75
    """
    envs = model.get_env()
    if envs is None or not _set_in_wrappers(envs, "elapsed_steps", model.num_timesteps // envs.num_envs):
        raise ValueError("continue_schedule needs a model whose environments have an EpsilonMaskSchedule: TD3.load(path, env)")


def _set_in_wrappers(env: gym.Env | VecEnv, name: str, value: float) -> bool:
    """Sets an attribute of a wrapper below a vector's Monitor, which ``VecEnv.set_attr`` sets it on; returns if one has it."""
    owned = "mask_fraction" if name == "elapsed_steps" else name  # an environment may count its steps, too
    if not (all(env.env_method("has_wrapper_attr", owned)) if isinstance(env, VecEnv) else env.has_wrapper_attr(owned)):
        return False
    if isinstance(env, VecEnv):
        env.env_method("set_wrapper_attr", name, value, force=False)
    else:
        env.set_wrapper_attr(name, value, force=False)
    return True


def unmasked(model: BaseAlgorithm, deterministic: bool = True) -> Callable[[Any], Any]:
    """Returns the agent as a policy of the bare environment: raw observation -> action in the environment's own units.

    An agent trained in a mask acts in [-1, 1]. Load one with its VecNormalize: ``TD3.load(p, VecNormalize.load(file, envs))``.
    Give a MaskablePPO's policy the legal actions: ``policy(obs, action_masks=env.action_masks())``. A RecurrentPPO's policy
    keeps its state: call ``policy.reset()`` when an episode begins.

    Args:
        model: it takes one observation, or a batch of them, and so does the policy
        deterministic: whether it plays the most probable action, or samples

    Raises:
        ValueError: a RescaleAction, or another wrapper outside the mask, replaced the action space, so that the environment's
            own units are unknown

    Example:
        >>> from stable_baselines3 import TD3
        >>> from llmwrappers import LLMActionMask
        >>> model = TD3("MlpPolicy", LLMActionMask(gym.make("Pendulum-v1"), "Pendulum-v1"))
        >>> obs, _ = gym.make("Pendulum-v1").reset(seed=0)
        >>> bool((unmasked(model)(obs) == 2 * model.predict(obs, deterministic=True)[0]).all())
        True
    """
    native, normaliser, envs = getattr(model.action_space, "native_space", None), model.get_vec_normalize_env(), model.get_env()
    is_masked = envs is not None and any(envs.env_method("has_wrapper_attr", "native_action_space"))
    if native is None and is_masked and isinstance(model.action_space, Box):
        raise ValueError(f"unmasked needs LLMActionMask's action space, got {model.action_space}; {REPLACED}")
    made = envs.unwrapped.envs if envs is not None and isinstance(envs.unwrapped, DummyVecEnv) else ()
    if name := next((name for env in made for name in found_below(env, (RescaleAction,))), ""):
        raise ValueError(
            f"unmasked returns actions in the environment's own units, got a model whose actions {name} rescales: play it in "
            f"{name}, with model.predict"
        )

    state = None  # of a recurrent agent

    def policy(observation, **action_masks):
        nonlocal state
        observation = observation if normaliser is None else normaliser.normalize_obs(observation)
        action, state = model.predict(observation, state, deterministic=deterministic, **action_masks)
        return action if native is None or native == model.action_space else to_native(action, native.low, native.high)

    def reset() -> None:
        nonlocal state
        state = None

    if hasattr(model.policy, "lstm_actor"):
        policy.reset = reset  # pyright: ignore[reportFunctionMemberAccess]
    return policy
