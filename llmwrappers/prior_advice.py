"""PriorAdvice: publishes what each of several prior policies would do."""

import copy
import os
import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from llmwrappers.generated_policy import GeneratedPolicy
from llmwrappers.llm_action_mask import MAX_FAULTS_IN_A_ROW
from llmwrappers.prior_input import native_action, read_prior_input, require_prior_input
from llmwrappers.priors import PriorPolicy, load_candidates


class PriorAdvice(gym.Wrapper, RecordConstructorArgs):
    """Publishes what each of several prior policies would do next, and changes nothing else.

    A learner can then learn from all of them, and a mask can be put around any one, each being asked once a state:
    ``LLMActionMask(PriorAdvice(env, "Ant-v4"), prior=lambda action: action, prior_input="prior_action")``. It belongs below the
    mask, where actions are in native units. Advice that is NaN is a fault of that mask, which gives up after 10 in a row; who
    chooses another prior then sets the mask's ``prior_faults_in_a_row`` to 0.

    A prior that raises or returns a wrong shape, NaN or Inf has made a fault: its advice for that state is NaN, and
    ``fault_counts`` counts it, with a warning at the first. After 10 faults in a row it is not asked any more, with another.

    Info:
        ``prior_actions``: reset and step, (n, \\*action_shape) of the action space's dtype, native units, clipped into the
            space: row k is what prior k would do at the observation; NaN where it was not asked or made a fault
        ``prior_action``: reset and step, the row of the attribute ``chosen``, the name of a prior; at first that of the first

    Args:
        env: a bounded Box action space of floats; any observation
        priors: a shipped name or a folder, of which all candidates advise (see ``load_candidates``), or callables by name
        isolation: where the code of a name or a folder is played, "inprocess" or in a locked "process" of its own
        prior_input: what the priors are handed, if that is not the observation (see LLMActionMask)

    Raises:
        ValueError: an action space without finite bounds, an LLMActionMask below, unknown ``priors`` or ``isolation``, a
            ``prior_input`` that is not there
        PolicyRejected: a prior whose code could do more than compute
        TypeError: an action space that is no Box of floats, priors that are nothing of this

    Example:
        >>> env = PriorAdvice(gym.make("Pendulum-v1"), {"push": lambda obs: [5.0], "brake": lambda obs: -obs[2:]})
        >>> obs, info = env.reset(seed=0)
        >>> env.names, info["prior_actions"].shape, float(info["prior_actions"][0, 0])
        (['push', 'brake'], (2, 1), 2.0)

    Change log:
        * v0.1.0 - added
    """

    def __init__(
        self,
        env: gym.Env,
        priors: str | os.PathLike[str] | Mapping[str, PriorPolicy],
        isolation: str = "inprocess",
        prior_input: str | None = None,
    ):
        space = env.action_space
        if not (isinstance(space, Box) and np.issubdtype(space.dtype, np.floating)):
            raise TypeError(f"PriorAdvice needs a Box action space of floats, got {space}")
        if not space.is_bounded("both"):
            raise ValueError(f"PriorAdvice needs an action space with finite bounds, got {space}")
        if env.has_wrapper_attr("native_action_space"):
            raise ValueError(f"PriorAdvice belongs below LLMActionMask, where actions are in native units; got {env}")
        require_prior_input(env, prior_input, isolation)
        # What a spec can hold: JSON's types.
        priors = os.fspath(priors) if isinstance(priors, os.PathLike) else priors
        policies = load_candidates(priors, isolation, space.shape) if isinstance(priors, str) else priors
        if not isinstance(policies, Mapping) or not all(map(callable, policies.values())):
            raise TypeError(f"priors must be a shipped name, a folder, or policies that can be called, by name; got {priors!r}")
        if not policies:
            raise ValueError(f"priors must hold at least one policy, got {priors!r}")
        RecordConstructorArgs.__init__(self, priors=priors, isolation=isolation, prior_input=prior_input)
        gym.Wrapper.__init__(self, env)
        self.names = list(policies)
        self.asked = list(self.names)
        """Names of the priors that are still asked; a learner takes out those that it is done with."""
        self.fault_counts = dict.fromkeys(self.names, 0)
        self.prior_input = prior_input
        self._chosen = 0
        self._policies = dict(policies)
        self.faults_in_a_row = dict.fromkeys(self.names, 0)
        self._nothing = np.full((len(policies), *space.shape), np.nan, dtype=space.dtype)
        self._low, self._high = space.low, space.high

    @property
    def chosen(self) -> str:
        """The name of the prior whose advice is ``info["prior_action"]``."""
        return self.names[self._chosen]

    @chosen.setter
    def chosen(self, name: str):
        if name not in self.names:
            raise ValueError(f"chosen must be one of {self.names}, got {name!r}")
        self._chosen = self.names.index(name)

    def close(self):
        """Closes the environment, and ends the priors' processes, if they have any."""
        for policy in self._policies.values():
            if isinstance(policy, GeneratedPolicy):
                policy.close()
        super().close()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Resets the environment and asks what to do first."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, self._advise(observation, info)

    def step(self, action):
        """Steps and asks what to do next."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, self._advise(observation, info)

    def _advise(self, observation, info: dict[str, Any]) -> dict[str, Any]:
        advice = self._nothing.copy()
        if self.asked:
            handed = read_prior_input(self, self.prior_input, observation, info)
            for k, name in enumerate(self.names):
                if name in self.asked:
                    try:
                        advice[k] = self._ask(self._policies[name], handed)
                        self.faults_in_a_row[name] = 0
                    except Exception as error:
                        self._count_fault(name, error)
        return {**info, "prior_actions": advice, "prior_action": advice[self._chosen].copy()}

    def _ask(self, policy: PriorPolicy, handed: Any) -> NDArray:
        # A copy, because a prior may write into what it is given.
        handed = handed.copy() if isinstance(handed, np.ndarray) else copy.deepcopy(handed)
        return native_action(policy(handed), self._low, self._high)

    def _count_fault(self, name: str, error: Exception) -> None:
        self.fault_counts[name] += 1
        self.faults_in_a_row[name] += 1
        if self.fault_counts[name] == 1:
            warnings.warn(
                f"PriorAdvice: the prior {name} failed ({type(error).__name__}: {error}); its advice for that state is NaN.",
                stacklevel=2,
            )
        if self.faults_in_a_row[name] >= MAX_FAULTS_IN_A_ROW:
            self.asked.remove(name)
            warnings.warn(
                f"PriorAdvice: the prior {name} failed {MAX_FAULTS_IN_A_ROW} times in a row "
                f"({type(error).__name__}: {error}); it is not asked any more.",
                stacklevel=2,
            )
