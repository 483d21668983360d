"""The contract of a prior: what it may be, what its answers mean, and how long it may keep state: for an episode."""

import copy
import functools
import inspect
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from llmwrappers.containment.errors import PolicyFault, PolicyRejected
from llmwrappers.containment.program import PAIR, Program, acting, begins_an_episode, describe, is_pair, makes_objects

PriorPolicy = Callable[[Any], Any]
"""An observation (raw, usually an array) -> an action in native units.

On a Box: numbers of its shape. On Discrete(n): an action, or those allowed, as a set or as n truth values.

A policy with state has a ``reset()``, which is called when an episode begins.
"""


OTHER_NAMES = "get_action", "select_action", "choose_action", "compute_action", "control", "predict"
"""Methods that controllers act by elsewhere."""


class PriorObject:
    """Calls a class (or a partial of one) or an object with ``act(obs)``; a class without ``reset()`` begins anew each episode.

    Example:
        >>> class Counter:
        ...     n = 0
        ...     def act(self, obs):
        ...         self.n += 1
        ...         return [self.n]
        >>> prior = PriorObject(Counter)
        >>> prior(None), prior(None), prior.reset(), prior(None)
        ([1], [2], None, [1])
    """

    def __init__(self, source: Any):
        self.source = source
        self._begin()

    def __call__(self, observation: Any) -> Any:
        return self._act(observation)

    def reset(self) -> None:
        """Begins an episode."""
        if (reset := reset_of(self._object)) is not None:
            reset()
        elif makes_objects(self.source):
            self._begin()

    def __repr__(self) -> str:
        return f"PriorObject({self.source!r})"

    def _begin(self) -> None:
        if makes_objects(self.source) and not begins_an_episode(self.source):
            raise TypeError(
                f"prior: {self.source!r} needs arguments, {inspect.signature(self.source)}; give an object, or the class with "
                "its arguments: functools.partial(TheClass, its, arguments)"
            )
        self._object, self._act = acting(self.source)
        if not callable(self._act):
            raise not_a_prior(self.source)


def not_a_prior(prior: Any) -> TypeError:
    """Returns the error for what cannot act, with the way out if it has a method that can."""
    method = next((name for name in OTHER_NAMES if callable(getattr(prior, name, None))), None)
    owner = f"{prior.__name__}()" if inspect.isclass(prior) else "controller"
    way_out = f"; give that method: prior={owner}.{method}" if method else ""
    if method == "predict" and "deterministic" in inspect.signature(getattr(prior, method)).parameters:
        way_out = "; its policy is lambda obs: model.predict(obs, deterministic=True)[0]"
    return TypeError(
        "prior must be the name of a shipped prior, a path to a Python file, a callable, or an object or a class with "
        f"act(obs), got {prior!r} of type {type(prior).__name__}{way_out}"
    )


def reset_of(policy: Any) -> Callable | None:
    """Returns the ``reset()`` of a policy, or of the object whose method it is, as of ``controller.act``; None without one."""
    policy = _unwrapped(policy)
    is_method = inspect.ismethod(policy) and not isinstance(policy.__self__, gym.Env)
    reset = getattr(policy.__self__ if is_method else policy, "reset", None)
    return reset if begins_an_episode(reset) else None


def begin_episode(policy: PriorPolicy) -> None:
    """Resets a policy that keeps state."""
    if (reset := reset_of(policy)) is not None:
        reset()


def fault_text(error: Exception, policy: PriorPolicy) -> str:
    """Says what a policy did wrong, and in which line of its file.

    Raises:
        PolicyRejected: the policy has no locked process to play in; it is not to blame, and would be missing all the time
    """
    if isinstance(error, PolicyRejected) and not isinstance(policy, Program):
        raise error
    if isinstance(error, PolicyFault):  # its message is complete
        return str(error)
    return describe(error, policy.filename) if isinstance(policy, Program) else f"{type(error).__name__}: {error}"


