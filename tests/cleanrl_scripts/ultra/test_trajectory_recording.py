"""record: the episodes that an LLM reads are those that were played."""

import gymnasium as gym
import numpy as np
import torch
from conftest import OneBuffer

from cleanrl_scripts.learning.actor_critic import ActorCritic
from cleanrl_scripts.ppo_ultra import Args
from cleanrl_scripts.ultra.trajectory_recording import record


def test_an_environment_may_write_the_next_observation_over_the_last():
    env = gym.make("Pendulum-v1")
    agent = ActorCritic(env.observation_space, env.action_space, np.random.default_rng(0), torch.device("cpu"))
    args = Args(env_id="Pendulum-v1", env_kwargs='{"g": 5}', trajectory_episodes=2)
    played, of_one_buffer = record(env, args, agent), record(OneBuffer(gym.make("Pendulum-v1")), args, agent)
    assert (played.env_id, played.env_kwargs) == ("Pendulum-v1", '{"g": 5}')
    assert len(played.observations) == 400
    np.testing.assert_array_equal(of_one_buffer.observations, played.observations)
    np.testing.assert_array_equal(of_one_buffer.final_observations, played.final_observations)
