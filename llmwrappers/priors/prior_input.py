"""The input of a prior: the observation, Atari's RAM, MuJoCo's state, or a key of info."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box


def require_prior_input(env: gym.Env, prior_input: str | None) -> None:
    """Raises a ValueError if the environment cannot have that input: no Atari RAM, no MuJoCo state.

    Example:
        >>> require_prior_input(gym.make("InvertedPendulum-v4"), "simulator")
    """
    if prior_input == "ram" and not hasattr(env.unwrapped, "ale"):
        raise ValueError(f"prior_input='ram' needs an Atari environment (env.unwrapped.ale), got {env}")
    if prior_input == "simulator" and not hasattr(getattr(env.unwrapped, "data", None), "qpos"):
        raise ValueError(
            f"prior_input='simulator' needs a MuJoCo environment of Gymnasium's kind (env.unwrapped.data.qpos), got {env}; of "
            "another, such as dm_control's, write what the prior is to read into info with a wrapper, and name its key"
        )


def as_array(observation: Any, env: gym.Env) -> Any:
    """Returns a list, which some environments return from a Box, as an array of the Box's dtype; all else as it is.

    Example:
        >>> as_array([0.5, 0.0, 1.0], gym.make("Pendulum-v1"))
        array([0.5, 0. , 1. ], dtype=float32)
    """
    if isinstance(observation, list) and isinstance(env.observation_space, Box):
        return np.asarray(observation, env.observation_space.dtype)
    return observation


def read_prior_input(env: gym.Env, prior_input: str | None, observation: Any, info: dict[str, Any]) -> Any:
    """Returns the input of a prior in the state that an environment has just returned.

    None is the observation; "ram" Atari's RAM, uint8 (128,); "simulator" MuJoCo's ``qpos`` and ``qvel`` in one float64 array;
    any other string the entry of ``info`` under that key.

    Raises:
        ValueError: ``info`` has no such key
    """
    if prior_input is None:
        return as_array(observation, env)
    simulator: Any = env.unwrapped
    if prior_input == "ram":
        return simulator.ale.getRAM()
    if prior_input == "simulator":
        return np.concatenate([simulator.data.qpos, simulator.data.qvel])
    if prior_input not in info:
        raise ValueError(
            f"prior_input must be None, 'ram', 'simulator' or a key of every info, got {prior_input!r}; info has {sorted(info)}"
        )
    return info[prior_input]