def native_action(answer: Any, low: NDArray, high: NDArray) -> NDArray[np.float64]:
    """Returns a prior's answer as a native action, clipped into the action space.

    The answer may have any numeric form with the space's shape, except for axes of length 1: a number is an action of shape
    (1,).

    Raises:
        ValueError: the answer has another shape than the action space, or NaN or Inf
        TypeError: the answer is not numeric

    Example:
        >>> native_action(3, np.array([-2.0]), np.array([2.0])).tolist()
        [2.0]
    """
    if answer is None or isinstance(answer, set | frozenset | dict | str | bytes):
        raise TypeError(f"the prior returned {answer!r}; the action space takes numbers of shape {low.shape}")
    try:
        action = np.asarray(answer, dtype=np.float64)
    except (ValueError, TypeError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        way_out = PAIR if is_pair(answer) else f": {error}"
        raise kind(f"the prior returned {answer!r}; the action space takes numbers of shape {low.shape}{way_out}") from None
    if action.shape != low.shape:
        if action.size != low.size or np.squeeze(action).shape != np.squeeze(low).shape:
            raise ValueError(f"the prior returned shape {action.shape}, the action space has {low.shape}")
        action = action.reshape(low.shape)
    if not np.isfinite(action).all():
        raise ValueError(f"the prior returned {action}")
    return np.minimum(np.maximum(action, low), high)


def allowed_actions(answer: Any, space: Discrete) -> NDArray[np.int8]:
    """Returns the mask (n,) that a prior's answer allows: one action, a set of actions, or a vector of n truth values.

    Raises:
        ValueError: the answer has an action outside the space, another shape or type, or no action at all

    Example:
        >>> space = Discrete(3, start=1)
        >>> [allowed_actions(answer, space).tolist() for answer in (2, {1, 3}, [True, False, True])]
        [[0, 1, 0], [1, 0, 1], [1, 0, 1]]
    """
    if is_pair(answer) and not isinstance(answer[0], bool | np.bool_):  # (1, 0) of Discrete(2) would allow action 0 alone
        raise ValueError(f"the prior returned {answer!r}, the allowed actions are a set or truth values{PAIR}")
    n, start = int(space.n), int(space.start)
    is_set = isinstance(answer, set | frozenset)
    numbers = np.asarray(list(answer) if is_set else answer)
    is_numeric = numbers.dtype.kind in "fiub"
    if is_numeric and not is_set and n > 1 and numbers.shape == (n,) and np.isin(numbers, (0, 1)).all():
        mask = numbers.astype(np.int8)
    elif is_numeric and (is_set or numbers.size == 1):
        mask = np.zeros(n, dtype=np.int8)
        for number in numbers.ravel().tolist():
            if not (float(number).is_integer() and start <= number < start + n):
                raise ValueError(f"the prior answered with action {number!r}, which is not in {space}")
            mask[int(number) - start] = 1
    else:
        raise ValueError(
            f"the prior returned {answer!r}; it must be an action of {space}, a set of actions, or a vector of {n} truth values"
        )
    if not mask.any():
        raise ValueError("the prior allowed no action at all")
    return mask


def with_own_state(policy: Any, env: gym.Env) -> Any:
    """Returns a copy of a policy with ``reset()``, whose state no other environment changes; else, or if it cannot, the policy.

    The copy still reads the environment that it plays in, if the policy does. A function cannot be copied, nor what holds a
    lock, a socket or a solver; a warning says so when a second environment uses it.
    """
    if reset_of(policy) is None:
        return policy
    shared = [env, *vars(env.unwrapped).values()]  # the simulator, for example
    while isinstance(env, gym.Wrapper):
        shared.append(env := env.env)
    try:
        copied = copy.deepcopy(policy, {id(part): part for part in shared})
        if not inspect.isfunction(_unwrapped(policy)):
            return copied
        why = "it is a function"
    except Exception as error:  # copying runs code of the policy's own
        why = f"{type(error).__name__}: {error}"
    first = _first_env.get(id(policy), lambda: None)()
    if first is None:
        _first_env[id(policy)] = weakref.ref(env.unwrapped)
    elif first is not env.unwrapped:
        what = f"{policy!r} plays in two environments, which share its state: it cannot be copied"
        warnings.warn(f"{what} ({why}). Give each environment its own", stacklevel=4)
    return policy


def _unwrapped(policy: Any) -> Any:
    while isinstance(policy, functools.partial):
        policy = policy.func
    return policy


_first_env: dict[int, weakref.ref[gym.Env]] = {}  # of each policy that could not be copied
