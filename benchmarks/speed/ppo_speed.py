"""Steps per second of ppo_camel.py (--prior none), of the PPO of Stable-Baselines3, SBX and CleanRL, in one run.

    python benchmarks/speed/ppo_speed.py                 # Hopper-v4 on one core; 3 minutes, 2 without SBX, which is optional

All contestants have CleanRL's defaults: one environment, rollouts of 2048 steps, 10 epochs of minibatches of 64, actor and
critic 64-64 tanh, Adam 3e-4, gamma 0.99, lambda 0.95, observations and rewards normalised with running statistics, CPU. They
are interleaved as in td3_speed.py, all on the same core. PPO learns after each rollout, so segments are whole rollouts: the
gate (see there) stops a loop before the first step of a rollout, and a segment holds as many updates as rollouts.

They differ in this: ppo_camel.py also writes its metrics to files and lowers the learning rate; SBX does not clip the values'
loss; CleanRL draws the minibatches of an epoch alike and writes its metrics to TensorBoard. Use a quiet machine. Linux only.
"""

import contextlib
import importlib
import importlib.util
import os
import statistics
import time
import traceback
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import gymnasium as gym
import td3_speed
import tyro
from machine import describe_machine
from td3_speed import Gate, checkout_before, options_of, print_table, race, spread, start_environment, train_cleanrl

warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)

ROLLOUT, WIDTH = 2048, 64
BASELINES = ("SB3", "SBX", "CleanRL", "ppo_camel before", "MuJoCo alone")


@dataclass
class Args:
    env_id: str = "Hopper-v4"
    """the environment"""
    rollouts: int = 5
    """rollouts of a segment, each with the update that follows it"""
    rounds: int = 10
    """segments of each contestant"""
    warmup: int = 2
    """rollouts before the first segment; JAX compiles in them"""
    cleanrl: str | None = None
    """a checkout of CleanRL: also runs its ppo_continuous_action.py"""


# ------------------------------------------------------------------------------------------------ in a worker process


class RolloutGate(Gate):
    """Also reports the seconds between the last step of a rollout and the first of the next: the learner learns in them."""

    learning = left = 0.0

    def step(self, action):
        if self.count and self.count % ROLLOUT == 0:
            self.learning += time.perf_counter() - self.left
        observed = super().step(action)
        self.left = time.perf_counter()
        return observed

    def report(self, seconds: float) -> tuple[float, float]:
        learning, self.learning = self.learning, 0.0
        return seconds, learning


def train_camel(gated, name: str, env_id: str, runs_dir: str) -> None:
    """Runs ppo_camel.py; the gate goes around the environment that its PPO is given."""
    options = options_of(name)
    script: Any = importlib.import_module("cleanrl_scripts.ppo_camel")
    ppo = script.PPO
    script.PPO = lambda args, envs, *others: ppo(args, [gated(env) for env in envs], *others)
    never = 10**9
    command = f"--env-id {env_id} --prior none --no-cuda --eval-episodes 1{options}"
    command += f" --total-timesteps {never} --eval-every {never} --checkpoint-every {never}"
    script.main([*command.split(), "--runs-dir", runs_dir])


def step_alone(env: gym.Env) -> None:
    """Plays random actions for ever: what no learner can be faster than."""
    env.reset(seed=1)
    env.action_space.seed(1)
    while True:
        if any(env.step(env.action_space.sample())[2:4]):
            env.reset()


def train_baseline(gated, env_id: str, name: str) -> None:
    """Runs the PPO of Stable-Baselines3 or of SBX with ppo_camel.py's hyperparameters."""
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    env = gym.make(env_id, disable_env_checker=True)
    observation_dim, action_dim = (space.shape[0] for space in (env.observation_space, env.action_space) if space.shape)
    envs = VecNormalize(DummyVecEnv([lambda: Monitor(gated(env))]), gamma=0.99)
    settings = {
        "learning_rate": 3e-4,
        "n_steps": ROLLOUT,
        "batch_size": 64,
        "n_epochs": 10,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "clip_range": 0.2,
        "clip_range_vf": 0.2,
        "ent_coef": 0.0,
        "vf_coef": 0.5,
        "max_grad_norm": 0.5,
        "policy_kwargs": {"net_arch": [WIDTH, WIDTH]},  # of the actor, and of the critic; tanh
        "seed": 1,
        "device": "cpu",
    }
    if name == "SB3":
        from stable_baselines3 import PPO

        model = PPO("MlpPolicy", envs, **settings)
        size = sum(p.numel() for p in model.policy.parameters())
    else:
        import jax  # pyright: ignore[reportMissingImports]
        import sbx  # pyright: ignore[reportMissingImports]

        model = sbx.PPO("MlpPolicy", envs, **settings)
        states = (model.policy.actor_state, model.policy.vf_state)
        size = sum(p.size for state in states for p in jax.tree.leaves(state.params))
    hidden = (observation_dim + 1) * WIDTH + (WIDTH + 1) * WIDTH
    expected = 2 * hidden + (WIDTH + 1) * (action_dim + 1) + action_dim  # with the actor's log_std
    if size != expected:
        raise RuntimeError(f"{name}'s actor and critic have {size} parameters; ppo_camel.py's have {expected}")
    model.learn(10**9)


