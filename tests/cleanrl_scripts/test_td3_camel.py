"""cleanrl_scripts/td3_camel.py: the update against a textbook TD3, the arms, resuming, bad input."""

import copy
import inspect
import io
import json
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest
import torch
from conftest import ROOT, OneBuffer, OneStep, kill_and_resume, metrics_of
from torch import nn

from cleanrl_scripts.common.run_folder import save_checkpoint, serialize
from cleanrl_scripts.learning import priors_of_arms
from llmwrappers.errors import UserError

SCRIPT = ROOT / "cleanrl_scripts" / "td3_camel.py"
WALKER = ROOT / "benchmarks" / "experts" / "Walker2d-v4.npz"
QUICK = ["--learning-starts", "150", "--batch-size", "32", "--eval-every", "200", "--eval-episodes", "1", "--no-cuda"]


@pytest.fixture
def train(td3_camel, tmp_path, monkeypatch):
    """Runs the script in this process and returns its run folder."""

    def run(*arguments: str) -> Path:
        runs = tmp_path / f"runs-{time.monotonic_ns()}"
        td3_camel.main([*QUICK, "--runs-dir", str(runs), *arguments])
        (run_dir,) = runs.iterdir()
        return run_dir

    yield run
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def cut(td3_camel, train, monkeypatch, tmp_path):
    """Runs the script until its first checkpoint and returns its run folder."""

    def run(*arguments: str) -> Path:
        before = set(tmp_path.glob("runs-*/*"))
        with monkeypatch.context() as patch:
            patch.setattr(td3_camel, "save_checkpoint", save_and_stop)
            with pytest.raises(KeyboardInterrupt):
                train(*arguments)
        (run_dir,) = set(tmp_path.glob("runs-*/*")) - before
        return run_dir

    def save_and_stop(run_dir: Path, state: dict) -> None:
        save_checkpoint(run_dir, state)
        raise KeyboardInterrupt

    return run


def last_value(run_dir: Path, metric: str) -> float:
    return float([row for row in metrics_of(run_dir) if row[1] == metric][-1][2])


# ------------------------------------------------------------------------------------------------ the update


def equal(module: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(module.parameters(), other.parameters(), strict=True))


def saved(run_dir: Path) -> dict[str, torch.Tensor]:
    """All parameters of a run's model.pt."""
    model = torch.load(run_dir / "model.pt")
    return {f"{part}.{name}": parameter for part in ("actor", "critics") for name, parameter in model[part].items()}


def new_learner(td3_camel, observation_dim=3, action_dim=2, seed=0, **arguments):
    args = td3_camel.Args(**{"batch_size": 4, "buffer_size": 64, "compile": "off", **arguments})
    return td3_camel.TD3(args, observation_dim, action_dim, np.random.default_rng(seed), torch.device("cpu"))


@pytest.mark.parametrize("masked", [False, True])
def test_the_update_is_td3(td3_camel, masked):
    """TD3 as in the textbook (torch.nn, separate networks), with actions in the stored intervals."""
    o, a, steps = 5, 3, 40
    td3 = new_learner(td3_camel, o, a, batch_size=16)
    args, replay, rng = td3.args, td3.replay, td3.rng
    for _ in range(64):
        low, high = (
            np.sort(rng.uniform(-1, 1, (2, 2, a)), axis=0) if masked else np.array([[-np.ones(a)] * 2, [np.ones(a)] * 2])
        )
        center, half_width = (low + high) / 2, (high - low) / 2
        action = center[0] + half_width[0] * rng.uniform(-1, 1, a)
        transition = td3_camel.Transition(
            rng.normal(size=o), action, rng.normal(size=o), center[1], half_width[1], center[0], half_width[0],
            rng.normal(), rng.random() < 0.9,
        )  # fmt: skip
        replay.add(transition)

    networks = td3.actor, td3.target_actor, td3.critics, td3.target_critics
    actor, target_actor, critics, targets = copy.deepcopy(networks)
    critic_optimizer = torch.optim.Adam([p for c in critics for p in c.parameters()], lr=args.learning_rate)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=args.learning_rate)
    draws = copy.deepcopy(rng)
    for step in range(1, steps + 1):
        td3.update(step)

        rows = replay.tensor[torch.from_numpy(draws.integers(0, 64, 16))]
        obs, action, next_obs, next_center, next_half, center, half, reward, alive = replay.columns(rows)
        noise = torch.from_numpy(draws.standard_normal((a, 16), dtype=np.float32)).T
        with torch.no_grad():
            noise = (noise * args.policy_noise).clamp(-args.noise_clip, args.noise_clip) * next_half
            next_action = next_center + next_half * torch.tanh(target_actor(next_obs)) + noise
            next_action = torch.maximum(torch.minimum(next_action, next_center + next_half), next_center - next_half)
            next_q = torch.minimum(*(t(torch.cat([next_obs, next_action], 1)) for t in targets))
            y = reward + args.gamma * alive * next_q
        loss = sum(nn.functional.mse_loss(c(torch.cat([obs, action], 1)), y) for c in critics)
        critic_optimizer.zero_grad()
        loss.backward()
        critic_optimizer.step()
        if step % args.policy_frequency == 0:
            actor_loss = -critics[0](torch.cat([obs, center + half * torch.tanh(actor(obs))], 1)).mean()
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()
            with torch.no_grad():
                for online, target in ((actor, target_actor), *zip(critics, targets, strict=True)):
                    for p, t in zip(online.parameters(), target.parameters(), strict=True):
                        t.copy_(args.tau * p + (1 - args.tau) * t)

    for network, expected in zip(networks, (actor, target_actor, critics, targets), strict=True):
        for a, b in zip(network.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=2e-6)


