#!/usr/bin/env bash
# skrl 2.1.1. Usual guess: SequentialTrainer.eval() plays the policy. Behaviour: with DDPG it plays random actions for the first
# random_timesteps steps and the policy with exploration noise after them, as training does; mean |action played - policy's action|,
# rounded to "far" above 0.5, "noise" above 0.1. Output seen:
#   steps 0-99 far steps 100-199 noise
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 skrl==2.1.1 gymnasium==1.4.0 2>"$folder/log"
cd "$folder"
seen=$("$folder/venv/bin/python" - 2>"$folder/log" <<'PYTHON'
import gymnasium as gym, numpy as np, torch
from skrl.agents.torch.ddpg import DDPG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.resources.noises.torch import GaussianNoise
from skrl.trainers.torch import SequentialTrainer
from skrl.utils.model_instantiators.torch import deterministic_model

class Seen(gym.Wrapper):
    pairs = []
    def reset(self, **kwargs):
        self.observation, info = self.env.reset(**kwargs)
        return self.observation, info
    def step(self, action):
        self.pairs.append((self.observation, action))
        self.observation, *rest = self.env.step(action)
        return self.observation, *rest

torch.manual_seed(0), np.random.seed(0)
seen = Seen(gym.make("Pendulum-v1"))
env = wrap_env(seen)
spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
def model(inputs, output):
    layers = [{"name": "net", "input": inputs, "layers": [32], "activations": "relu"}]
    return deterministic_model(**spaces, network=layers, output=output)
models = {name: model("OBSERVATIONS", "tanh(ACTIONS)") for name in ("policy", "target_policy")}
models |= {name: model("concatenate([OBSERVATIONS, ACTIONS])", "ONE") for name in ("critic", "target_critic")}
cfg = {"random_timesteps": 100, "learning_starts": 100, "exploration_noise": GaussianNoise,
       "exploration_noise_kwargs": {"mean": 0, "std": 0.3}, "experiment": {"write_interval": 0, "checkpoint_interval": 0}}
agent = DDPG(models=models, memory=RandomMemory(memory_size=1000), cfg=cfg, **spaces)
SequentialTrainer(env=env, agents=agent, cfg={"timesteps": 200, "headless": True}).eval()
with torch.no_grad():
    policy = [agent.policy.act({"observations": torch.tensor(o)[None]})[0][0].numpy() for o, _ in seen.pairs]
off = np.abs(np.array([action for _, action in seen.pairs]) - np.array(policy)).ravel()
words = ["far" if part.mean() > 0.5 else "noise" if part.mean() > 0.1 else "none" for part in (off[:100], off[100:200])]
import sys; print("steps 0-99", words[0], "steps 100-199", words[1])
PYTHON
)
seen=$(echo "$seen" | grep "^steps")
echo "$seen"
[ "$seen" = "steps 0-99 far steps 100-199 noise" ]
