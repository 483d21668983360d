"""vet_policy: plays a policy that an LLM wrote in a fresh, locked process before it is used."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llmwrappers.sandbox.generated_policy import SLOWEST_CALL, GeneratedPolicy
from llmwrappers.sandbox.language import PolicyFault, PolicyRejected
from llmwrappers.sandbox.values import Layout, laid_out, layout_of_space, size_of_layout

PROBED = 16
"""Random observations of each scale that a probe tries."""
ROLLOUT_STEPS = 50


def vet_policy(
    source: str, observation_space: Any, action_space: Any, isolation: str = "inprocess", env: Any = None
) -> GeneratedPolicy:
    """Returns a policy for play after the check and a probe in a fresh, locked process.

    The probe plays zeros, ones, small, ordinary and large random observations, twice each; with ``env`` also the
    observations of a reset (seed 0) and of the first 50 steps. The policy must answer always alike, on average within 20 ms,
    and must not fail at more than half of the made-up observations, nor at a single real one.

    Args:
        source: Python code that defines ``policy(obs)``
        observation_space: a space of arrays (Box, Discrete, MultiBinary, MultiDiscrete), or a Dict of such spaces
        action_space: Box, or Discrete, for which the policy returns n truth values: the allowed actions
        isolation: of the policy that is returned; the probe is always in a process of its own
        env: an environment with these spaces, to be reset and stepped

    Raises:
        PolicyRejected: with the line, where there is one, and the reason
        TypeError: spaces that it does not serve

    Example:
        >>> import gymnasium as gym
        >>> env = gym.make("Pendulum-v1")
        >>> policy = vet_policy("def policy(obs):\\n    return [-2.0 * obs[1]]", env.observation_space, env.action_space)
        >>> policy(np.array([1.0, 0.5, 0.0])).tolist()
        [-1.0]
        >>> vet_policy("def policy(obs):\\n    return obs[:2]", env.observation_space, env.action_space)
        Traceback (most recent call last):
        ...
        llmwrappers.sandbox.language.PolicyRejected: it fails in the probe: the policy returned shape (2,), not (1,)
    """
    if (layout := layout_of_space(observation_space)) is None:
        raise TypeError(f"a generated policy needs observations that are arrays, or a Dict of arrays, got {observation_space}")
    if _is_discrete(action_space):
        action_dim: int | tuple[int, ...] = int(action_space.n)
    elif hasattr(action_space, "low"):
        action_dim = action_space.shape if len(action_space.shape) != 1 else action_space.shape[0]
    else:
        raise TypeError(f"a generated policy serves Box and Discrete action spaces, got {action_space}")
    probe = GeneratedPolicy(source, action_dim, "process")
    try:
        _probe(probe, layout, action_space)
        if env is not None:
            _play(probe, env)
    except PolicyFault as fault:
        raise PolicyRejected(None, f"it fails in the probe: {fault}") from None
    finally:
        probe.close()
    return GeneratedPolicy(source, action_dim, isolation)


def _is_discrete(space: Any) -> bool:
    """Whether a space is Gymnasium's Discrete, which this folder does not import; of the others that have n, none has start."""
    return hasattr(space, "n") and hasattr(space, "start")


def _probe(policy: GeneratedPolicy, layout: Layout, action_space: Any) -> None:
    """Tries made-up observations."""
    rng, size = np.random.default_rng(0), size_of_layout(layout)
    made_up = [np.zeros(size), np.ones(size)]
    made_up += [scale * rng.standard_normal(size) for scale in (0.1, 1.0, 10.0, 1e6) for _ in range(PROBED)]
    observations = [laid_out(numbers, layout) for numbers in made_up]
    policy.batch(observations[:1])  # starts the process
    start = time.perf_counter()
    actions, faults, reason = policy._ask(observations)
    seconds = (time.perf_counter() - start) / len(observations)
    if faults.sum() > len(faults) / 2:
        raise PolicyFault(reason)
    if seconds > SLOWEST_CALL:
        # How long is not said: it would be another prompt, and so another reply, each time that it is sent back to a model.
        raise PolicyFault(f"a call takes longer than the {1000 * SLOWEST_CALL:.0f} ms that are allowed")
    again = policy.batch(observations[::-1])[::-1]
    if not np.array_equal(actions[~faults], again[~faults]):
        raise PolicyFault("the same observation gives different actions; policy(obs) must depend on obs alone")
    if _is_discrete(action_space):
        _require_allowed_actions(actions[~faults])


def _require_allowed_actions(actions: NDArray[np.float64]) -> None:
    if not np.isin(actions, (0, 1)).all() or not actions.any(axis=1).all():
        raise PolicyFault("it must return a 0 or 1 for each action, 1 where it is allowed, and allow one at least")


def _play(policy: GeneratedPolicy, env: Any) -> None:
    """Plays the first steps of an episode."""
    space = env.action_space
    observation, _ = env.reset(seed=0)
    for _ in range(ROLLOUT_STEPS):
        action: Any = policy(observation)
        if _is_discrete(space):
            _require_allowed_actions(action[None])
            action = int(np.flatnonzero(action)[0] + space.start)
        else:
            action = np.clip(action, space.low, space.high).astype(space.dtype)
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            break
