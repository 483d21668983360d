#!/usr/bin/env bash
# gymnasium 1.4.0, box2d 2.3.10. Usual guess: after reset(seed=S) the same actions give the same episode, whatever the environment played
# before. Behaviour: BipedalWalker-v3 builds its terrain in the world of the episodes before, which keeps a state of its own, so of 40
# seeded episodes some end otherwise than in a new environment. LunarLander-v3, which makes a new world at reset, repeats all. Output
# seen:
#   BipedalWalker-v3 differs LunarLander-v3 same
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check gymnasium==1.4.0 box2d==2.3.10 pygame numpy==2.2.6 2>"$folder/log"
seen=$("$folder/venv/bin/python" -W ignore - 2>"$folder/log" <<'PYTHON'
import gymnasium as gym
import numpy as np


def episodic_return(env, seed):
    env.reset(seed=seed)
    rng, total, done = np.random.default_rng(seed), 0.0, False
    while not done:
        if env.action_space.shape:
            action = rng.uniform(-1, 1, env.action_space.shape).astype(np.float32)
        else:
            action = int(rng.integers(env.action_space.n))
        _, reward, terminated, truncated, _ = env.step(action)
        total, done = total + float(reward), terminated or truncated
    return total


for name in ("BipedalWalker-v3", "LunarLander-v3"):
    used = gym.make(name)
    after_others = [episodic_return(used, seed) for seed in range(40)]
    in_new_ones = [episodic_return(gym.make(name), seed) for seed in range(40)]
    print(name, "same" if after_others == in_new_ones else "differs", end=" ")
PYTHON
)
seen=$(echo "$seen" | tail -n 1 | xargs)
echo "$seen"
[ "$seen" = "BipedalWalker-v3 differs LunarLander-v3 same" ]
