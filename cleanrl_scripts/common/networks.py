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
        >>> critics = MLP([3 + 1, 64, 1], n=2)
        >>> critics(torch.zeros(5, 3), torch.zeros(5, 1)).shape  # of observations and actions
        torch.Size([2, 5, 1])
    """

    def __init__(self, sizes: Sequence[int], n: int = 1, activation: str = "relu"):
        super().__init__()
        if activation not in ("relu", "tanh"):
            raise ValueError(f"activation must be 'relu' or 'tanh', got {activation!r}")
        self.sizes, self.n, self.activation = list(sizes), n, activation
        self.shapes = [shape for i, o in itertools.pairwise(sizes) for shape in ((n, o, i), (n, o, 1))]
        self.flat = nn.Parameter(torch.zeros(sum(map(math.prod, self.shapes))))
        self._layers: dict[int, list[tuple[Tensor, Tensor]]] = {}
        # What backward computes with and nobody else sees, by layer and number of networks, in memory that stays warm.
        self._deltas: dict[tuple[int, int], Tensor] = {}

    def layers(self, flat: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Weights (n, out, in) and biases (n, out, 1) of each layer, as views of a flat vector."""
        parts = flat.split([math.prod(shape) for shape in self.shapes])
        views = [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return list(zip(views[::2], views[1::2], strict=True))

    def forward(self, *inputs: Tensor, frozen: bool = False, first: int | None = None) -> Tensor:
        """Evaluates the networks at a batch of inputs, which are put side by side.

        Args:
            inputs: one or several, (batch, width) each
            frozen: gradients pass to the inputs, and none are formed for the parameters
            first: evaluates only so many of the n networks
        """
        flat = self.flat.detach() if frozen else self.flat
        return _MLP.apply(flat, self, first or self.n, *inputs)  # pyright: ignore[reportReturnType]

    def numpy(self, inputs: np.ndarray) -> np.ndarray:
        """The same for a few inputs, without torch: for acting, where its overhead is most of the time."""
        self._views()
        *hidden, (weight, bias) = self._arrays or self._numpy_layers()
        for w, b in hidden:
            inputs = inputs @ w + b
            inputs = np.tanh(inputs) if self.activation == "tanh" else np.maximum(inputs, 0.0)
        return inputs @ weight + bias

    def _views(self) -> dict[int, list[tuple[Tensor, Tensor]]]:
        """The layers of the first k networks, kept while the parameters stay where they are."""
        if not self._layers or self._layers[self.n][0][0].data_ptr() != self.flat.data_ptr():
            layers = self.layers(self.flat.detach())
            self._layers = {k: [(w[:k], b[:k]) for w, b in layers] for k in range(1, self.n + 1)}
            self._arrays = self._numpy_layers() if self.flat.device.type == "cpu" else []
            self._deltas = {}
        return self._layers

    def _numpy_layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(w.mT.numpy(), b.mT.numpy()) for w, b in self.layers(self.flat.detach().cpu())]

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
    def forward(ctx, flat: Tensor, network: MLP, first: int, *inputs: Tensor) -> Tensor:
        columns = inputs[0].mT if len(inputs) == 1 else torch.cat([x.mT for x in inputs])
        (weight, bias), *layers = network._views()[first]
        hidden = torch.baddbmm(bias, weight, columns.expand(first, -1, -1))
        activations = [columns]
        for weight, bias in layers:
            activations.append(hidden.tanh_() if network.activation == "tanh" else hidden.relu_())
            hidden = torch.baddbmm(bias, weight, hidden)
        ctx.network, ctx.widths = network, [x.shape[1] for x in inputs]
        ctx.save_for_backward(flat, *activations)
        return hidden.mT

    @staticmethod
    def backward(ctx, output_gradient: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        if torch.is_grad_enabled():  # what follows is no part of a graph
            raise RuntimeError("MLP has first derivatives only: create_graph=True, as for a gradient penalty, needs torch.nn")
        flat, columns, *activations = ctx.saved_tensors
        network, delta, first = ctx.network, output_gradient.mT, len(output_gradient)
        (weight, _), *layers = network._views()[first]
        gradient, gradients = None, []
        if ctx.needs_input_grad[0]:
            gradient = torch.empty_like(flat) if first == network.n else torch.zeros_like(flat)
            gradients = network.layers(gradient)
            if first < network.n:
                gradients = [(w[:first], b[:first]) for w, b in gradients]
        for number, ((w, _), below) in enumerate(zip(reversed(layers), reversed(activations), strict=True)):
            if gradients:
                weight_gradient, bias_gradient = gradients.pop()
                torch.bmm(delta, below.mT, out=weight_gradient)
                torch.sum(delta, dim=2, keepdim=True, out=bias_gradient)
            scratch = network._deltas.get((number, first))
            if scratch is None or scratch.shape != below.shape:
                scratch = network._deltas[number, first] = torch.empty_like(below)
            delta = torch.bmm(w.mT, delta, out=scratch)
            if network.activation == "tanh":
                torch.ops.aten.tanh_backward.grad_input(delta, below, grad_input=delta)
            else:
                torch.ops.aten.threshold_backward.grad_input(delta, below, 0, grad_input=delta)
        # All networks have the same inputs, so their first layers are one product.
        delta, weight = delta.reshape(-1, delta.shape[2]), weight.view(-1, weight.shape[2])
        if gradients:
            weight_gradient, bias_gradient = gradients.pop()
            torch.mm(delta, columns.mT, out=weight_gradient.view(weight.shape))
            torch.sum(delta, dim=1, keepdim=True, out=bias_gradient.view(-1, 1))
        # Of each input by itself, and so of actions without the observations beside them.
        parts = zip(weight.split(ctx.widths, dim=1), ctx.needs_input_grad[3:], strict=True)
        return gradient, None, None, *[torch.mm(part.mT, delta).mT if needed else None for part, needed in parts]


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
        # The kernel takes memory as it lies, and the gradient of a plain sum is one number that stands for all.
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


def choose_matmul(precision: str = "float32") -> str:
    """Picks the fastest products of the wanted precision on this CPU and says which.

    torch's bf16 switch sends float32 products to oneDNN, twice as fast as MKL on some processors. Without bf16 matrix units
    they stay in float32 there; with them they do not. Which it is here is measured.
    """
    if not hasattr(torch.backends.mkldnn, "matmul"):  # before torch 2.9
        return "float32 products"
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"  # pyright: ignore[reportAttributeAccessIssue]
    a, b = torch.randn(2, 256, 256, generator=torch.Generator().manual_seed(0))
    error = ((a @ b).double() - a.double() @ b.double()).abs().max().item()
    rounded = error > 1e-3  # float32 is off by 5e-5 at most here, bfloat16 by 0.3
    if rounded and precision == "float32":
        torch.backends.mkldnn.matmul.fp32_precision = "none"  # pyright: ignore[reportAttributeAccessIssue]
        return "float32 products"
    return "products rounded to bfloat16" if rounded else "float32 products in oneDNN"
