"""cleanrl_scripts/ppo_ultra.py: the update against a textbook PPO, who gets the credit, the arms, resuming, bad input."""

import copy
import csv
import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from conftest import ROOT, kill_and_resume
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.wrappers import FlattenObservation, RecordEpisodeStatistics, TransformObservation
from torch import nn
from torch.distributions import Categorical, Normal

import llmwrappers.critical_states.guidance
from cleanrl_scripts.learning.actor_critic import ActorCritic
from cleanrl_scripts.ppo_ultra import parse_args
from cleanrl_scripts.ultra.critical_state_sources import require_answers
from cleanrl_scripts.ultra.permuted_actions import PermutedActions
from llmwrappers import CriticalFunction, CriticalStates, LLMActionOverride, Trajectories
from llmwrappers.critical_states.guidance import GuidanceCounts
from llmwrappers.critical_states.table import spread
from llmwrappers.files import sha256

SCRIPT = ROOT / "cleanrl_scripts" / "ppo_ultra.py"
QUICK = ["--num-steps", "128", "--num-minibatches", "4", "--update-epochs", "2", "--eval-every", "256", "--eval-episodes", "1"]
QUICK += ["--no-cuda", "--trajectory-episodes", "4"]
RETURNS = ("eval/episodic_return", "eval/deterministic_return")
PENDULUM = ["--env-id", "Pendulum-v1"]


@pytest.fixture
def train(ppo_ultra, tmp_path):
    """Runs the script in this process and returns its run folder."""

    def run(*arguments: str) -> Path:
        runs = tmp_path / f"runs-{time.monotonic_ns()}"
        ppo_ultra.main([*QUICK, "--runs-dir", str(runs), *arguments])
        (run_dir,) = runs.iterdir()
        return run_dir

    return run


@pytest.fixture(scope="module")
def pretrained(ppo_ultra, tmp_path_factory):
    """A run folder of a pretrained agent for Pendulum-v1, with a table beside it that fires on most steps."""
    runs = tmp_path_factory.mktemp("pretrained")
    ppo_ultra.main([*QUICK, *PENDULUM, "--pretrain-timesteps", "512", "--runs-dir", str(runs)])
    (run_dir,) = runs.iterdir()
    trajectories = Trajectories.load(run_dir / "trajectories.npz")
    chosen = np.arange(0, 400, 40)
    table = CriticalStates(
        trajectories.observations[chosen],
        actions=np.linspace(-2, 2, 10)[:, None],
        rewards=np.linspace(-1, 1, 10),
        scale=spread(trajectories.observations),
        tolerance=0.5,
        environment="Pendulum-v1",
        calibration={"table_episodes": 2},
    )
    table.save(run_dir / "table.json")
    return run_dir


def starts_from(run_dir: Path) -> list[str]:
    return [*PENDULUM, "--agent", str(run_dir / "agent.pt"), "--critical-states", str(run_dir / "table.json")]


def metrics_of(run_dir: Path) -> list[list[str]]:
    """All but the metrics that are times."""
    with open(run_dir / "metrics.csv", newline="") as file:
        return [row for row in csv.reader(file) if row[1] != "charts/SPS"]


def values_of(run_dir: Path, metric: str) -> list[float]:
    return [float(row[2]) for row in metrics_of(run_dir) if row[1] == metric]


def agent_parameters(run_dir: Path) -> torch.Tensor:
    agent = torch.load(run_dir / "agent.pt")["agent"]
    return torch.cat([*(parameter.flatten() for parameter in agent["network"].values()), agent["log_std"]])


# ------------------------------------------------------------------------------------------------ the update


