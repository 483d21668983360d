"""The scripts' networks in plain torch.nn, their initialisation, and the same networks in NumPy for acting.

To add layer norm, write ``layers += [nn.Linear(i, o), nn.LayerNorm(o), activation()]`` in ``mlp``. Other layers work, too; with
those that draw no random numbers a run resumes exactly.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from llmwrappers.agent import OPTIONS, Layer, numpy_layer


def mlp(sizes: Sequence[int], activation: Callable[[], nn.Module] = nn.Tanh) -> nn.Sequential:
    """Returns a network of linear layers of these widths, inputs and outputs included, with an activation between them.

    Example:
        >>> mlp([3, 64, 1])(torch.zeros(5, 3)).shape
        torch.Size([5, 1])
    """
    *hidden, last = itertools.pairwise(sizes)
    layers: list[nn.Module] = []
    for i, o in hidden:
        layers += [nn.Linear(i, o), activation()]
    return nn.Sequential(*layers, nn.Linear(*last))


@torch.no_grad()
def initialize_uniform(network: nn.Module, rng: np.random.Generator) -> None:
    """Draws weights and biases from U(-k, k), k = fan_in ** -0.5, as torch.nn.Linear does."""
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            bound = layer.in_features**-0.5
            for parameter in layer.parameters():
                parameter.copy_(torch.from_numpy(rng.uniform(-bound, bound, tuple(parameter.shape))))


@torch.no_grad()
def initialize_orthogonal(network: nn.Module, rng: np.random.Generator, gain: float) -> None:
    """Draws orthogonal weights, of gain sqrt(2) in hidden layers and of its own in the last; zero biases."""
    *hidden, last = [layer for layer in network.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    for layer in (*hidden, last):
        weight = orthogonal(rng, layer.weight[0].numel(), len(layer.weight)).T
        weight = torch.from_numpy((gain if layer is last else math.sqrt(2)) * weight)
        layer.weight.copy_(weight.view_as(layer.weight))
        if layer.bias is not None:
            layer.bias.zero_()


def orthogonal(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """A random matrix with orthogonal rows or columns, as torch.nn.init.orthogonal_ draws it."""
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))
    return q if rows >= columns else q.T


def layers_of(network: nn.Module) -> list[Layer] | None:
    """The layers of a network on a CPU, on the same memory; None if one is not among those of ``numpy_layer``."""
    layers: list[Layer] = []
    for layer in network if type(network) is nn.Sequential else [network]:  # a subclass may do more than its layers
        parameters = dict(layer.named_parameters())
        if not type(layer).__module__.startswith("torch.nn.") or [*parameters] not in ([], ["weight", "bias"]):
            return None  # one of the user's own, without bias, or with a weight that is computed
        options = {name: getattr(layer, name) for name in OPTIONS.get(type(layer).__name__, ())}
        try:
            layers.append((type(layer).__name__, [parameter.detach().numpy() for parameter in parameters.values()], options))
            numpy_layer(*layers[-1])
        except (KeyError, ValueError, TypeError):  # an unknown layer, unknown options, one on a GPU
            return None
    return layers


def in_numpy(network: nn.Module) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the same network in NumPy, on the same memory: for a few inputs most of the time is torch's overhead.

    Example:
        >>> network = mlp([3, 4, 2])
        >>> act = in_numpy(network)
        >>> np.allclose(act(np.ones((1, 3), np.float32)), network(torch.ones(1, 3)).detach().numpy(), atol=1e-6)
        True
    """
    layers = layers_of(network)
    if layers is None:
        return lambda x: _in_torch(network, x)
    steps = [numpy_layer(*layer) for layer in layers]
    return lambda x: functools.reduce(lambda y, step: step(y), steps, x)


def _in_torch(network: nn.Module, x: np.ndarray) -> np.ndarray:
    was_training = network.training
    network.eval()  # dropout and batch norm act otherwise in training
    with torch.no_grad():
        device = next((p.device for p in network.parameters()), None)
        y = network(torch.from_numpy(x).to(device)).cpu().numpy()
    network.train(was_training)
    return y


class ConvNet(nn.Module):
    """DQN's first convolutional network: uint8 images (batch, channels, 80, 80) -> (batch, out)."""

    def __init__(self, channels: int, outputs: int, rng: np.random.Generator):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, 16, 8, stride=4), nn.ReLU(), nn.Conv2d(16, 32, 4, stride=2), nn.ReLU(), nn.Flatten(),
            nn.Linear(32 * 8 * 8, 256), nn.ReLU(), nn.Linear(256, outputs),
        )  # fmt: skip
        initialize_orthogonal(self.body, rng, gain=1.0)
        with torch.no_grad():  # the first policy is near uniform, and values have the usual size
            self.body[-1].weight[:-1] *= 0.01  # pyright: ignore[reportIndexIssue]

    def forward(self, images: Tensor) -> Tensor:
        return self.body(images.float().div_(255.0))
