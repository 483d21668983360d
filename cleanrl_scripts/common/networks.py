"""MLP: several small networks of one shape, as fast as a CPU allows, under losses that are plain autograd expressions."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn


class MLP(nn.Module):
    """n networks of one shape, evaluated side by side: (batch, in) -> (n, batch, out).

    All parameters lie in one flat vector, so that one Adam step and one ``lerp_`` serve them all, and each layer is one batched
    product. It computes what n stacks of ``torch.nn.Linear`` with ReLU or tanh between them do, and so do its gradients.

    Args:
        sizes: widths of inputs, hidden layers and outputs
        n: how many networks
        activation: "relu" or "tanh"

    Example:
        >>> network = MLP([3, 64, 2], n=2)
        >>> network(torch.zeros(5, 3)).shape
        torch.Size([2, 5, 2])
    """

    def __init__(self, sizes: Sequence[int], n: int = 1, activation: str = "relu"):
        super().__init__()
        if activation not in ("relu", "tanh"):
            raise ValueError(f"activation must be 'relu' or 'tanh', got {activation!r}")
        self.sizes, self.n, self.activation = list(sizes), n, activation
        self.shapes = [shape for i, o in itertools.pairwise(sizes) for shape in ((n, o, i), (n, o, 1))]
        self.flat = nn.Parameter(torch.zeros(sum(map(math.prod, self.shapes))))

    def layers(self, flat: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Weights (n, out, in) and biases (n, out, 1) of each layer, as views of a flat vector."""
        parts = flat.split([math.prod(shape) for shape in self.shapes])
        views = [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return list(zip(views[::2], views[1::2], strict=True))

    def forward(self, inputs: Tensor, frozen: bool = False) -> Tensor:
        """Evaluates all networks at a batch; ``frozen`` ones pass gradients to their inputs but form none of their own."""
        return _MLP.apply(inputs, self.flat.detach() if frozen else self.flat, self)  # pyright: ignore[reportReturnType]

    def numpy(self, inputs: np.ndarray) -> np.ndarray:
        """The same for a few inputs, without torch: for acting, where its overhead is most of the time."""
        activate = np.tanh if self.activation == "tanh" else _relu
        *hidden, (weight, bias) = self._numpy_views()
        for w, b in hidden:
            inputs = activate(inputs @ w + b)
        return inputs @ weight + bias

    def views(self) -> list[tuple[Tensor, Tensor]]:
        """The layers of ``flat``, without gradients; kept, for making them takes longer than a small product."""
        if getattr(self, "_pointer", None) != self.flat.data_ptr():
            self._pointer, self._views = self.flat.data_ptr(), self.layers(self.flat.detach())
            self._arrays = [(w.mT.numpy(), b.mT.numpy()) for w, b in self._views] if self.flat.device.type == "cpu" else None
        return self._views

    def _numpy_views(self) -> list[tuple[np.ndarray, np.ndarray]]:
        views = self.views()
        return self._arrays or [(w.mT.cpu().numpy(), b.mT.cpu().numpy()) for w, b in views]

    @torch.no_grad()
    def initialize_uniform(self, rng: np.random.Generator) -> None:
        """Draws weights and biases from U(-k, k), k = fan_in ** -0.5, as torch.nn.Linear does."""
        for layer in self.layers(self.flat):
            bound = layer[0].shape[2] ** -0.5
            for parameter in layer:
                parameter.copy_(torch.from_numpy(rng.uniform(-bound, bound, tuple(parameter.shape))))

    @torch.no_grad()
    def initialize_orthogonal(self, rng: np.random.Generator, gains: Sequence[float]) -> None:
        """Draws orthogonal weights, of gain sqrt(2) in hidden layers and of its own in each network's last; zero biases."""
        self.flat.zero_()
        layers = self.layers(self.flat)
        for number, (weight, _) in enumerate(layers):
            for k, gain in enumerate(gains):
                gain = gain if number == len(layers) - 1 else math.sqrt(2)
                weight[k].copy_(torch.from_numpy(gain * orthogonal(rng, weight.shape[2], weight.shape[1]).T))


class _MLP(torch.autograd.Function):
    """MLP's forward and backward; inside, a batch has one column a sample, which makes narrow last layers five times faster."""

    @staticmethod
    def forward(ctx, inputs: Tensor, flat: Tensor, network: MLP) -> Tensor:
        hidden = inputs.mT.expand(network.n, -1, -1)
        activations, layers = [hidden], network.views()
        for weight, bias in layers[:-1]:
            hidden = torch.baddbmm(bias, weight, hidden)
            hidden = hidden.tanh_() if network.activation == "tanh" else hidden.relu_()
            activations.append(hidden)
        ctx.network = network
        ctx.save_for_backward(flat, *activations)
        weight, bias = layers[-1]
        return torch.baddbmm(bias, weight, hidden).mT

    @staticmethod
    def backward(ctx, output_gradient: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        flat, *activations = ctx.saved_tensors
        network, delta, gradient = ctx.network, output_gradient.mT, None
        layers = network.views()
        if ctx.needs_input_grad[1]:
            gradient = torch.empty_like(flat)
            gradients = network.layers(gradient)
        for number in reversed(range(len(layers))):
            below = activations[number]
            if gradient is not None:
                torch.bmm(delta, below.mT, out=gradients[number][0])  # pyright: ignore[reportPossiblyUnboundVariable]
                torch.sum(delta, dim=2, keepdim=True, out=gradients[number][1])  # pyright: ignore[reportPossiblyUnboundVariable]
            if number > 0:
                delta = torch.bmm(layers[number][0].mT, delta)
                if network.activation == "tanh":
                    torch.ops.aten.tanh_backward.grad_input(delta, below, grad_input=delta)
                else:
                    torch.ops.aten.threshold_backward.grad_input(delta, below, 0, grad_input=delta)
        input_gradient = torch.bmm(layers[0][0].mT, delta).sum(dim=0).mT if ctx.needs_input_grad[0] else None
        return input_gradient, gradient, None


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


def orthogonal(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """A random matrix with orthogonal rows or columns, as torch.nn.init.orthogonal_ draws it."""
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))
    return q if rows >= columns else q.T


class ConvNet(nn.Module):
    """DQN's first convolutional network: uint8 images (batch, channels, 80, 80) -> (batch, out)."""

    def __init__(self, channels: int, outputs: int, rng: np.random.Generator):
        super().__init__()
        self.sizes = [channels, 80, 80, outputs]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**31)))
            self.body = nn.Sequential(
                nn.Conv2d(channels, 16, 8, stride=4), nn.ReLU(), nn.Conv2d(16, 32, 4, stride=2), nn.ReLU(), nn.Flatten(),
                nn.Linear(32 * 8 * 8, 256), nn.ReLU(), nn.Linear(256, outputs),
            )  # fmt: skip
            for layer in self.body:
                if isinstance(layer, nn.Conv2d | nn.Linear):
                    nn.init.orthogonal_(layer.weight, math.sqrt(2))
                    nn.init.zeros_(layer.bias)  # pyright: ignore[reportArgumentType]
            # A policy that begins near uniform, and values of the usual size.
            last: nn.Linear = self.body[-1]  # pyright: ignore[reportAssignmentType]
            nn.init.orthogonal_(last.weight[:-1], 0.01)  # pyright: ignore[reportArgumentType]
            nn.init.orthogonal_(last.weight[-1:], 1.0)  # pyright: ignore[reportArgumentType]

    def forward(self, images: Tensor) -> Tensor:
        return self.body(images.float().div_(255.0))