def test_the_compiled_update_is_the_same(td3_camel):
    """After 100 updates the parameters differ by 1e-5 at most, where they have moved by 1e-3 and more."""
    learners = [new_learner(td3_camel, network_hidden=(32, 32), compile=wanted) for wanted in ("on", "off", "off")]
    fast, plain, _ = learners
    assert [learner.hardware.endswith("compiled") for learner in learners] == [True, False, False]
    draws = np.random.default_rng(1)
    for _ in range(64):
        (obs, next_obs), (center, next_center) = draws.normal(size=(2, 3)), draws.uniform(-0.5, 0.5, (2, 2))
        half, next_half = draws.uniform(0.1, 0.5, (2, 2))
        row = (obs, center + half * draws.uniform(-1, 1, 2), next_obs, next_center, next_half, center, half, draws.normal(), 1)
        for td3 in (fast, plain):
            td3.replay.add(td3_camel.Transition(*row))
    for step in range(1, 101):
        fast.update(step)
        plain.update(step)
    assert fast.losses == pytest.approx(plain.losses, rel=1e-4)
    for name in ("actor", "target_actor", "critics", "target_critics"):
        networks = (getattr(td3, name).parameters() for td3 in learners)
        differences = [((a - b).abs().max().item(), (b - c).abs().max().item()) for a, b, c in zip(*networks, strict=True)]
        error, moved = (max(column) for column in zip(*differences, strict=True))
        assert error < 1e-5
        assert moved > 1e-3


def test_a_run_is_td3(td3_camel, train):
    """From the first reset to the last update: the returns and the weights of a textbook's loop with the same draws."""
    seed, steps, warm_up, batch_size = 7, 400, 150, 32  # of QUICK
    run_dir = train("--env-id", "Hopper-v4", "--prior", "none", "--total-timesteps", str(steps), "--seed", str(seed))

    env, draws = gym.make("Hopper-v4"), np.random.default_rng(seed)
    td3 = td3_camel.TD3(td3_camel.Args(buffer_size=1, compile="off"), 11, 3, draws, torch.device("cpu"))
    actor, critics = td3.actor.append(nn.Tanh()), td3.critics  # its first weights
    target_actor, targets = copy.deepcopy((actor, critics))
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
    critic_optimizer = torch.optim.Adam([p for c in critics for p in c.parameters()], lr=3e-4)
    buffer, returns, episodic_return = [], [], 0.0
    observation, _ = env.reset(seed=int(draws.integers(2**31)))
    for step in range(1, steps + 1):
        if step <= warm_up:
            action = draws.uniform(-1, 1, 3).astype(np.float32)
        else:
            with torch.no_grad():
                action = actor(torch.tensor(observation, dtype=torch.float32)).numpy()
            action = (action + 0.1 * draws.standard_normal(3, dtype=np.float32)).clip(-1, 1)
        next_observation, reward, terminated, truncated, _ = env.step(action)
        buffer.append([*observation, *action, *next_observation, reward, not terminated])
        observation, episodic_return = next_observation, episodic_return + reward

        if step > warm_up:
            rows = [buffer[i] for i in draws.integers(0, len(buffer), batch_size)]
            obs, act, next_obs, rewards, alive = torch.tensor(rows, dtype=torch.float32).split([11, 3, 11, 1, 1], dim=1)
            noise = torch.from_numpy(draws.standard_normal((3, batch_size), dtype=np.float32)).T
            with torch.no_grad():
                next_act = (target_actor(next_obs) + (0.2 * noise).clamp(-0.5, 0.5)).clamp(-1, 1)
                next_q = torch.minimum(*(target(torch.cat([next_obs, next_act], 1)) for target in targets))
                y = rewards + 0.99 * alive * next_q
            loss = sum(nn.functional.mse_loss(c(torch.cat([obs, act], 1)), y) for c in critics)
            critic_optimizer.zero_grad()
            loss.backward()
            critic_optimizer.step()
            if step % 2 == 0:
                actor_loss = -critics[0](torch.cat([obs, actor(obs)], 1)).mean()
                actor_optimizer.zero_grad()
                actor_loss.backward()
                actor_optimizer.step()
                with torch.no_grad():
                    for online, target in zip([actor, *critics], [target_actor, *targets], strict=True):
                        for p, t in zip(online.parameters(), target.parameters(), strict=True):
                            t.lerp_(p, 0.005)
        if terminated or truncated:
            returns.append(episodic_return)
            observation, _ = env.reset(seed=int(draws.integers(2**31)))
            episodic_return = 0.0

    logged = [float(value) for _, name, value in metrics_of(run_dir) if name == "charts/episodic_return"]
    assert len(returns) > 10
    np.testing.assert_allclose(logged, returns, rtol=1e-2, atol=1e-2)
    model = torch.load(run_dir / "model.pt")
    torch.testing.assert_close(model["actor"], dict(actor.state_dict()), rtol=1e-2, atol=1e-3)
    torch.testing.assert_close(model["critics"], dict(critics.state_dict()), rtol=1e-2, atol=1e-3)


def test_acting_is_the_actor(td3_camel):
    td3 = new_learner(td3_camel)
    observations = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    expected = torch.tanh(td3.actor(torch.from_numpy(observations))).detach().numpy()
    for observation, x in zip(observations, expected, strict=True):
        np.testing.assert_allclose(td3.act(observation), x, rtol=1e-5, atol=1e-6)


def test_a_learner_is_all_in_its_checkpoint(td3_camel, tmp_path):
    """What it goes on to learn is the same to the last bit."""
    whole, again = new_learner(td3_camel, seed=0), new_learner(td3_camel, seed=1)
    transition = td3_camel.Transition(np.ones(3), np.zeros(2), np.ones(3), *(np.zeros(2), np.ones(2)) * 2, 1.0, True)
    for step in range(20):
        whole.replay.add(transition)
        whole.update(step)
    whole.replay.save(tmp_path / "replay.bin")
    state = torch.load(io.BytesIO(serialize(whole.state_dict())), weights_only=True)
    again.load_state_dict(state, tmp_path / "replay.bin")
    again.rng.bit_generator.state = whole.rng.bit_generator.state
    for step in range(20, 30):
        for td3 in (whole, again):
            td3.replay.add(transition)
            td3.update(step)
    for name in ("actor", "target_actor", "critics", "target_critics"):
        assert equal(getattr(again, name), getattr(whole, name)), name


