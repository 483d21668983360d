"""ActorCritic: what its networks see, that NumPy acts as torch learns, what is saved, and that images are learned from."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from cleanrl_scripts.learning.actor_critic import ActorCritic
from cleanrl_scripts.learning.adam import Adam

IMAGES = Box(0, 255, (2, 80, 80), np.uint8)


def new_agent(observations, actions, seed=0) -> ActorCritic:
    return ActorCritic(observations, actions, np.random.default_rng(seed), torch.device("cpu"))


def test_observations_are_normalised_as_gymnasium_does():
    rng = np.random.default_rng(0)
    agent = new_agent(Box(-9, 9, (3,)), Discrete(2))
    reference = gym.wrappers.utils.RunningMeanStd(shape=(3,))
    for observation in rng.normal(size=(50, 3)) * [1, 5, 0.1] + [0, 2, -3]:
        reference.update(observation[None])
        expected = np.clip((observation - reference.mean) / np.sqrt(reference.var + 1e-8), -10, 10)
        np.testing.assert_allclose(agent.normalized(observation, update=True), expected, rtol=1e-4, atol=1e-5)


def test_the_same_sizes_with_another_activation_are_another_network():
    agent, other = (new_agent(Box(-9, 9, (3,)), Discrete(2), seed) for seed in range(2))
    other.load_state_dict(agent.state_dict())
    other.actor[1] = torch.nn.ReLU()
    older = {name: value for name, value in agent.state_dict().items() if name != "layers"}  # as the shipped agents
    for state in (agent.state_dict(), older):
        with pytest.raises(ValueError, match=r"^its network is .*Tanh.*; here it is .*ReLU"):
            other.load_state_dict(state)
    agent.load_state_dict(older)


def test_a_frozen_normaliser_learns_nothing_more():
    agent = new_agent(Box(-9, 9, (3,)), Discrete(2))
    agent.is_frozen = True
    agent.normalized(np.ones(3), update=True)
    assert not agent.observations.mean.any()


@pytest.mark.parametrize("is_copy", [True, False])
def test_a_copy_is_told_from_an_agent_whose_normaliser_is_frozen(is_copy):
    agent, other = (new_agent(Box(-9, 9, (3,)), Discrete(2)) for _ in range(2))
    agent.is_copy, agent.is_frozen = is_copy, not is_copy
    state = agent.state_dict()
    other.load_state_dict(state)
    assert (other.is_copy, other.is_frozen) == (is_copy, not is_copy)
    del state["is_copy"]  # as in files of before, when one flag meant both
    other.load_state_dict(state)
    assert other.is_copy == other.is_frozen == (not is_copy)


@pytest.mark.parametrize("actions", [Box(-1, 1, (2, 2)), Discrete(3, start=1)], ids=["box", "discrete"])
@pytest.mark.parametrize("observations", [Box(-1, 1, (5,)), IMAGES], ids=["vectors", "images"])
def test_what_is_saved_acts_as_before(observations, actions):
    agent, other = new_agent(observations, actions), new_agent(observations, actions, seed=1)
    observations.seed(0)
    seen = [observations.sample() for _ in range(4)]
    for observation in seen:
        agent.normalized(observation, update=True)
    other.load_state_dict(agent.state_dict())
    assert other.sizes == agent.sizes == other.state_dict()["sizes"]
    for observation in seen:
        action = agent.act(observation, np.random.default_rng(0))
        assert np.array_equal(other.act(observation, np.random.default_rng(0)), action)
        assert np.array_equal(other.act(observation), agent.act(observation))
        assert actions.contains(action)
        assert other.value(observation) == agent.value(observation)


@pytest.mark.parametrize("observations", [Box(-1, 1, (5,)), IMAGES], ids=["vectors", "images"])
def test_acting_and_learning_go_through_the_same_networks(observations):
    agent = new_agent(observations, Discrete(3))
    observations.seed(0)
    batch = np.array([agent.normalized(observations.sample()) for _ in range(4)])
    for in_torch, in_numpy in zip(agent(torch.from_numpy(batch)), agent.numpy(batch), strict=True):
        np.testing.assert_allclose(in_torch.detach().numpy(), in_numpy, rtol=1e-4, atol=1e-6)
    assert agent(torch.from_numpy(batch))[0].shape == (4, 3)
    assert agent(torch.from_numpy(batch))[1].shape == (4,)


def test_an_image_may_be_a_flipped_view():
    agent, image = new_agent(IMAGES, Discrete(3)), IMAGES.sample()[:, ::-1]
    assert agent.act(image) == agent.act(image.copy())
    assert agent.value(image) == agent.value(image.copy())


def test_a_convolutional_agent_learns():
    """The probability of good actions rises, and values follow their targets."""
    agent = new_agent(IMAGES, Discrete(6))
    optimizer = Adam(agent.parameters, 1e-3)
    observations = torch.from_numpy(np.random.default_rng(0).integers(0, 255, (8, 2, 80, 80), dtype=np.uint8))
    log_probs, values = [], []
    for _ in range(5):
        outputs, value = agent(observations)
        log_probs.append(agent.policy.log_prob(outputs, agent.log_std, torch.full((8,), 4)))
        values.append(value)
        optimizer.step(-log_probs[-1].mean() + 0.5 * (value - value.detach() - 1).square().mean(), 0.5)
    assert (log_probs[-1] > log_probs[0] + 0.05).all()
    assert values[-1].mean() > values[0].mean()
