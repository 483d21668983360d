#!/usr/bin/env bash
# d3rlpy 2.8.1, minari 0.5.4. Usual guess: d3rlpy.datasets.get_minari gives the dataset's observations beside the actions that were taken
# in them. Behaviour: Minari keeps one observation more than actions an episode, d3rlpy concatenates both and cuts by the actions, so the
# observations of episode k stand k steps too early. Output seen:
#   episode 0 shifted by 0, episode 1 shifted by 1, episode 2 shifted by 2
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 d3rlpy==2.8.1 "minari[hdf5,create]==0.5.4" pillow 2>"$folder/log"
cd "$folder"
seen=$(MINARI_DATASETS_PATH="$folder/data" "$folder/venv/bin/python" -W ignore - 2>"$folder/log" <<'PYTHON'
import d3rlpy, gymnasium as gym, minari, numpy as np

env = minari.DataCollector(gym.make("Pendulum-v1"))
for seed in range(3):
    env.reset(seed=seed)
    while not env.step(env.action_space.sample())[3]:
        pass
env.create_dataset(dataset_id="pendulum/random-v0")
dataset, _ = d3rlpy.datasets.get_minari("pendulum/random-v0")
said = []
for k, (read, kept) in enumerate(zip(dataset.episodes, minari.load_dataset("pendulum/random-v0"))):
    shifts = [s for s in range(9) if np.allclose(read.observations[s:], kept.observations[:200 - s])]
    said.append(f"episode {k} shifted by {shifts[0]}")
print(", ".join(said))
PYTHON
)
seen=$(echo "$seen" | tail -n 1)
echo "$seen"
[ "$seen" = "episode 0 shifted by 0, episode 1 shifted by 1, episode 2 shifted by 2" ]
