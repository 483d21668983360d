#!/usr/bin/env bash
# The full comparisons of both papers, the most decisive first. You may stop it at any time and start it again: it continues
# interrupted runs, and does not repeat what is in a folder's curves.csv.
#
#   bash benchmarks/evidence.sh              # one run a core
#   bash benchmarks/evidence.sh --jobs 1     # arguments here go to every comparison
#
# CAMEL's lengths are those of its runs of 1 000 000 steps times 0.3 (learning starts at 7 500 instead of 25 000) or times 0.1.
# Earlier scripts made the folders camel, camel-1m, taught, ultra, ultra-alpha, ultra-hopper and ultra-pong. Today's scripts make camel,
# camel-1m and ultra again, in folders of their own: paper, paper-1m and ultra-paper.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1
more=("$@")

compare() { # FOLDER ARGUMENTS...
    python cleanrl_scripts/compare.py --output "benchmarks/comparisons/$1" "${@:2}" "${more[@]}"
}

alone() { # FOLDER ENVIRONMENTS: the default prior by itself, a row of the folder's table
    for env_id in "${@:2}"; do
        python -m llmwrappers.priors --env-id "$env_id" --prior "$env_id" --episodes 100 --seed 1000000 \
            --csv "benchmarks/comparisons/$1/alone.csv"
    done
}
shipped=llmwrappers/critical_states/shipped
function_alone() { # FOLDER EPISODES ENVIRONMENTS: an LLM's code for critical states, played as a policy
    for env_id in "${@:3}"; do
        python benchmarks/stuck_agents.py --env-id "$env_id" --episodes "$2" --csv "benchmarks/comparisons/$1/alone.csv" \
            --agents "function=$shipped/${env_id//\//-}/critical.py"
    done
}

mujoco=(Hopper-v4 Walker2d-v4 Ant-v4)

# PPO warm-started from its prior, and PPO alone; then the other environments with shipped candidates; then useless priors. A run
# takes minutes. Four environments are small: they get 300 000 steps instead of 1 000 000.
compare ppo-camel --env-ids "${mujoco[@]}" --arms none auto --seeds 1-5
short=(InvertedPendulum-v4 Pendulum-v1 MountainCarContinuous-v0 LunarLanderContinuous-v3)
compare ppo-camel-short --env-ids "${short[@]}" --total-timesteps 300000 --arms none auto --seeds 1-5
compare ppo-camel --env-ids "${mujoco[@]}" BipedalWalker-v3 HalfCheetah-v4 Humanoid-v4 --arms none auto --seeds 1-5
# On Humanoid-v4 every audition chooses a bad prior: full torque forward, which falls later than doing nothing.
compare ppo-camel-bad --env-ids Humanoid-v4 --total-timesteps 300000 --arms none bad --seeds 1-5
compare ppo-camel-short --env-ids "${short[@]}" --total-timesteps 300000 --arms none auto random bad --seeds 1-5
# What the LLM's code returns by itself, without a learner; compare.py --report-only shows it.
for folder in ppo-camel ppo-camel-compiled ppo-camel-before camel taught; do alone "$folder" "${mujoco[@]}"; done
alone ppo-camel BipedalWalker-v3 HalfCheetah-v4 Humanoid-v4
alone ppo-camel-short "${short[@]}"
alone ppo-camel-ablations Hopper-v4 Walker2d-v4
alone sb3-ppo Walker2d-v4
for folder in camel-1m sb3-td3; do alone "$folder" Hopper-v4; done
python -m llmwrappers.priors --env-id HalfCheetah-v4 BipedalWalker-v3 Walker2d-v4 --episodes 100 --seed 1000000 \
    --csv benchmarks/comparisons/ppo-camel-candidates/alone.csv
function_alone stuck 200 llmwrappers/{KeyCorridor,LockedRoom}-v0
function_alone stuck-doorkey 200 llmwrappers/DoorKey-v0
function_alone stuck-multiroom 200 llmwrappers/MultiRoom-v0
function_alone stuck-hopper 100 llmwrappers/HopperBeyond-v0
for folder in stuck-credited stuck-parts; do function_alone "$folder" 200 llmwrappers/KeyCorridor-v0; done
python benchmarks/stuck_agents.py --env-id llmwrappers/ObstructedMaze-v0 --csv benchmarks/comparisons/stuck-obstructed/alone.csv \
    --agents function=benchmarks/results/obstructed_maze/critical.py
