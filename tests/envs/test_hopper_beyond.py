"""HopperBeyond: what it pays, and that its facts are of its observation."""

import gymnasium as gym
import numpy as np

from llmwrappers import load_prior
from local_llm.prompting.facts import load_facts


def test_it_pays_beyond_the_line_and_nowhere_else():
    env, prior = gym.make("llmwrappers/HopperBeyond-v0"), load_prior("Hopper-v5")
    observation, _ = env.reset(seed=0)
    positions, rewards, done = [], [], False
    while not done:
        observation, reward, terminated, truncated, _ = env.step(prior(observation[1:]).astype(np.float32))
        positions.append(observation[0])
        rewards.append(reward)
        done = terminated or truncated
    assert rewards == [float(x > 1) for x in positions]
    assert len(rewards) == 1000
    assert 500 < sum(rewards) < 950


def test_it_is_rebuilt_from_its_spec_and_has_facts():
    env = gym.make("llmwrappers/HopperBeyond-v0")
    rebuilt = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    np.testing.assert_array_equal(env.reset(seed=3)[0], rebuilt.reset(seed=3)[0])
    facts = load_facts(env)
    assert facts is not None
    assert [entry.name for entry in facts.observation][:2] == ["torso x", "torso height"]
