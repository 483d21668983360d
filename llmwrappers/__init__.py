"""Gymnasium wrappers that let a language model guide reinforcement learning.

The LLM works offline: what it wrote (a Python policy, a table of critical states) is a file, and training needs no LLM.

Stack order, inside out: RecordEpisodeStatistics (the true return), LLMActionOverride, CriticalStateRewarder, LLMActionMask
(the outermost action wrapper), EpsilonMaskSchedule, ActionBoundsObservation, then the learner's own normalisers.
Priors and tables need the raw physical observation, or the info that ``prior_input`` names: a normaliser below them would give
them useless numbers.

The info contract: bounds in ``info`` belong to the observation returned in the same tuple; ``executed_action`` belongs to
the transition just made. The contract holds for reset and step, and for ``final_obs`` and ``final_info`` under SAME_STEP
autoreset. The keys at reset and at step are the same, because recorders refuse infos that change. The values are NumPy's, with
shape and dtype, because TorchRL takes no others. "The action space's" means its dtype and shape; on a Discrete space int64.

| info key | type | meaning | at reset |
| --- | --- | --- | --- |
| action_low, action_high | the action space's | native interval of the next action (Box) | as at step |
| action_mask | int8 (n,) | allowed next actions (Discrete) | as at step |
| mask_active | bool () | the prior shaped that interval | as at step |
| prior_faults | int64 | faults of the prior so far | as at step |
| executed_action | the action space's | what the environment received; the innermost writer wins | NaN, or 0 |
| action_overridden | bool () | the LLM's action replaced the agent's | False |
| llm_action | the action space's | what the LLM would do in the state acted in, if critical | NaN, or 0 |
| critical | bool () | the state acted in was critical | False |
| critical_entry | int64 | the entry of the (override's) table that it matched, or -1 | -1 |
| llm_reward | float64 | the part of the reward that came from the LLM, scaled | 0 |
"""

import gymnasium as gym

# 1.0 and 1.1, which other packages pin, run the mask, though not EpsilonMaskSchedule.
if gym.__version__.startswith("0."):
    raise ImportError(f"llmwrappers needs Gymnasium 1.2 or newer, found {gym.__version__}: pip install 'gymnasium>=1.2,<2'")

from llmwrappers.action_masks.intervals import interval_around, to_native, to_normalized
from llmwrappers.agent import load_agent
from llmwrappers.containment.errors import PolicyFault, PolicyRejected
from llmwrappers.containment.policy import ContainedPolicy
from llmwrappers.critical_states.entry_worth import EntryWorth
from llmwrappers.critical_states.function import CriticalFunction, vet_critical_function
from llmwrappers.critical_states.guidance import Guidance, load_guidance
from llmwrappers.critical_states.table import CriticalStates
from llmwrappers.critical_states.trajectories import Trajectories
from llmwrappers.priors import PriorPolicy, load_candidates, load_prior
from llmwrappers.priors.probe import vet_policy
from llmwrappers.wrappers.action_bounds_observation import ActionBoundsObservation
from llmwrappers.wrappers.critical_state_rewarder import CriticalStateRewarder
from llmwrappers.wrappers.epsilon_mask_schedule import EpsilonMaskSchedule
from llmwrappers.wrappers.llm_action_mask import LLMActionMask
from llmwrappers.wrappers.llm_action_override import LLMActionOverride
from llmwrappers.wrappers.vector import transition_info

__version__ = "0.1.0"

gym.register("llmwrappers/HopperBeyond-v0", entry_point="llmwrappers.envs.hopper_beyond:HopperBeyond", max_episode_steps=1000)
# Registered by name only: the environment is part of local_llm, which makes it.
gym.register("llmwrappers/PolicyWriting-v0", entry_point="local_llm.policy_writing:PolicyWriting", order_enforce=True)
gym.register("llmwrappers/PongGrid-v0", entry_point="llmwrappers.envs.pong:PongGrid", max_episode_steps=27_000)
gym.register("llmwrappers/PongObjects-v0", entry_point="llmwrappers.envs.pong:PongObjects", max_episode_steps=27_000)
for name, env_id, steps, slots in (
    ("DoorKey", "DoorKey-8x8-v0", 640, {"key": 1, "locked door": 1, "closed door": 1, "open door": 1, "goal": 1}),
    ("KeyCorridor", "KeyCorridorS3R3-v0", 270, {"key": 1, "locked door": 1, "closed door": 2, "open door": 1, "ball": 1}),
    ("LockedRoom", "LockedRoom-v0", 190, {"key": 1, "locked door": 1, "closed door": 2, "open door": 1, "goal": 1}),
    ("MultiRoom", "MultiRoom-N4-S5-v1", 80, {"closed door": 2, "open door": 1, "goal": 1}),
    (
        "ObstructedMaze",
        "ObstructedMaze-2Dlh-v0",
        576,
        dict.fromkeys(("key", "locked door", "box"), 2) | dict.fromkeys(("closed door", "open door", "ball"), 1),
    ),
):
    gym.register(
        f"llmwrappers/{name}-v0",
        entry_point="llmwrappers.envs.named_grid:make_grid",
        max_episode_steps=steps,
        kwargs={"env_id": f"MiniGrid-{env_id}", "slots": slots},
    )


def __dir__() -> list[str]:
    """The public names alone, for completion in a shell."""
    return sorted([*__all__, "__version__"])


__all__ = [
    "ActionBoundsObservation",
    "ContainedPolicy",
    "CriticalFunction",
    "CriticalStateRewarder",
    "CriticalStates",
    "EntryWorth",
    "EpsilonMaskSchedule",
    "Guidance",
    "LLMActionMask",
    "LLMActionOverride",
    "PolicyFault",
    "PolicyRejected",
    "PriorPolicy",
    "Trajectories",
    "interval_around",
    "load_agent",
    "load_candidates",
    "load_guidance",
    "load_prior",
    "to_native",
    "to_normalized",
    "transition_info",
    "vet_critical_function",
    "vet_policy",
]
