"""cleanrl_scripts/td3_camel.py: the update against a textbook TD3, the arms, resuming, bad input."""

import copy
import csv
import io
import json
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from conftest import ROOT, OneStep
from torch import nn

SCRIPT = ROOT / "cleanrl_scripts" / "td3_camel.py"
WALKER = ROOT / "benchmarks" / "experts" / "Walker2d-v4.pt"
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
    torch.set_grad_enabled(True)
    torch.use_deterministic_algorithms(False)


def metrics_of(run_dir: Path) -> list[list[str]]:
    """All but the metrics that are times."""
    with open(run_dir / "metrics.csv", newline="") as file:
        return [row for row in csv.reader(file) if row[1] != "charts/SPS"]


def last_value(run_dir: Path, metric: str) -> float:
    return float([row for row in metrics_of(run_dir) if row[1] == metric][-1][2])


# ------------------------------------------------------------------------------------------------ the update


def textbook_network(network, index: int) -> nn.Sequential:
    layers = []
    for weight, bias in zip(network.weights, network.biases, strict=True):
        linear = nn.Linear(weight.shape[2], weight.shape[1])
        linear.weight.data.copy_(weight[index])
        linear.bias.data.copy_(bias[index, :, 0])
        layers += [linear, nn.LayerNorm(weight.shape[1], elementwise_affine=False), nn.ReLU()]
    return nn.Sequential(*(layer for layer in layers[:-2] if network.norm or not isinstance(layer, nn.LayerNorm)))


def flat_like(network, modules) -> torch.Tensor:
    parts = []
    for layer in [i for i, module in enumerate(modules[0]) if isinstance(module, nn.Linear)]:
        parts += [torch.stack([m[layer].weight for m in modules]).flatten()]
        parts += [torch.stack([m[layer].bias for m in modules]).flatten()]
    return torch.cat(parts).detach()


@pytest.mark.parametrize("form", ["none", "paper", "taught", "copying", "left alone"])
def test_the_update_is_td3(td3_camel, form):
    """TD3 as in the textbook (autograd, separate networks), with actions in the stored intervals, or pulled to a teacher."""
    o, a, steps = 5, 3, 40
    taught = form in ("taught", "copying")
    args = td3_camel.Args(
        batch_size=16, prior="none" if form == "none" else "mine.py", form="paper" if form == "paper" else "taught"
    )
    rng = np.random.default_rng(0)
    replay = td3_camel.Replay(64, o, a, 2 if taught else 0)
    for _ in range(64):
        low, high = (
            np.sort(rng.uniform(-1, 1, (2, 2, a)), axis=0)
            if form == "paper"
            else np.array([[-np.ones(a)] * 2, [np.ones(a)] * 2])
        )
        center, half_width = (low + high) / 2, (high - low) / 2
        action = center[0] + half_width[0] * rng.uniform(-1, 1, a)
        replay.add(
            rng.normal(size=o), action, rng.normal(size=o), center[1], half_width[1], center[0], half_width[0],
            rng.normal(), rng.random() < 0.9, rng.uniform(-1, 1, 2 * a) if taught else [],
        )  # fmt: skip
    td3 = td3_camel.TD3(args, replay, o, a, rng, torch.device("cpu"))
    if taught:
        td3.begin(norm=True)
        td3.teacher, td3.prior_pull, td3.champion_pull = 1, 0.3, 0.04
        td3.champion.initialize(rng)
        td3.has_champion = form == "taught"
        champion = textbook_network(td3.champion, 0)

    actor, target_actor = textbook_network(td3.actor, 0), textbook_network(td3.target_actor, 0)
    critics = [textbook_network(td3.critics, i) for i in range(2)]
    assert any(isinstance(layer, nn.LayerNorm) for layer in critics[0]) == taught
    targets = [textbook_network(td3.target_critics, i) for i in range(2)]
    critic_optimizer = torch.optim.Adam([p for c in critics for p in c.parameters()], lr=args.learning_rate)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=args.learning_rate)
    draws = copy.deepcopy(rng)
    for step in range(1, steps + 1):
        td3.update(step, form == "copying")

        rows = replay.tensor[torch.from_numpy(draws.integers(0, 64, 16))]
        obs, action, next_obs, next_center, next_half, center, half, reward, alive, advice = (rows[:, f] for f in replay.fields)
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
        if form == "copying" or step % args.policy_frequency == 0:
            x = torch.tanh(actor(obs))
            q = critics[0](torch.cat([obs, center + half * x], 1))
            actor_loss = -q.mean()
            if taught:
                pull = 0.3 * ((x - advice[:, a:]) / args.radius).square().mean()
                if form == "taught":
                    distance = (x - torch.tanh(champion(obs)).detach()) / args.radius
                    pull += 0.04 * distance.square().mean()
                actor_loss = pull if form == "copying" else actor_loss / q.abs().mean().detach() + pull
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()
            with torch.no_grad():
                for online, target in ((actor, target_actor), *zip(critics, targets, strict=True)):
                    for p, t in zip(online.parameters(), target.parameters(), strict=True):
                        t.copy_(args.tau * p + (1 - args.tau) * t)

    for network, modules in (
        (td3.actor, [actor]), (td3.critics, critics), (td3.target_actor, [target_actor]), (td3.target_critics, targets),
    ):  # fmt: skip
        torch.testing.assert_close(network.flat, flat_like(network, modules), rtol=1e-4, atol=2e-5 if taught else 2e-6)


