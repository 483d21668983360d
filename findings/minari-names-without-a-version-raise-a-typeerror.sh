#!/usr/bin/env bash
# minari 0.5.4. Usual guess: create_dataset refuses a name that it cannot take before anything is recorded, with the ValueError that other
# malformed names get. Behaviour: a name without a version raises a TypeError about int(), after everything was recorded. Output seen:
#   pendulum/random policy-v0 ValueError pendulum/random TypeError int() argument must be a string, a bytes-like object or a real number, not 'NoneType'
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "minari[hdf5,create]==0.5.4" pillow gymnasium==1.4.0 2>"$folder/log"
seen=$(MINARI_DATASETS_PATH="$folder/data" "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import gymnasium as gym, minari

env = minari.DataCollector(gym.make("CartPole-v1"))
env.reset(seed=0)
env.step(0)
said = []
for name in ("pendulum/random policy-v0", "pendulum/random"):
    try:
        env.create_dataset(dataset_id=name)
    except (TypeError, ValueError) as error:
        said += [name, type(error).__name__, str(error)]
print(*said[:2], *said[3:])
PYTHON
)
echo "$seen"
[ "$seen" = "pendulum/random policy-v0 ValueError pendulum/random TypeError int() argument must be a string, a bytes-like object or a real number, not 'NoneType'" ]
