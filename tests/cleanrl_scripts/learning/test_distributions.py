"""Gaussian and Categorical: against torch.distributions, and what is drawn from them."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from cleanrl_scripts.learning.distributions import approx_kl, distribution


def test_a_gaussian_is_torchs():
    policy = distribution(Box(-0.1, 0.1, (3,)))
    means, actions, log_std = torch.randn(8, 3), torch.randn(8, 3), torch.tensor([-0.3, 0.1, 0.2])
    reference = torch.distributions.Normal(means, log_std.exp())
    torch.testing.assert_close(policy.log_prob(means, log_std, actions), reference.log_prob(actions).sum(1))
    torch.testing.assert_close(policy.entropy(means, log_std), reference.entropy().sum(1).mean())


def test_a_categorical_is_torchs():
    policy = distribution(Discrete(4, start=2))
    logits, actions, nothing = torch.randn(8, 4), torch.randint(2, 6, (8,)), torch.zeros(0)
    reference = torch.distributions.Categorical(logits=logits)
    torch.testing.assert_close(policy.log_prob(logits, nothing, actions), reference.log_prob(actions - 2))
    torch.testing.assert_close(policy.entropy(logits, nothing), reference.entropy().mean())


def test_actions_are_drawn_as_the_distribution_says_and_clipped_for_the_environment_alone():
    policy, rng = distribution(Box(-0.1, 0.1, (2,))), np.random.default_rng(0)
    means, log_std = np.tile(np.array([1.0, -1.0], np.float32), (10_000, 1)), np.log(np.array([0.5, 2.0], np.float32))
    actions = policy.sample(means, log_std, rng)
    np.testing.assert_allclose(actions.mean(axis=0), [1.0, -1.0], atol=0.1)
    np.testing.assert_allclose(actions.std(axis=0), [0.5, 2.0], rtol=0.05)
    np.testing.assert_allclose(policy.native(np.array([1.0, -1.0])), [0.1, -0.1])
    assert np.array_equal(policy.mode(means), means)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_environment_receives_an_action_of_its_space(dtype):
    space = Box(-2, 1, (2, 1), dtype)
    action = distribution(space).native(np.array([0.1, 7.0], np.float32))
    assert space.contains(action)
    np.testing.assert_allclose(action.ravel(), [0.1, 1.0], rtol=1e-3)


def test_discrete_actions_are_drawn_with_their_probabilities():
    policy, rng = distribution(Discrete(3, start=5)), np.random.default_rng(0)
    probabilities = np.array([0.2, 0.5, 0.3])
    logits = np.tile(np.log(probabilities), (10_000, 1))
    shares = np.bincount(policy.sample(logits, np.zeros(0), rng) - 5) / 10_000
    np.testing.assert_allclose(shares, probabilities, atol=0.02)
    assert policy.mode(logits[:1]).tolist() == [6]
    assert type(policy.native(np.int64(6))) is int


def test_the_divergence_is_estimated_without_bias():
    old, new = torch.distributions.Normal(0.0, 1.0), torch.distributions.Normal(0.2, 1.0)
    torch.manual_seed(0)
    actions = old.sample((100_000,))
    estimate = approx_kl(new.log_prob(actions) - old.log_prob(actions))
    torch.testing.assert_close(estimate, torch.distributions.kl_divergence(old, new), rtol=0.05, atol=0.0)