def test_a_researcher_adds_a_third_critic(td3_camel):
    """One number, and the smallest of three values counts."""
    source = inspect.getsource(td3_camel.TD3).replace("for _ in range(2)", "for _ in range(3)")
    exec(source, edited := dict(vars(td3_camel)))
    args = td3_camel.Args(batch_size=4, buffer_size=64, compile="off")
    td3 = edited["TD3"](args, 3, 2, np.random.default_rng(0), torch.device("cpu"))
    td3.replay.add(td3_camel.Transition(np.ones(3), np.zeros(2), np.ones(3), *(np.zeros(2), np.ones(2)) * 2, 1.0, True))
    with torch.no_grad():
        for bias, critic in zip([0.0, 0.0, -100.0], td3.target_critics, strict=True):
            critic[-1].bias += bias
    td3.update(100)
    assert {f"losses/qf{i}_{kind}" for i in (1, 2, 3) for kind in ("values", "loss")} < set(td3.losses)
    losses = [td3.losses[f"losses/qf{i}_loss"] for i in (1, 2, 3)]
    assert min(losses) > 90**2
    assert td3.losses["losses/qf_loss"] == pytest.approx(sum(losses) / 3)


# ------------------------------------------------------------------------------------------------ whole runs


def test_a_mask_that_is_off_changes_nothing(train):
    """The same metrics and weights, to the last bit, as the same script without the wrapper."""
    plain = train("--env-id", "Hopper-v4", "--prior", "none", "--total-timesteps", "400")
    off = train("--env-id", "Hopper-v4", "--prior", "random", "--mask-fraction", "0", "--total-timesteps", "400")
    assert saved(plain).keys() == saved(off).keys()
    assert all(torch.equal(parameter, saved(off)[name]) for name, parameter in saved(plain).items())
    shared = [
        row
        for row in metrics_of(off)
        if not row[1].startswith("mask/") and row[1] not in ("eval/masked_return", "eval/handover_gap")
    ]
    assert metrics_of(plain) == shared


def test_resuming_after_a_kill_repeats_the_run(tmp_path):
    """Killed before there is a checkpoint and right after the first: the same metrics and weights, to the last bit."""
    arguments = [
        *QUICK, "--env-id", "Walker2d-v4", "--mask-fraction", "0.5", "--total-timesteps", "900", "--checkpoint-every", "400",
    ]  # fmt: skip
    kill_and_resume(SCRIPT, arguments, tmp_path, kill_when=("metrics.csv", "checkpoint.pt"))


def test_a_compiled_run_is_resumed_to_the_last_bit(train, cut, td3_camel):
    arguments = ["--env-id", "llmwrappers-tests/Reach-v0", "--prior", "none", "--learning-starts", "50", "--compile", "on"]
    arguments += ["--network-hidden", "32", "32", "--total-timesteps", "250", "--checkpoint-every", "120"]
    whole, run_dir = train(*arguments), cut(*arguments)
    td3_camel.main(["--resume", str(run_dir)])
    assert metrics_of(run_dir) == metrics_of(whole)
    assert all(torch.equal(parameter, saved(run_dir)[name]) for name, parameter in saved(whole).items())


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["none", "Walker2d-v4"])
def test_kills_at_random_moments_leave_no_trace(tmp_path, prior):
    arguments = [
        *QUICK, "--env-id", "Walker2d-v4", "--prior", prior, "--mask-fraction", "0.5", "--total-timesteps", "1500",
        "--checkpoint-every", "200",
    ]  # fmt: skip
    kill_and_resume(SCRIPT, arguments, tmp_path)


def test_a_resumed_mask_goes_on_fading(train, cut, td3_camel):
    """Its schedule is where it was."""
    arguments = ["--env-id", "llmwrappers-tests/Reach-v0", "--prior", "random", "--mask-fraction", "1.0"]
    arguments += ["--total-timesteps", "190", "--checkpoint-every", "100"]
    whole, run_dir = metrics_of(train(*arguments)), cut(*arguments)
    td3_camel.main(["--resume", str(run_dir)])
    assert metrics_of(run_dir) == whole
    epsilons = [float(row[2]) for row in whole if row[1] == "mask/epsilon"]
    assert epsilons == pytest.approx([1 - 25 * k / 190 for k in range(1, 8)])


def test_the_arguments_of_a_run_may_be_given_again(train, td3_camel):
    arguments = ["--env-id", "Pendulum-v1", "--prior", "shipped", "--total-timesteps", "60"]
    run_dir = train(*arguments)
    td3_camel.main(["--resume", str(run_dir), *arguments])
    with pytest.raises(UserError, match="--prior none: the run in .* has Pendulum-v1; --resume takes no other arguments"):
        td3_camel.main(["--resume", str(run_dir), "--prior", "none"])


def test_a_finished_run_goes_on_for_more_steps(train, td3_camel, capsys):
    """Its mask fades by the new total; an episode that the first end cut is not gone on with."""
    run_dir = train(
        *("--env-id", "llmwrappers-tests/Reach-v0", "--prior", "random", "--mask-fraction", "0.6", "--total-timesteps", "190"),
    )
    before = metrics_of(run_dir)
    td3_camel.main(["--resume", str(run_dir)])  # there is nothing left to do
    assert metrics_of(run_dir) == before

    capsys.readouterr()
    td3_camel.main(["--resume", str(run_dir), "--total-timesteps", "400"])
    note = "the mask's probability falls to 0 at step 240 instead of 114, and rises first"
    assert f"note: the run goes on to 400 steps instead of 190; {note}\n" in capsys.readouterr().out
    assert metrics_of(run_dir)[: len(before)] == before
    assert json.loads((run_dir / "summary.json").read_text())["global_step"] == 400
    assert metrics_of(run_dir)[-1][0] == "400"
    epsilons = [(int(row[0]), float(row[2])) for row in metrics_of(run_dir)[len(before) :] if row[1] == "mask/epsilon"]
    assert [step for step, _ in epsilons] == [190 + 25 * k for k in range(1, 9)]
    assert [epsilon for _, epsilon in epsilons] == pytest.approx([max(0.0, 1 - step / 240) for step, _ in epsilons])

    description = json.loads((run_dir / "args.json").read_text())
    assert description["args"]["total_timesteps"] == 400
    assert [resumed["args_before"] for resumed in description["resumed"]] == [{"total_timesteps": 190}]
    with pytest.raises(UserError, match=r"--total-timesteps 399: the run in .* has 400; --resume takes more steps, not fewer"):
        td3_camel.main(["--resume", str(run_dir), "--total-timesteps", "399"])