class Adam:
    """Adam in torch's fused kernel; torch.optim.Adam takes longer to get to it than the kernel takes on small networks."""

    def __init__(self, parameters: Sequence[nn.Parameter], eps: float = 1e-8):
        self.parameters, self.eps = list(parameters), eps
        self.means, self.squares = ([torch.zeros_like(p) for p in self.parameters] for _ in range(2))
        self.steps = [torch.zeros((), device=p.device) for p in self.parameters]

    def step(self, loss: Tensor, learning_rate: float, max_grad_norm: float = math.inf) -> None:
        """Descends the loss, its gradient clipped to a norm."""
        # The kernel reads a gradient as it lies in memory, where that of a sum is a single number.
        gradients = [gradient.contiguous() for gradient in torch.autograd.grad(loss, self.parameters)]
        with torch.no_grad():
            if max_grad_norm < math.inf:
                norm = math.sqrt(sum(float(torch.dot(g.view(-1), g.view(-1))) for g in gradients))
                if norm > max_grad_norm:
                    for gradient in gradients:
                        gradient.mul_(max_grad_norm / (norm + 1e-6))
            for steps in self.steps:
                steps += 1  # the kernel reads it, and would divide by 0
            torch._fused_adam_(  # pyright: ignore[reportPrivateImportUsage, reportCallIssue]
                self.parameters, gradients,  # pyright: ignore[reportArgumentType]
                self.means, self.squares, [], self.steps, lr=learning_rate, beta1=0.9,
                beta2=0.999, weight_decay=0.0, eps=self.eps, amsgrad=False, maximize=False,
            )  # fmt: skip

    def state_dict(self) -> dict:
        return {"means": self.means, "squares": self.squares, "steps": self.steps}

    @torch.no_grad()
    def load_state_dict(self, state: dict) -> None:
        for name, tensors in self.state_dict().items():
            for tensor, value in zip(tensors, state[name], strict=True):
                tensor.copy_(value)
