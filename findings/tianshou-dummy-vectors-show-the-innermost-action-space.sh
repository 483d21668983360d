#!/usr/bin/env bash
# tianshou 2.0.1, gymnasium 1.4.0. Usual guess: a DummyVectorEnv and a SubprocVectorEnv of the same function have the same action space,
# that of the wrapped environment. Behaviour: the first reads env.unwrapped, so a RescaleAction is not seen there; a policy of that space
# acts at twice the scale. Output seen:
#   wrapped 1.0 DummyVectorEnv 2.0 SubprocVectorEnv 1.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 tianshou==2.0.1 gymnasium==1.4.0 2>"$folder/log"
cat > "$folder/spaces.py" <<'PYTHON'
import gymnasium as gym, numpy as np
from tianshou.env import DummyVectorEnv, SubprocVectorEnv

def make():
    return gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), np.float32(-1), np.float32(1))

if __name__ == "__main__":
    highs = [float(kind([make]).action_space[0].high[0]) for kind in (DummyVectorEnv, SubprocVectorEnv)]
    print("wrapped", float(make().action_space.high[0]), "DummyVectorEnv", highs[0], "SubprocVectorEnv", highs[1])
PYTHON
seen=$("$folder/venv/bin/python" "$folder/spaces.py" 2>"$folder/log" | tail -n 1)
echo "$seen"
[ "$seen" = "wrapped 1.0 DummyVectorEnv 2.0 SubprocVectorEnv 1.0" ]