def test_without_a_schedule_more_steps_are_what_they_would_have_been(train, td3_camel):
    """To the last bit, where the first end is also the end of an episode."""
    arguments = ["--env-id", "llmwrappers-tests/Reach-v0", "--prior", "none", "--checkpoint-every", "200"]
    whole = train(*arguments, "--total-timesteps", "400")
    longer = train(*arguments, "--total-timesteps", "200")
    td3_camel.main(["--resume", str(longer), "--total-timesteps", "400"])
    assert metrics_of(longer) == metrics_of(whole)
    assert all(torch.equal(parameter, saved(longer)[name]) for name, parameter in saved(whole).items())


def test_every_prior_trains_in_a_mask_around_it(train, td3_camel, tmp_path):
    """random, a file of one's own and an expert: the actor of a run of this script."""
    env = gym.make("llmwrappers-tests/OneStep-v0")  # of one state, whose reward is -(action - 0.8)^2
    plain = train("--env-id", "llmwrappers-tests/OneStep-v0", "--prior", "none", "--total-timesteps", "300")
    own = tmp_path / "mine.py"
    own.write_text("def policy(obs):\n    return [0.1]\n")
    for prior in ("random", str(own), f"expert:{plain}"):
        run_dir = train("--env-id", "llmwrappers-tests/OneStep-v0", "--prior", prior, "--total-timesteps", "300")
        args = td3_camel.Args(prior=prior, env_id="llmwrappers-tests/OneStep-v0")
        (policy,) = priors_of_arms.load_priors(args, env).values()
        low, high = np.clip(np.add(policy(np.ones(2)), [-0.3, 0.3]), -1, 1)
        rewards = -((np.array([low, high, np.clip(0.8, low, high)]) - 0.8) ** 2)
        returns = [float(row[2]) for row in metrics_of(run_dir) if row[1] == "eval/masked_return"]
        assert all(rewards.min() - 1e-6 <= value <= rewards.max() + 1e-6 for value in returns)


class Hinted(OneStep):
    """Its infos hold what a prior reads, and it can be filmed."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode=None):
        super().__init__()
        self.render_mode = render_mode

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], {"hint": np.zeros(1)}

    def step(self, action):
        return *super().step(action)[:4], {"hint": np.zeros(1)}

    def render(self):
        return np.zeros((16, 16, 3), np.uint8)


def test_what_the_prior_reads_is_not_looked_for_in_a_filmed_episode(td3_camel, tmp_path):
    gym.register("llmwrappers-tests/Hinted-v0", Hinted, disable_env_checker=True)
    (tmp_path / "mine.py").write_text("def policy(obs):\n    return [0.1]\n")
    episodes = []
    for prior_input in (None, "hint"):
        args = td3_camel.Args(env_id="llmwrappers-tests/Hinted-v0", prior=str(tmp_path / "mine.py"), prior_input=prior_input)
        env, _ = td3_camel.make_masked_env(args, tmp_path / "videos")
        episodes.append(env.get_wrapper_attr("episode_id"))
        env.close()
    assert episodes[0] == episodes[1]


@pytest.mark.parametrize("env_id", ["Hopper-v4", "Walker2d-v4", "Ant-v4"])
def test_the_experts_of_the_evidence_are_agents_of_their_environments(td3_camel, env_id):
    args = td3_camel.Args(env_id=env_id, prior=f"expert:{ROOT}/benchmarks/experts/{env_id}.npz")
    env, space = td3_camel.make_masked_env(args)
    returns = []
    for mask_epsilon in (1.0, 0.0):  # with the mask what the expert does, without it nothing
        env.set_wrapper_attr("mask_epsilon", mask_epsilon, force=False)
        returns.append(td3_camel.evaluate(env, lambda obs: np.zeros(space.shape), args.seed, 5))
    assert returns[0] > 500 + returns[1]


def test_a_random_prior_is_of_the_runs_seed_and_fixed_for_an_observation(td3_camel):
    env = gym.make("llmwrappers-tests/Reach-v0")
    first, second, other = (
        priors_of_arms.load_priors(td3_camel.Args(prior="random", seed=seed), env)["random"] for seed in (1, 1, 2)
    )
    a, b = np.array([0.5, -0.5], np.float32), np.array([0.5, -0.25], np.float32)
    np.testing.assert_array_equal(first(a), second(a))
    assert len({tuple(answer) for answer in (first(a), first(b), other(a))}) == 3
    answers = np.array([first(np.array([x, 0.0], np.float32)) for x in np.linspace(-5, 5, 500)])
    np.testing.assert_allclose(answers.mean(axis=0), 0.0, atol=0.1)
    assert (np.abs(answers) <= 1).all()
    assert (np.abs(answers).max(axis=0) > 0.95).all()


def test_the_headline_is_of_the_agent_without_the_mask(train, tmp_path):
    """The prior plays the optimum and the mask is narrow: with it any agent is perfect, an untrained one alone is not."""
    (tmp_path / "optimal.py").write_text("def policy(obs):\n    return [0.8]\n")
    run_dir = train(
        *("--env-id", "llmwrappers-tests/OneStep-v0", "--prior", str(tmp_path / "optimal.py")),
        *("--radius", "0.01", "--total-timesteps", "2"),
    )
    assert last_value(run_dir, "eval/masked_return") == pytest.approx(0.0, abs=1e-3)
    assert last_value(run_dir, "eval/episodic_return") < -0.1
    assert last_value(run_dir, "eval/handover_gap") > 0.1


def test_the_masks_metrics_are_shares(train, tmp_path):
    """Of Pendulum's torques, four units wide, a mask of radius 0.5 leaves a half around 0."""
    (tmp_path / "zero.py").write_text("def policy(obs):\n    return [0.0]\n")
    run_dir = train(
        *("--env-id", "Pendulum-v1", "--prior", str(tmp_path / "zero.py"), "--radius", "0.5"),
        *("--mask-fraction", "1.0", "--total-timesteps", "400", "--learning-starts", "1000"),
    )
    active, width = ([float(row[2]) for row in metrics_of(run_dir) if row[1] == f"mask/{name}"] for name in ("active", "width"))
    assert active == pytest.approx([0.75, 0.25], abs=0.12)
    assert width == pytest.approx([1 - 0.5 * share for share in active])


def test_a_prior_that_is_never_played_is_noted(train, capsys):
    train("--env-id", "Pendulum-v1", "--mask-fraction", "0", "--total-timesteps", "20", "--learning-starts", "20")
    assert "note: --mask-fraction 0: the mask never applies" in capsys.readouterr().out


