#!/usr/bin/env bash
# gymnasium 1.4.0, numpy 2.4.6. Usual guess: an info that is a NumPy scalar becomes an array of that dtype in a vector environment,
# whatever its dtype. Behaviour: np.float64 and np.int64 do; np.bool_ becomes an array of objects, for it is no np.number. Python's bool
# and an array of shape () do not. Output seen:
#   bool bool_ object float64 float64 array bool
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check gymnasium==1.4.0 numpy==2.4.6 2>"$folder/log"
seen=$("$folder/venv/bin/python" - <<'PYTHON'
import gymnasium as gym, numpy as np

class Telling(gym.Wrapper):
    def reset(self, **kwargs):
        observation, info = self.env.reset(**kwargs)
        return observation, {"plain": True, "numpy": np.True_, "number": np.float64(1), "array": np.array(True)}

infos = gym.vector.SyncVectorEnv([lambda: Telling(gym.make("CartPole-v1"))] * 2).reset(seed=0)[1]
print(infos["plain"].dtype, "bool_", infos["numpy"].dtype, "float64", infos["number"].dtype, "array", infos["array"].dtype)
PYTHON
)
echo "$seen"
[ "$seen" = "bool bool_ object float64 float64 array bool" ]