def test_a_run_is_td3(td3_camel, train):
    """From the first reset to the last update: the returns and the weights of a textbook's loop with the same draws."""
    seed, steps, warm_up, batch_size = 7, 400, 150, 32  # of QUICK
    run_dir = train("--env-id", "Hopper-v4", "--prior", "none", "--total-timesteps", str(steps), "--seed", str(seed))
    torch.set_grad_enabled(True)

    env, draws = gym.make("Hopper-v4"), np.random.default_rng(seed)
    td3 = td3_camel.TD3(td3_camel.Args(), td3_camel.Replay(1, 11, 3), 11, 3, draws, torch.device("cpu"))  # its first weights
    actor, target_actor = (textbook_network(td3.actor, 0).append(nn.Tanh()) for _ in range(2))
    critics, targets = ([textbook_network(td3.critics, i) for i in range(2)] for _ in range(2))
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
    torch.testing.assert_close(model["actor"], flat_like(td3.actor, [actor]), rtol=1e-2, atol=1e-3)
    torch.testing.assert_close(model["critics"], flat_like(td3.critics, critics), rtol=1e-2, atol=1e-3)


def test_acting_is_the_actor(td3_camel):
    args, rng = td3_camel.Args(batch_size=4), np.random.default_rng(0)
    td3 = td3_camel.TD3(args, td3_camel.Replay(8, 3, 2), 3, 2, rng, torch.device("cpu"))
    observations = rng.normal(size=(4, 3)).astype(np.float32)
    expected = torch.tanh(td3.actor.forward(torch.from_numpy(observations.T))[0])
    for observation, x in zip(observations, expected.T, strict=True):
        np.testing.assert_allclose(td3.act(observation), x.numpy(), rtol=1e-5, atol=1e-6)


def test_a_learner_is_all_in_its_checkpoint(td3_camel):
    """Also who is on trial and who is the champion, which a short run may not come to."""
    args = td3_camel.Args(batch_size=4)
    whole, again = (
        td3_camel.TD3(args, td3_camel.Replay(8, 3, 2), 3, 2, np.random.default_rng(seed), torch.device("cpu"))
        for seed in (0, 1)
    )
    for network in (whole.challenger, whole.champion):
        network.initialize(whole.rng)
    whole.has_champion = True
    whole.set_norm(True)
    again.load_state(torch.load(io.BytesIO(td3_camel.serialize(whole.state())), weights_only=True))
    for name in ("actor", "target_actor", "critics", "target_critics", "challenger", "champion"):
        assert torch.equal(getattr(again, name).flat, getattr(whole, name).flat), name
    assert again.has_champion
    assert again.critics.norm
    assert again.first_critic.norm
    observation = np.ones(3, np.float32)
    for name in ("act", "challenger_act", "champion_act"):
        np.testing.assert_array_equal(getattr(again, name)(observation), getattr(whole, name)(observation))


def test_a_full_replay_keeps_the_latest_and_a_checkpoint_of_it_goes_on(td3_camel, tmp_path):
    replay = td3_camel.Replay(4, 1, 1)
    for k in range(10):
        replay.add([k], [k], [k], [0], [0], [0], [0], k, True, [])
        if k in (2, 9):  # before and after it was full
            replay.save(tmp_path / "replay.bin")
    batch = torch.empty(64, replay.rows.shape[1])
    replay.sample(np.random.default_rng(0), batch)
    assert set(batch[:, 0].tolist()) == {6, 7, 8, 9}
    again = td3_camel.Replay(4, 1, 1)
    again.load(tmp_path / "replay.bin", 10)
    np.testing.assert_array_equal(again.rows, replay.rows)
    assert again.added == 10
    for k in range(5):
        replay.hold([k], [k], [k], [0], [0], [0], [0], k, True, [])
    replay.release()
    replay.sample(np.random.default_rng(0), batch)
    assert set(batch[:, 0].tolist()) == {8, 9, 3, 4}  # half of the replay is the agent's own


# ------------------------------------------------------------------------------------------------ whole runs


def test_a_mask_that_is_off_changes_nothing(train):
    """The same metrics and weights, to the last bit, as the same script without the wrapper."""
    plain = train("--env-id", "Hopper-v4", "--prior", "none", "--total-timesteps", "400")
    paper = ("--prior", "random", "--form", "paper")
    off = train("--env-id", "Hopper-v4", *paper, "--mask-fraction", "0", "--total-timesteps", "400")
    assert torch.equal(torch.load(plain / "model.pt")["critics"], torch.load(off / "model.pt")["critics"])
    assert torch.equal(torch.load(plain / "model.pt")["actor"], torch.load(off / "model.pt")["actor"])
    shared = [
        row
        for row in metrics_of(off)
        if not row[1].startswith("mask/") and row[1] not in ("eval/masked_return", "eval/handover_gap")
    ]
    assert metrics_of(plain) == shared