def test_a_run_that_ends_before_it_learns_is_noted(train, capsys):
    settings = ("--env-id", "Pendulum-v1", "--prior", "Pendulum-v1", "--candidate", "3", "--total-timesteps", "40")
    train(*settings, "--learning-starts", "40")
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: ")]
    assert [note.partition(",")[0] for note in notes] == ["note: --learning-starts 40: the run ends at step 40"]


@pytest.mark.parametrize(("total_timesteps", "is_noted"), [(100, True), (105, False)])
def test_a_warm_up_that_leaves_the_mask_nothing_to_do_is_noted(train, capsys, total_timesteps, is_noted):
    train(
        *("--env-id", "InvertedPendulum-v4", "--prior", "InvertedPendulum-v4", "--candidate", "2", "--learning-starts", "20"),
        *("--total-timesteps", str(total_timesteps)),
    )
    note = "the mask has faded at step 20, before learning starts at step 20"
    assert (note in capsys.readouterr().out) == is_noted


@pytest.mark.parametrize(
    ("arguments", "arm"),
    [
        ({"prior": "none"}, "td3"),
        ({"prior": "Ant-v4"}, "paper"),
        ({"prior": "Pendulum-v1", "env_id": "Pendulum-v1", "candidate": 3}, "paper"),
        ({"prior": "random"}, "paper-random"),
        ({"prior": "expert:a"}, "paper-expert"),
        ({"prior": "trusted:a/mine.py"}, "paper-mine"),
        ({"prior": "none.py"}, "paper-none"),
        ({"prior": "policies/Hopper-v4"}, "paper-Hopper-v4"),
    ],
)
def test_arms_are_called_as_in_compare(td3_camel, arguments, arm):
    assert td3_camel.arm_of(td3_camel.Args(**arguments)) == arm


def test_a_folder_as_prior_makes_one_run_folder(train, tmp_path):
    """compare.py looks for args.json right below --runs-dir."""
    folder = tmp_path / "Reach"
    folder.mkdir()
    (folder / "policy-1.py").write_text("def policy(obs):\n    return [-10.0 * obs[0], -10.0 * obs[1]]\n")
    (folder / "provenance.json").write_text(
        json.dumps({"candidates": {"1": {"policy_sha256": ""}}, "default": {"candidate": 1}})
    )
    run_dir = train("--env-id", "llmwrappers-tests/Reach-v0", "--prior", str(folder), "--total-timesteps", "100")
    assert run_dir.name.startswith("llmwrappers-tests-Reach-v0__td3_camel__paper-Reach__1__")


@pytest.mark.filterwarnings("ignore:.*the prior.*:UserWarning")
def test_faults_are_counted_on_by_a_resumed_run(train, cut, td3_camel, tmp_path):
    """The prior fails in a tenth of the states, but not where its first episode plays, or it would be refused."""
    (tmp_path / "moody.py").write_text(
        "import math\n\ndef policy(obs):\n    return [0.1 / (obs[1] < 0 or math.sin(1e3 * obs[0]) > -0.8), 0.0]\n"
    )
    arguments = ["--env-id", "llmwrappers-tests/Reach-v0", "--prior", str(tmp_path / "moody.py"), "--total-timesteps", "350"]
    arguments += ["--mask-fraction", "1.0", "--checkpoint-every", "200"]
    whole, run_dir = metrics_of(train(*arguments)), cut(*arguments)
    assert last_value(run_dir, "mask/prior_faults") > 0
    td3_camel.main(["--resume", str(run_dir)])
    assert metrics_of(run_dir) == whole


