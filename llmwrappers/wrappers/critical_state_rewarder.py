"""CriticalStateRewarder: adds the LLM's reward in critical states (ULTRA-R, arXiv 2505.20671)."""

import math
import os
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from llmwrappers.critical_states.guidance import Guidance, GuidanceLookup, GuidedWrapper
from llmwrappers.priors.written_for import warn_of_changed_observations
from llmwrappers.scalar_reward import scalar_reward


class CriticalStateRewarder(GuidedWrapper, RecordConstructorArgs):
    """Adds the LLM's reward to the environment's in critical states.

    Spaces do not change; ``info`` has the LLM's part of the reward. With ``r_llm(s)`` in [-1, 1] in critical states and 0
    elsewhere::

        paper:      reward + alpha r_llm(s)                                     (ULTRA-R; can change the optimal policy)
        potential:  reward + gamma Phi(s') (not terminated) - Phi(s),  Phi = alpha r_llm      (Ng et al. 1999; cannot)

    The potential form keeps the optimal policy only if the learner discounts by the same ``gamma``.

    Info:
        ``llm_reward``: float64, the LLM's part of the reward, scaled, including that of a wrapper below
        ``critical``: bool (), whether the state acted in was critical, here or in a wrapper below with its own guidance
        ``critical_entry``: int64, the entry of the table or of the code that the state matched, -1 for none; 0 for any other
            callable. With an LLMActionOverride in the stack it is the entry of that wrapper
        All at reset and step; at reset 0, False and -1

    Args:
        env: any environment with observations, or infos, that the critical states fit
        critical_states: a name of a shipped table ("Hopper-v4"), a path to a table (.json), to code (.py) or to a folder
            with ``table.json`` or ``critical.py``, "trusted:FILE.py", or a callable such as CriticalStates:
            observation -> (action, reward) or None
        alpha: the weight of the LLM's reward, >= 0; in the paper 0.5 for Pong and 0.1 for MuJoCo
        shaping: "paper" or "potential"
        gamma: the learner's discount factor, in [0, 1]; only "potential" uses it
        info_key: if not None, the key of an array in every ``info`` to look up instead of the observation
        patience_steps: how many steps may pass at first without a critical state; 0 for any number

    Raises:
        ValueError: critical states that are not found or do not fit, ``alpha`` or ``gamma`` out of range, unknown
            ``shaping``, bad ``patience_steps``, a missing ``info_key``
        PolicyRejected: code that does not run as a critical function
        ValueError: by ``step``, if a callable's reward is outside [-1, 1]
        NothingCritical: by ``step``, if no state was critical in the first ``patience_steps`` steps

    Example:
        >>> from llmwrappers import CriticalStates
        >>> upright = CriticalStates([[1.0, 0.0, 0.0]], actions=[[0.5]], rewards=[1.0], scale=[1.0, 1.0, 1.0], tolerance=0.9)
        >>> env = CriticalStateRewarder(gym.make("Pendulum-v1"), upright, alpha=0.5)
        >>> obs, info = env.reset(seed=0)
        >>> obs, reward, terminated, truncated, info = env.step(np.array([0.0], dtype=np.float32))
        >>> bool(info["critical"]), float(info["llm_reward"])
        (True, 0.5)

    Reference:
        Tan, Yan and Yang, "LLM-Guided Reinforcement Learning: Addressing Training Bottlenecks through Policy Modulation",
        arXiv 2505.20671. Ng, Harada and Russell, "Policy Invariance under Reward Transformations", ICML 1999.

    Change log:
        * v0.1.0 - added
    """

    def __init__(
        self,
        env: gym.Env,
        critical_states: str | os.PathLike[str] | Guidance,
        alpha: float = 0.1,
        shaping: str = "paper",
        gamma: float = 0.99,
        info_key: str | None = None,
        patience_steps: int = 20_000,
    ):
        if not 0 <= alpha < math.inf:
            raise ValueError(f"alpha must be a finite weight >= 0, got {alpha!r}")
        if shaping not in ("paper", "potential"):
            raise ValueError(f"shaping must be 'paper' or 'potential', got {shaping!r}")
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma must lie in [0, 1], got {gamma!r}")
        if info_key is None:
            warn_of_changed_observations(env, "CriticalStateRewarder", "the guidance")
        # A spec can only hold JSON's types.
        critical_states = os.fspath(critical_states) if isinstance(critical_states, os.PathLike) else critical_states
        alpha, gamma = float(alpha), float(gamma)
        self._lookup = GuidanceLookup(critical_states, env, info_key, patience_steps)
        RecordConstructorArgs.__init__(
            self,
            _disable_deepcopy=True,
            critical_states=critical_states,
            alpha=alpha,
            shaping=shaping,
            gamma=gamma,
            info_key=info_key,
            patience_steps=patience_steps,
        )
        gym.Wrapper.__init__(self, env)
        self.alpha, self.shaping, self.gamma = alpha, shaping, gamma

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Resets the environment and looks up the first observation."""
        observation, info = super().reset(seed=seed, options=options)
        none = {"llm_reward": np.float64(0.0), "critical": np.array(False), "critical_entry": np.int64(-1)}
        return observation, {**none, **info}

    def step(self, action):
        """Steps and adds the LLM's reward."""
        only_resets = self._lookup.is_over  # a wrapper below resets instead of stepping, as Gymnasium's Autoreset does
        advice, entry = self._lookup.count(), self._lookup.entry
        observation, reward, terminated, truncated, info = self.env.step(action)
        next_advice = self._lookup.follow(observation, info, terminated or truncated)
        llm_reward = self._scaled(advice)
        if self.shaping == "potential" and not only_resets:
            llm_reward = (0.0 if terminated else self.gamma * self._scaled(next_advice)) - llm_reward
        # Environments may return the same info dict again.
        critical = advice is not None
        info = {**info, "llm_reward": np.float64(llm_reward + info.get("llm_reward", 0.0))}
        info["critical"] = np.array(critical or bool(info.get("critical", False)))
        # Else the effect of an override below would be credited to an entry of another table.
        if "action_overridden" not in info:
            info["critical_entry"] = np.int64(entry if critical else info.get("critical_entry", -1))
        return observation, scalar_reward(reward) + llm_reward, terminated, truncated, info

    def _scaled(self, advice: tuple[Any, float] | None) -> float:
        if advice is None:
            return 0.0
        try:
            reward = np.asarray(advice[1], dtype=np.float64).item()
        except (TypeError, ValueError):
            reward = math.nan
        if not -1 <= reward <= 1:
            raise ValueError(f"the suggested reward must be a number in [-1, 1], got {advice[1]!r}")
        return self.alpha * reward