function_alone stuck-alone 200 llmwrappers/{KeyCorridor,DoorKey,LockedRoom,MultiRoom}-v0
for folder in ultra ultra-imitated; do function_alone "$folder" 100 "${mujoco[@]}"; done
for folder in ultra ultra-imitated-pong; do
    file="benchmarks/comparisons/$folder/alone.csv"
    # So that the rows of an earlier start are replaced.
    [ ! -f "$file" ] || sed -i s,ALE/Pong-v5,llmwrappers/PongObjects-v0, "$file"
    function_alone "$folder" 100 llmwrappers/PongObjects-v0
    sed -i s,llmwrappers/PongObjects-v0,ALE/Pong-v5, "$file"
done
# Does the audition choose well? What it chooses; then an agent cloned from each candidate, whatever it returns.
python benchmarks/auditions.py --seeds 10
compare ppo-camel-candidates --script benchmarks/ppo_camel_ablations.py --env-ids HalfCheetah-v4 BipedalWalker-v3 Walker2d-v4 \
    --total-timesteps 300000 --seeds 1-3 --arms "none=--change nothing --prior none" \
    "policy-1=--change audition --prior {env_id} --candidate 1" "policy-2=--change audition --prior {env_id} --candidate 2" \
    "policy-3=--change audition --prior {env_id} --candidate 3" "policy-4=--change audition --prior {env_id} --candidate 4" \
    "policy-5=--change audition --prior {env_id} --candidate 5"
# Ablations: each part of ppo_camel.py, and each setting that only a clone has.
compare ppo-camel-ablations --script benchmarks/ppo_camel_ablations.py --env-ids Hopper-v4 Walker2d-v4 --total-timesteps 300000 \
    --prior shipped --seeds 1-3 --arms "nothing=--change nothing" "critic=--change critic" "audition=--change audition" \
    "frozen=--change frozen" "pull=--change pull" "clone-2500=--change nothing --clone-steps 2500" \
    "clone-5000=--change nothing --clone-steps 5000" \
    "clone-10000=--change nothing --clone-steps 10000" "gamma-0.99=--change nothing --clone-gamma 0.99" \
    "minibatches-32=--change nothing --clone-minibatches 32" "no-warmup=--change nothing --warmup-steps 0"
# Is the prior the cause, or any warm start? The control is an agent cloned from a prior that does nothing; then which part of
# that control helps on HalfCheetah-v4.
nothing="--change audition --prior benchmarks/bad_priors/zero.py"
control=(--script benchmarks/ppo_camel_ablations.py --env-ids HalfCheetah-v4 Ant-v4 Walker2d-v4 Hopper-v4 BipedalWalker-v3
    Humanoid-v4 --seeds 1-3 --arms "nothing-prior=$nothing")
compare ppo-camel-control "${control[@]}" --total-timesteps 300000
compare ppo-camel-control-1m "${control[@]}" --total-timesteps 1000000
compare ppo-camel-control-parts --script benchmarks/ppo_camel_ablations.py --env-ids HalfCheetah-v4 --total-timesteps 300000 \
    --seeds 1-3 --arms "std-1=$nothing --clone-std 1.0" "gamma-minibatches=$nothing --clone-gamma 0.99 --clone-minibatches 32" \
    "no-warmup=$nothing --warmup-steps 0"
# The compiled update; ppo-camel-before is the same command at commit fbbba62.
compare ppo-camel-compiled --env-ids Hopper-v4 Walker2d-v4 Ant-v4 --total-timesteps 300000 --arms none auto --seeds 1-3
# Stable-Baselines3's PPO with and without the warm start; its TD3 in the mask; all learners after ten minutes on one core.
python benchmarks/sb3_learners.py --output benchmarks/results/sb3-ppo.csv --arms ppo ppo-same begin-as \
    --env-ids Walker2d-v4 --total-timesteps 300000
