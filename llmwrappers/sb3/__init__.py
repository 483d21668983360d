"""For users of Stable-Baselines3, sb3-contrib and SBX: a buffer of executed actions, warm start, evaluation alone.

``pip install "llmwrappers[sb3]"``. The wrappers do not need this folder: any learner of these libraries runs in them.
"""

from llmwrappers.sb3.evaluation import alone, continue_schedule, unmasked
from llmwrappers.sb3.replay_buffers import (
    ExecutedActionDictReplayBuffer,
    ExecutedActionHerReplayBuffer,
    ExecutedActionNStepReplayBuffer,
    ExecutedActionReplayBuffer,
)
from llmwrappers.sb3.warm_start import begin_as

__all__ = [
    "ExecutedActionDictReplayBuffer",
    "ExecutedActionHerReplayBuffer",
    "ExecutedActionNStepReplayBuffer",
    "ExecutedActionReplayBuffer",
    "alone",
    "begin_as",
    "continue_schedule",
    "unmasked",
]
