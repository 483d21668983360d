"""GuidanceStatistics: the LLM's share of an episode; and how guidance did in a whole run."""

from collections.abc import Sequence

import gymnasium as gym

from llmwrappers.faults import MAX_IN_A_ROW


class GuidanceStatistics(gym.Wrapper):
    """Writes info["guidance"] at the last step of an episode: the LLM's share of it.

    It holds the share of critical steps, the share of overridden steps, the LLM's part of the return, and its share of the
    sum of magnitudes. This wrapper goes around those that guide. info["episode"] is the environment's own return.
    """

    def reset(self, *, seed=None, options=None):
        self.length = self.critical = self.overridden = 0
        self.llm_return = 0.0
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.length += 1
        self.critical += bool(info.get("critical", False))
        self.overridden += bool(info.get("action_overridden", False))
        self.llm_return += float(info.get("llm_reward", 0.0))
        if terminated or truncated:
            magnitude = abs(info["episode"]["r"]) + abs(self.llm_return)
            statistics = {
                "ultra/hit_rate": self.critical / self.length,
                "ultra/override_rate": self.overridden / self.length,
                "ultra/llm_return": self.llm_return,
                "ultra/llm_share": abs(self.llm_return) / magnitude if magnitude else 0.0,
            }
            info = {**info, "guidance": statistics}
        return observation, reward, terminated, truncated, info


def guidance_counts(envs: Sequence[gym.Env]) -> dict[str, int]:
    """The steps in all environments, the critical ones, failed calls of code, and the environments in which it was given up."""
    steps, hits, faults, in_a_row = zip(*(env.get_wrapper_attr("counts") for env in envs), strict=True)
    given_up = sum(count >= MAX_IN_A_ROW for count in in_a_row)
    return {"steps": sum(steps), "critical": sum(hits), "faults": sum(faults), "given_up": given_up}


def trouble(steps: int, critical: int, faults: int, given_up: int) -> str:
    """What kept the guidance of a run from guiding, in words; nothing if it did."""
    failed = f"the code for critical states failed {faults:,} times"
    if given_up:
        return f"{failed}; after {MAX_IN_A_ROW} in a row {given_up} environment{'s' * (given_up > 1)} gave it up"
    parts = (not critical, f"no state was critical in {steps:,} steps"), (faults, failed)
    return "; ".join(words for is_so, words in parts if is_so)
