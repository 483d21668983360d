"""SAC of RLlib in a mask: executed actions in the replay buffer, evaluation alone, deployment on the bare environment."""

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.algorithms.sac import SACConfig
from ray.tune import register_env

from llmwrappers import EpsilonMaskSchedule, LLMActionMask, to_native, to_normalized


def make(config):
    env = LLMActionMask(gym.make("Pendulum-v1"), "Pendulum-v1", mask_epsilon=0.0)
    return env if config.get("alone") else EpsilonMaskSchedule(env, total_timesteps=1000)


def store_executed(samples, env_runner, **kwargs):
    native = env_runner.env.single_action_space.native_space
    for episode in samples:
        executed = np.array([info["executed_action"] for info in episode.get_infos(slice(1, None))])
        episode.set_actions(new_data=to_normalized(executed, native.low, native.high))


register_env("masked", make)
config = SACConfig().environment("masked").callbacks(on_sample_end=store_executed)
config.training(num_steps_sampled_before_learning_starts=700, train_batch_size_per_learner=64)
alone = {"env_config": {"alone": True}}
config.evaluation(evaluation_interval=10, evaluation_config=alone, evaluation_duration=3)
algo = config.build_algo()
results = [algo.train() for _ in range(10)]  # at least 100 steps each
for episode in algo.local_replay_buffer.episodes:
    assert np.allclose(episode.get_actions(), [info["executed_action"] / 2 for info in episode.get_infos()[1:]])
print("alone:", results[-1]["evaluation"]["env_runners"]["episode_return_mean"])
obs, _ = (bare := gym.make("Pendulum-v1")).reset(seed=0)
mean = algo.get_module().forward_inference({"obs": torch.from_numpy(obs)[None]})["action_dist_inputs"][0, :1]
bare.step(to_native(mean.tanh().detach().numpy(), bare.action_space.low, bare.action_space.high))
