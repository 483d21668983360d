import gymnasium as gym
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer, Unbounded
from torchrl.envs import GymWrapper, default_info_dict_reader
from torchrl.modules import MLP, AdditiveGaussianModule, ValueOperator
from torchrl.objectives import DDPGLoss, SoftUpdate

from llmwrappers import EpsilonMaskSchedule, LLMActionMask, to_native, to_normalized

masked = EpsilonMaskSchedule(LLMActionMask(gym.make("Pendulum-v1"), "Pendulum-v1"), total_timesteps=1500)
native = masked.action_space.native_space
env = GymWrapper(masked)
env.set_info_dict_reader(default_info_dict_reader(["executed_action"], spec=[Unbounded(native.shape)]))
actor = TensorDictModule(torch.nn.Sequential(MLP(3, 1, num_cells=[32]), torch.nn.Tanh()), ["observation"], ["action"])
explorer = TensorDictSequential(actor, AdditiveGaussianModule(env.action_spec, sigma_init=0.3, sigma_end=0.3))
loss = DDPGLoss(actor, ValueOperator(MLP(4, 1, num_cells=[32]), in_keys=["observation", "action"]))
target, optimizer = SoftUpdate(loss, tau=0.005), torch.optim.Adam(loss.parameters(), 1e-3)


def executed(data):
    return torch.from_numpy(to_normalized(data["next", "executed_action"], native.low, native.high))


buffer = ReplayBuffer(storage=LazyTensorStorage(10_000), batch_size=64)
for data in Collector(
    env,
    explorer,
    frames_per_batch=5,
    total_frames=1500,
    init_random_frames=100,
    postproc=lambda data: data.set("action", executed(data)),
    auto_register_policy_transforms=True,
):
    buffer.extend(data)
    losses = loss(buffer.sample())
    (losses["loss_actor"] + losses["loss_value"]).backward()
    optimizer.step()
    optimizer.zero_grad()
    target.step()
assert len(buffer) == masked.elapsed_steps == 1500
assert torch.equal(buffer[:]["action"], executed(buffer[:]))
alone = GymWrapper(LLMActionMask(gym.make("Pendulum-v1"), "Pendulum-v1", mask_epsilon=0.0))
bare = gym.make("Pendulum-v1")
with torch.no_grad():
    print("alone:", alone.rollout(1000, actor)["next", "reward"].sum().item())
    bare.step(to_native(actor(observation=torch.tensor(bare.reset(seed=0)[0])).numpy(), native.low, native.high))
