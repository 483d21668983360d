"""LLMActionMask: confines each action to an interval around a prior policy (CAMEL, arXiv 2502.11896)."""

import copy
import os
from numbers import Integral, Real
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.error import InvalidBound, InvalidProbability
from gymnasium.spaces import Box
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from llmwrappers.action_masks.box import BoxMask
from llmwrappers.action_masks.discrete import DiscreteMask
from llmwrappers.action_masks.gate import Gate
from llmwrappers.containment.policy import ContainedPolicy
from llmwrappers.faults import Faults
from llmwrappers.priors import load_prior
from llmwrappers.priors.contract import PriorPolicy, begin_episode, fault_text, with_own_state
from llmwrappers.priors.prior_input import read_prior_input, require_prior_input
from llmwrappers.priors.written_for import warn_of_changed_units


class LLMActionMask(gym.Wrapper, RecordConstructorArgs):
    """Confines each action to an interval around the action of a prior policy, usually one that an LLM wrote.

    Outside this wrapper a Box action space becomes ``Box(-1, 1)`` of the same shape, and every ``info`` has the interval of
    the next action. A Discrete action space does not change, and every ``info`` has ``action_mask``.

    With ``center = clip(prior(obs))`` and ``low, high = clip(center +- radius (space.high - space.low) / 2)``::

        rescale:  a = (low + high) / 2 + x (high - low) / 2       x spans the current interval (CAMEL's mapping)
        clip:     a = clip(native(x), low, high)                  x means the same with and without the mask

    The interval applies while the gate is open, with probability ``mask_epsilon``; else it is the whole space. The gate is
    drawn at every step (CAMEL) or once per episode, from its own random stream, which ``reset(seed=...)`` seeds. The prior
    may keep state for an episode: it is called once for every observation, in order, also while the gate is closed, but not
    as long as ``mask_epsilon`` has been 0 since the reset. An object with ``reset()`` is copied: each mask plays its own.
    ``prior_answer`` holds the prior's answer.

    A prior that raises, or returns a wrong shape, NaN or Inf, makes a fault: the whole space is allowed for that step, the
    fault is counted, and the first one gives a warning. After 10 faults in a row the mask stays off, with a second warning.

    On a Discrete space the prior returns an action, or the allowed ones as a set or as a vector of n truth values. Any other
    action is replaced by ``allowed[(action - start) % len(allowed)]``, which ``executed_action`` shows. The environment's own
    ``info["action_mask"]`` and ``action_masks()`` still apply; a prior that allows none of the legal actions does not mask.

    Info:
        ``action_low``, ``action_high``: reset and step, the space's dtype and shape, native units, interval of the next action
        ``action_mask``: reset and step, int8 (n,), the next actions that prior and environment allow (Discrete only)
        ``mask_active``: reset and step, bool (), whether the mask applies to the next action
        ``prior_faults``: reset and step, int64, number of faults of the prior so far
        ``executed_action``: reset and step, the action that the environment received, native units; NaN or 0 at reset

    Args:
        env: a bounded Box or a Discrete action space; any observation
        prior: a shipped prior's name ("Ant-v4"), a path to a Python file, a callable, or a class (see ``load_prior``)
        radius: half-width of the interval as a fraction of half the action range, in (0, 2]; 2 always spans the whole space
        mask_epsilon: probability in [0, 1] that the mask applies; you may set it and ``radius`` at any step, as attributes
        mapping: "rescale" or "clip"
        gate: "step" or "episode", how often the gate is drawn
        candidate: which of a shipped prior's candidates; its default candidate if None
        prior_of_another_env: whether to allow a prior that was written for another environment
        prior_input: what the prior is handed: the observation if None; "ram", Atari's RAM, uint8 (128,); "simulator",
            MuJoCo's ``qpos`` and ``qvel`` in one float64 array; or the key of an entry of every ``info``

    Raises:
        gymnasium.error.InvalidBound: ``radius`` outside (0, 2]
        gymnasium.error.InvalidProbability: ``mask_epsilon`` outside [0, 1]
        ValueError: an action space without finite bounds, a second mask, unknown ``mapping``, ``gate`` or ``prior_input``,
            what ``load_prior`` refuses; by ``step``, an action of another shape, with NaN, or outside a Discrete space
        TypeError: an action space that is neither Box nor Discrete

    Example:
        >>> env = LLMActionMask(gym.make("Pendulum-v1"), prior=lambda obs: np.array([0.5]), radius=0.25)
        >>> obs, info = env.reset(seed=0)
        >>> info["action_low"].tolist(), info["action_high"].tolist()
        ([0.0], [1.0])
        >>> env.step(np.array([-1.0], dtype=np.float32))[4]["executed_action"].tolist()
        [0.0]

    Reference:
        Zhao, Qian, Shan and Qin, "CAMEL: Continuous Action Masking Enabled by Large Language Models for Reinforcement
        Learning", arXiv 2502.11896.

    Change log:
        * v0.1.0 - added
    """

    def __init__(
        self,
        env: gym.Env,
        prior: str | os.PathLike[str] | PriorPolicy,
        radius: float = 0.3,
        mask_epsilon: float = 1.0,
        mapping: Literal["rescale", "clip"] = "rescale",
        gate: Literal["step", "episode"] = "step",
        candidate: int | None = None,
        prior_of_another_env: bool = False,
        prior_input: str | None = None,
    ):
        if not isinstance(env, gym.Env):
            raise TypeError(f"LLMActionMask wraps one environment, as of gym.make(id); of a vector, wrap each one; got {env!r}")
        space = env.action_space
        if mapping not in ("rescale", "clip"):
            raise ValueError(f"mapping must be 'rescale' or 'clip', got {mapping!r}")
        self._next = BoxMask(space, mapping) if isinstance(space, Box) else DiscreteMask(space, env)
        self._gate = Gate(gate)
        if env.has_wrapper_attr("native_action_space"):
            raise ValueError(f"env has an LLMActionMask already, got {env}")
        require_prior_input(env, prior_input)
        prior = os.fspath(prior) if isinstance(prior, os.PathLike) else prior  # a spec can only hold JSON's types
        self.mask_epsilon, self.radius = mask_epsilon, radius
        mask_epsilon, radius = self.mask_epsilon, self.radius
        candidate = int(candidate) if isinstance(candidate, Integral) else candidate
        self._prior = load_prior(with_own_state(prior, env), candidate, env, prior_of_another_env, prior_input)
        warn_of_changed_units(env, prior_input, prior_of_another_env)
        RecordConstructorArgs.__init__(
            self, prior=prior, radius=radius, mask_epsilon=mask_epsilon, mapping=mapping, gate=gate, candidate=candidate,
            prior_of_another_env=prior_of_another_env, prior_input=prior_input, _disable_deepcopy=True,
        )  # fmt: skip
        gym.Wrapper.__init__(self, env)
        self.native_action_space, self.mapping, self.gate, self.prior_input = space, mapping, gate, prior_input
        then = "the whole action space is allowed for this step. Further faults are counted in info['prior_faults']."
        self.prior_faults = Faults("LLMActionMask: the prior", then, "the mask stays off")
        self.prior_answer, self._is_over, self._is_asked = None, False, False
        if isinstance(self._next, BoxMask):
            self.action_space = self._next.normalized_space

    @property
    def mask_epsilon(self) -> float:
        """Probability that the mask applies when the gate is drawn next."""
        return self._mask_epsilon

    @mask_epsilon.setter
    def mask_epsilon(self, value: float):
        if not (isinstance(value, Real) and 0 <= value <= 1):
            raise InvalidProbability(f"mask_epsilon must lie in [0, 1], got {value!r}")
        self._mask_epsilon = float(value)

    @property
    def radius(self) -> float:
        """Half-width of the next intervals, as a fraction of half the action range; set it to widen or narrow the mask."""
        return self._radius

    @radius.setter
    def radius(self, value: float):
        if not (isinstance(value, Real) and 0 < value <= 2):
            raise InvalidBound(f"radius must lie in (0, 2], a fraction of half the action range, got {value!r}")
        self._radius = float(value)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Resets the environment, draws the episode's gate and writes the bounds of the first action into the info."""
        observation, info = self.env.reset(seed=seed, options=options)
        # Raises if no info has that key, even if the gate rarely opens.
        read_prior_input(self, self.prior_input, observation, info)
        info = {"executed_action": self._next.no_action.copy(), **info}
        self._begin_episode(seed)
        self._mask_next_action(observation, info)
        return observation, info

    def step(self, action):
        """Maps the action into the current bounds, steps, and writes the bounds of the next action into the info."""
        executed = self._next.confine(action)
        # Environments may write into the action they receive, and may return the same info dict again.
        executed_action = np.array(executed)
        observation, reward, terminated, truncated, info = self.env.step(executed)
        # A wrapper below that replaced the action knows what the environment received: its entry wins.
        info = {"executed_action": executed_action, **info}
        if self._is_over:  # a wrapper below began another episode, as Gymnasium's Autoreset does
            self._begin_episode()
        self._is_over = terminated or truncated
        self._mask_next_action(observation, info)
        return observation, reward, terminated, truncated, info

    def close(self):
        """Closes the environment and the prior's process, if there is one; warns if the mask never applied."""
        self._gate.warn_of_no_effect(self.prior_faults.total)
        if isinstance(self._prior, ContainedPolicy):
            self._prior.close()
        super().close()

    def bounds(self, observation) -> tuple[NDArray, NDArray]:
        """Returns the interval (low, high) around the prior's action, each of its shape, in native units.

        Override it for another rule. That interval is clipped into the action space; a wrong shape, NaN, low > high is a fault.

        Example:
            >>> policies = [lambda obs: [0.5], lambda obs: [-0.25]]
            >>> class MaskByDisagreement(LLMActionMask):
            ...     def bounds(self, observation):
            ...         return np.sort([policy(observation) for policy in policies], axis=0)
            >>> env = MaskByDisagreement(gym.make("Pendulum-v1"), prior=policies[0])
            >>> obs, info = env.reset(seed=0)
            >>> info["action_low"].tolist(), info["action_high"].tolist()
            ([-0.25], [0.5])
        """
        assert isinstance(self._next, BoxMask)
        self.prior_answer = self._prior(observation)
        return self._next.around(self.prior_answer, self._radius)

    def allowed_actions(self, observation) -> NDArray[np.int8]:
        """Returns the mask (n,) over a Discrete space: the actions that the prior allows."""
        assert isinstance(self._next, DiscreteMask)
        self.prior_answer = self._prior(observation)
        return self._next.allowed(self.prior_answer)

    def action_masks(self) -> NDArray[np.bool_]:
        """Returns the boolean mask (n,) of the next action on a Discrete space, in the form of sb3-contrib's MaskablePPO."""
        if isinstance(self._next, BoxMask):
            raise TypeError("action_masks() is for a Discrete space; on a Box read info['action_low'] and ['action_high']")
        return self._next.mask.astype(np.bool_)

    def _begin_episode(self, seed: int | None = None) -> None:
        self._gate.begin_episode(self._mask_epsilon, seed)
        self._is_over = self._is_asked = False
        if not self.prior_faults.is_too_many:
            try:
                begin_episode(self._prior)
            except Exception as error:
                self.prior_faults.add(f"{type(error).__name__} in its reset: {error}", stacklevel=3)

    def _mask_next_action(self, observation, info: dict[str, Any]) -> None:
        """Calls the prior, sets the bounds of the next action and writes them into its info."""
        mask, self.prior_answer = None, None
        is_open = self._gate.is_open(self._mask_epsilon)
        self._is_asked |= is_open or self._mask_epsilon > 0
        if self._is_asked and not self.prior_faults.is_too_many:
            mask = self._prior_mask(read_prior_input(self, self.prior_input, observation, info))
        info["mask_active"] = np.array(self._next.set(mask if is_open else None, info))
        self._gate.had_effect |= bool(info["mask_active"])
        info["prior_faults"] = np.int64(self.prior_faults.total)

    def _prior_mask(self, observation) -> Any:
        """The prior's bounds or allowed actions at an observation; None if it made a fault."""
        rule = self.bounds if isinstance(self._next, BoxMask) else self.allowed_actions
        try:
            # A copy, because a prior may write into what it is given.
            mask = rule(observation.copy() if isinstance(observation, np.ndarray) else copy.deepcopy(observation))
            # The intervals of the default rule are right by construction; those of another rule are checked.
            if isinstance(self._next, BoxMask) and type(self).bounds is not LLMActionMask.bounds:
                mask = self._next.part_within(*mask)
        except Exception as error:
            self.prior_answer = None
            self.prior_faults.add(fault_text(error, self._prior), stacklevel=2)
            return None
        self.prior_faults.end_row()
        return mask