python benchmarks/sb3_learners.py --output benchmarks/results/sb3-td3.csv --arms td3 td3-executed td3-chosen --env-ids Hopper-v4 \
    --total-timesteps 100000
for name in sb3-ppo sb3-td3; do
    python cleanrl_scripts/compare.py --from-csv "benchmarks/results/$name.csv" --output "benchmarks/comparisons/$name"
done
python benchmarks/speed/ten_minutes.py
# PPO alone with a clone's settings. Clones explore with a deviation of 0.2, HalfCheetah-v4's with 0.5, since its priors do worse
# than doing nothing; there the control of that noise, too.
quiet="ppo-quiet=--change quiet --prior none"
compare ppo-quiet --script benchmarks/ppo_camel_ablations.py --env-ids HalfCheetah-v4 Ant-v4 "${mujoco[@]::2}" BipedalWalker-v3 \
    Humanoid-v4 --seeds 1-5 --arms "$quiet"
compare ppo-quiet-short --script benchmarks/ppo_camel_ablations.py --env-ids "${short[@]}" --total-timesteps 300000 --seeds 1-5 \
    --arms "$quiet"
compare ppo-quiet-halfcheetah --script benchmarks/ppo_camel_ablations.py --env-ids HalfCheetah-v4 --seeds 1-5 \
    --arms "$quiet --clone-std 0.5" "nothing-prior=$nothing --clone-std 0.5"
# Stuck agents, guided by code: which agents are stuck; then the code, played and imitated, with its controls; ablations of it;
# RICE, which begins episodes in critical states.
grids=(llmwrappers/{KeyCorridor,DoorKey,LockedRoom,MultiRoom,ObstructedMaze}-v0)
compare stuck-alone --script ppo_ultra.py --env-ids "${grids[@]}" llmwrappers/HopperBeyond-v0 --no-cuda --total-timesteps 1000000 --seeds 1-3 \
    --arms "none=--arm none --agent none" "rnd=--arm rnd --agent none --critical-states everywhere"
led=(--script ppo_ultra.py --no-cuda --arms none a random "rnd=--arm rnd --critical-states everywhere")
compare stuck "${led[@]}" --env-ids llmwrappers/{KeyCorridor,LockedRoom}-v0 --total-timesteps 100000 --seeds 1-5
compare stuck-multiroom "${led[@]}" --env-ids llmwrappers/MultiRoom-v0 --total-timesteps 100000 --seeds 1-3
# Its agent: ppo_ultra.py --env-id llmwrappers/ObstructedMaze-v0 --agent none --pretrain-timesteps 100000 --no-cuda
maze=benchmarks/results/obstructed_maze
compare stuck-obstructed --script ppo_ultra.py --no-cuda --agent "$maze/agent.pt" --critical-states "$maze/critical.py" \
    --arms none a random --env-ids llmwrappers/ObstructedMaze-v0 --total-timesteps 100000 --seeds 1-3
compare stuck-obstructed-rnd --script ppo_ultra.py --no-cuda --agent "$maze/agent.pt" --arms "rnd=--arm rnd --critical-states everywhere" \
    --env-ids llmwrappers/ObstructedMaze-v0 --total-timesteps 100000 --seeds 1-3
compare stuck-doorkey "${led[@]}" --env-ids llmwrappers/DoorKey-v0 --total-timesteps 100000 --seeds 1-3
compare stuck-hopper "${led[@]}" --env-ids llmwrappers/HopperBeyond-v0 --total-timesteps 600000 --seeds 1-3
corridor=(--env-ids llmwrappers/KeyCorridor-v0 --no-cuda --total-timesteps 100000 --seeds 1-5)
compare stuck-parts --script ppo_ultra.py "${corridor[@]}" \
    --arms a "played=--arm a --imitation-coef 0" "imitated=--arm a --control-probability 0.99" ra
