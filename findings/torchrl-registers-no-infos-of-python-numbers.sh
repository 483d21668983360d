#!/usr/bin/env bash
# torchrl 0.14.1, gymnasium 1.4.0. Usual guess: auto_register_info_dict() reads the infos of Gymnasium's own MuJoCo environments, and
# looks without acting. Behaviour: it raises on Hopper-v5, whose infos hold Python floats, and where it succeeds it has taken four steps
# in the environment. Output seen:
#   Hopper-v5 AttributeError 'float' object has no attribute 'dtype'
#   CartPole-v1 steps taken 4
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 torchrl==0.14.1 tensordict==0.14.3 \
    "gymnasium[mujoco]==1.4.0" mujoco==4.0.0 2>"$folder/log"
seen=$("$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import logging
logging.disable(logging.CRITICAL)
import gymnasium as gym, numpy as np
from torchrl.envs import GymWrapper

class Counting(gym.Wrapper):
    steps = 0
    def step(self, action):
        self.steps += 1
        *result, info = self.env.step(action)
        return *result, {"height": np.float64(1)}
    def reset(self, **kwargs):
        return self.env.reset(**kwargs)[0], {"height": np.float64(1)}

try:
    GymWrapper(gym.make("Hopper-v5")).auto_register_info_dict()
except AttributeError as error:
    print("Hopper-v5 AttributeError", error)
counting = Counting(gym.make("CartPole-v1"))
GymWrapper(counting).auto_register_info_dict()
print("CartPole-v1 steps taken", counting.steps)
PYTHON
)
echo "$seen"
[ "$seen" = "Hopper-v5 AttributeError 'float' object has no attribute 'dtype'
CartPole-v1 steps taken 4" ]
