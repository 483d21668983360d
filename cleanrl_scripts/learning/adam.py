"""Adam: torch's fused kernel, or five lines that torch.compile makes one function with the loss."""

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

BETA1, BETA2 = 0.9, 0.999

Parts = dict[str, Tensor]


class Adam:
    """Descends a loss (arXiv 1412.6980), its gradient clipped to a norm.

    ``m <- b1 m + (1 - b1) g``, ``v <- b2 v + (1 - b2) g^2``, ``p <- p - lr m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)``

    ``learning_rate`` is a tensor, so that compiled code reads it anew. torch.optim.Adam takes longer to get to its kernel than
    the kernel takes on small networks. Parameters that require no gradient (frozen layers) stay as they are.

    Example:
        >>> parameter = nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = Adam([parameter], learning_rate=0.1)
        >>> optimizer.step(parameter.square().sum())
        >>> round(parameter.item(), 5)
        0.9
    """

    def __init__(self, parameters: Iterable[nn.Parameter], learning_rate: float = 0.0, eps: float = 1e-8):
        self.parameters, self.eps = list(parameters), eps
        self.means, self.squares = ([torch.zeros_like(p) for p in self.parameters] for _ in range(2))
        device = self.parameters[0].device
        self.count, self.learning_rate = torch.zeros((), device=device), torch.tensor(learning_rate, device=device)

    def step(self, loss: Tensor, max_grad_norm: float = math.inf) -> None:
        """Takes one gradient step."""
        # The fused kernel takes memory as it lies, and the gradient of a plain sum is one number that stands for all.
        # What the loss leaves out has the gradient 0.
        parts = [part for part in zip(self.parameters, self.means, self.squares, strict=True) if part[0].requires_grad]
        if not parts:
            return  # all layers are frozen
        parameters, means, squares = map(list, zip(*parts, strict=True))
        found = torch.autograd.grad(loss, parameters, materialize_grads=True)
        gradients = [gradient.contiguous() for gradient in found]
        with torch.no_grad():
            self.count += 1
            if max_grad_norm < math.inf:
                norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
                scale = (max_grad_norm / (norm + 1e-6)).clamp(max=1.0)
                gradients = [gradient * scale for gradient in gradients]
            if torch.compiler.is_compiling():
                self._step(parameters, gradients, means, squares)
            else:
                torch._fused_adam_(  # pyright: ignore[reportPrivateImportUsage, reportCallIssue]
                    parameters, gradients, means, squares, [],  # pyright: ignore[reportArgumentType]
                    [self.count] * len(gradients), lr=float(self.learning_rate), beta1=BETA1,
                    beta2=BETA2, weight_decay=0.0, eps=self.eps, amsgrad=False, maximize=False,
                )  # fmt: skip

    def descent(self, loss: Callable[..., tuple[Tensor, Parts]], max_grad_norm: float = math.inf) -> Callable[..., Parts]:
        """Returns a function that takes one gradient step on a loss, and returns its parts; ``loss(*batch)`` gives both."""

        def descend(*batch: Tensor) -> Parts:
            total, parts = loss(*batch)
            self.step(total, max_grad_norm)
            return {name: part.detach() for name, part in parts.items()}

        return descend

    def _step(self, *parts: Sequence[Tensor]) -> None:
        """Takes Adam's step where it is compiled; elsewhere the fused kernel above takes the same one: edit both."""
        size, correction = self.learning_rate / (1 - BETA1**self.count), (1 - BETA2**self.count).sqrt()
        for p, g, m, v in zip(*parts, strict=True):
            m.lerp_(g, 1 - BETA1)
            v.lerp_(g.square(), 1 - BETA2)
            p.sub_(size * m / (v.sqrt() / correction + self.eps))

    def state_dict(self) -> dict:
        return {"means": self.means, "squares": self.squares, "count": self.count}

    @torch.no_grad()
    def load_state_dict(self, state: dict) -> None:
        self.count.copy_(state["count"])
        for name in ("means", "squares"):
            for tensor, value in zip(getattr(self, name), state[name], strict=True):
                tensor.copy_(value)
