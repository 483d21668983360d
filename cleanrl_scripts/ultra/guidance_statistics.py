"""GuidanceStatistics: the LLM's share of an episode."""

import gymnasium as gym


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