@pytest.mark.parametrize(("clip_vloss", "imitation_coef"), [(True, 0.0), (False, 0.0), (True, 0.7)])
@pytest.mark.parametrize("space", [Box(-1, 1, (3,)), Discrete(4, start=2)], ids=["box", "discrete"])
def test_the_update_is_ppo(ppo_ultra, space, clip_vloss, imitation_coef):
    """CleanRL's PPO, in autograd and torch.distributions, gives the same losses and the same weights; so it does imitating."""
    n, c = 64, 0.05
    rng = np.random.default_rng(0)
    args = ppo_ultra.Args(compile="off", clip_coef=c, clip_vloss=clip_vloss, ent_coef=0.02, imitation_coef=imitation_coef)
    agent = ActorCritic(Box(-1, 1, (5,)), space, rng, torch.device("cpu"))
    if isinstance(space, Box):
        agent.log_std.data.copy_(torch.tensor([-0.3, 0.1, 0.2]))
    ppo = ppo_ultra.PPO(args, [], agent, rng)
    ppo.imitation_coef.fill_(imitation_coef)
    actor, critic = copy.deepcopy((agent.actor, agent.critic))
    log_std = nn.Parameter(agent.log_std.detach().clone())
    parameters = [*actor.parameters(), *critic.parameters(), *([log_std] if isinstance(space, Box) else [])]
    optimizer = torch.optim.Adam(parameters, lr=3e-3, eps=1e-5)

    observations = rng.normal(size=(n, 5)).astype(np.float32)
    actions = rng.normal(size=(n, 3)).astype(np.float32) if isinstance(space, Box) else rng.integers(2, 6, n)
    o, a = torch.from_numpy(observations), torch.from_numpy(actions)
    old_logp = (ppo.log_probs(o, a).detach() + torch.from_numpy(rng.normal(scale=0.1, size=n))).float()
    advantages, ret, old_v = torch.from_numpy(rng.normal(size=(3, n)).astype(np.float32))
    llm_actions, advised = a[torch.from_numpy(rng.permutation(n))], torch.from_numpy(rng.random(n) < 0.3)
    credited = torch.from_numpy(rng.random(n) < 0.6) if imitation_coef else torch.ones(n, dtype=torch.bool)

    for _ in range(5):
        ppo.optimizer.learning_rate.fill_(3e-3)
        got = ppo.learn(o, a, advantages, ret, old_v, llm_actions, advised, credited, old_logp)
        log_ratio = got.pop("log_ratio")
        if isinstance(space, Box):
            distribution = Normal(actor(o), log_std.exp())
            log_probs = distribution.log_prob(a).sum(1)
            llm_log_probs = Normal(actor(o), log_std.detach().exp()).log_prob(llm_actions).sum(1)
            entropy = distribution.entropy().sum(1).mean()
        else:
            distribution = Categorical(logits=actor(o))
            log_probs, entropy = distribution.log_prob(a - 2), distribution.entropy().mean()
            llm_log_probs = distribution.log_prob(llm_actions - 2)
        ratio = (log_probs - old_logp).exp()
        adv = (advantages - advantages[credited].mean()) / (advantages[credited].std() + 1e-8)
        policy_loss = torch.max(-adv * ratio, -adv * ratio.clamp(1 - c, 1 + c))[credited].sum() / n
        values = critic(o)[:, 0]
        clipped = old_v + (values - old_v).clamp(-c, c)
        value_loss = 0.5 * (torch.max((values - ret) ** 2, (clipped - ret) ** 2) if clip_vloss else (values - ret) ** 2).mean()
        imitation_loss = -llm_log_probs[advised].sum() / n if imitation_coef else torch.zeros(())
        optimizer.zero_grad()
        (policy_loss - args.ent_coef * entropy + args.vf_coef * value_loss + imitation_coef * imitation_loss).backward()
        nn.utils.clip_grad_norm_(parameters, args.max_grad_norm)
        optimizer.step()
        parts = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy, "imitation_loss": imitation_loss}
        torch.testing.assert_close(got, parts, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(log_ratio, ratio.log() * credited, rtol=1e-4, atol=1e-5)

    for module, expected in ((agent.actor, actor), (agent.critic, critic)):
        for a, b in zip(module.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(agent.log_std, log_std, rtol=1e-4, atol=1e-6)


class Ends(gym.Env):
    """Observes the step; ends after so many steps as there are rewards, by termination or by truncation."""

    def __init__(self, rewards, terminates=True):
        self.rewards, self.terminates, self.received = rewards, terminates, []
        self.action_space, self.observation_space = Box(-0.1, 0.1, (1,)), Box(0.0, 10.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.received.append(float(action[0]))
        reward, self.t = self.rewards[self.t], self.t + 1
        ended = self.t == len(self.rewards)
        observation = np.array([self.t], np.float32)
        return observation, reward, ended and self.terminates, ended and not self.terminates, {}


def ppo_of(ppo_ultra, env, **arguments):
    rng = np.random.default_rng(0)
    agent = ActorCritic(env.observation_space, env.action_space, rng, torch.device("cpu"))
    ppo = ppo_ultra.PPO(ppo_ultra.Args(compile="off", **arguments), [RecordEpisodeStatistics(env)], agent, rng)
    ppo.reset()
    return ppo


class Batches(list):
    """Stands for a PPO's loss: keeps the minibatches, and says that the policy has moved by a ratio."""

    def __init__(self, ppo, ratio=1.0):
        super().__init__()
        self.parameters, self.ratio = ppo.agent.parameters, ratio

    def __call__(self, *batch):
        self.append([tensor.numpy() for tensor in batch])
        zero = sum(parameter.sum() for parameter in self.parameters) * 0.0
        return zero, {"log_ratio": torch.full((len(batch[0]),), math.log(self.ratio))}


@pytest.mark.parametrize(("terminates", "worth"), [(True, 0.0), (False, 0.9 * (5 + 2))])
def test_what_a_time_limit_cuts_off_is_worth_the_value_of_the_last_state(ppo_ultra, terminates, worth):
    """The value of the state is 5 and its number, which is 2 at the end and 0 where the next episode begins."""
    ppo = ppo_of(ppo_ultra, Ends([0.0, 0.0], terminates), num_steps=7, gamma=0.9)
    ppo.agent.value = lambda observation: 5.0 + float(observation[0])
    assert len(ppo.collect()) == 3
    expected = [0.0, worth] * 3 + [0.0]
    np.testing.assert_allclose(ppo.rewards[:, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(ppo.own_rewards[:, 0], expected, rtol=1e-6)


def test_rewards_are_scaled_by_the_spread_of_the_discounted_returns_so_far(ppo_ultra):
    """The return so far of each step begins anew with its episode."""
    rewards = [1.0, -2.0, 3.0]
    ppo = ppo_of(ppo_ultra, Ends(rewards), num_steps=7, gamma=0.5)
    ppo.collect()
    reference, expected = gym.wrappers.utils.RunningMeanStd(shape=()), []
    for step in range(7):
        so_far = rewards[: step % 3 + 1]
        reference.update(np.array([sum(0.5**k * reward for k, reward in enumerate(reversed(so_far)))]))
        expected.append(np.clip(so_far[-1] / np.sqrt(reference.var + 1e-8), -10, 10))
    np.testing.assert_allclose(ppo.rewards[:, 0], expected, rtol=1e-4)


def test_values_learn_the_returns(ppo_ultra):
    """With lambda = 1 they are the discounted sums of rewards to the end of the episode, whatever the values were."""
    ppo = ppo_of(ppo_ultra, Ends([0.0]), num_steps=6, num_minibatches=1, update_epochs=1, gamma=0.5, gae_lambda=1.0)
    ppo.observations[:, 0, 0] = range(6)
    ppo.rewards[:, 0], ppo.values[:, 0] = [1, 2, 3, 4, 5, 6], [7, 1, -2, 0, 3, 9]
    ppo.dones[[2, 5]] = True
    ppo.loss = Batches(ppo)
    ppo.learn = ppo.optimizer.descent(ppo.loss)
    ppo.update(1e-3)
    ((observations, _, advantages, returns, *_),) = ppo.loss
    order = observations[:, 0].astype(int)
    assert sorted(order) == list(range(6))
    expected = np.array([1 + 1 + 0.75, 2 + 1.5, 3, 4 + 2.5 + 1.5, 5 + 3, 6])
    np.testing.assert_allclose(returns, expected[order], rtol=1e-5)
    np.testing.assert_allclose(advantages, (expected - ppo.values[:, 0])[order], rtol=1e-5)


@pytest.mark.parametrize(("target_kl", "epochs"), [(None, 4), (0.4, 4), (0.2, 1)])
def test_epochs_end_early_where_the_policy_has_moved_too_far(ppo_ultra, target_kl, epochs):
    """A ratio of 2 is a divergence of 2 - 1 - log 2 = 0.31."""
    ppo = ppo_of(ppo_ultra, Ends([0.0]), num_steps=6, num_minibatches=2, update_epochs=4, target_kl=target_kl)
    ppo.loss = Batches(ppo, ratio=2.0)
    ppo.learn = ppo.optimizer.descent(ppo.loss)
    ppo.update(1e-3)
    assert len(ppo.loss) == 2 * epochs
    assert ppo.metrics["losses/approx_kl"] == pytest.approx(1 - math.log(2), rel=1e-4)
    assert ppo.metrics["losses/clipfrac"] == 1.0


@pytest.mark.parametrize("flag", ["--anneal-lr", "--no-anneal-lr"])
def test_the_learning_rate_falls_to_0_if_it_is_annealed(train, flag):
    run_dir = train(
        *("--env-id", "llmwrappers-tests/OneStep-v0", "--agent", "none", "--arm", "none", "--total-timesteps", "512", flag),
        *("--learning-rate", "1e-3", "--trajectory-episodes", "0"),
    )
    expected = [1e-3, 7.5e-4, 5e-4, 2.5e-4] if flag == "--anneal-lr" else [1e-3] * 4
    assert values_of(run_dir, "charts/learning_rate") == pytest.approx(expected)


# ------------------------------------------------------------------------------------------------ credit


class Switch(gym.Env):
    """One step an episode: action 1 (or a number above 0) gives 1, everything else nothing; the observation says nothing."""

    def __init__(self, discrete: bool):
        self.action_space = Discrete(2) if discrete else Box(-1.0, 1.0, (1,))
        self.observation_space = Box(-1.0, 1.0, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.ones(2, np.float32), {}

    def step(self, action):
        return np.ones(2, np.float32), float(np.ravel(action)[0] > 0), True, False, {}


class Sometimes(gym.Wrapper):
    """Plays the rewarded action in place of the agent's with probability 1/2, as LLMActionOverride would in critical states."""

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        overridden = bool(self.rng.random() < 0.5)
        executed = (1 if isinstance(self.action_space, Discrete) else np.ones(1, np.float32)) if overridden else action
        observation, reward, terminated, truncated, info = self.env.step(executed)
        info = {**info, "executed_action": executed, "action_overridden": overridden}
        return observation, reward, terminated, truncated, info


@pytest.mark.parametrize("imitation_coef", [0.0, 1.0])
def test_what_is_imitated_is_not_credited_too(ppo_ultra, imitation_coef):
    """Where the LLM acted, its action is imitated; the paper imitates nothing and credits it."""
    env = Sometimes(Switch(discrete=True))
    ppo = ppo_of(ppo_ultra, env, num_steps=64, num_minibatches=2, update_epochs=1, imitation_coef=imitation_coef)
    ppo.collect()
    ppo.loss = Batches(ppo)
    ppo.learn = ppo.optimizer.descent(ppo.loss)
    ppo.update(1e-3)
    credited = np.concatenate([batch[-2] for batch in ppo.loss])
    assert 16 < ppo.overridden.sum() < 48
    assert len(credited) - credited.sum() == (ppo.overridden.sum() if imitation_coef else 0)


def test_an_imitated_action_far_from_the_policy_does_no_harm(ppo_ultra):
    """Its ratio is infinite where imitation has raised its probability much; neither the loss nor the divergence has it."""
    env = LLMActionOverride(Switch(discrete=False), lambda _: ([1.0], 0.0), control_probability=0.25, patience_steps=0)
    ppo = ppo_of(ppo_ultra, env, num_steps=64, num_minibatches=2, update_epochs=4)
    ppo.agent.log_std.data.fill_(-5.0)
    ppo.imitation_coef.fill_(1.0)
    ppo.collect()
    assert 32 < ppo.advised.sum() <= 64
    assert 32 < ppo.overridden.sum() < 60
    batch = [torch.from_numpy(array.reshape(64, -1)) for array in (ppo.observations, ppo.actions)]
    with torch.no_grad():
        before = ppo.log_probs(*batch)
    ppo.update(1e-2)
    with torch.no_grad():
        log_ratio = ppo.log_probs(*batch) - before
    overridden = torch.from_numpy(ppo.overridden[:, 0])
    assert log_ratio[overridden].max() > 88.8  # of which the exponential is infinite in float32
    assert math.isfinite(ppo.metrics["losses/approx_kl"])
    assert math.isfinite(ppo.metrics["losses/policy_loss"])


@pytest.mark.parametrize("discrete", [True, False])
def test_credit_goes_to_the_executed_action(ppo_ultra, discrete):
    """An agent that all but never proposes the rewarded action learns it from the steps on which it was executed.

    If the batch held what was proposed, the other action would be the one that half of the time is rewarded.
    """
    rng = np.random.default_rng(0)
    env = Sometimes(RecordEpisodeStatistics(Switch(discrete)))
    args = ppo_ultra.Args(compile="off", num_steps=256, num_minibatches=4, update_epochs=4, imitation_coef=0.0)
    agent = ActorCritic(env.observation_space, env.action_space, rng, torch.device("cpu"))
    agent.actor[-1].bias.data.copy_(torch.tensor([2.5, -2.5] if discrete else [-1.0]))
    agent.log_std.data.fill_(-0.7)
    ppo = ppo_ultra.PPO(args, [env], agent, rng)
    ppo.reset()
    observation = np.ones(2, np.float32)

    ppo.collect()
    overridden = ppo.actions.ravel() == 1
    assert 80 < overridden.sum() < 176
    loss, ppo.loss = ppo.loss, Batches(ppo)
    ppo.update(1e-3)
    for observations, actions, *_, old_log_probs in ppo.loss:
        expected = ppo.log_probs(torch.from_numpy(observations), torch.from_numpy(actions)).detach().numpy()
        np.testing.assert_allclose(old_log_probs, expected, rtol=1e-4, atol=1e-5)
    ppo.loss = loss
    ppo.update(1e-3)
    for _ in range(14):
        ppo.collect()
        ppo.update(1e-3)
    assert np.ravel(agent.act(observation))[0] > 0


def test_actions_are_clipped_as_the_environment_gets_them_and_not_in_the_batch(ppo_ultra):
    """A mask or an override below tells what was executed, which is to be credited only where the LLM acted."""
    env = LLMActionOverride(Ends([0.0] * 3), lambda observation: ([0.05], 0.0) if observation[0] == 1 else None)
    ppo = ppo_of(ppo_ultra, env, num_steps=90)
    ppo.collect()
    overridden = ppo.overridden[:, 0]
    assert overridden.sum() == 30
    received, stored = np.array(env.unwrapped.received), ppo.actions[:, 0, 0]
    assert np.abs(received).max() == pytest.approx(0.1)
    np.testing.assert_allclose(stored[overridden], 0.05)
    assert np.abs(stored[~overridden]).max() > 1
    np.testing.assert_allclose(np.clip(stored, -0.1, 0.1), received, rtol=1e-6)


# ------------------------------------------------------------------------------------------------ worth of entries


class Doors(gym.Env):
    """One step an episode, at one of three doors: action 1 pays 8 at the first and costs 8 at the second, action 0 nothing."""

    def __init__(self):
        self.action_space, self.observation_space = Discrete(2), Box(0.0, 1.0, (3,))

    def _observe(self):
        return np.eye(3, dtype=np.float32)[self.door]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.door = int(self.np_random.integers(3))
        return self._observe(), {}

    def step(self, action):
        return self._observe(), (8.0, -8.0, 0.0)[self.door] * float(action), True, False, {}


gym.register("llmwrappers-tests/Doors-v0", entry_point=Doors)


@pytest.fixture
def doors(tmp_path):
    """Arguments for a table that says 1 at every door."""
    note = {"episode": 0, "rationale": "Not asked for."}
    CriticalStates(
        np.eye(3), [1, 1, 1], [0.5, -0.5, 0.0], scale=np.ones(3), tolerance=0.1, notes=[note | {"step": i} for i in range(3)]
    ).save(tmp_path / "doors.json")
    return [
        "--env-id", "llmwrappers-tests/Doors-v0", "--agent", "none", "--critical-states", str(tmp_path / "doors.json"),
        "--trajectory-episodes", "0", "--learning-rate", "1e-4",
    ]  # fmt: skip


@pytest.mark.parametrize("arm", ["a", "ra"])
def test_the_harmful_entry_is_disabled_and_the_good_one_does_not(train, doors, arm, capsys):
    run_dir = train(*doors, "--arm", arm, "--total-timesteps", "2048")
    good, harmful, idle = json.loads((run_dir / "entries.json").read_text())
    assert [row["disabled"] for row in (good, harmful, idle)] == [False, True, False]
    # An agent that has learned next to nothing tosses a coin: in place of it, action 1 is worth 8 / 2. Not the LLM's reward.
    assert 0 < good["low"] < good["advantage"] == pytest.approx(4.0, abs=1.0)
    assert good["low"] < 4.0 < good["high"]
    assert harmful["low"] < -4.0 < harmful["high"] < 0
    assert idle["low"] <= 0 <= idle["high"]
    place = {"action": 1, "reward": 0.5, "episode": 0, "step": 0}
    assert list(good) == ["entry", "played", "withheld", "advantage", "low", "high", "disabled", *place]
    assert place.items() <= good.items()
    summary = json.loads((run_dir / "summary.json").read_text())
    assert summary["entries"] == {"count": 3, "disabled": [1], "helped": [0]}
    verdict = "of 3 entries 1 cost return and got disabled: 1; 1 surely helped: 0; 1 met too rarely"
    assert capsys.readouterr().out.count(verdict) == 1
    assert values_of(run_dir, "ultra/disabled_entries")[0] == 0
    assert values_of(run_dir, "ultra/disabled_entries")[-1] == 1
    assert values_of(run_dir, "ultra/advantage")[-1] > 1
    assert summary.keys() == {"global_step", "seconds", *RETURNS, "eval/guided_return", "entries", "guidance"}
    assert summary["guidance"] == {"steps": 2048, "critical": summary["guidance"]["critical"], "faults": 0, "given_up": 0}
    assert 1000 < summary["guidance"]["critical"] < 2048


def test_advantages_that_tell_of_worth_are_of_the_environments_own_reward(ppo_ultra, doors):
    """Of one step: the reward less the value of the state, both in the environment's units; the LLM's reward is not in it."""
    rng = np.random.default_rng(0)
    args = ppo_ultra.Args(compile="off", num_steps=64, arm="ra", control_probability=0.5, alpha=3.0)
    table = CriticalStates.load(doors[doors.index("--critical-states") + 1])
    env = ppo_ultra.guide(RecordEpisodeStatistics(Doors()), args, table)
    agent = ActorCritic(env.observation_space, env.action_space, rng, torch.device("cpu"))
    ppo = ppo_ultra.PPO(args, [env], agent, rng)
    ppo.reset()
    ppo.collect()
    assert not ppo.advised.any()  # no imitation yet
    ppo.imitation_coef.fill_(0.5)
    ppo.reset()
    ppo.collect()

    class Told(list):
        estimates = (0.5, -0.5, math.nan)

        def record(self, *step):
            self.append(step)

    ppo.tell(told := Told())
    assert (ppo.advised == (ppo.entries == 0)).all()  # what does not pay is not imitated
    assert ppo.advised.any()
    unit = float(agent.returns.inverse_std)
    assert len(told) == 64
    for step, (entry, played, advantage) in enumerate(told):
        assert entry == ppo.observations[step, 0].argmax()
        assert played == ppo.overridden[step, 0]
        own = (8.0, -8.0, 0.0)[entry] * ppo.actions[step, 0]
        # The scale of rewards grows certain while they come.
        if step > 32:
            assert advantage == pytest.approx(own - ppo.values[step, 0] / unit, abs=1.0)
        assert ppo.actions[step, 0] == 1 or not played
    assert {played for _, played, _ in told} == {True, False}


@pytest.mark.parametrize("arm", ["a", "ra"])
def test_own_rewards_are_the_rewards_but_for_the_llms(ppo_ultra, pretrained, arm):
    rng = np.random.default_rng(0)
    args = ppo_ultra.Args(compile="off", env_id="Pendulum-v1", num_steps=250, arm=arm, shaping="paper")
    env = ppo_ultra.guide(
        RecordEpisodeStatistics(gym.make("Pendulum-v1")), args, CriticalStates.load(pretrained / "table.json")
    )
    ppo = ppo_ultra.PPO(args, [env], ActorCritic(env.observation_space, env.action_space, rng, torch.device("cpu")), rng)
    ppo.reset()
    ppo.collect()
    assert ppo.dones.sum() == 1
    assert 0 < ppo.overridden.sum() < (ppo.entries >= 0).sum() < 250
    differ = ppo.rewards != ppo.own_rewards
    assert not differ[ppo.entries < 0].any()
    assert (differ[ppo.entries >= 0].mean() > 0.5) == (arm == "ra")  # the first rewards may be clipped


def test_without_withholding_nothing_is_told_of_entries(train, pretrained):
    """And an entry that would be withheld never is: all are overridden."""
    run_dir = train(*starts_from(pretrained), "--arm", "a", "--control-probability", "0", "--total-timesteps", "512")
    assert not (run_dir / "entries.json").exists()
    assert values_of(run_dir, "ultra/hit_rate") == values_of(run_dir, "ultra/override_rate")
    assert not values_of(run_dir, "ultra/advantage") + values_of(run_dir, "ultra/disabled_entries")
    withheld = train(*starts_from(pretrained), "--arm", "a", "--total-timesteps", "512")
    rates = np.mean(values_of(withheld, "ultra/override_rate")) / np.mean(values_of(withheld, "ultra/hit_rate"))
    assert rates == pytest.approx(0.75, abs=0.1)


@pytest.mark.parametrize(("coefficient", "goes_on_alone"), [("1", True), ("0", False)])
def test_what_is_imitated_no_more_is_played_no_more(train, pretrained, coefficient, goes_on_alone):
    """Without imitation, the paper's form, the LLM's actions are played to the end."""
    options = ["--arm", "a", "--imitation-coef", coefficient, "--imitation-fraction", "0.5", "--total-timesteps", "1024"]
    run_dir = train(*starts_from(pretrained), *options)
    assert values_of(run_dir, "ultra/override_rate")[0] > 0
    assert (values_of(run_dir, "ultra/override_rate")[-1] == 0) == goes_on_alone
    assert values_of(run_dir, "ultra/hit_rate")[-1] > 0


# ------------------------------------------------------------------------------------------------ a stuck agent


class Lever(gym.Env):
    """A corridor with a lever 24 steps to the right, worth 1, and a door 4 steps to the left, worth 0.1; 40 steps an episode.

    Random actions find the lever in about one episode of 10 000, and before it the door in most.
    """

    def __init__(self):
        self.action_space, self.observation_space = Discrete(3), Box(-1.0, 1.0, (1,))

    def _observe(self):
        return np.array([self.x / 24], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.t = 0
        return self._observe(), {}

    def step(self, action):
        self.x, self.t = self.x + int(action) - 1, self.t + 1
        reward = 1.0 if self.x == 24 else 0.1 if self.x == -4 else 0.0
        return self._observe(), reward, reward > 0, self.t == 40, {}


gym.register("llmwrappers-tests/Lever-v0", entry_point=Lever)
RIGHT, STAY = (f"def critical(obs):\n    return True, {action}, 0.0\n" for action in (2, 1))


@pytest.mark.parametrize(
    ("arguments", "code", "low", "high"),
    [
        (("--arm", "none"), RIGHT, 0.08, 0.12),  # it learns to leave by the door
        (("--arm", "a"), RIGHT, 0.95, 1.0),
        (("--arm", "a"), STAY, 0.08, 0.12),  # what is wrong costs no more than time
        (("--arm", "random"), RIGHT, 0.08, 0.12),
    ],
)
def test_a_stuck_agent_is_led_on_by_what_is_right_and_not_harmed_by_what_is_wrong(train, tmp_path, arguments, code, low, high):
    (tmp_path / "critical.py").write_text(code)
    run_dir = train(
        *("--env-id", "llmwrappers-tests/Lever-v0", "--agent", "none", "--critical-states", str(tmp_path), *arguments),
        *("--num-steps", "1024", "--num-minibatches", "16", "--update-epochs", "10", "--learning-rate", "1e-3"),
        *("--total-timesteps", "30720", "--eval-every", "30720", "--eval-episodes", "20", "--no-save-model"),
    )
    assert low <= json.loads((run_dir / "summary.json").read_text())["eval/episodic_return"] <= high


# ------------------------------------------------------------------------------------------------ the arms


@pytest.mark.parametrize("arm", ["a", "r", "ra", "random", "rnd", "statemask"])
def test_every_arm_trains_and_logs(train, pretrained, arm):
    run_dir = train(
        *starts_from(pretrained), "--arm", arm, "--total-timesteps", "512", "--statemask-timesteps", "2048", "--alpha", "0.5"
    )
    hit_rates, override_rates = values_of(run_dir, "ultra/hit_rate"), values_of(run_dir, "ultra/override_rate")
    assert np.mean(hit_rates) > 0.02
    assert (np.mean(override_rates) > 0) == (arm in ("a", "ra", "random"))
    assert any(values_of(run_dir, "ultra/llm_return")) == (arm != "a")
    assert len(values_of(run_dir, "eval/episodic_return")) == 3
    assert bool(values_of(run_dir, "eval/guided_return")) == (arm in ("a", "ra", "random"))
    assert (run_dir / "agent.pt").exists()
    assert len(Trajectories.load(run_dir / "trajectories.npz")) == 4


def test_pretraining_ends_with_an_agent_and_its_trajectories(pretrained):
    trajectories = Trajectories.load(pretrained / "trajectories.npz")
    assert trajectories.env_id == "Pendulum-v1"
    assert trajectories.lengths.tolist() == [200] * 4
    assert not trajectories.terminations.any()
    env = gym.make("Pendulum-v1")
    for episode, seed in enumerate(trajectories.seeds):  # they are what the environment says they are
        observation, _ = env.reset(seed=int(seed))
        for step in range(*trajectories.episode(episode).indices(10**9)[:2]):
            np.testing.assert_allclose(observation, trajectories.observations[step], atol=1e-5)
            observation, reward, *_ = env.step(trajectories.actions[step])
            assert reward == pytest.approx(trajectories.rewards[step], abs=1e-4)
        np.testing.assert_allclose(observation, trajectories.final_observations[episode], atol=1e-5)


def test_the_arm_none_is_ppo_going_on(train, pretrained):
    """It starts from the agent, and an arm whose guidance changes nothing gives the same weights to the last bit."""
    plain = train(*starts_from(pretrained), "--arm", "none", "--total-timesteps", "256")
    silent = train(*starts_from(pretrained), "--arm", "r", "--alpha", "0", "--total-timesteps", "256")
    assert torch.equal(agent_parameters(plain), agent_parameters(silent))
    assert values_of(plain, "eval/episodic_return") == values_of(silent, "eval/episodic_return")
    begins, was = values_of(plain, "eval/episodic_return")[0], values_of(pretrained, "eval/episodic_return")[-1]
    assert begins == was


def test_an_arm_is_guided_as_its_arguments_say(ppo_ultra):
    potential = CriticalStates([[2.0]], [1], [1.0], scale=[1.0], tolerance=0.1)
    args = ppo_ultra.Args(compile="off", arm="r", alpha=0.5, shaping="potential", gamma=0.5)
    env = ppo_ultra.guide(gym.make("llmwrappers-tests/Crossing-v0"), args, potential)
    env.reset()
    assert [env.step(1)[4]["llm_reward"] for _ in range(4)] == [0.0, 0.25, -0.5, 0.0]


def one_step_table(tmp_path, action: float) -> list[str]:
    """Arguments for an environment of one state, and a table that has it."""
    CriticalStates(np.ones((1, 2)), [[action]], [1.0], scale=np.ones(2), tolerance=0.1).save(tmp_path / "table.json")
    return [
        *("--env-id", "llmwrappers-tests/OneStep-v0", "--agent", "none", "--critical-states", str(tmp_path / "table.json")),
        *("--arm", "ra", "--alpha", "3", "--trajectory-episodes", "0", "--eval-episodes", "8", "--learning-rate", "1e-5"),
    ]


def test_a_guided_evaluation_plays_all_of_the_llms_actions_and_counts_none_of_its_rewards(train, tmp_path):
    run_dir = train(*one_step_table(tmp_path, 0.8), "--control-probability", "0.75", "--total-timesteps", "128")
    assert values_of(run_dir, "eval/guided_return") == pytest.approx([0.0, 0.0], abs=1e-6)
    assert max(values_of(run_dir, "eval/episodic_return")) < -0.3


def test_what_was_disabled_is_disabled_in_a_guided_evaluation(train, tmp_path):
    """-1 is far from the optimum, 0.8, and worse than whatever an untaught agent plays."""
    run_dir = train(*one_step_table(tmp_path, -1.0), "--control-probability", "0.5", "--total-timesteps", "512")
    assert json.loads((run_dir / "entries.json").read_text())[0]["disabled"]
    guided, alone = (values_of(run_dir, f"eval/{name}_return") for name in ("guided", "episodic"))
    assert guided[0] == pytest.approx(-(1.8**2), abs=1e-5)
    assert guided[-1] == alone[-1] > -2.0


def test_critical_states_from_code(train, pretrained, tmp_path):
    code = tmp_path / "critical.py"
    code.write_text("def critical(obs):\n    return obs[0] < 0.5, [-2.0 * obs[1]], 0.5\n")
    arguments = [*PENDULUM, "--agent", str(pretrained / "agent.pt"), "--guidance", "code", "--total-timesteps", "512"]
    run_dir = train(*arguments, "--critical-states", str(code), "--patience-steps", "0")
    assert any(values_of(run_dir, "ultra/hit_rate"))
    assert set(values_of(run_dir, "ultra/faults")) == {0}


FAILS_LATER = """
calls = 0

def reset():
    pass

def critical(obs):
    global calls
    calls += 1
    return calls < 100 or obs[3], [0.0], 0.5
"""


@pytest.mark.filterwarnings("ignore:CriticalFunction")
@pytest.mark.parametrize(
    ("code", "guidance", "words"),
    [
        (
            FAILS_LATER,
            {"faults": 20, "given_up": 2},
            "the code for critical states failed 20 times; after 10 in a row 2 environments gave it up",
        ),
        (
            "def critical(obs):\n    return obs[0] > 9, [0.0], 0.5\n",
            {"critical": 0, "faults": 0},
            "no state was critical in 512 steps",
        ),
    ],
)
def test_the_last_line_and_the_summary_say_what_kept_guidance_from_guiding(train, tmp_path, code, guidance, words, capsys):
    (tmp_path / "critical.py").write_text(code)
    arguments = "--agent", "none", "--critical-states", str(tmp_path / "critical.py"), "--arm", "a", "--num-envs", "2"
    run_dir = train(*PENDULUM, *arguments, "--num-steps", "256", "--total-timesteps", "512", "--patience-steps", "400")
    assert f"; {words}" in capsys.readouterr().out
    assert guidance.items() <= json.loads((run_dir / "summary.json").read_text())["guidance"].items()


@pytest.mark.parametrize("arguments", [("--arm", "a"), ("--arm", "rnd"), ("--fidelity-episodes", "1")])
def test_code_that_fails_ends_the_run_before_it_trains(ppo_ultra, train, tmp_path, arguments):
    code = tmp_path / "critical.py"
    code.write_text("def critical(obs):\n    return obs['level'] > 0, [0.0], 0.5\n")
    message = r"critical\.py: the code failed at each of the first 10 .*line 2: IndexError: .*shape \(3,\)\. Mend"
    with pytest.raises(ppo_ultra.UserError, match=message):
        train(*PENDULUM, "--agent", "none", "--critical-states", str(code), "--total-timesteps", "512", *arguments)


def test_the_error_of_code_says_how_a_dict_is_flattened(ppo_ultra):
    space = Dict({"speed": Box(-8, 8, (1,)), "gear": Discrete(3), "angle": Box(-1, 1, (2,))})
    env = TransformObservation(gym.make("Pendulum-v1"), lambda obs: {"speed": obs[2:], "gear": 1, "angle": obs[:2]}, space)
    env = FlattenObservation(env)
    code = CriticalFunction("def critical(obs):\n    return obs['speed'] > 0, [0.0], 0.5\n", env.action_space)
    with pytest.raises(ppo_ultra.UserError, match=r"a Dict flattened: angle 0 to 1, gear 2 to 4, speed 5\. Mend"):
        require_answers(code, env, "critical.py", 0)


@pytest.mark.parametrize("space", [Discrete(4, start=1), Box(np.float32([0, -1, 5]), np.float32([1, 1, 9])), Box(-2, 4, (1,))])
def test_the_control_for_code_has_its_states_and_other_actions(space):
    answer = "[0.25, 0.5, 8.0]" if space.shape == (3,) else "2"
    function = CriticalFunction(
        f"def critical(obs):\n    if obs[0] > 0: return True, {answer}, 0.5\n    return False, 0, 0", space
    )
    control = copy.deepcopy(PermutedActions.of(function, np.random.default_rng(0)))
    assert control.consult(np.array([-1.0])) == (-1, None)
    entry, (action, reward) = control.consult(np.array([1.0]))
    assert (entry, reward) == (0, 0.5)
    assert space.contains(action)
    assert not np.isclose(action, function(np.array([1.0]))[0]).any()
    if isinstance(space, Discrete):
        codes = [f"def critical(obs): return True, {action}, 0.0" for action in range(1, 5)]
        seen = {PermutedActions(code, space, True, "<policy>", control.moved_to)(np.zeros(1))[0] for code in codes}
        assert seen == {1, 2, 3, 4}


def test_code_trains_its_control_and_a_bonus_everywhere(train, pretrained, tmp_path):
    (tmp_path / "critical.py").write_text("def critical(obs):\n    return obs[0] < 0.5, [1.5], 0.5\n")
    arguments = [*PENDULUM, "--agent", str(pretrained / "agent.pt"), "--total-timesteps", "512", "--critical-states"]
    control = train(*arguments, str(tmp_path), "--arm", "random", "--patience-steps", "0")
    assert any(values_of(control, "ultra/override_rate"))
    assert not any(values_of(control, "ultra/llm_return"))
    assert json.loads((control / "entries.json").read_text())[0]["line"] == 2
    everywhere = train(*arguments, "everywhere", "--arm", "rnd")
    assert set(values_of(everywhere, "ultra/hit_rate")) == {1.0}
    assert all(values_of(everywhere, "ultra/llm_return"))


@pytest.mark.parametrize("trusted", ["", "trusted:"])
def test_a_resumed_run_notices_code_that_has_changed(ppo_ultra, tmp_path, trusted):
    path = tmp_path / "critical.py"
    path.write_text("def critical(obs):\n    return True, [0.0], 0.5\n")
    args = ppo_ultra.Args(env_id="Pendulum-v1", agent="none", critical_states=f"{trusted}{path}")
    assert ppo_ultra.source_files(args) == {"critical_states": sha256(path)}


@pytest.mark.filterwarnings("ignore:CriticalFunction")
def test_the_faults_of_code_count_where_they_were_made(ppo_ultra):
    """What a guided evaluation plays, or another environment, does not silence the code in this one."""
    args = ppo_ultra.Args(compile="off", env_id="Pendulum-v1", arm="ra", patience_steps=0, control_probability=0.0)
    code = CriticalFunction("def critical(obs):\n    assert obs[0] > 2\n    return True, [0.0], 0.5", Box(-2, 2, (1,)))
    played, other = (ppo_ultra.guide(ppo_ultra.make_flat_env(args), args, code) for _ in range(2))
    with pytest.warns(UserWarning, match="the code failed"):
        played.reset(seed=0)
    assert played.counts == played.env.counts == (0, 0, 1, 1)
    for _ in range(20):
        played.step(np.zeros(1, np.float32))
    assert played.counts == (20, 0, 10, 10)
    assert other.counts == (0, 0, 0, 0)
    other.counts = played.counts
    assert other.env.counts == (20, 0, 10, 10)
    other.reset(seed=0)
    assert other.counts == (20, 0, 10, 10)  # given up, as the one it goes on for
    other.counts = GuidanceCounts()
    assert other.counts == other.env.counts == (0, 0, 0, 0)


def test_an_episode_is_logged_where_it_ended(train, pretrained):
    run_dir = train(*starts_from(pretrained), "--total-timesteps", "512", "--num-envs", "1", "--num-steps", "512")
    assert [int(row[0]) for row in metrics_of(run_dir) if row[1] == "charts/episodic_length"] == [200, 400]


def test_episodes_of_several_environments_are_logged_where_they_ended(train):
    run_dir = train(
        *("--env-id", "llmwrappers-tests/Reach-v0", "--agent", "none", "--arm", "none", "--total-timesteps", "128"),
        *("--num-envs", "2", "--num-steps", "64", "--trajectory-episodes", "0"),
    )
    assert [int(row[0]) for row in metrics_of(run_dir) if row[1] == "charts/episodic_length"] == [49, 50, 99, 100]


@pytest.mark.parametrize("arm", ["ra", "rnd"])
def test_a_table_that_never_fires_is_an_error(ppo_ultra, train, pretrained, tmp_path, arm):
    table = CriticalStates.load(pretrained / "table.json")
    far = tmp_path / "far.json"
    table.moved_to(table.observations + 1e6).save(far)
    with pytest.raises(ppo_ultra.UserError, match=r"far\.json: no state was critical in the first 200 steps"):
        train(
            *PENDULUM, "--agent", str(pretrained / "agent.pt"), "--critical-states", str(far),
            "--total-timesteps", "512", "--patience-steps", "200", "--arm", arm,
        )  # fmt: skip


# ------------------------------------------------------------------------------------------------ whole runs


@pytest.mark.filterwarnings("ignore:CriticalFunction")
@pytest.mark.parametrize("case", ["ra", "rnd", "doors", "code"])
def test_resuming_after_a_kill_repeats_the_run(ppo_ultra, train, pretrained, doors, monkeypatch, tmp_path, case):
    """Cut after its second checkpoint and resumed: the same metrics and weights, to the last bit, as the whole run."""
    starts = [*doors, "--arm", "ra"] if case == "doors" else [*starts_from(pretrained), "--arm", case]
    if case == "code":
        code = tmp_path / "critical.py"
        code.write_text("def critical(obs):\n    assert abs(obs[2]) < 1\n    return True, [2.0], 0.5\n")
        starts = [*PENDULUM, "--agent", str(pretrained / "agent.pt"), "--critical-states", str(code), "--guidance", "code"]
    arguments = [*starts, "--total-timesteps", "1024", "--checkpoint-every", "256"]
    whole = train(*arguments)
    save_checkpoint, written = ppo_ultra.save_checkpoint, []

    def save_and_stop(run_dir, state):
        save_checkpoint(run_dir, state)
        written.append(run_dir)
        if len(written) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(ppo_ultra, "save_checkpoint", save_and_stop)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        train(*arguments)
    monkeypatch.undo()
    cut = written[0]
    assert not (cut / "agent.pt").exists()
    checkpoint = torch.load(cut / "checkpoint.pt", weights_only=True)
    assert sum(steps for steps, *_ in checkpoint["counts"]) == checkpoint["global_step"] > 0
    if case == "code":
        assert [in_a_row for *_, in_a_row in checkpoint["counts"]] == [10] * len(checkpoint["counts"])  # it was given up
    (cut / "summary.json").write_text("{}")  # as if it had been finished and were resumed all the same
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(ppo_ultra.PPO, "reset", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        ppo_ultra.main(["--resume", str(cut)])
    monkeypatch.undo()
    assert not (cut / "summary.json").exists()
    ppo_ultra.main(["--resume", str(cut)])
    assert metrics_of(cut) == metrics_of(whole)
    assert torch.equal(agent_parameters(cut), agent_parameters(whole))
    if case != "rnd":
        assert (cut / "entries.json").read_bytes() == (whole / "entries.json").read_bytes()
    if case == "doors":
        assert values_of(cut, "ultra/disabled_entries")[3] == 1  # at the checkpoint something was disabled


def test_a_finished_run_goes_on_for_more_steps(ppo_ultra, train, pretrained, capsys):
    """What the LLM has to say is imitated again, until the same fraction of the new total; then the agent goes on alone."""
    run_dir = train(*starts_from(pretrained), "--num-envs", "1", "--total-timesteps", "512")
    before, entries = metrics_of(run_dir), json.loads((run_dir / "entries.json").read_text())
    ppo_ultra.main(["--resume", str(run_dir)])  # there is nothing left to do
    assert metrics_of(run_dir) == before

    capsys.readouterr()
    ppo_ultra.main(["--resume", str(run_dir), "--total-timesteps", "1024"])
    rate = "the learning rate falls to 0 at step 1024 instead of 512, and rises first"
    weight = "the imitation's weight falls to 0 at step 717 instead of 358, and rises first"
    assert f"note: the run goes on to 1024 steps instead of 512; {rate}; {weight}\n" in capsys.readouterr().out
    assert metrics_of(run_dir)[: len(before)] == before
    assert json.loads((run_dir / "summary.json").read_text())["global_step"] == 1024
    assert values_of(run_dir, "charts/learning_rate")[4:] == pytest.approx([3e-4 * (1 - k / 8) for k in range(4, 8)])
    assert len(json.loads((run_dir / "entries.json").read_text())) == len(entries)
    assert "--total-timesteps 512: the run in" in refusal(ppo_ultra, "--resume", str(run_dir), "--total-timesteps", "512")


def test_a_pretraining_goes_on_for_more_steps(ppo_ultra, train, capsys):
    run_dir = train(*PENDULUM, "--pretrain-timesteps", "256")
    assert "--resume takes no other arguments, but more --pretrain-timesteps" in refusal(
        ppo_ultra, "--resume", str(run_dir), "--total-timesteps", "2000000"
    )
    ppo_ultra.main(["--resume", str(run_dir), "--pretrain-timesteps", "512"])
    assert "note: the run goes on to 512 steps instead of 256; the learning rate falls to 0" in capsys.readouterr().out
    assert json.loads((run_dir / "summary.json").read_text())["global_step"] == 512


def test_the_script_runs_from_the_command_line_and_is_tracked_offline(pretrained, tmp_path):
    command = [sys.executable, str(SCRIPT), *QUICK, *starts_from(pretrained), "--total-timesteps", "256", "--track"]
    command += ["--runs-dir", str(tmp_path)]
    environment = {**__import__("os").environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    assert "eval at global_step 256: return" in result.stdout
    (run_dir,) = tmp_path.iterdir()
    description = json.loads((run_dir / "args.json").read_text())
    assert description["args"]["arm"] == "a"
    assert set(description["sha256"]) == {"agent", "trajectories", "critical_states"}
    assert list(run_dir.glob("events.out.tfevents.*"))
    assert list(run_dir.glob("wandb/offline-run-*"))


@pytest.mark.parametrize("guidance", ["table", "code"])
@pytest.mark.parametrize("env_id", ["Hopper-v4", "Walker2d-v4", "Ant-v4", "ALE/Pong-v5"])
def test_the_shipped_agents_go_on_with_what_is_shipped(train, env_id, guidance):
    run_dir = train(
        "--env-id", env_id, "--arm", "ra", "--guidance", guidance, "--total-timesteps", "1024", "--no-save-model",
        "--num-envs", "1", "--eval-every", "10000",
    )  # fmt: skip
    assert len(values_of(run_dir, "eval/episodic_return")) == 2
    assert env_id == "ALE/Pong-v5" or any(values_of(run_dir, "ultra/hit_rate"))


def test_a_whole_number_of_pong_may_be_written_with_an_exponent():
    assert parse_args(["--env-id", "ALE/Pong-v5", "--agent", "none", "--total-timesteps", "1e6"]).total_timesteps == 10**6


def test_pong_is_played_from_its_objects_and_from_its_grid(train):
    quick = ("--num-envs", "2", "--num-steps", "8", "--num-minibatches", "2", "--update-epochs", "1", "--eval-every", "10000")
    objects = train("--env-id", "ALE/Pong-v5", "--pretrain-timesteps", "32", *quick, "--trajectory-episodes", "1")
    assert json.loads((objects / "args.json").read_text())["args"]["clip_coef"] == 0.1
    trajectories = Trajectories.load(objects / "trajectories.npz")
    assert trajectories.env_id == "llmwrappers/PongObjects-v0"
    assert trajectories.observations.shape[1:] == (9,)
    state = trajectories.observations[200]
    table = CriticalStates(state[None], [2], [1.0], spread(trajectories.observations), 3.0)
    table.save(objects / "table.json")
    grid = train(
        "--env-id", "llmwrappers/PongGrid-v0", "--agent", "none", "--critical-states", str(objects / "table.json"),
        "--arm", "ra", "--total-timesteps", "32", *quick, "--no-save-model",
    )  # fmt: skip
    assert len(values_of(grid, "eval/episodic_return")) == 2


# ------------------------------------------------------------------------------------------------ bad input


def refusal(ppo_ultra, *arguments: str) -> str:
    with pytest.raises(ppo_ultra.UserError) as error:
        ppo_ultra.main([*QUICK, *arguments])
    return str(error.value)


def test_wrong_arguments_are_named(ppo_ultra, pretrained, tmp_path):
    def says(*arguments):
        return refusal(ppo_ultra, "--runs-dir", str(tmp_path / "runs"), *arguments)

    base = starts_from(pretrained)
    assert "--gamma must be in [0, 1], got 1.5" in says(*base, "--gamma", "1.5")
    assert "--alpha must be finite and at least 0, got -0.1" in says(*base, "--alpha", "-0.1")
    assert "--control-probability must be in [0, 1), got 1.0" in says(*base, "--control-probability", "1")
    assert "--num-minibatches 3 must divide num_envs * num_steps = 1 * 128" in says(*base, "--num-minibatches", "3")
    assert "--total-timesteps 100 must be at least one rollout" in says(*base, "--total-timesteps", "100")
    assert "no agent is shipped for --env-id Acrobot-v1" in says("--env-id", "Acrobot-v1")
    assert "no code is shipped for --env-id Acrobot-v1" in says("--env-id", "Acrobot-v1", "--agent", "none")
    acrobot = ("--env-id", "Acrobot-v1", "--agent", "none", "--guidance", "table")
    assert "no table is shipped for --env-id Acrobot-v1" in says(*acrobot)
    assert "--imitation-coef must be finite and at least 0, got -1.0" in says(*base, "--imitation-coef", "-1")
    assert "--imitation-fraction must be in (0, 1], got 0.0" in says(*base, "--imitation-fraction", "0")
    assert "everywhere is for --arm rnd, got --arm a" in says(*base, "--critical-states", "everywhere")
    assert "--env-id Nothing-v0" in says("--env-id", "Nothing-v0")
    assert "got --agent none" in says(*base, "--agent", "none", "--arm", "random")
    (tmp_path / "critical.py").write_text("def critical(obs):\n    return obs[0] > 0.0, [1.0], 0.5\n")
    code = ("--critical-states", str(tmp_path / "critical.py"))
    assert f"--critical-states {code[1]} is none: --guidance table" in says(*base, "--arm", "statemask", *code)
    assert "without --pretrain-timesteps" in says(*base, "--pretrain-timesteps", "256", "--fidelity-episodes", "2")
    assert "images must be uint8 of shape (channels, 80, 80)" in says(
        "--env-id", "llmwrappers-tests/Pictures-v0", "--agent", "none", "--arm", "none"
    )
    without_objects = says("--env-id", "llmwrappers-tests/Pictures80-v0", "--agent", "none", *code)
    assert "guidance reads info['objects'], a vector that the environment must give at reset and step; its" in without_objects
    grid = ("--env-id", "llmwrappers/PongGrid-v0", "--agent", "none", "--num-steps", "16", "--arm", "rnd")
    table = str(Path(llmwrappers.critical_states.guidance.SHIPPED) / "llmwrappers-PongObjects-v0" / "table.json")
    assert "--arm rnd needs observations that are vectors" in says(*grid, "--critical-states", table)
    CriticalStates([[1.0, 0.0, 0.0]], [2], [0.0], scale=[1.0] * 3, tolerance=0.1).save(tmp_path / "three.json")
    three = says(*grid[:-1], "a", "--critical-states", str(tmp_path / "three.json"))
    assert "its states have 3 entries, info['objects'] has 9" in three
    assert not (tmp_path / "runs").exists()


def test_an_agent_brings_its_widths_and_says_where_it_was_trained(train, capsys):
    new = "--arm", "none", "--total-timesteps", "128", "--env-kwargs", '{"g": 5}'
    run_dir = train(*PENDULUM, *new, "--agent", "none", "--network-hidden", "16", "8")
    assert torch.load(run_dir / "agent.pt")["agent"]["sizes"] == [3, 16, 8, 1]
    assert Trajectories.load(run_dir / "trajectories.npz").env_kwargs == '{"g": 5}'
    other = train(*PENDULUM, *new[:4], "--agent", str(run_dir / "agent.pt"))
    assert torch.load(other / "agent.pt")["agent"]["sizes"] == [3, 16, 8, 1]
    assert """agent.pt was trained with --env-kwargs '{"g": 5}', this run has '{}'""" in capsys.readouterr().out
    train(*PENDULUM, *new, "--agent", str(run_dir / "agent.pt"))
    assert "was trained with" not in capsys.readouterr().out


def test_wrong_files_are_named_with_the_field(ppo_ultra, pretrained, tmp_path):
    def says(*arguments):
        return refusal(ppo_ultra, "--runs-dir", str(tmp_path / "runs"), *arguments)

    agent, table = str(pretrained / "agent.pt"), str(pretrained / "table.json")
    broken = tmp_path / "broken.pt"
    broken.write_bytes(b"no agent")
    assert f"--agent {broken} is no agent.pt" in says(*PENDULUM, "--agent", str(broken), "--critical-states", table)
    other = says("--env-id", "MountainCarContinuous-v0", "--agent", agent, "--critical-states", table)
    assert "its env_id is Pendulum-v1, --env-id is MountainCarContinuous-v0" in other
    saved = torch.load(agent)
    architecture = says(*PENDULUM, "--agent", agent, "--critical-states", table, "--network-hidden", "32", "64")
    assert "sizes are [3, 64, 64, 1], those of this run are [3, 32, 64, 1]" in architecture
    saved["agent"] = {"network": {"sizes": [3, 64, 64, 1], "parameters": torch.zeros(9), "optimizer": None}}
    torch.save(saved, broken)
    assert "is of an older version" in says(*PENDULUM, "--agent", str(broken), "--critical-states", table)
    cut = tmp_path / "cut.json"
    cut.write_text(Path(table).read_text()[:200])
    assert str(cut) in says(*PENDULUM, "--agent", agent, "--critical-states", str(cut))
    states = CriticalStates.load(table)
    elsewhere = copy.copy(states)
    elsewhere.environment = "Hopper-v4"
    elsewhere.save(cut)
    assert "'Hopper-v4'" in says(*PENDULUM, "--agent", agent, "--critical-states", str(cut))
    lonely = tmp_path / "agent.pt"
    lonely.write_bytes(Path(agent).read_bytes())
    assert "trajectories.npz" in says(*PENDULUM, "--agent", str(lonely), "--critical-states", table, "--arm", "random")
    assert not (tmp_path / "runs").exists()


def test_a_run_does_not_go_on_with_another_table(ppo_ultra, train, pretrained, tmp_path):
    table = tmp_path / "table.json"
    table.write_bytes((pretrained / "table.json").read_bytes())
    base = [*PENDULUM, "--agent", str(pretrained / "agent.pt"), "--critical-states", str(table)]
    run_dir = train(*base, "--total-timesteps", "128")
    assert "--gamma 0.5: the run in" in refusal(ppo_ultra, "--resume", str(run_dir), "--gamma", "0.5")
    table.write_text(table.read_text().replace('"tolerance": 0.5', '"tolerance": 0.6'))
    assert "the file of --critical-states is not the one" in refusal(ppo_ultra, "--resume", str(run_dir))


# ------------------------------------------------------------------------------------------------ learning


def test_ppo_finds_the_optimum_of_one_step(train):
    run_dir = train(
        "--env-id", "llmwrappers-tests/OneStep-v0", "--agent", "none", "--arm", "none", "--total-timesteps", "4096",
        "--update-epochs", "10", "--learning-rate", "3e-3",
    )  # fmt: skip
    returns = values_of(run_dir, "eval/episodic_return")
    assert returns[0] < -0.3
    assert returns[-1] > -0.03
    assert math.isfinite(values_of(run_dir, "losses/explained_variance")[-1])


@pytest.mark.slow
@pytest.mark.parametrize("arm", ["none", "ra"])
def test_kills_at_random_moments_leave_no_trace(tmp_path, arm):
    arguments = [*QUICK, "--env-id", "Hopper-v4", "--arm", arm, "--total-timesteps", "5120", "--checkpoint-every", "512"]
    kill_and_resume(SCRIPT, arguments, tmp_path)
