#!/usr/bin/env bash
# stable-baselines3 2.9.2, gymnasium 1.4.0. Usual guess: VecEnv.set_attr sets what VecEnv.get_attr reads, so an attribute of a wrapper can
# be changed from outside. Behaviour: get_attr looks through the wrappers, set_attr writes on the outermost, here the Monitor that
# make_vec_env adds; from then on get_attr shows the new value, and the wrapper goes on with the old one. Output seen:
#   get_attr 0.5 set_attr 0.0 get_attr 0.0 the wrapper has 0.5
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 stable-baselines3==2.9.2 gymnasium==1.4.0 2>"$folder/log"
seen=$("$folder/venv/bin/python" - <<'PYTHON'
import gymnasium as gym
from stable_baselines3.common.env_util import make_vec_env

class Noisy(gym.Wrapper):
    level = 0.5

inner = []
envs = make_vec_env(lambda: inner.append(Noisy(gym.make("Pendulum-v1"))) or inner[0])
before = envs.get_attr("level")[0]
envs.set_attr("level", 0.0)
print("get_attr", before, "set_attr 0.0 get_attr", envs.get_attr("level")[0], "the wrapper has", inner[0].level)
PYTHON
)
echo "$seen"
[ "$seen" = "get_attr 0.5 set_attr 0.0 get_attr 0.0 the wrapper has 0.5" ]
