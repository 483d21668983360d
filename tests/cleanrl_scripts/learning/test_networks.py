"""networks.py: how networks begin, that NumPy acts as torch does, and a change that a researcher makes."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from cleanrl_scripts.learning.networks import ConvNet, in_numpy, initialize_orthogonal, initialize_uniform, mlp


def test_a_network_begins_as_linear_layers_do():
    network, rng = mlp([400, 64, 2]), np.random.default_rng(0)
    initialize_uniform(network, rng)
    for layer in (network[0], network[2]):
        bound = layer.in_features**-0.5
        for parameter in layer.parameters():
            assert parameter.abs().max() <= bound
        assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)


@pytest.mark.parametrize("sizes", [[5, 64, 3], [64, 5, 1]])
def test_orthogonal_weights(sizes):
    network = mlp(sizes)
    initialize_orthogonal(network, np.random.default_rng(0), gain=0.01)
    for layer, gain in ((network[0], math.sqrt(2)), (network[2], 0.01)):
        weight = layer.weight.detach() if layer.out_features <= layer.in_features else layer.weight.detach().T
        torch.testing.assert_close(weight @ weight.T, gain**2 * torch.eye(len(weight)), atol=1e-5, rtol=1e-4)
        assert not layer.bias.any()


def test_a_network_of_images_begins_orthogonal():
    """Convolutions, too. The policy, all outputs but the last, begins near uniform."""
    body = ConvNet(4, 7, np.random.default_rng(0)).body
    gains = [
        torch.linalg.svdvals(layer.weight.detach().flatten(1)) for layer in body if isinstance(layer, nn.Conv2d | nn.Linear)
    ]
    for gain in gains[:-1]:
        torch.testing.assert_close(gain, torch.full_like(gain, math.sqrt(2)))
    torch.testing.assert_close(gains[-1], torch.tensor([1.0] + 6 * [0.01]))
    assert body[-1].weight[-1].norm().item() == pytest.approx(1.0)


NETWORKS = {
    "tanh": lambda: mlp([7, 16, 3]),
    "relu": lambda: mlp([7, 16, 12, 3], nn.ReLU),
    "layer norm": lambda: nn.Sequential(nn.Linear(7, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 3)),
    "a layer that NumPy does not know": lambda: nn.Sequential(nn.Linear(7, 16), nn.GELU(), nn.Linear(16, 3)),
    "elu, silu": lambda: nn.Sequential(nn.Linear(7, 16), nn.ELU(0.7), nn.Linear(16, 8), nn.SiLU(), nn.Linear(8, 3)),
    "no bias": lambda: nn.Sequential(nn.Linear(7, 16, bias=False), nn.Tanh(), nn.Linear(16, 3)),
    "a module of one's own": lambda: nn.Bilinear(7, 7, 3) and Twice(nn.Linear(7, 3)),
}


class Twice(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return 2 * self.layer(x)


@pytest.mark.parametrize("name", NETWORKS)
def test_acting_is_evaluating_on_the_same_memory(name):
    network = NETWORKS[name]()
    act, inputs = in_numpy(network), np.random.default_rng(0).standard_normal((9, 7)).astype(np.float32)
    for _ in range(2):
        expected = network(torch.from_numpy(inputs)).detach().numpy()
        np.testing.assert_allclose(act(inputs), expected, rtol=1e-4, atol=1e-6)
        with torch.no_grad():  # as learning does
            for parameter in network.parameters():
                parameter.add_(0.1)


def test_layers_without_bias_and_those_that_act_otherwise_in_training():
    network = nn.Sequential(nn.Linear(3, 8, bias=False), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    initialize_orthogonal(network, np.random.default_rng(0), gain=0.01)
    act, x = in_numpy(network), np.ones((1, 3), np.float32)
    np.testing.assert_array_equal(act(x), act(x))
    assert network.training
