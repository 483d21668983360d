"""What a prior is handed, and what it may answer."""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from llmwrappers.sandbox.values import layout_of_space


def require_prior_input(env: gym.Env, prior_input: str | None, isolation: str = "inprocess") -> None:
    """Raises a ValueError if the environment cannot have that input: no Atari RAM, no MuJoCo state, no array for a process.

    Example:
        >>> require_prior_input(gym.make("InvertedPendulum-v4"), "simulator")
    """
    if isolation == "process" and prior_input is None and layout_of_space(env.observation_space) is None:
        raise ValueError(
            "isolation='process' needs observations that are arrays or a Dict of arrays, or a prior_input that is one, got "
            f"{env.observation_space}"
        )
    if prior_input == "ram" and not hasattr(env.unwrapped, "ale"):
        raise ValueError(f"prior_input='ram' needs an Atari environment (env.unwrapped.ale), got {env}")
    if prior_input == "simulator" and not hasattr(getattr(env.unwrapped, "data", None), "qpos"):
        raise ValueError(
            f"prior_input='simulator' needs a MuJoCo environment of Gymnasium's kind (env.unwrapped.data.qpos), got {env}; of "
            "another, such as dm_control's, write what the prior is to read into info with a wrapper, and name its key"
        )


def read_prior_input(env: gym.Env, prior_input: str | None, observation: Any, info: dict[str, Any]) -> Any:
    """Returns what a prior is to be handed in the state that an environment has just returned.

    None is the observation; "ram" Atari's RAM, uint8 (128,); "simulator" MuJoCo's ``qpos`` and ``qvel`` in one float64 array;
    any other string the entry of ``info`` under that key.

    Raises:
        ValueError: no such key in ``info``
    """
    if prior_input is None:
        return observation
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


def native_action(answer: Any, low: NDArray, high: NDArray) -> NDArray[np.float64]:
    """Returns a prior's answer as a native action, clipped into the action space.

    Raises:
        ValueError: an answer of another shape than the action space, or one with NaN or Inf
    """
    action = np.asarray(answer, dtype=np.float64)
    if action.shape != low.shape:
        raise ValueError(f"the prior returned shape {action.shape}, the action space has {low.shape}")
    if not np.isfinite(action).all():
        raise ValueError(f"the prior returned {action}")
    return np.minimum(np.maximum(action, low), high)
