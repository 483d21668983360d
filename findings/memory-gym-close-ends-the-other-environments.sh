#!/usr/bin/env bash
# memory-gym 1.0.2. Usual guess: close() of an evaluation environment leaves the training environment alone, as two objects that share
# nothing. Behaviour: close() quits pygame for the whole process, so the other environment's next reset() raises. Output seen:
#   before ok after error display Surface quit
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check memory-gym==1.0.2 numpy==1.26.4 2>"$folder/log"
seen=$(SDL_VIDEODRIVER=dummy "$folder/venv/bin/python" -W ignore - 2>"$folder/log" <<'PYTHON'
import gymnasium as gym, memory_gym

training, evaluation = (gym.make("MysteryPath-Grid-v0") for _ in range(2))
training.reset(seed=0)
evaluation.reset(seed=0)
training.reset(seed=0)
said = ["before", "ok", "after"]
evaluation.close()
try:
    training.reset(seed=0)
    said.append("ok")
except Exception as error:
    said += [type(error).__name__, str(error)]
print(*said)
PYTHON
)
seen=$(echo "$seen" | tail -n 1)
echo "$seen"
[ "$seen" = "before ok after error display Surface quit" ]
