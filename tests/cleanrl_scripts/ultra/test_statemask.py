"""statemask: the mask network, trained by the PPO of a script, finds the state in which the action matters."""

import gymnasium as gym
import numpy as np
import torch
from conftest import Careful, crossing_table

from cleanrl_scripts.ultra.statemask import statemask
from llmwrappers import Trajectories


def test_a_mask_network_finds_the_state_that_matters(ppo_ultra):
    args = ppo_ultra.Args(compile="off", env_id="llmwrappers-tests/Crossing-v0", statemask_timesteps=16_384)
    steps = np.tile(np.arange(10.0), 4)
    trajectories = Trajectories(
        args.env_id, steps[:, None], np.ones(40, int), np.ones(40), [10] * 4, [False] * 4, np.full((4, 1), 10.0), [0] * 4
    )
    table = crossing_table([0.0])
    agent = Careful()
    agent.device = torch.device("cpu")
    env = gym.make(args.env_id)
    found = statemask(args, env, agent, table, trajectories, np.random.default_rng(0), ppo_ultra.PPO)
    assert found.observations.ravel().tolist() == [5.0]
