"""TD3 of AgileRL in a mask: executed actions in the replay buffer, evaluation alone, deployment on the bare environment."""

import gymnasium as gym
import numpy as np
from agilerl.algorithms import TD3
from agilerl.components.data import Transition
from agilerl.components.replay_buffer import ReplayBuffer
from agilerl.vector import DummyVecEnv

from llmwrappers import EpsilonMaskSchedule, LLMActionMask, to_native, to_normalized

STEPS = 1500
env = EpsilonMaskSchedule(LLMActionMask(gym.make("Pendulum-v1"), "Pendulum-v1"), total_timesteps=STEPS)
native, memory = env.action_space.native_space, ReplayBuffer(max_size=STEPS)
agent = TD3(env.observation_space, env.action_space, O_U_noise=False)
chosen, executed = [], []
obs, _ = env.reset(seed=0)
for step in range(STEPS):
    chosen.append(agent.get_action(obs)[0])
    next_obs, reward, terminated, truncated, info = env.step(chosen[-1])
    executed.append(to_normalized(info["executed_action"], native.low, native.high))
    row = Transition(obs, executed[-1], next_obs, reward, terminated, batch_size=[])
    memory.add(row.to_tensordict().unsqueeze(0))
    if len(memory) >= agent.batch_size and step % agent.learn_step == 0:
        agent.learn(memory.sample(agent.batch_size))
    obs = env.reset()[0] if terminated or truncated else next_obs
assert np.allclose(memory.storage["action"], executed)
assert not np.allclose(memory.storage["action"], chosen)

alone = DummyVecEnv(LLMActionMask(gym.make("Pendulum-v1"), "Pendulum-v1", mask_epsilon=0.0))
print("alone:", agent.test(alone, loop=3))
bare = gym.make("Pendulum-v1")
obs, _ = bare.reset(seed=0)
bare.step(to_native(agent.get_action(obs, training=False)[0], native.low, native.high))