def work(connection: Connection, name: str, env_id: str, args: td3_speed.Args, runs_dir: str) -> None:
    """The life of a worker; what goes wrong is sent to the parent as text."""

    def gated(env: gym.Env) -> Gate:
        return RolloutGate(env, connection, args.warmup)

    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            if name == "MuJoCo alone":
                step_alone(gated(gym.make(env_id, disable_env_checker=True)))
            elif name == "CleanRL":
                train_cleanrl(gated, f"{args.cleanrl}/cleanrl/ppo_continuous_action.py", env_id)
            elif name in ("SB3", "SBX"):
                train_baseline(gated, env_id, name)
            else:
                train_camel(gated, name, env_id, runs_dir)
    except EOFError:
        pass  # the parent has closed the connection: it wants no more segments
    except Exception:
        connection.send(traceback.format_exc())


# ------------------------------------------------------------------------------------------------ in the parent process


def table_rows(steps: int, reports: dict[str, list[tuple[float, float]]], peaks: dict[str, float]) -> list[list[str]]:
    """The header, and one row a contestant."""
    baselines = [name for name in BASELINES if name in reports]
    columns = ["seconds a rollout", "of them learning", "learning, times before", "peak MB"]
    rows = [["contestant", "steps/s", *(f"times {name}" for name in baselines), *columns]]
    segments = {name: list(zip(*report, strict=True)) for name, report in reports.items()}

    def times(baseline: str, name: str, part: int) -> str:
        """How often the baseline's seconds hold those of the contestant; part 0 is the whole segment, 1 the learning."""
        pairs = zip(segments[baseline][part], segments[name][part], strict=True)
        return "1" if name == baseline else spread([other / own for other, own in pairs], 2)

    for name, (seconds, learning) in segments.items():
        row = [name, spread([steps / second for second in seconds], 0), *(times(baseline, name, 0) for baseline in baselines)]
        row += [f"{statistics.median(part) * ROLLOUT / steps:.2f}" for part in (seconds, learning)]
        rows.append([*row, "-" if name == "MuJoCo alone" else times("ppo_camel before", name, 1), f"{peaks[name]:.0f}"])
    return rows


def main(args: Args) -> None:
    has_sbx = importlib.util.find_spec("sbx") is not None
    print(
        describe_machine("torch", "stable-baselines3", *(["sbx-rl", "jax"] if has_sbx else []), "gymnasium", "mujoco", "numpy")
    )
    print(
        f"{args.env_id}, one core; median (least-greatest) of {args.rounds} rounds of {args.rollouts} x {ROLLOUT} steps, "
        f"after {args.warmup} x {ROLLOUT} steps\n"
    )
    if os.getloadavg()[0] > 0.5:
        print(
            f"warning: the load average is {os.getloadavg()[0]:.1f}; with other work on these cores the numbers mean nothing\n"
        )
    others = [*(["SBX"] if has_sbx else []), *(["CleanRL"] if args.cleanrl else [])]
    names = ["ppo_camel", "ppo_camel eager", "ppo_camel before", "SB3", *others, "MuJoCo alone"]
    steps = args.rollouts * ROLLOUT
    start_environment(1, sorted(os.sched_getaffinity(0)))
    with checkout_before():
        segments = td3_speed.Args(steps=steps, rounds=args.rounds, warmup=args.warmup * ROLLOUT, cleanrl=args.cleanrl)
        reports, peaks = race(args.env_id, segments, names, work)
    print_table(table_rows(steps, reports, peaks))
    if not has_sbx:
        print("\nSBX is not installed: pip install sbx-rl")


if __name__ == "__main__":
    main(tyro.cli(Args))
