"""Novelty and NoveltyBonus: what is new, and where it is paid for."""

import gymnasium as gym
import numpy as np
import torch
from conftest import crossing_table
from gymnasium.spaces import Box, Discrete

from cleanrl_scripts.learning.actor_critic import ActorCritic
from cleanrl_scripts.ultra.novelty import Novelty, NoveltyBonus


def test_the_novelty_is_that_of_the_state_acted_in():
    table = crossing_table([2.0, 3.0])
    env = NoveltyBonus(
        gym.make("llmwrappers-tests/Crossing-v0"), lambda observation: float(observation[0]), table, alpha=0.5, patience_steps=0
    )
    env.reset()
    steps = [env.step(1) for _ in range(5)]
    assert [reward for _, reward, *_ in steps] == [1.0, 1.0, 1 + 0.5 * 2, 1 + 0.5 * 3, 1.0]
    assert [info["llm_reward"] for *_, info in steps] == [0.0, 0.0, 1.0, 1.5, 0.0]


def test_novelty_fades_where_one_has_been():
    rng = np.random.default_rng(0)
    agent = ActorCritic(Box(-1, 1, (3,)), Discrete(2), rng, torch.device("cpu"))
    novelty = Novelty(agent, rng)
    known, new = np.array([0.5, -0.5, 0.2]), np.array([-1.0, 1.0, -1.0])
    for _ in range(30):
        for _ in range(64):
            novelty(known + rng.normal(scale=0.05, size=3))
        novelty.update(1e-3)
    assert 0 <= novelty(known) < 0.5 * novelty(new) <= 0.5
