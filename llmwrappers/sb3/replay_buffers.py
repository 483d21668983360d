"""Replay buffers that store what the environment received, for the off-policy learners of Stable-Baselines3."""

from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from llmwrappers.action_masks.intervals import to_normalized

REPLACED = "a wrapper outside the mask replaced it: leave that wrapper out; the mask takes actions in [-1, 1] already"


class _ExecutedActions:
    """Stores what the environment received instead of what the agent chose."""

    action_space: Any

    def add(self, obs, next_obs, action, reward, done, infos):
        native = getattr(self.action_space, "native_space", None)
        if "executed_action" not in infos[0]:
            raise ValueError(
                f"{type(self).__name__} needs an environment with an LLMActionMask, got one whose infos hold {sorted(infos[0])}"
            )
        if native is None and not isinstance(self.action_space, Discrete):
            raise ValueError(f"{type(self).__name__} needs LLMActionMask's action space, got {self.action_space}; {REPLACED}")
        executed = np.array([info["executed_action"] for info in infos])
        executed = executed if native is None else to_normalized(executed, native.low, native.high)
        super().add(obs, next_obs, executed.reshape(action.shape), reward, done, infos)  # pyright: ignore


class ExecutedActionReplayBuffer(_ExecutedActions, ReplayBuffer):
    """Stores the executed action: for TD3, SAC, DDPG, TQC, CrossQ and DQN in an LLMActionMask of either mapping.

    The executed action may differ from the one that the agent chose, and the critic must learn from the executed one. The
    buffer stores it in [-1, 1] over the whole Box, which is what an action means without the mask; an integer stays.

    Raises:
        ValueError: by ``add``, if there is no LLMActionMask

    Example:
        >>> import gymnasium as gym
        >>> from stable_baselines3 import TD3
        >>> from llmwrappers import LLMActionMask
        >>> env = LLMActionMask(gym.make("Pendulum-v1"), lambda obs: [1.0], radius=0.25)
        >>> model = TD3("MlpPolicy", env, replay_buffer_class=ExecutedActionReplayBuffer, buffer_size=100, seed=0)
        >>> stored = model.learn(50).replay_buffer.actions[:50]
        >>> bool(stored.min() >= 0.25), bool(stored.max() <= 0.75)
        (True, True)
    """


class ExecutedActionDictReplayBuffer(_ExecutedActions, DictReplayBuffer):
    """The same for Dict observations."""


class ExecutedActionHerReplayBuffer(_ExecutedActions, HerReplayBuffer):
    """The same with goals relabelled, as HerReplayBuffer does."""
