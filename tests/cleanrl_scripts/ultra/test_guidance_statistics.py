"""GuidanceStatistics: how much of an episode was the LLM's."""

import gymnasium as gym
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics

from cleanrl_scripts.ultra.guidance_statistics import GuidanceStatistics, trouble


class Guided(gym.Wrapper):
    """Adds 0.5 for the LLM to the first step of an episode, which it overrides."""

    def reset(self, *, seed=None, options=None):
        self.is_first = True
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self.is_first:
            reward, info = float(reward) + 0.5, {**info, "llm_reward": 0.5, "critical": True, "action_overridden": True}
        self.is_first = False
        return observation, reward, terminated, truncated, info


def test_shares_are_of_the_episode_at_hand():
    env = GuidanceStatistics(Guided(RecordEpisodeStatistics(gym.make("llmwrappers-tests/Crossing-v0"))))
    for _ in range(2):
        env.reset(seed=0)
        *_, info = [env.step(1)[4] for _ in range(10)]
        assert info["episode"]["r"] == 10.0
        assert info["guidance"] == {
            "ultra/hit_rate": 0.1,
            "ultra/override_rate": 0.1,
            "ultra/llm_return": 0.5,
            "ultra/llm_share": pytest.approx(0.5 / 10.5),
        }


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((1000, 7, 0, 0), ""),
        ((1000, 0, 0, 0), "no state was critical in 1,000 steps"),
        ((1000, 7, 3, 0), "the code for critical states failed 3 times"),
        ((1000, 0, 3, 0), "no state was critical in 1,000 steps; the code for critical states failed 3 times"),
        (
            (1000, 7, 13, 1),
            "the code for critical states failed 13 times; after 10 in a row 1 environment gave it up",
        ),
    ],
)
def test_trouble_in_words(counts, words):
    assert trouble(*counts) == words
