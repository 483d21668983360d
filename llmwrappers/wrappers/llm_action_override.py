"""LLMActionOverride: plays the LLM's action in critical states (ULTRA-A, arXiv 2505.20671)."""

import copy
import math
import os
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import InvalidProbability
from gymnasium.spaces import Box, Discrete
from gymnasium.utils import RecordConstructorArgs

from llmwrappers.action_spaces import transformed_actions
from llmwrappers.critical_states.guidance import Guidance, GuidanceLookup, GuidedWrapper
from llmwrappers.priors.written_for import warn_of_changed_observations, warn_of_rescaled_actions

# Mixed into the seed: default_rng(seed) alone would repeat the environment's own random stream.
CONTROL_STREAM = 3


class LLMActionOverride(GuidedWrapper, RecordConstructorArgs):
    """Acts as the LLM suggested in critical states, and as the agent chose elsewhere.

    Spaces do not change; ``info`` has the action that the environment received. A learner must learn from that action, with
    its probability under the learner's own policy; else it credits an action that was never played::

        executed = LLM's action, if the state acted in is critical; the agent's action elsewhere     (ULTRA-A)

    If there is an LLMActionMask, put this wrapper below it, where actions are in native units. To measure what an entry is
    worth, its action is sometimes withheld (see EntryWorth); entries that cost return can be ``disabled``.

    Info:
        ``executed_action``: the action that the environment received; if a wrapper below wrote one, that one
        ``action_overridden``: bool (), whether the LLM's action replaced the agent's
        ``llm_action``: the LLM's action in the state acted in, played or not; the executed action if the LLM has none
        ``critical``: bool (), whether the state acted in was critical, here or in a CriticalStateRewarder below
        ``critical_entry``: int64, the entry of the table or of the code that the state matched, -1 for none; 0 for any other
            callable
        All at reset and step; at reset the actions are NaN (0 on a Discrete space), the others False and -1

    Args:
        env: an environment with a Discrete action space or a Box of floats
        critical_states: a name of a shipped table ("Hopper-v4"), a path to a table (.json), to code (.py) or to a folder
            with ``table.json`` or ``critical.py``, "trusted:FILE.py", or a callable such as CriticalStates:
            observation -> (action, reward) or None
        info_key: if not None, the key of an array in every ``info`` to look up instead of the observation
        patience_steps: how many steps may pass at first without a critical state; 0 for any number
        control_probability: the probability, in [0, 1), that the agent's own action is played in a critical state anyway

    Raises:
        ValueError: critical states that are not found or do not fit, an LLMActionMask or another override below, bad
            ``patience_steps``, a missing ``info_key``
        InvalidProbability: ``control_probability`` outside [0, 1)
        PolicyRejected: code that does not run as a critical function
        TypeError: an action space that is neither Discrete nor a Box of floats
        NothingCritical: by ``step``, if no state was critical in the first ``patience_steps`` steps

    Example:
        >>> from llmwrappers import CriticalStates
        >>> upright = CriticalStates([[1.0, 0.0, 0.0]], actions=[[0.5]], rewards=[1.0], scale=[1.0, 1.0, 1.0], tolerance=0.9)
        >>> env = LLMActionOverride(gym.make("Pendulum-v1"), upright)
        >>> obs, info = env.reset(seed=0)
        >>> info = env.step(np.array([-2.0], dtype=np.float32))[4]
        >>> info["executed_action"].tolist(), bool(info["action_overridden"])
        ([0.5], True)

    Reference:
        Tan, Yan and Yang, "LLM-Guided Reinforcement Learning: Addressing Training Bottlenecks through Policy Modulation",
        arXiv 2505.20671.

    Change log:
        * v0.1.0 - added
    """

    def __init__(
        self,
        env: gym.Env,
        critical_states: str | os.PathLike[str] | Guidance,
        info_key: str | None = None,
        patience_steps: int = 20_000,
        control_probability: float = 0.0,
    ):
        space = env.action_space
        is_of_floats = isinstance(space, Box) and np.issubdtype(space.dtype, np.floating)
        if not (is_of_floats or isinstance(space, Discrete)):
            raise TypeError(
                f"LLMActionOverride serves Discrete spaces and Boxes of floats, got {space}; {transformed_actions(space)}"
            )
        if env.has_wrapper_attr("native_action_space"):
            raise ValueError(f"LLMActionOverride belongs below LLMActionMask, where actions are in native units; got {env}")
        if env.has_wrapper_attr("control_probability"):
            raise ValueError(
                f"env has an LLMActionOverride already, got {env}; it is applied last, so this one would have no effect"
            )
        warn_of_rescaled_actions(env, "LLMActionOverride", "Put it around the override")
        if not 0 <= control_probability < 1:
            raise InvalidProbability(f"control_probability must lie in [0, 1), got {control_probability!r}")
        if info_key is None:
            warn_of_changed_observations(env, "LLMActionOverride", "the guidance")
        # A spec can only hold JSON's types.
        critical_states = os.fspath(critical_states) if isinstance(critical_states, os.PathLike) else critical_states
        control_probability = float(control_probability)
        self._lookup = GuidanceLookup(critical_states, env, info_key, patience_steps)
        RecordConstructorArgs.__init__(
            self,
            _disable_deepcopy=True,
            critical_states=critical_states,
            info_key=info_key,
            patience_steps=patience_steps,
            control_probability=control_probability,
        )
        gym.Wrapper.__init__(self, env)
        if isinstance(space, Box):
            self.action_space = copy.deepcopy(space)
            # A replay buffer has only the space: this tells it that no wrapper outside replaced it.
            self.action_space.native_space = space  # pyright: ignore[reportAttributeAccessIssue]
        self.control_probability = control_probability
        self._control_rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Resets the environment and looks up the first observation."""
        if seed is not None:
            self._control_rng = np.random.default_rng((seed, CONTROL_STREAM))
        observation, info = super().reset(seed=seed, options=options)
        none = np.full_like(self.action_space.low, np.nan) if isinstance(self.action_space, Box) else np.array(0)
        info = {"executed_action": none, "critical": np.array(False), **info, "action_overridden": np.array(False)}
        info["critical_entry"], info["llm_action"] = np.int64(-1), none.copy()
        return observation, info

    def step(self, action):
        """Steps with the LLM's action in a critical state, unless it is withheld; else with the agent's action."""
        advice, entry = self._lookup.count(), self._lookup.entry
        is_withheld = (
            advice is not None and self.control_probability > 0 and self._control_rng.random() < self.control_probability
        )
        llm_action = None if advice is None else self._into_space(advice[0])
        executed = action if llm_action is None or is_withheld else llm_action
        # Environments may write into the action they receive, and may return the same info dict again.
        executed_action, llm_action = self._copied(executed), self._copied(executed if llm_action is None else llm_action)
        observation, reward, terminated, truncated, info = self.env.step(executed)
        critical = advice is not None
        info = {"executed_action": executed_action, **info}
        info["action_overridden"] = np.array(critical and not is_withheld)
        info["critical"] = np.array(critical or bool(info.get("critical", False)))
        # A rewarder below may have another table: its entry would be judged by this wrapper's actions.
        info["critical_entry"], info["llm_action"] = np.int64(entry), llm_action
        self._lookup.follow(observation, info, terminated or truncated)
        return observation, reward, terminated, truncated, info

    def _into_space(self, action):
        space = self.action_space
        try:
            numbers = np.asarray(action, dtype=np.float64)
        except (TypeError, ValueError):
            numbers = np.array(np.nan)
        numbers = numbers.reshape(space.shape) if numbers.size == math.prod(space.shape or ()) == 1 else numbers
        if numbers.shape != space.shape or np.isnan(numbers).any():
            raise ValueError(f"the suggested action must be in {space}, got {action!r}")
        if isinstance(space, Box):
            return np.minimum(np.maximum(numbers, space.low), space.high).astype(space.dtype)
        if not (float(numbers).is_integer() and space.contains(int(numbers))):
            raise ValueError(f"the suggested action must be in {space}, got {action!r}")
        return int(numbers)

    def _copied(self, action):
        return np.array(action, dtype=self.action_space.dtype)