class Scattered(OneStep):
    """Observes anything at first, which only the seed tells."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2), {}


gym.register("llmwrappers-tests/Scattered-v0", entry_point=Scattered, disable_env_checker=True)


@pytest.mark.filterwarnings("ignore:.*the prior.*:UserWarning")
def test_faults_in_a_row_are_counted_on_by_a_resumed_run(train, cut, td3_camel, tmp_path):
    """Two faults an episode: the tenth is made after the checkpoint, and the prior is asked no more."""
    first = float(gym.make("llmwrappers-tests/Scattered-v0").reset(seed=1)[0][0])  # where it is tried
    (tmp_path / "broken.py").write_text(f"def policy(obs):\n    return [[0.5][int(obs[0] != {first!r})]]\n")
    arguments = ["--env-id", "llmwrappers-tests/Scattered-v0", "--prior", str(tmp_path / "broken.py"), "--total-timesteps", "7"]
    arguments += ["--mask-fraction", "1.0", "--checkpoint-every", "4"]
    whole, run_dir = metrics_of(train(*arguments)), cut(*arguments)
    assert torch.load(run_dir / "checkpoint.pt")["prior_faults"][0] < 10
    td3_camel.main(["--resume", str(run_dir)])
    assert last_value(run_dir, "mask/prior_faults") == 10
    assert metrics_of(run_dir) == whole


def replay_of(td3_camel, run_dir, observation_dim, action_dim):
    """The transitions at the last checkpoint, by field."""
    added = torch.load(run_dir / "checkpoint.pt")["td3"]["transitions"]
    replay = new_learner(td3_camel, observation_dim, action_dim, buffer_size=added).replay
    replay.load(run_dir / "replay.bin", added)
    return {name: column.numpy() for name, column in replay.columns(replay.tensor)._asdict().items()}


@pytest.mark.parametrize(("env_id", "a", "not_terminated"), [("Reach", 2, 1.0), ("OneStep", 1, 0.0)])
def test_an_episode_that_a_time_limit_ends_goes_on_in_the_targets(train, td3_camel, env_id, a, not_terminated):
    """Reach is truncated after 25 steps; OneStep terminates."""
    run_dir = train(
        *("--env-id", f"llmwrappers-tests/{env_id}-v0", "--prior", "none", "--total-timesteps", "50"),
    )
    found = replay_of(td3_camel, run_dir, 2, a)["not_terminated"]
    assert len(found) == 50
    assert (found == not_terminated).all()


def test_the_target_action_lies_in_the_next_states_interval(train, td3_camel):
    """What is stored as the next interval is the one in which the next action of the episode is taken."""
    run_dir = train(
        *("--env-id", "Pendulum-v1", "--prior", "random", "--total-timesteps", "300"),
        *("--learning-starts", "1000", "--mask-fraction", "1.0", "--checkpoint-every", "200"),
    )
    rows = replay_of(td3_camel, run_dir, 3, 1)
    for name in ("center", "half_width"):
        np.testing.assert_array_equal(rows[f"next_{name}"][:199], rows[name][1:200])  # Pendulum's episodes take 200 steps
    assert len(np.unique(rows["center"])) > 50


class Overriding(gym.Wrapper):
    """Plays 0.25 in place of every action, and says so, as LLMActionOverride would."""

    def step(self, action):
        executed = np.full(1, 0.25, np.float32)
        *result, info = self.env.step(executed)
        return *result, {**info, "executed_action": executed}


gym.register("llmwrappers-tests/Overridden-v0", entry_point=lambda: Overriding(OneStep()), disable_env_checker=True)


def test_the_replay_holds_what_the_environment_received(train, td3_camel):
    run_dir = train(
        *("--env-id", "llmwrappers-tests/Overridden-v0", "--prior", "random", "--total-timesteps", "30"),
        *("--checkpoint-every", "20"),
    )
    rows = replay_of(td3_camel, run_dir, 2, 1)
    assert len(rows["action"]) >= 10
    assert (rows["action"] == 0.25).all()


gym.register("llmwrappers-tests/OneBuffer-v0", lambda: OneBuffer(gym.make("Pendulum-v1")), disable_env_checker=True)


def test_an_environment_may_write_the_next_observation_over_the_last(train, td3_camel):
    arguments = ["--prior", "none", "--total-timesteps", "300", "--checkpoint-every", "300"]
    rows, of_one_buffer = (
        replay_of(td3_camel, train("--env-id", env_id, *arguments), 3, 1)
        for env_id in ("Pendulum-v1", "llmwrappers-tests/OneBuffer-v0")
    )
    for name in ("obs", "next_obs", "action"):
        np.testing.assert_array_equal(of_one_buffer[name], rows[name])


def test_exploration_noise_is_a_fraction_of_half_the_range(train, td3_camel):
    """An agent that learns next to nothing, and always sees the same: its actions spread as the noise says."""
    run_dir = train(
        *("--env-id", "llmwrappers-tests/OneStep-v0", "--prior", "none", "--learning-starts", "10", "--learning-rate", "1e-12"),
        *("--batch-size", "2", "--total-timesteps", "410", "--checkpoint-every", "410"),
    )
    actions = replay_of(td3_camel, run_dir, 2, 1)["action"][10:]
    assert len(actions) == 400
    assert actions.std() == pytest.approx(0.1, rel=0.15)


def test_the_replay_holds_native_units(train, td3_camel):
    """Pendulum's torques lie in [-2, 2]: an interval's half-width is 0.3 * 2 where the mask applied, and else 2."""
    run_dir = train(
        "--env-id", "Pendulum-v1", "--prior", "random", "--total-timesteps", "300",
        "--checkpoint-every", "200",
    )  # fmt: skip
    rows = replay_of(td3_camel, run_dir, 3, 1)
    action, center, half_width = rows["action"], rows["center"], rows["half_width"]
    assert np.all(np.abs(action - center) <= half_width + 1e-6)
    assert np.abs(action).max() > 1.2
    inner = half_width[(np.abs(center) < 1.4) & (center != 0.0)]
    assert len(inner) > 5
    np.testing.assert_allclose(inner, 0.6, rtol=1e-5)
    assert np.all(half_width[center == 0.0] == 2.0)


def test_native_is_what_the_outermost_action_wrapper_stands_on(train, td3_camel):
    """An environment that comes wrapped: its actions lie in [-5, 5], those of the innermost environment in [-2, 2]."""
    for prior in ("none", "random"):
        run_dir = train(
            "--env-id", "llmwrappers-tests/Rescaled-v0", "--prior", prior, "--total-timesteps", "300",
            "--checkpoint-every", "200",
        )  # fmt: skip
        rows = replay_of(td3_camel, run_dir, 3, 1)
        assert rows["half_width"].max() == 5.0
        assert 4.0 < np.abs(rows["action"]).max() <= 5.0


def test_a_prior_sees_dict_observations_unflattened(train, tmp_path):
    prior = tmp_path / "by_name.py"
    prior.write_text("def policy(obs):\n    return [obs['position'][0]]\n")
    run_dir = train("--env-id", "llmwrappers-tests/DictOneStep-v0", "--prior", str(prior), "--total-timesteps", "300")
    assert last_value(run_dir, "mask/prior_faults") == 0


LEARN = [
    *("--env-id", "llmwrappers-tests/OneStep-v0", "--total-timesteps", "2500", "--eval-every", "10000"),
    *("--learning-starts", "200", "--batch-size", "64", "--learning-rate", "1e-3"),
]


def test_an_optimum_outside_the_mask_is_reached_only_without_it(train, tmp_path):
    """The optimum is 0.8 and the mask allows [-0.3, 0.3]: with it the best is 0.3, a reward of -0.25; without it 0."""
    prior = tmp_path / "center.py"
    prior.write_text("def policy(obs):\n    return [0.0]\n")
    masked = train(*LEARN, "--prior", str(prior), "--mask-fraction", "1.0", "--gate", "episode")
    assert last_value(masked, "eval/masked_return") == pytest.approx(-0.25, abs=0.02)
    free = train(*LEARN, "--prior", str(prior), "--mask-fraction", "0")
    assert last_value(free, "eval/episodic_return") == pytest.approx(0.0, abs=0.05)


# ------------------------------------------------------------------------------------------------ bad input


def fails(*arguments: str, code: int | None = None, **options) -> str:
    """Runs the script, which must fail without a traceback; returns what it said."""
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False, **options)
    assert done.returncode not in (0, -9), done.stdout
    assert code in (None, done.returncode)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env-id", "Nonesuch-v4"], "no environment is called Nonesuch-v4"),
        (["--env-id", "Swimmer-v4"], "no prior is shipped for Swimmer-v4: have a model write one"),
        (["--env-id", "CartPole-v1"], "TD3 needs a Box action space of floats with finite low < high"),
        (["--env-id", "CartPole-v1", "--prior", "none"], "TD3 needs a Box action space of floats with finite low < high"),
        (["--env-id", "llmwrappers-tests/Unbounded-v0", "--prior", "random"], "with finite low < high"),
        (["--env-id", "llmwrappers-tests/Flat-v0", "--prior", "none"], "with finite low < high"),
        (["--prior", "Ant-v9"], "no prior named 'Ant-v9'"),
        (["--prior", "missing.py"], "missing.py"),
        (["--prior", "empty.py"], "policy"),
        (["--prior", "Ant-v4"], "written for Ant-v4, Ant-v5, not for Hopper-v4; "),
        (["--prior", "good.py"], "good failed (ValueError: the prior returned shape (1,), the action space has (3,)). Mend it"),
        (["--prior", "expert:empty.py"], "empty.py is no agent.npz of these scripts"),
        (
            ["--env-id", "HalfCheetah-v4", "--prior", f"expert:{WALKER}"],
            "its env_id is Walker2d-v4, --env-id is HalfCheetah-v4",
        ),
        (["--candidate", "6"], "candidate must be one of [1, 2, 3, 4, 5]"),
        (["--prior", "none", "--candidate", "2"], "--candidate 2 needs a shipped prior or a folder, got --prior none"),
        (["--prior", "auto"], "--prior auto: only ppo_camel.py chooses among candidates"),
        (["--prior", "auto:pile"], "--prior auto:pile: only ppo_camel.py chooses among candidates"),
        (["--prior", "random", "--prior-input", "ram"], "--prior-input ram needs a prior that is code, got --prior random"),
        (["--prior-input", "ram"], "prior_input='ram' needs an Atari environment"),
        (["--env-id", "Hopper-v4", "--prior-input", "qpos"], "'ram', 'simulator' or a key of every info, got 'qpos'"),
        (["--env-id", "Pendulum-v1", "--candidate", "6"], "candidate must be one of [1, 2, 3, 4, 5]"),
        (["--radius", "0"], "--radius must be in (0, 2], got 0.0"),
        (["--radius", "2.5"], "got 2.5"),
        (["--mask-fraction", "1.5"], "--mask-fraction must be in [0, 1], got 1.5"),
        (["--total-timesteps", "0"], "--total-timesteps must be at least 1, got 0"),
        (["--resume", "nowhere"], "--resume nowhere: no run of this script"),
        (["--resume", ""], "no run of this script"),
        (["--gamma", "nan"], "--gamma must be in [0, 1], got nan"),
        (["--env-id", "CartPole-v1", "--capture-video", "--prior", "none"], "TD3 needs a Box"),
        (["--runs-dir", "empty.py/runs"], "cannot make the run folder"),
    ],
)
def test_user_mistakes_name_the_argument(td3_camel, tmp_path, monkeypatch, arguments, message):
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "good.py").write_text("def policy(obs):\n    return [0.1]\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        td3_camel.main(arguments)
    assert message in str(error.value)


def test_a_user_mistake_ends_without_traceback(tmp_path):
    assert "--env-id Nonesuch-v4" in fails("--env-id", "Nonesuch-v4", cwd=tmp_path)


def test_a_prior_that_raises_stops_the_run_before_it_begins(tmp_path):
    (tmp_path / "broken.py").write_text("import math\n\ndef policy(obs):\n    return [math.log(obs[0] - 9.0)] * 3\n")
    said = fails("--env-id", "Hopper-v4", "--prior", "broken.py", "--runs-dir", "runs", cwd=tmp_path, code=1)
    assert said.startswith("td3_camel.py: error: --env-id Hopper-v4 --prior broken.py: broken failed (line 4: ValueError: ")
    assert said.endswith(". Mend it, or train without one: --prior none\n")
    assert said.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_the_trial_of_a_prior_is_not_filmed(td3_camel, tmp_path):
    (tmp_path / "zero.py").write_text("def policy(obs):\n    return [0.0]\n")
    args = td3_camel.Args(env_id="Pendulum-v1", prior=str(tmp_path / "zero.py"), eval_episodes=1)
    env, _ = td3_camel.make_masked_env(args, tmp_path / "videos")
    td3_camel.evaluate(env, lambda obs: np.zeros(1), args.seed, args.eval_episodes, "first")
    env.close()
    assert [path.name for path in (tmp_path / "videos").glob("*.mp4")] == ["first-episode-0.mp4"]


def test_resume_refuses_other_arguments(train, td3_camel):
    run_dir = train("--env-id", "llmwrappers-tests/OneStep-v0", "--prior", "none", "--total-timesteps", "200")
    with pytest.raises(UserError, match=r"--gamma 0\.5: the run in .* has 0\.99"):
        td3_camel.main(["--resume", str(run_dir), "--gamma", "0.5"])


def test_what_an_edit_adds_to_values_and_learner_survives_the_end_and_a_resume(train, td3_camel, monkeypatch):
    """Numbers of NumPy among the values of an evaluation; another network with its optimizer."""

    class Edited(td3_camel.TD3):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.model = nn.Linear(1, 1)
            self.model_optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)

        def update(self, global_step):
            super().update(global_step)
            self.model_optimizer.zero_grad()
            self.model(torch.ones(1)).square().sum().backward()
            self.model_optimizer.step()
            learners[:] = [self]

    learners = []
    monkeypatch.setattr(td3_camel, "TD3", Edited)
    monkeypatch.setattr(td3_camel, "evaluate", lambda *arguments: np.float32(3.5))
    run_dir = train("--env-id", "llmwrappers-tests/OneStep-v0", "--prior", "none", "--total-timesteps", "300")
    assert json.loads((run_dir / "summary.json").read_text())["eval/episodic_return"] == 3.5
    weight = learners[0].model.weight.detach().clone()
    td3_camel.main(["--resume", str(run_dir), "--compile", "off"])  # to the end, where it is already
    description = json.loads((run_dir / "args.json").read_text())
    assert (description["args"]["compile"], description["resumed"][0]["args_before"]) == ("off", {"compile": "auto"})
    learner = Edited(learners[0].args, 2, 1, np.random.default_rng(1), torch.device("cpu"))
    assert not torch.equal(learner.model.weight, weight)
    checkpoint = torch.load(run_dir / "checkpoint.pt", weights_only=True)
    learner.load_state_dict(checkpoint["td3"], run_dir / "replay.bin")
    assert torch.equal(learner.model.weight, weight)


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        ("args.json", b"{}", "no run of this script"),
        ("checkpoint.pt", b"half", "damaged or of another run"),
        ("replay.bin", b"half", "damaged or of another run"),
        ("metrics.csv", b"global_step", "is shorter than the checkpoint"),
    ],
)
def test_resume_refuses_a_damaged_run_folder(train, td3_camel, file, damage, message):
    run_dir = train(
        "--env-id", "llmwrappers-tests/OneStep-v0", "--prior", "none", "--total-timesteps", "300", "--checkpoint-every", "100",
    )  # fmt: skip
    (run_dir / file).write_bytes(damage)
    with pytest.raises(UserError, match=message):
        td3_camel.main(["--resume", str(run_dir)])


def test_resume_refuses_a_changed_prior(train, td3_camel, tmp_path):
    prior = tmp_path / "mine.py"
    prior.write_text("def policy(obs):\n    return [0.1]\n")
    run_dir = train("--env-id", "llmwrappers-tests/OneStep-v0", "--prior", str(prior), "--total-timesteps", "200")
    prior.write_text("def policy(obs):\n    return [0.2]\n")
    with pytest.raises(UserError, match="the file of --prior is not the one that the run began with"):
        td3_camel.main(["--resume", str(run_dir)])


def test_resume_says_that_a_prior_is_not_there(train, td3_camel, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def policy(obs):\n    return [0.1]\n")
    run_dir = train("--env-id", "llmwrappers-tests/OneStep-v0", "--prior", "mine.py", "--total-timesteps", "200")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=r"--prior mine\.py: no such file, seen from .*elsewhere"):
        td3_camel.main(["--resume", str(run_dir)])


def test_resume_refuses_another_default_of_a_folder(train, td3_camel, tmp_path):
    for number in (1, 2):
        (tmp_path / f"policy-{number}.py").write_text(f"def policy(obs):\n    return [0.{number}]\n")

    def choose(number: int) -> None:
        candidates = {"1": {"policy_sha256": ""}, "2": {"policy_sha256": ""}}
        (tmp_path / "provenance.json").write_text(json.dumps({"candidates": candidates, "default": {"candidate": number}}))

    choose(1)
    run_dir = train("--env-id", "llmwrappers-tests/OneStep-v0", "--prior", str(tmp_path), "--total-timesteps", "200")
    choose(2)
    with pytest.raises(UserError, match="the file of --prior is not the one that the run began with"):
        td3_camel.main(["--resume", str(run_dir)])


def test_evaluation_leaves_training_alone(train):
    """Training does the same however often it is evaluated."""
    settings = ("--env-id", "Hopper-v4", "--total-timesteps", "400", "--mask-fraction", "1.0")
    often, seldom = (train(*settings, "--eval-every", every) for every in ("37", "1000"))
    assert all(torch.equal(parameter, saved(seldom)[name]) for name, parameter in saved(often).items())
    without_evaluations = [[row for row in metrics_of(d) if not row[1].startswith("eval/")] for d in (often, seldom)]
    assert without_evaluations[0] == without_evaluations[1]


def test_a_full_disk_ends_with_a_message_and_keeps_the_last_checkpoint(tmp_path):
    """A limit on the size of files stands for the disk: the replay log outgrows it at the third checkpoint or so."""
    limit = 60_000
    message = fails(
        *QUICK, "--env-id", "Hopper-v4", "--prior", "none", "--total-timesteps", "3000", "--learning-starts", "100000",
        "--checkpoint-every", "100", "--runs-dir", str(tmp_path),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    assert "cannot read or write" in message
    (run_dir,) = tmp_path.iterdir()
    assert f"--resume {run_dir}" in message
    assert not list(run_dir.glob("*.partial"))


def test_ctrl_c_says_how_to_go_on(tmp_path):
    command = [sys.executable, str(SCRIPT), *QUICK, "--env-id", "Hopper-v4", "--prior", "none", "--runs-dir", str(tmp_path)]
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        while not process.stdout.readline().startswith("eval at global_step 200"):
            assert process.poll() is None
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert process.returncode == code
        (run_dir,) = tmp_path.iterdir()
        assert f": python {SCRIPT} --resume {run_dir} starts it again\n" in out
        shutil.rmtree(run_dir)
        assert "Traceback" not in err


def test_the_run_folder_tells_how_to_repeat_the_run(train):
    run_dir = train("--env-id", "Hopper-v4", "--total-timesteps", "200")
    description = json.loads((run_dir / "args.json").read_text())
    assert description["args"]["prior"] == "Hopper-v4"
    assert {"python", "llmwrappers", "numpy", "torch", "gymnasium", "mujoco"} <= set(description["versions"])
    assert description["env_spec"]["id"] == "Hopper-v4"
    assert list(run_dir.glob("events.out.tfevents.*"))


# ------------------------------------------------------------------------------------------------ learning


@pytest.mark.slow
def test_td3_learns_pendulum(train):
    """TD3's swing-up scores about -150; a policy that does not swing up scores below -1000."""
    run_dir = train(
        "--env-id", "Pendulum-v1", "--prior", "none", "--total-timesteps", "10000", "--learning-starts", "1000",
        "--batch-size", "256", "--learning-rate", "1e-3", "--eval-every", "10000", "--eval-episodes", "10",
    )  # fmt: skip
    assert last_value(run_dir, "eval/episodic_return") > -300


@pytest.mark.slow
def test_the_mask_speeds_early_learning_up(train, tmp_path):
    """With a prior that swings up and catches roughly, masked evaluation is good before TD3 alone has learned anything."""
    prior = "import math\n\ndef policy(obs):\n    x, y, v = obs\n    energy = 0.5 * v * v + 10 * x\n"
    prior += (
        "    u = 2 * math.copysign(1, v * (10 - energy)) if x < 0.9 else -10 * y - 2 * v\n    return [max(-2, min(2, u))]\n"
    )
    path = tmp_path / "swing_up.py"
    path.write_text(prior)
    settings = (
        "--env-id", "Pendulum-v1", "--total-timesteps", "3000", "--learning-starts", "1000", "--mask-fraction", "1.0",
        "--eval-every", "3000", "--eval-episodes", "10",
    )  # fmt: skip
    guided, plain = train(*settings, "--prior", str(path)), train(*settings, "--prior", "none")
    assert last_value(guided, "eval/masked_return") > last_value(plain, "eval/episodic_return") + 300
