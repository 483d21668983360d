"""PolicyWriting: the task of writing policies as an environment."""

import itertools
import json
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from conftest import ROOT
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

import llmwrappers
from llmwrappers.priors.measurement import measure
from local_llm.selection.episode_pools import (
    CHOOSING_EPISODES,
    CHOOSING_SEED,
    HELD_OUT_EPISODES,
    HELD_OUT_SEED,
    WRITING_EPISODES,
)

STILL = "```python\ndef policy(obs):\n    return [0.0]\n```"
FEW = {"attempts": 3, "episodes": 3, "hidden_episodes": 2, "held_out_episodes": 4}
SWING = "def policy(obs):\n    return [2.0 * (obs[2] > 0) - 1.0]\n"


@pytest.fixture
def env():
    env = gym.make("llmwrappers/PolicyWriting-v0", env_id="Pendulum-v1", **FEW)
    yield env
    env.close()


def test_gymnasiums_check_env_passes(env):
    check_env(env.unwrapped, skip_render_check=True)
    assert env.spec.id.startswith(f"{llmwrappers.__name__}/")  # which registers it


def test_rewards_add_up_to_the_normalized_gain_over_random_actions(env):
    prompt, info = env.reset(seed=0)
    assert prompt in env.observation_space
    assert info["best_return"] == info["random_return"] < 0
    rewards, means = [], []
    for action in (SWING, STILL, STILL):
        report, reward, terminated, truncated, info = env.step(action)
        assert report in env.observation_space
        rewards.append(reward)
        means.append(info["mean_return"])
    assert (terminated, truncated) == (True, False)
    assert info["best_return"] == max(info["random_return"], *means)
    assert sum(rewards) == pytest.approx((info["best_return"] - info["random_return"]) / abs(info["random_return"]))
    pendulum = gym.make("Pendulum-v1")
    assert means[1:] == [np.mean(measure(pendulum, lambda obs: [0.0], 3, seed).returns) for seed in (3, 6)]


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("", "no python code"),
        ("I would rather not.", "code"),
        ("import os\ndef policy(obs):\n    return [os.getpid()]", "import of os, which a policy cannot use"),
        ("def policy(obs):\n    return obs", "returned shape (3,), the action space has (1,)"),
        ("def policy(obs):\n    return [len(open('/etc/passwd').read())]", "it fails in the probe: line 2: PermissionError"),
        ("```python\ndef policy(obs):\n    while True:\n        pass\n```", "no answer from the policy's process in time"),
        ("\U0001f600" * 10, "code"),
    ],
)
def test_a_refusal_is_the_observation_and_earns_nothing(env, monkeypatch, action, reason):
    monkeypatch.setattr("llmwrappers.containment.policy.SECONDS_TO_BEGIN", 0.5)
    env.reset(seed=0)
    report, reward, terminated, _, info = env.step(action)
    assert reason.lower() in report.lower()
    assert report in env.observation_space
    assert (reward, terminated) == (0.0, False)
    assert "mean_return" not in info


def test_reset_forgets_the_best(env):
    env.reset(seed=0)
    _, first, *_ = env.step(STILL)
    env.reset(seed=0)
    _, again, *_ = env.step(STILL)
    assert first == again > 0


def test_it_is_made_from_its_spec_and_by_other_names(env):
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.unwrapped.attempts == 3
    assert again.reset(seed=0)[0] == env.reset(seed=0)[0]
    assert np.isfinite(again.unwrapped.random_return)


def test_the_last_step_chooses_by_hidden_episodes_and_measures_in_held_out_ones(env):
    env.reset(seed=0)
    infos = [env.step(action)[-1] for action in (SWING, "nothing", STILL)]
    assert "held_out_return" not in infos[0]
    assert [info["refused"] for info in infos] == [0, 1, 1]
    pendulum, policies = gym.make("Pendulum-v1"), {1: lambda obs: [2.0 * (obs[2] > 0) - 1.0], 3: lambda obs: [0.0]}
    hidden = {n: np.mean(measure(pendulum, policy, 2, CHOOSING_SEED).returns) for n, policy in policies.items()}
    best = max(hidden, key=hidden.get)
    held_out = measure(pendulum, policies[best], 4, HELD_OUT_SEED).returns
    assert (infos[-1]["chosen"], infos[-1]["held_out_faults"]) == (best, 0)
    assert infos[-1]["held_out_return"] == pytest.approx(np.mean(held_out))


def test_of_equal_policies_the_latest_is_chosen(env):
    env.reset(seed=0)
    infos = [env.step(action)[-1] for action in (STILL, STILL, "nothing")]
    assert infos[-1]["chosen"] == 2


def test_nothing_is_chosen_if_all_were_refused(env):
    env.reset(seed=0)
    info = [env.step("nothing")[-1] for _ in range(3)][-1]
    assert (info["chosen"], info["refused"]) == (None, 3)
    assert "held_out_return" not in info


def test_no_episode_is_in_two_sets():
    starts = sorted((0, CHOOSING_SEED, HELD_OUT_SEED))
    assert all(b - a >= max(WRITING_EPISODES, CHOOSING_EPISODES, HELD_OUT_EPISODES) for a, b in itertools.pairwise(starts))
    protocol = gym.make("llmwrappers/PolicyWriting-v0", env_id="Pendulum-v1").unwrapped
    numbers = protocol.attempts * protocol.episodes, protocol.hidden_episodes, protocol.held_out_episodes
    assert numbers == (128, 64, 256)


@pytest.mark.parametrize("arguments", [{name: 0} for name in FEW])
def test_wrong_arguments(arguments):
    with pytest.raises(ValueError, match="must be at least 1, got 0"):
        gym.make("llmwrappers/PolicyWriting-v0", env_id="Pendulum-v1", **arguments)


def test_policies_are_written_for_what_the_arguments_make():
    env = gym.make("llmwrappers/PolicyWriting-v0", env_id="llmwrappers-tests/OneStep-v0", env_kwargs={"optimum": -0.5})
    prompt, _ = env.reset(seed=0)
    assert "This environment was made with optimum=-0.5" in prompt
    report, _, _, _, info = env.step("def policy(obs):\n    return [-0.5]\n")
    assert info["mean_return"] == 0.0
    assert "return: 0 +- 0 " in report
    env.close()


def test_an_agent_plays_by_writing_files(tmp_path):
    """All replies are there already, as when a folder is played again."""
    for number, reply in enumerate((SWING, "nothing", STILL), 1):
        (tmp_path / f"reply-{number}.md").write_text(reply)
    command = [sys.executable, "benchmarks/policy_writing_by_files.py", "--env-id", "Pendulum-v1", "--attempts", "3"]
    subprocess.run([*command, "--folder", str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    result = json.loads((tmp_path / "result.json").read_text())
    assert (len(result["returns"]), result["returns"][1], result["refused"]) == (3, None, 1)
    assert result["chosen"] in (1, 3)
    assert result["held_out_return"] < 0
    assert "refused" in (tmp_path / "report-2.txt").read_text()
    assert "Write one Python function" in (tmp_path / "prompt.txt").read_text()
