import gymnasium as gym
import numpy as np
import torch
from skrl.agents.torch.ddpg import DDPG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.resources.noises.torch import GaussianNoise
from skrl.trainers.torch import SequentialTrainer
from skrl.utils.model_instantiators.torch import deterministic_model

from llmwrappers import EpsilonMaskSchedule, LLMActionMask, to_native, to_normalized, transition_info

received = []
pendulum = gym.wrappers.TransformAction(gym.make("Pendulum-v1"), lambda action: (received.append(action), action)[1], None)
env = wrap_env(EpsilonMaskSchedule(LLMActionMask(pendulum, "Pendulum-v1"), total_timesteps=1500))


class ExecutedDDPG(DDPG):
    def record_transition(self, *, actions, infos, **others):
        native = self.action_space.native_space
        executed = to_normalized(transition_info(infos, "executed_action"), native.low, native.high)
        executed = torch.from_numpy(executed).view_as(actions)
        super().record_transition(actions=executed, infos=infos, **others)


spaces = {"observation_space": env.observation_space, "action_space": env.action_space}


def model(inputs, output):
    return deterministic_model(
        **spaces, network=[{"name": "net", "input": inputs, "layers": [32], "activations": "relu"}], output=output
    )


models = {name: model("OBSERVATIONS", "tanh(ACTIONS)") for name in ("policy", "target_policy")}
models |= {name: model("concatenate([OBSERVATIONS, ACTIONS])", "ONE") for name in ("critic", "target_critic")}
cfg = {
    "random_timesteps": 100,
    "learning_starts": 100,
    "exploration_noise": GaussianNoise,
    "exploration_noise_kwargs": {"mean": 0, "std": 0.3},
    "experiment": {"write_interval": 0, "checkpoint_interval": 0},
}
agent = ExecutedDDPG(models=models, memory=RandomMemory(memory_size=10_000), cfg=cfg, **spaces)
SequentialTrainer(env=env, agents=agent, cfg={"timesteps": 1500, "headless": True}).train()
stored = agent.memory.get_tensor_by_name("actions")[:1500, 0]
assert env.elapsed_steps == 1500
assert np.allclose(2 * stored.numpy(), received)
alone, bare = LLMActionMask(gym.make("Pendulum-v1"), "Pendulum-v1", mask_epsilon=0.0), gym.make("Pendulum-v1")


def act(observation):
    return agent.policy.act({"observations": torch.tensor(observation)[None]})[0][0].detach().numpy()


observation, total = alone.reset(seed=0)[0], 0
for _ in range(200):
    observation, reward, *_ = alone.step(act(observation))
    total += reward
print("alone:", total)
bare.step(to_native(act(bare.reset(seed=0)[0]), bare.action_space.low, bare.action_space.high))
