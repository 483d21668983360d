"""vet_policy: tries a policy that a language model wrote, in its locked process, before it is used."""

import copy
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from llmwrappers.containment.errors import PolicyFault, PolicyRejected
from llmwrappers.containment.policy import SLOWEST_CALL, ContainedPolicy
from llmwrappers.priors.contract import allowed_actions, native_action

PROBED = 16
"""Random observations of each scale that a probe tries."""
ROLLOUT_STEPS = 50


def vet_policy(
    source: str, observation_space: gym.Space, action_space: gym.Space, env: gym.Env | None = None
) -> ContainedPolicy:
    """Returns a policy, after a probe in its locked process.

    The probe gives the policy zeros, ones, and small, ordinary and large random observations, in two equal episodes; with
    ``env`` also the observations of a reset (seed 0) and of the first 50 steps. The policy must give the same answers in both
    episodes, on average within 20 ms of processor time. It may fail at half of the made-up observations, but at none of the real ones.

    Args:
        source: Python code that defines ``policy(obs)``, or a class ``Policy`` with ``__call__`` or ``act``
        observation_space: a space of arrays, or a Dict or Tuple of such spaces
        action_space: Box or Discrete
        env: an environment with these spaces; the probe resets and steps it

    Raises:
        PolicyRejected: with the line, if there is one, and the reason
        TypeError: a space is not supported

    Example:
        >>> env = gym.make("Pendulum-v1")
        >>> policy = vet_policy("def policy(obs):\\n    return -2.0 * obs[1]", env.observation_space, env.action_space)
        >>> policy(np.array([1.0, 0.5, 0.0])).tolist()
        -1.0
        >>> vet_policy("def policy(obs):\\n    return obs[:2]", env.observation_space, env.action_space)
        Traceback (most recent call last):
        ...
        llmwrappers.containment.errors.PolicyRejected: it fails in the probe: the prior returned shape (2,), the action space has (1,)
    """  # noqa: E501
    if not isinstance(action_space, Box | Discrete):
        raise TypeError(f"a policy serves Box and Discrete action spaces, got {action_space}")
    if not is_readable(observation_space):
        raise TypeError(f"a policy needs observations that are arrays, or a Dict of arrays, got {observation_space}")
    policy = ContainedPolicy(source)
    try:
        _probe(policy, observation_space, lambda answer: _action(answer, action_space))
        if env is not None:
            _play(policy, env)
    except PolicyFault as fault:
        raise PolicyRejected(None, f"it fails in the probe: {fault}") from None
    finally:
        policy.close()
    return policy


def is_readable(space: gym.Space) -> bool:
    """Whether a policy can read the observations of a space: numbers, or a Dict or a Tuple of them.

    Example:
        >>> is_readable(Dict(speed=Box(-1, 1, (3,)), gear=Discrete(5))), is_readable(gym.spaces.Text(5))
        (True, False)
    """
    if isinstance(space, Dict | Tuple):
        return all(map(is_readable, space.spaces.values() if isinstance(space, Dict) else space.spaces))
    return space.shape is not None and space.dtype is not None and space.dtype.kind in "fiub"


def _probe(policy: ContainedPolicy, space: gym.Space, take: Callable[[Any], Any]) -> None:
    """Tries made-up observations twice."""
    space, rng = copy.deepcopy(space), np.random.default_rng(0)
    space.seed(0)
    fills: list[Callable] = [np.zeros, np.ones]
    fills += [lambda shape, scale=s: scale * rng.standard_normal(shape) for s in (0.1, 1.0, 10.0, 1e3) for _ in range(PROBED)]
    observations = [_made_up(space, fill) for fill in fills]
    policy.batch(observations[:1])  # starts the process
    episodes, seconds = [], 0.0
    for _ in range(2):
        policy.reset()
        start = policy.cpu_seconds()
        answers = policy.batch(observations)
        seconds = (policy.cpu_seconds() - start) / len(observations)
        episodes.append([_taken(take, answer) for answer in answers])
    faults = [action for action in episodes[0] if isinstance(action, PolicyFault)]
    if len(faults) > len(observations) / 2:
        raise faults[0]
    if seconds > SLOWEST_CALL:
        # Without the time that it took: a model is told this, and its prompt, and so its reply, would differ every time.
        raise PolicyFault(f"a call takes longer than the {1000 * SLOWEST_CALL:.0f} ms that are allowed")
    for once, again in zip(*episodes, strict=True):
        if not isinstance(once, PolicyFault) and not np.array_equal(once, again):
            raise PolicyFault(
                "two episodes of the same observations got other actions; seed what is random at the top level of the code"
            )


def _made_up(space: gym.Space, fill: Callable) -> Any:
    """An observation of a space's structure; integers are drawn from the space, because they may be indices."""
    if isinstance(space, Dict):
        return {key: _made_up(part, fill) for key, part in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(_made_up(part, fill) for part in space.spaces)
    assert space.dtype is not None
    return fill(space.shape).astype(space.dtype) if space.dtype.kind == "f" else space.sample()


def _action(answer: Any, space: gym.Space) -> Any:
    """The first action that a policy's answer allows."""
    if isinstance(space, Discrete):
        return int(np.flatnonzero(allowed_actions(answer, space))[0] + space.start)
    assert isinstance(space, Box)
    return native_action(answer, space.low, space.high).astype(space.dtype)


def _taken(take: Callable[[Any], Any], answer: Any) -> Any:
    """The answer in the form of the action space, or its fault."""
    try:
        return answer if isinstance(answer, PolicyFault) else take(answer)
    except (ValueError, TypeError) as error:
        return PolicyFault(str(error))


def _play(policy: ContainedPolicy, env: gym.Env) -> None:
    """Plays the first steps of an episode."""
    policy.reset()
    observation, _ = env.reset(seed=0)
    for _ in range(ROLLOUT_STEPS):
        action = _taken(lambda answer: _action(answer, env.action_space), policy(observation))
        if isinstance(action, PolicyFault):
            raise action
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            break