@pytest.mark.parametrize(
    ("prior", "is_taught"),
    [(["Walker2d-v4", "--candidate", "2"], True), ([str(ROOT / "benchmarks/bad_priors/backward.py")], False)],
    ids=["taught", "left-alone"],
)
def test_resuming_after_a_kill_repeats_the_run(tmp_path, prior, is_taught):
    """kill -9 in the middle, then --resume: the same metrics and weights, to the last bit, as a run never interrupted.

    At step 1200 the actor has learned alone, and copied the prior and is in its trials, or forgotten it.
    """
    command = [
        sys.executable, str(SCRIPT), *QUICK, "--env-id", "Walker2d-v4", "--prior", *prior,
        "--total-timesteps", "2600", "--checkpoint-every", "1200", "--runs-dir",
    ]  # fmt: skip
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    (whole,) = (tmp_path / "whole").iterdir()
    assert ("that began to teach it" in json.loads((whole / "summary.json").read_text())["verdict"]) == is_taught
    checkpoint = torch.load(whole / "checkpoint.pt")  # the prior's own steps are learned from only if it teaches
    assert (checkpoint["transitions"] == checkpoint["global_step"]) == is_taught
    assert len(checkpoint["held"]) == 0

    process = subprocess.Popen([*command, str(tmp_path / "killed")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while not process.stdout.readline().startswith("eval at global_step 0"):  # a first kill before there is a checkpoint
        assert process.poll() is None
    process.kill()
    process.communicate()
    (killed,) = (tmp_path / "killed").iterdir()
    assert not (killed / "checkpoint.pt").exists()
    process = subprocess.Popen([sys.executable, str(SCRIPT), "--resume", str(killed)], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (killed / "checkpoint.pt").exists() and time.monotonic() < deadline:
        assert process.poll() is None, "the run ended before it made a checkpoint"
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not (killed / "model.pt").exists(), "the run finished before it could be killed"
    (killed / "checkpoint.pt.partial").write_bytes(b"half a checkpoint")
    subprocess.run([sys.executable, str(SCRIPT), "--resume", str(killed)], check=True, capture_output=True)

    assert metrics_of(killed) == metrics_of(whole)
    a, b = torch.load(killed / "model.pt"), torch.load(whole / "model.pt")
    assert torch.equal(a["actor"], b["actor"])
    assert torch.equal(a["critics"], b["critics"])


def test_a_resumed_mask_goes_on_fading(train, td3_camel):
    """In the paper's form: its schedule is where it was."""
    run_dir = train(
        *("--env-id", "llmwrappers-tests/Reach-v0", "--prior", "random", "--form", "paper", "--mask-fraction", "1.0"),
        *("--total-timesteps", "190", "--checkpoint-every", "100"),
    )
    before = metrics_of(run_dir)
    td3_camel.main(["--resume", str(run_dir)])
    assert metrics_of(run_dir) == before
    epsilons = [float(row[2]) for row in before if row[1] == "mask/epsilon"]
    assert epsilons == pytest.approx([1 - 25 * k / 190 for k in range(1, 8)])


def test_every_prior_trains_in_a_mask_around_it(train, td3_camel, tmp_path):
    """random, a file of one's own and an expert: the actor of a run of this script."""
    env = gym.make("llmwrappers-tests/OneStep-v0")  # of one state, whose reward is -(action - 0.8)^2
    plain = train("--env-id", "llmwrappers-tests/OneStep-v0", "--prior", "none", "--total-timesteps", "300")
    own = tmp_path / "mine.py"
    own.write_text("def policy(obs):\n    return [0.1]\n")
    for prior in ("random", str(own), f"expert:{plain / 'model.pt'}"):
        run_dir = train("--env-id", "llmwrappers-tests/OneStep-v0", "--prior", prior, "--total-timesteps", "300")
        args = td3_camel.Args(prior=prior, env_id="llmwrappers-tests/OneStep-v0")
        (policy,) = td3_camel.load_priors(args, env.observation_space, env.action_space).values()
        low, high = np.clip(np.add(policy(np.ones(2)), [-0.3, 0.3]), -1, 1)
        rewards = -((np.array([low, high, np.clip(0.8, low, high)]) - 0.8) ** 2)
        first = next(float(row[2]) for row in metrics_of(run_dir) if row[1] == "eval/masked_return")  # before it is dropped
        assert rewards.min() - 1e-6 <= first <= rewards.max() + 1e-6


@pytest.mark.parametrize("env_id", ["Hopper-v4", "Walker2d-v4", "Ant-v4"])
def test_the_experts_of_the_evidence_are_agents_of_their_environments(td3_camel, env_id):
    args = td3_camel.Args(env_id=env_id, prior=f"expert:{ROOT}/benchmarks/experts/{env_id}.pt", form="paper", eval_episodes=5)
    env = td3_camel.make_env(args)
    x = np.zeros(env.action_space.shape)  # with the mask what the expert does, without it nothing
    expert, nothing = (td3_camel.evaluate(env, lambda obs: x, args, prior, "") for prior in ("expert", None))
    assert expert > 500 + nothing


def test_a_random_prior_is_of_the_runs_seed_and_fixed_for_an_observation(td3_camel):
    env = gym.make("llmwrappers-tests/Reach-v0")
    first, second, other = (
        td3_camel.load_priors(td3_camel.Args(prior="random", seed=seed), env.observation_space, env.action_space)["random"]
        for seed in (1, 1, 2)
    )
    a, b = np.array([0.5, -0.5], np.float32), np.array([0.5, -0.25], np.float32)
    np.testing.assert_array_equal(first(a), second(a))
    assert len({tuple(answer) for answer in (first(a), first(b), other(a))}) == 3
    answers = np.array([first(np.array([x, 0.0], np.float32)) for x in np.linspace(-5, 5, 500)])
    np.testing.assert_allclose(answers.mean(axis=0), 0.0, atol=0.1)
    assert (np.abs(answers) <= 1).all()
    assert (np.abs(answers).max(axis=0) > 0.95).all()


@pytest.mark.parametrize("form", ["taught", "paper"])
def test_the_headline_is_of_the_agent_without_the_mask(train, tmp_path, form):
    """The prior plays the optimum and the mask is narrow: with it any agent is perfect, an untrained one alone is not."""
    (tmp_path / "optimal.py").write_text("def policy(obs):\n    return [0.8]\n")
    run_dir = train(
        *("--env-id", "llmwrappers-tests/OneStep-v0", "--prior", str(tmp_path / "optimal.py"), "--form", form),
        *("--radius", "0.01", "--total-timesteps", "2"),
    )
    assert last_value(run_dir, "eval/masked_return") == pytest.approx(0.0, abs=1e-3)
    assert last_value(run_dir, "eval/episodic_return") < -0.1
    assert last_value(run_dir, "eval/handover_gap") > 0.1


def test_an_evaluation_begins_differently_each_episode_and_alike_each_time(td3_camel):
    args = td3_camel.Args(env_id="llmwrappers-tests/Reach-v0", prior="none", eval_episodes=3)
    env, seen = td3_camel.make_env(args), []

    def act(observation):
        seen.append(observation)
        return np.zeros(2, np.float32)

    for _ in range(2):
        td3_camel.evaluate(env, act, args, None, "")
    first = np.array(seen[::25])  # of each episode's 25
    assert len(np.unique(first[:3], axis=0)) == 3
    np.testing.assert_array_equal(first[:3], first[3:])


def test_the_masks_metrics_are_shares(train, tmp_path):
    """Of Pendulum's torques, four units wide, a mask of radius 0.5 leaves a half around 0."""
    (tmp_path / "zero.py").write_text("def policy(obs):\n    return [0.0]\n")
    run_dir = train(
        *("--env-id", "Pendulum-v1", "--prior", str(tmp_path / "zero.py"), "--form", "paper", "--radius", "0.5"),
        *("--mask-fraction", "1.0", "--total-timesteps", "400", "--learning-starts", "1000"),
    )
    active, width = ([float(row[2]) for row in metrics_of(run_dir) if row[1] == f"mask/{name}"] for name in ("active", "width"))
    assert active == pytest.approx([0.75, 0.25], abs=0.12)
    assert width == pytest.approx([1 - 0.5 * share for share in active])


def test_ever_fewer_episodes_may_be_masked(train, tmp_path):
    (tmp_path / "mine.py").write_text("def policy(obs):\n    return [0.0, 0.0]\n")
    run_dir = train(
        *("--env-id", "llmwrappers-tests/Reach-v0", "--prior", str(tmp_path / "mine.py"), "--mask-fraction", "0.5"),
        *("--total-timesteps", "150"),
    )
    epsilons = [float(row[2]) for row in metrics_of(run_dir) if row[1] == "mask/epsilon"]
    assert epsilons == pytest.approx([1.0, 2 / 3, 1 / 3, 0.0, 0.0, 0.0])


PILES = {  # the goal lies at the origin
    "good": "return [-10.0 * obs[0], -10.0 * obs[1]]",
    "away": "return [10.0 * obs[0], 10.0 * obs[1]]",
    "right": "return [1.0, 0.0]",
    "left": "return [-1.0, 0.0]",
    "round": "return [10.0 * obs[1], -10.0 * obs[0]]",
}


def pile(folder: Path, names: list[str]) -> Path:
    folder.mkdir()
    for name in names:
        (folder / f"{name}.py").write_text(f"def policy(obs):\n    {PILES[name]}\n")
    return folder


@pytest.mark.parametrize(
    ("form", "learning_starts", "total_timesteps", "note"),
    [
        ("taught", 20, 50, "copied for 20 steps; the run ends at 50: little else will be learned"),
        ("taught", 20, 250, "copied for 20 steps; by then, at step 50, the mask has faded: it is never around the agent"),
        ("taught", 20, 255, None),
        ("paper", 20, 100, "the mask has faded at step 20, before learning starts at step 20"),
        ("paper", 20, 105, None),
    ],
)
def test_a_warm_up_that_leaves_the_mask_nothing_to_do_is_noted(train, capsys, form, learning_starts, total_timesteps, note):
    steps = ["--learning-starts", str(learning_starts), "--total-timesteps", str(total_timesteps)]
    train("--env-id", "InvertedPendulum-v4", "--prior", "InvertedPendulum-v4", "--candidate", "2", "--form", form, *steps)
    printed = capsys.readouterr().out
    assert ("note:" in printed) == (note is not None)
    assert note is None or note in printed


def test_candidates_compete_and_the_run_ends_with_what_they_were_worth(train, tmp_path, capsys):
    folder = pile(tmp_path / "pile", ["away", "good"])
    run_dir = train(
        *("--env-id", "llmwrappers-tests/Reach-v0", "--prior", f"auto:{folder}", "--mask-fraction", "0.9"),
        *("--total-timesteps", "2000", "--learning-starts", "400", "--eval-every", "500"),
    )
    verdict = json.loads((run_dir / "summary.json").read_text())["verdict"]
    assert verdict in capsys.readouterr().out
    away, good, teaching = verdict.splitlines()
    assert away.startswith("away ")
    assert "less than that of an untaught agent" in away
    assert good.startswith("good ")
    assert last_value(run_dir, "worth/good_low") <= last_value(run_dir, "worth/good") <= last_value(run_dir, "worth/good_high")
    assert re.fullmatch(r"At step \d+, .* alone had returned -\d.*, that began to teach it\.", teaching)
    assert last_value(run_dir, "trials/passed") > 0
    assert last_value(run_dir, "eval/episodic_return") > -3.0


@pytest.mark.parametrize(
    ("arguments", "arm"),
    [
        ({"prior": "none"}, "none"),
        ({"prior": "Ant-v4"}, "llm"),
        ({"prior": "Ant-v4", "form": "paper"}, "paper"),
        ({"prior": "Pendulum-v1", "env_id": "Pendulum-v1", "candidate": 3}, "llm"),
        ({"prior": "random", "form": "paper"}, "random-paper"),
        ({"prior": "expert:a/model.pt"}, "expert"),
        ({"prior": "auto:pile"}, "auto"),
        ({"prior": "trusted:a/mine.py"}, "mine"),
        ({"prior": "trusted:mine.py"}, "mine"),
        ({"prior": "policies/Hopper-v4"}, "Hopper-v4"),
    ],
)
def test_arms_are_called_as_in_compare(td3_camel, arguments, arm):
    assert td3_camel.arm_name(td3_camel.Args(**arguments)) == arm


def test_a_folder_as_prior_makes_one_run_folder(train, tmp_path):
    """compare.py looks for args.json right below --runs-dir."""
    folder = pile(tmp_path / "Reach", ["good"])
    (folder / "good.py").rename(folder / "policy-1.py")
    (folder / "provenance.json").write_text(
        json.dumps({"candidates": {"1": {"policy_sha256": ""}}, "default": {"candidate": 1}})
    )
    run_dir = train(
        *("--env-id", "llmwrappers-tests/Reach-v0", "--prior", str(folder), "--total-timesteps", "100"),
    )
    assert run_dir.name.startswith("llmwrappers-tests-Reach-v0__td3_camel__Reach__1__")


def test_a_trial_that_cannot_be_compared_by_an_interval_is_by_its_mean(td3_camel):
    trials, best = td3_camel.Trials(), td3_camel.DiscountedReturns()
    for value in (1800.0, 900.0, 1700.0):
        best.forget()
        best.add(value)
    assert not any(trials.record(20.0 + k, best, untaught_return=0.0) for k in range(5))
    assert trials.champion is None
    assert trials.has_defended
    assert [trials.record(1900.0 + k, best, untaught_return=0.0) for k in range(5)] == [False] * 4 + [True]


def test_a_trial_is_played_by_the_challenger_and_its_luck_is_told_by_the_champion(td3_camel):
    args = td3_camel.Args(prior="mine.py", total_timesteps=1000, learning_starts=10, mask_fraction=0.0, batch_size=4)
    rng = np.random.default_rng(0)
    td3 = td3_camel.TD3(args, td3_camel.Replay(8, 3, 2, 1), 3, 2, rng, torch.device("cpu"))
    teaching = td3_camel.Teaching(args, ["mine"], td3)
    teaching.competition.record("mine", 10.0)
    teaching.trials.decided_at = 0
    first = td3.actor.flat.clone()
    played = []
    for episode in range(7):
        teaching.begin_episode(100 + episode, rng)
        played.append((teaching.act, teaching.exploration_noise))
        td3.actor.flat.add_(0.01)  # it learns on
        teaching.end_episode(12.0, teaching.asked)
    noisy, quiet = (td3.challenger_act, args.exploration_noise), (td3.challenger_act, 0.0)
    assert played == [noisy, quiet, noisy, quiet, noisy, (td3.champion_act, 0.0), noisy]
    assert torch.equal(td3.champion.flat, first)  # and not what was learned while it was tried


def test_a_champion_is_not_replaced_by_one_that_is_worse_only_perhaps(td3_camel):
    """Chance may excuse a trial, so that the pulls weaken; the champion stays."""
    trials, prior = td3_camel.Trials(), td3_camel.DiscountedReturns()
    good, excused = (3200.0, 3210.0, 3190.0, 3200.0, 3205.0), (500.0, 3200.0, 3200.0, 3200.0, 3200.0)
    for value in good:
        prior.add(value)
    assert [trials.record(value, prior, untaught_return=0.0) for value in good] == [False] * 4 + [True]
    champion = trials.champion
    assert not any(trials.record(value, champion, untaught_return=0.0) for value in excused)
    assert trials.champion is champion
    assert trials.passed == 2
    assert trials.champion_pull < 0.8 * trials.STRONGEST


def test_a_champion_that_was_lucky_is_replaced_once_it_has_defended_itself(td3_camel):
    trials, prior = td3_camel.Trials(), td3_camel.DiscountedReturns()
    lucky, steady = (3000.0, 3010.0, 2990.0, 3000.0, 3005.0), (2800.0, 2810.0, 2790.0, 2800.0, 2805.0)
    for value in lucky:
        prior.add(value)
    assert any(trials.record(value, prior, untaught_return=0.0) for value in lucky)
    assert not trials.has_defended
    for value in (300.0, 2995.0, 310.0):
        trials.record_defence(value)
        assert trials.has_defended
        won = [trials.record(value, trials.champion, untaught_return=0.0) for value in steady]
        assert not trials.has_defended
        if any(won):
            break
    assert won[-1]
    assert trials.champion.mean == pytest.approx(2801.0)


def test_the_champion_is_evaluated_and_saved(train, td3_camel, tmp_path):
    """A checkpoint is given a champion that plays -1 for ever: the run goes on and ends with it."""
    (tmp_path / "mine.py").write_text("def policy(obs):\n    return [0.1]\n")
    run_dir = train(
        *("--env-id", "llmwrappers-tests/OneStep-v0", "--prior", str(tmp_path / "mine.py"), "--total-timesteps", "40"),
        *("--checkpoint-every", "30"),
    )
    checkpoint = torch.load(run_dir / "checkpoint.pt")
    champion = checkpoint["td3"]["champion"].zero_()
    champion[-1] = -20.0  # the bias of the only action
    checkpoint["td3"]["has_champion"] = True
    torch.save(checkpoint, run_dir / "checkpoint.pt")
    td3_camel.main(["--resume", str(run_dir)])
    assert torch.equal(torch.load(run_dir / "model.pt")["actor"], champion)
    assert last_value(run_dir, "eval/episodic_return") == pytest.approx(-(1.8**2), abs=1e-4)


def test_an_agent_a_little_below_its_prior_gets_a_first_champion(td3_camel):
    trials, prior = td3_camel.Trials(), td3_camel.DiscountedReturns()
    for value in (3200.0, 3210.0, 3190.0):
        prior.add(value)
    excused = (500.0, 3200.0, 3200.0, 3200.0, 3200.0)
    assert [trials.record(value, prior, untaught_return=0.0) for value in excused] == [False] * 4 + [True]


@pytest.mark.parametrize(
    ("prior", "alone", "teaches"),
    [(10.0, [7.0], True), (10.0, [9.0], False), (10.0, [9.0, -5.0], False), (-1.0, [-5.0], False), (1.0, [-5.0], False)],
)
def test_a_prior_teaches_an_agent_that_would_not_soon_leave_it_behind(td3_camel, prior, alone, teaches):
    """Random actions return 0, give or take 1; the agent alone may have been better than it is."""
    trials = td3_camel.Trials()
    returns = [td3_camel.DiscountedReturns() for _ in range(2)]
    for noise in (-1.0, 0.0, 1.0):
        for kept, mean in zip(returns, (prior, 0.0), strict=True):
            kept.add(mean + noise)
    for mean in alone:
        for noise in (-1.0, 0.0, 1.0):
            trials.record_alone(mean + noise)
    assert trials.begin(100, *returns) == teaches


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("return [10.0 * obs[0], 10.0 * obs[1]]", "the agent without it is better"),
        ("return [0.0, 0.0]", "it was not well above the agent alone and chance"),
    ],
)
def test_a_prior_that_is_not_worth_copying_is_dropped(train, tmp_path, code, why):
    """One that is worse than random actions; and one that is better, but not than what is soon learned."""
    (tmp_path / "mine.py").write_text(f"def policy(obs):\n    {code}\n")
    run_dir = train(
        *("--env-id", "llmwrappers-tests/Reach-v0", "--prior", str(tmp_path / "mine.py"), "--total-timesteps", "1000"),
        *("--eval-every", "1000"),
    )
    assert last_value(run_dir, "trials/passed") == 0
    worth, teaching = json.loads((run_dir / "summary.json").read_text())["verdict"].splitlines()
    assert worth.endswith(f"; dropped: {why}.")
    assert teaching.endswith("it was left alone.")


def test_a_prior_that_always_fails_is_dropped(train, tmp_path):
    (tmp_path / "broken.py").write_text("def policy(obs):\n    return [obs[7], 0.0]\n")
    with pytest.warns(UserWarning, match="failed"):
        run_dir = train(
            *("--env-id", "llmwrappers-tests/Reach-v0", "--prior", str(tmp_path / "broken.py"), "--total-timesteps", "600"),
            *("--mask-fraction", "1.0"),
        )
    never, teaching = json.loads((run_dir / "summary.json").read_text())["verdict"].splitlines()
    assert never == "broken was never played; dropped: it failed."
    assert "and no prior was in play, it was left alone." in teaching


def test_without_a_mask_no_prior_is_played(train, tmp_path):
    (tmp_path / "good.py").write_text(f"def policy(obs):\n    {PILES['good']}\n")
    run_dir = train(
        *("--env-id", "llmwrappers-tests/Reach-v0", "--prior", str(tmp_path / "good.py"), "--total-timesteps", "600"),
        *("--mask-fraction", "0"),
    )
    verdict = json.loads((run_dir / "summary.json").read_text())["verdict"]
    assert verdict.startswith("good was never played; dropped: it was not played in time.")


@pytest.mark.filterwarnings("ignore:.*the prior.*:UserWarning")
def test_faults_are_counted_on_by_a_resumed_run(train, td3_camel, tmp_path):
    (tmp_path / "moody.py").write_text(
        "import math\n\ndef policy(obs):\n    return [0.1 / (math.sin(1e3 * obs[0]) > -0.8), 0.0]\n"
    )
    run_dir = train(
        *("--env-id", "llmwrappers-tests/Reach-v0", "--prior", str(tmp_path / "moody.py"), "--total-timesteps", "350"),
        *("--mask-fraction", "1.0", "--checkpoint-every", "200"),
    )
    before = metrics_of(run_dir)
    assert last_value(run_dir, "mask/prior_faults") > 0
    td3_camel.main(["--resume", str(run_dir)])
    assert metrics_of(run_dir) == before


@pytest.mark.filterwarnings("ignore:.*the prior.*:UserWarning")
def test_faults_in_a_row_are_counted_on_by_a_resumed_run(train, td3_camel, tmp_path):
    """Two faults an episode: the tenth is made after the checkpoint, and the prior is asked no more."""
    (tmp_path / "broken.py").write_text("def policy(obs):\n    return [obs[7]]\n")
    run_dir = train(
        *("--env-id", "llmwrappers-tests/OneStep-v0", "--prior", str(tmp_path / "broken.py"), "--total-timesteps", "7"),
        *("--mask-fraction", "1.0", "--checkpoint-every", "4"),
    )
    before = metrics_of(run_dir)
    assert last_value(run_dir, "mask/prior_faults") == 10
    td3_camel.main(["--resume", str(run_dir)])
    assert metrics_of(run_dir) == before


@pytest.mark.filterwarnings("ignore:.*the prior.*:UserWarning")
def test_the_faults_of_a_prior_that_teaches_without_masking_count_too(train, tmp_path):
    (tmp_path / "third.py").write_text(
        "calls = 0\n\ndef policy(obs):\n    global calls\n    calls += 1\n    return -10.0 * obs if calls % 3 else []\n"
    )
    run_dir = train(
        *("--env-id", "llmwrappers-tests/Reach-v0", "--prior", f"trusted:{tmp_path / 'third.py'}", "--total-timesteps", "900"),
        *("--mask-fraction", "0.4", "--eval-every", "900"),
    )
    faults = [float(row[2]) for row in metrics_of(run_dir) if row[1] == "mask/prior_faults"]
    epsilons = [float(row[2]) for row in metrics_of(run_dir) if row[1] == "mask/epsilon"]
    assert faults[-1] > faults[epsilons.index(0.0)] > 0


def replay_of(td3_camel, run_dir, observation_dim, action_dim, candidates=0):
    """The agent's own transitions at the last checkpoint, by field."""
    added = torch.load(run_dir / "checkpoint.pt")["transitions"]
    replay = td3_camel.Replay(added, observation_dim, action_dim, candidates)
    replay.load(run_dir / "replay.bin", added)
    names = ("obs", "action", "next_obs", "next_center", "next_half_width", "center", "half_width", "reward", "not_terminated")
    return {name: replay.rows[:, field] for name, field in zip(names, replay.fields, strict=False)}


@pytest.mark.parametrize(("env_id", "a", "not_terminated"), [("Reach", 2, 1.0), ("OneStep", 1, 0.0)])
def test_an_episode_that_a_time_limit_ends_goes_on_in_the_targets(train, td3_camel, env_id, a, not_terminated):
    """Reach is truncated after 25 steps; OneStep terminates."""
    run_dir = train(
        *("--env-id", f"llmwrappers-tests/{env_id}-v0", "--prior", "none", "--total-timesteps", "60"),
        *("--checkpoint-every", "50"),
    )
    found = replay_of(td3_camel, run_dir, 2, a)["not_terminated"]
    assert len(found) == 50
    assert (found == not_terminated).all()


def test_the_target_action_lies_in_the_next_states_interval(train, td3_camel):
    """What is stored as the next interval is the one in which the next action of the episode is taken."""
    run_dir = train(
        *("--env-id", "Pendulum-v1", "--prior", "random", "--form", "paper", "--total-timesteps", "300"),
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


@pytest.mark.parametrize("form", ["taught", "paper"])
def test_the_replay_holds_what_the_environment_received(train, td3_camel, form):
    run_dir = train(
        *("--env-id", "llmwrappers-tests/Overridden-v0", "--prior", "random", "--form", form, "--total-timesteps", "30"),
        *("--checkpoint-every", "20"),
    )
    rows = replay_of(td3_camel, run_dir, 2, 1, candidates=int(form == "taught"))
    assert len(rows["action"]) >= 10
    assert (rows["action"] == 0.25).all()


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
        "--env-id", "Pendulum-v1", "--prior", "random", "--form", "paper", "--total-timesteps", "300",
        "--checkpoint-every", "200",
    )  # fmt: skip
    replay = td3_camel.Replay(300, 3, 1)
    replay.load(run_dir / "replay.bin", 200)
    action, center, half_width = (replay.rows[:200, replay.fields[i]] for i in (1, 5, 6))
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
        replay = td3_camel.Replay(300, 3, 1, candidates=int(prior == "random"))
        replay.load(run_dir / "replay.bin", 200)
        action, half_width = (replay.rows[:200, replay.fields[i]] for i in (1, 6))
        assert half_width.max() == 5.0
        assert 4.0 < np.abs(action).max() <= 5.0


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
    masked = train(*LEARN, "--prior", str(prior), "--form", "paper", "--mask-fraction", "1.0", "--gate", "episode")
    assert last_value(masked, "eval/masked_return") == pytest.approx(-0.25, abs=0.02)
    free = train(*LEARN, "--prior", str(prior), "--mask-fraction", "0")
    assert last_value(free, "eval/episodic_return") == pytest.approx(0.0, abs=0.05)


# ------------------------------------------------------------------------------------------------ bad input


def fails(*arguments: str, **options) -> str:
    """Runs the script, which must fail without a traceback; returns what it said."""
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False, **options)
    assert done.returncode not in (0, -9), done.stdout
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env-id", "Nonesuch-v4"], "priors are shipped for Ant-v4"),
        (["--env-id", "Pendulum-v1"], "no prior is shipped as the default of --env-id Pendulum-v1 (those of Ant-v4, "),
        (["--env-id", "CartPole-v1", "--prior", "none"], "TD3 needs a Box action space of floats with finite low < high"),
        (["--env-id", "llmwrappers-tests/Unbounded-v0", "--prior", "random"], "with finite low < high"),
        (["--env-id", "llmwrappers-tests/Flat-v0", "--prior", "none"], "with finite low < high"),
        (["--prior", "Ant-v9"], "no prior named 'Ant-v9'"),
        (["--prior", "missing.py"], "missing.py"),
        (["--prior", "empty.py"], "policy"),
        (["--prior", "expert:empty.py"], "is no model.pt of this script"),
        (
            ["--env-id", "HalfCheetah-v4", "--prior", f"expert:{WALKER}"],
            "its env_id is Walker2d-v4, --env-id is HalfCheetah-v4",
        ),
        (["--candidate", "6"], "candidate must be one of [1, 2, 3, 4, 5]"),
        (["--prior", "auto", "--candidate", "2"], "--candidate 2 needs a shipped prior, got --prior auto"),
        (["--prior", "auto", "--form", "paper"], "--prior auto needs --form taught"),
        (["--prior", "auto:nowhere"], "no candidates at 'nowhere'"),
        (["--prior", "random", "--prior-input", "ram"], "--prior-input ram needs a prior that is code, got --prior random"),
        (["--prior-input", "ram"], "prior_input='ram' needs an Atari environment"),
        (["--env-id", "Hopper-v4", "--prior-input", "qpos"], "--prior-input must be ram, simulator or a key of info, got qpos"),
        (
            ["--env-id", "llmwrappers-tests/DictOneStep-v0", "--prior", "good.py", "--isolation", "process"],
            "--isolation process needs observations that are arrays",
        ),
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
    with pytest.raises(td3_camel.UserError) as error:
        td3_camel.main(arguments)
    assert message in str(error.value)


