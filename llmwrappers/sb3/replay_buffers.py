"""Replay buffers that store what the environment received, for the off-policy learners of Stable-Baselines3."""

from typing import Any

import numpy as np
from gymnasium.spaces import Box
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from llmwrappers.action_masks.intervals import to_normalized

REPLACED = "a wrapper outside replaced it: leave that wrapper out; a mask takes actions in [-1, 1] already"


class _ExecutedActions:
    """Stores what the environment received instead of what the agent chose."""

    action_space: Any

    def add(self, obs, next_obs, action, reward, done, infos):
        name, space = type(self).__name__, self.action_space
        if "executed_action" not in infos[0]:
            raise ValueError(
                f"{name} needs an LLMActionMask or an LLMActionOverride, got an environment whose infos hold {sorted(infos[0])}"
            )
        executed = np.array([info["executed_action"] for info in infos])
        if isinstance(space, Box):
            native = getattr(space, "native_space", None)
            if native is None or not np.allclose(executed, executed.clip(native.low, native.high)):
                raise ValueError(f"{name} needs the action space of the mask or the override, got {space}; {REPLACED}")
            executed = to_normalized(executed, native.low, native.high)
        super().add(obs, next_obs, executed.reshape(action.shape), reward, done, infos)  # pyright: ignore


class ExecutedActionReplayBuffer(_ExecutedActions, ReplayBuffer):
    """Stores the executed action: for TD3, SAC, DDPG, TQC, CrossQ and DQN in an LLMActionMask or an LLMActionOverride.

    The executed action may differ from the one that the agent chose, and the critic must learn from the executed one. The
    buffer stores it in [-1, 1] over the whole Box, which is what an action means without the mask; an integer stays.

    Raises:
        ValueError: by ``add``, if there is neither, or a wrapper outside replaced the action space

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


class ExecutedActionNStepReplayBuffer(_ExecutedActions, NStepReplayBuffer):
    """The same with n-step returns: ``replay_buffer_kwargs={"n_steps": 3, "gamma": 0.99}``, beside ``n_steps=3``."""


class ExecutedActionDictReplayBuffer(_ExecutedActions, DictReplayBuffer):
    """The same for Dict observations."""


class ExecutedActionHerReplayBuffer(_ExecutedActions, HerReplayBuffer):
    """The same with goals relabelled, as HerReplayBuffer does."""