compare stuck-rice --script benchmarks/rice.py "${corridor[@]}" --arms "rice=--statemask-timesteps 50000"
# ULTRA's guidance imitated, for agents that are not stuck: the paper's tasks, its table and the LLM's code.
imitated=(--script ppo_ultra.py --total-timesteps 500000 --no-cuda --seeds 1-3
    --arms none "table-a=--arm a --guidance table" "table-ra=--arm ra --guidance table"
    "table-random=--arm random --guidance table" "code-a=--arm a --guidance code" "code-ra=--arm ra --guidance code"
    "code-random=--arm random --guidance code")
compare ultra-imitated --env-ids "${mujoco[@]}" "${imitated[@]}"
compare ultra-imitated-pong --env-ids ALE/Pong-v5 "${imitated[@]}"
# CAMEL's ablations, each against the published setting; three priors are bad: random actions, full torque, and the LLM's with its
# sign reversed.
for prior in Hopper-v4/policy-5.py Walker2d-v4/policy-3.py Ant-v4/policy-2.py; do # the shipped defaults
    { sed "s/^def policy(/def controller(/" "llmwrappers/priors/shipped/$prior"
      printf '\n\ndef policy(obs):\n    return -controller(obs)\n'; } > "benchmarks/comparisons/flipped-${prior%/*}.py"
done
compare paper-ablations --script td3_camel.py --env-ids "${mujoco[@]}" --total-timesteps 100000 --learning-starts 2500 \
    --compile on --no-cuda --seeds 1-3 --arms td3 paper paper-random \
    "fraction-0.1=--prior shipped --mask-fraction 0.1" "fraction-0.4=--prior shipped --mask-fraction 0.4" \
    "radius-0.1=--prior shipped --radius 0.1" "radius-0.6=--prior shipped --radius 0.6" \
    "episode=--prior shipped --gate episode" "constant=--prior benchmarks/bad_priors/forward.py" \
    "flipped=--prior benchmarks/comparisons/flipped-{env_id}.py"
# The two that differ most there, for longer.
compare paper-ablations-long --script td3_camel.py --env-ids Ant-v4 --total-timesteps 300000 --learning-starts 7500 \
    --no-cuda --seeds 1-3 --arms paper "fraction-0.1=--prior shipped --mask-fraction 0.1" "radius-0.6=--prior shipped --radius 0.6"
for folder in paper-ablations paper; do alone "$folder" "${mujoco[@]}"; done
# CAMEL: TD3, the paper's form, other masks. The experts are final agents of the paper's form, because TD3 alone has hardly a good
# one after 300 000 steps. Then full length: is TD3 CleanRL's TD3?
compare paper --script td3_camel.py --env-ids "${mujoco[@]}" --total-timesteps 300000 --learning-starts 7500 --no-cuda \
    --expert-models "benchmarks/experts/{env_id}.npz" --arms td3 paper paper-random paper-expert --seeds 1-5
# What products rounded to bfloat16 cost in return, beside the same arms of `camel`, which have float32.
float32=benchmarks/comparisons/bfloat16/float32.csv
grep -E '^(env_id|(Hopper|Walker2d)-v4,(td3|paper),)' benchmarks/comparisons/camel/curves.csv |
    sed -E 's/,(td3|paper),/,\1-float32,/' > "$float32"
compare bfloat16 --script benchmarks/bfloat16_products.py --env-ids "${mujoco[@]::2}" --total-timesteps 300000 \
    --learning-starts 7500 --no-cuda --seeds 1-3 --arms "td3=--prior none" "paper=--prior shipped" --from-csv "$float32"
compare paper-1m --script td3_camel.py --env-ids Hopper-v4 --total-timesteps 1000000 --arms td3 paper --seeds 1-3 --no-cuda
# ULTRA as published: a table, its rewards as they are, no imitation. PPO alone; actions and rewards; the same at random states; the
# other arms; no entry disabled.
compare ultra-paper --script ppo_ultra.py --env-ids "${mujoco[@]}" ALE/Pong-v5 --total-timesteps 500000 --no-cuda \
    --guidance table --shaping paper --imitation-coef 0 --seeds 1-3 \
    --arms none ra random a r rnd statemask "ra-always=--arm ra --control-probability 0"