def test_a_user_mistake_ends_without_traceback(tmp_path):
    assert "--env-id Nonesuch-v4" in fails("--env-id", "Nonesuch-v4", cwd=tmp_path)


def test_resume_refuses_other_arguments(train, td3_camel):
    run_dir = train("--env-id", "llmwrappers-tests/OneStep-v0", "--prior", "none", "--total-timesteps", "200")
    with pytest.raises(td3_camel.UserError, match=r"--gamma 0\.5: the run in .* has 0\.99"):
        td3_camel.main(["--resume", str(run_dir), "--gamma", "0.5"])


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
    with pytest.raises(td3_camel.UserError, match=message):
        td3_camel.main(["--resume", str(run_dir)])


def test_resume_refuses_a_changed_prior(train, td3_camel, tmp_path):
    prior = tmp_path / "mine.py"
    prior.write_text("def policy(obs):\n    return [0.1]\n")
    run_dir = train("--env-id", "llmwrappers-tests/OneStep-v0", "--prior", str(prior), "--total-timesteps", "200")
    prior.write_text("def policy(obs):\n    return [0.2]\n")
    with pytest.raises(td3_camel.UserError, match="no longer the file that the run began with"):
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
    with pytest.raises(td3_camel.UserError, match="no longer the file that the run began with"):
        td3_camel.main(["--resume", str(run_dir)])


