#!/usr/bin/env bash
# stable-baselines3 2.9.2. Usual guess: policy_kwargs is read, so that one dict may serve several models. Behaviour: SAC adds an entry to
# the caller's dict, and a TD3 made with the same dict afterwards is refused. Output seen:
#   before ['net_arch'] after ['net_arch', 'use_sde'] TypeError
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 stable-baselines3==2.9.2 2>"$folder/log"
seen=$("$folder/venv/bin/python" - <<'PYTHON'
from stable_baselines3 import SAC, TD3

shared = {"net_arch": [8]}
before = list(shared)
SAC("MlpPolicy", "Pendulum-v1", policy_kwargs=shared, buffer_size=10)
try:
    TD3("MlpPolicy", "Pendulum-v1", policy_kwargs=shared, buffer_size=10)
    outcome = "made"
except TypeError as error:
    outcome = type(error).__name__
print("before", before, "after", list(shared), outcome)
PYTHON
)
echo "$seen"
[ "$seen" = "before ['net_arch'] after ['net_arch', 'use_sde'] TypeError" ]
