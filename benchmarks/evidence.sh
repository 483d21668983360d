#!/usr/bin/env bash
# The full comparisons of both papers and of our forms, those that decide most first. Stop it as you like and start it again:
# what is in a folder's curves.csv is not run again, what was cut goes on.
#
#   bash benchmarks/evidence.sh              # one run a core
#   bash benchmarks/evidence.sh --jobs 1     # what is given here goes to every comparison
#
# CAMEL's lengths are those of its runs of 1 000 000 steps times 0.3 (learning starts at 7 500 instead of 25 000) or times 0.1.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1
more=("$@")

compare() { # FOLDER ARGUMENTS...
    python cleanrl_scripts/compare.py --output "benchmarks/comparisons/$1" "${@:2}" "${more[@]}"
}

mujoco=(Hopper-v4 Walker2d-v4 Ant-v4)
camel=(--env-ids "${mujoco[@]}" --total-timesteps 300000 --learning-starts 7500 --no-cuda)
ultra=(--script ppo_ultra.py --total-timesteps 500000 --no-cuda)

# CAMEL: TD3, the paper's form, ours; then more seeds; then what the paper compares with, in its form. The experts are agents
# that the paper's form had at its end, for TD3 alone has hardly one to offer after 300 000 steps.
compare camel "${camel[@]}" --arms none paper llm --seeds 1-3
# ULTRA: PPO goes on, with the LLM's actions and rewards, with those of random states.
compare ultra "${ultra[@]}" --env-ids "${mujoco[@]}" ALE/Pong-v5 --arms none ra random --seeds 1-3
compare camel "${camel[@]}" --arms none paper llm --seeds 1-5
compare camel "${camel[@]}" --arms none paper llm "random=--prior random --form paper" \
    "expert=--prior expert:benchmarks/experts/{env_id}.pt --form paper" --seeds 1-5
# ULTRA: the other arms, the LLM's code, every entry speaking to the end; the weight of the rewards.
compare ultra "${ultra[@]}" --env-ids "${mujoco[@]}" ALE/Pong-v5 \
    --arms none ra random a r rnd statemask "code=--arm ra --guidance code" "ra-always=--arm ra --withhold 0" --seeds 1-3
compare ultra-alpha "${ultra[@]}" --env-ids Hopper-v4 \
    --arms none "alpha-0.01=--arm ra --alpha 0.01" "alpha-0.1=--arm ra --alpha 0.1" "alpha-0.5=--arm ra --alpha 0.5" --seeds 1-3
# Is TD3 CleanRL's TD3? Its defaults at full length.
compare camel-1m --env-ids Hopper-v4 --total-timesteps 1000000 --arms none llm --seeds 1-3 --no-cuda
# CAMEL's ablations, in its form, each against the published setting; two priors are bad: full torque, and the LLM's reversed.
# And what the mask adds to ours: without it as soon as the prior teaches (by step 8 000).
for prior in Hopper-v4/policy-5.py Walker2d-v4/policy-3.py; do # the shipped defaults
    { sed "s/^def policy(/def controller(/" "llmwrappers/priors/$prior"
      printf '\n\ndef policy(obs):\n    return -controller(obs)\n'; } > "benchmarks/comparisons/flipped-${prior%/*}.py"
done
paper="--prior shipped --form paper"
compare camel-ablations --env-ids Hopper-v4 Walker2d-v4 --total-timesteps 100000 --learning-starts 2500 --no-cuda --seeds 1-3 \
    --arms none paper llm "unmasked=--prior shipped --mask-fraction 0.08" \
    "fraction-0.1=$paper --mask-fraction 0.1" "fraction-0.4=$paper --mask-fraction 0.4" \
    "radius-0.1=$paper --radius 0.1" "radius-0.6=$paper --radius 0.6" "episode=$paper --gate episode" \
    "constant=--prior benchmarks/bad_priors/forward.py --form paper" \
    "flipped=--prior benchmarks/comparisons/flipped-{env_id}.py --form paper"