def test_evaluation_leaves_training_alone(train):
    """Training does the same however often it is evaluated."""
    settings = ("--env-id", "Hopper-v4", "--total-timesteps", "400", "--mask-fraction", "1.0")
    often, seldom = (train(*settings, "--eval-every", every) for every in ("37", "1000"))
    assert torch.equal(torch.load(often / "model.pt")["actor"], torch.load(seldom / "model.pt")["actor"])
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
        assert "starts it again" in out
        assert "Traceback" not in err


def test_the_run_folder_tells_how_to_repeat_the_run(train):
    run_dir = train("--env-id", "Hopper-v4", "--total-timesteps", "200")
    description = json.loads((run_dir / "args.json").read_text())
    assert description["args"]["prior"] == "Hopper-v4"
    assert {"python", "llmwrappers", "numpy", "torch", "gymnasium", "mujoco"} <= set(description["versions"])
    assert description["env_spec"]["id"] == "Hopper-v4"
    assert list(run_dir.glob("events.out.tfevents.*"))


@pytest.mark.parametrize("name", ["td3_camel", "ppo_ultra"])
def test_a_run_is_of_a_commit_though_committed_curves_grow(request, tmp_path, monkeypatch, name):
    script = request.getfixturevalue(name)
    code, curves = tmp_path / "cleanrl_scripts" / f"{name}.py", tmp_path / "benchmarks" / "comparisons" / "curves.csv"
    for path in (code, curves):
        path.parent.mkdir(parents=True)
        path.write_text("as committed")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "Begin"]):
        subprocess.run([*git, *command], check=True)
    monkeypatch.setattr(script, "__file__", str(code))
    env = gym.make("Pendulum-v1")
    commit = script.describe_run(script.Args(), env)["git_commit"]
    assert len(commit) == 40
    curves.write_text("and more")
    assert script.describe_run(script.Args(), env)["git_commit"] == commit
    code.write_text("not as committed")
    assert script.describe_run(script.Args(), env)["git_commit"] == f"{commit}-dirty"


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


