"""ActorCritic: what its networks see, that NumPy acts as torch learns, what is saved, and that images are learned from."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from cleanrl_scripts.common.arguments import RunArgs
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
    agent.freeze(np.zeros(3, bool))
    agent.normalized(np.ones(3), update=True)
    assert not agent.observations.mean.any()


def test_an_entry_that_never_changed_keeps_its_units_when_the_normaliser_freezes():
    """Its variance is near 0: any change of it would be cut at 10."""
    agent = new_agent(Box(-9, 9, (2,)), Discrete(2))
    for x in np.linspace(-1, 1, 100):
        agent.normalized(np.array([x, 5.0]), update=True)
    agent.freeze(np.array([False, True]))
    np.testing.assert_allclose(agent.normalized(np.array([0.0, 5.5])), [0.0, 0.5], atol=0.01)
    np.testing.assert_allclose(agent.normalized(np.array([1.0, 4.0])), [3**0.5, -1.0], atol=0.05)


@pytest.mark.parametrize("layer", [torch.nn.Dropout(0.5), torch.nn.BatchNorm2d(2)], ids=["dropout", "batch norm"])
def test_acting_on_images_is_no_training(layer):
    agent, rng = new_agent(IMAGES, Discrete(2)), np.random.default_rng(0)
    forward = agent.network.forward
    agent.network.layer = layer
    agent.network.forward = lambda images: forward(layer(images.float()))
    images = rng.integers(256, size=(3, 2, 80, 80), dtype=np.uint8)
    before = {name: value.clone() for name, value in agent.network.state_dict().items()}
    assert np.array_equal(agent.outputs(images), agent.outputs(images))
    assert np.array_equal(agent.values(images), agent.values(images))
    assert all(torch.equal(value, before[name]) for name, value in agent.network.state_dict().items())
    assert agent.network.training


class TwoHeads(torch.nn.Module):
    """As in CleanRL's Atari scripts: a body, an actor and a critic."""

    def __init__(self, outputs):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2 * 80 * 80, 8), torch.nn.ReLU())
        self.actor, self.critic = torch.nn.Linear(8, outputs), torch.nn.Linear(8, 1)

    def forward(self, images):
        hidden = self.body(images.float() / 255.0)
        return torch.cat([self.actor(hidden), self.critic(hidden)], dim=1)


@pytest.mark.parametrize("network", [TwoHeads(2), torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12_800, 3))])
def test_a_network_for_images_of_another_form_is_saved_without_the_file_for_numpy(network, tmp_path, capsys):
    agent = new_agent(IMAGES, Discrete(2))
    agent.network = network
    agent.save(tmp_path, RunArgs(), 0)
    assert [path.name for path in tmp_path.iterdir()] == ["agent.pt"]
    assert "note: no agent.npz, because load_agent does not support one of your layers" in capsys.readouterr().out


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
