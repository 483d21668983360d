import gymnasium as gym
import numpy as np
from tianshou.algorithm import TD3
from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.exploration import GaussianNoise
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorDeterministic, ContinuousCritic

from llmwrappers import EpsilonMaskSchedule, LLMActionMask, to_native, to_normalized

env = EpsilonMaskSchedule(LLMActionMask(gym.make("Pendulum-v1"), "Pendulum-v1"), total_timesteps=1500)
space, native = env.action_space, env.action_space.native_space  # not a DummyVectorEnv's


def net(**kwargs):
    return Net(state_shape=env.observation_space.shape, hidden_sizes=(32,), **kwargs)


actor = ContinuousActorDeterministic(preprocess_net=net(), action_shape=space.shape)
critic = ContinuousCritic(preprocess_net=net(action_shape=space.shape, concat=True))
policy = ContinuousDeterministicPolicy(actor=actor, action_space=space, exploration_noise=GaussianNoise(sigma=0.3))
td3 = TD3(policy=policy, policy_optim=AdamOptimizerFactory(), critic=critic, critic_optim=AdamOptimizerFactory())


def store_executed(_, step):
    step.act = to_normalized(step.info["executed_action"], native.low, native.high)


buffer = VectorReplayBuffer(10_000, 1)
train = Collector(td3, DummyVectorEnv([lambda: env]), buffer, exploration_noise=True, on_step_hook=store_executed)
alone = LLMActionMask(gym.make("Pendulum-v1"), "Pendulum-v1", mask_epsilon=0.0)
test = Collector(td3, DummyVectorEnv([lambda: alone]))
train.reset()
test.reset()
td3.run_training(
    OffPolicyTrainerParams(
        training_collector=train,
        collection_step_num_env_steps=5,
        update_step_num_gradient_steps_per_sample=0.2,
        test_collector=test,
        max_epochs=3,
        epoch_num_steps=500,
        show_progress=False,
    )
)
executed = to_normalized(buffer.info.executed_action, native.low, native.high)
assert len(buffer) == env.elapsed_steps == 1500
assert np.array_equal(buffer.act[:1500], executed[:1500])
print("alone:", test.collect(n_episode=3).returns_stat.mean)
bare = gym.make("Pendulum-v1")
bare.step(to_native(policy.compute_action(bare.reset(seed=0)[0]), native.low, native.high))