def steps_to_the_optimum(run_dir: Path) -> float:
    """The first evaluation without the mask in which the agent is near the optimum, which returns -1.3."""
    evaluations = [(int(step), float(value)) for step, name, value in metrics_of(run_dir) if name == "eval/episodic_return"]
    return next((step for step, value in evaluations if value > -3.0), float("inf"))


@pytest.mark.slow
def test_a_good_candidate_is_found_and_harmful_ones_cost_little(train, tmp_path):
    """One optimal candidate among four harmful ones; and the four alone. Steps to the optimum, mean of three seeds."""
    everything = pile(tmp_path / "all", list(PILES))
    harmful = pile(tmp_path / "harmful", [name for name in PILES if name != "good"])
    options = (
        *("--env-id", "llmwrappers-tests/Reach-v0", "--total-timesteps", "3000", "--learning-starts", "1000"),
        *("--batch-size", "64", "--eval-every", "100", "--eval-episodes", "10"),
    )
    steps = {}
    for name, prior in (
        ("good", everything / "good.py"),
        ("auto", f"auto:{everything}"),
        ("none", "none"),
        ("harmful", f"auto:{harmful}"),
    ):
        runs = [train(*options, "--prior", str(prior), "--seed", str(seed)) for seed in (1, 2, 3)]
        steps[name] = sum(map(steps_to_the_optimum, runs)) / len(runs)
    print(steps)
    assert steps["auto"] <= 1.5 * steps["good"], steps
    assert steps["harmful"] <= 1.2 * steps["none"], steps
