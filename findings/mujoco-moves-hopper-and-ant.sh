#!/usr/bin/env bash
# mujoco 3.4.0, 3.5.0, 4.0.0 with gymnasium 1.4.0. Usual guess: a v4 environment is the same on every MuJoCo, so that returns of one can be
# compared with those of another. Behaviour: from the same actions Hopper-v4 and Ant-v4 end elsewhere from 3.5.0 on, Ant-v4 again at
# 4.0.0; HalfCheetah-v4 and Walker2d-v4 do not. "moved": a number of the observation after 40 steps differs by more than 1e-6. Output seen:
#   3.4.0 -> 3.5.0: Ant-v4 moved, HalfCheetah-v4 same, Hopper-v4 moved, Walker2d-v4 same
#   3.5.0 -> 4.0.0: Ant-v4 moved, HalfCheetah-v4 same, Hopper-v4 same, Walker2d-v4 same
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/play.py" <<'PYTHON'
import sys, gymnasium as gym, numpy as np

states = {}
for env_id in ("Ant-v4", "HalfCheetah-v4", "Hopper-v4", "Walker2d-v4"):
    env = gym.make(env_id)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(40):
        observation = env.unwrapped.step(rng.uniform(-0.4, 0.4, env.action_space.shape))[0]
    states[env_id] = observation
np.savez(sys.argv[1], **states)
PYTHON
for version in 3.4.0 3.5.0 4.0.0; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check "mujoco==$version" gymnasium==1.4.0 numpy==2.4.6 imageio packaging 2>"$folder/log"
    "$folder/$version/bin/python" -W ignore "$folder/play.py" "$folder/$version.npz" 2>"$folder/log"
done
seen=$("$folder/4.0.0/bin/python" - "$folder" <<'PYTHON'
import itertools, sys, numpy as np

for one, other in itertools.pairwise(("3.4.0", "3.5.0", "4.0.0")):
    a, b = (np.load(f"{sys.argv[1]}/{version}.npz") for version in (one, other))
    words = [f"{name} {'same' if np.abs(a[name] - b[name]).max() < 1e-6 else 'moved'}" for name in a]
    print(f"{one} -> {other}: {', '.join(words)}")
PYTHON
)
echo "$seen"
[ "$seen" = "3.4.0 -> 3.5.0: Ant-v4 moved, HalfCheetah-v4 same, Hopper-v4 moved, Walker2d-v4 same
3.5.0 -> 4.0.0: Ant-v4 moved, HalfCheetah-v4 same, Hopper-v4 same, Walker2d-v4 same" ]
