"""PolicyWriting: the task of writing policies as an environment."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

import llmwrappers

STILL = "```python\ndef policy(obs):\n    return [0.0]\n```"
SWING = "def policy(obs):\n    return [2.0 * (obs[2] > 0) - 1.0]\n"


@pytest.fixture
def env():
    env = gym.make("llmwrappers/PolicyWriting-v0", env_id="Pendulum-v1", attempts=3)
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
    assert means[1] == means[2]
    assert rewards[2] == 0


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


@pytest.mark.parametrize("arguments", [{"attempts": 0}, {"episodes": 0}])
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
