"""td3_camel.py with all products of its networks rounded to bfloat16, on any processor: what --matmul bfloat16 costs.

    python benchmarks/bfloat16_products.py --env-id Hopper-v4

A processor with bf16 matrix units rounds both operands of a product to bfloat16, to nearest, ties to even, and adds up in
float32. Here torch rounds the operands, forward and backward; the agent acts in float32, as there. All arguments are those of
td3_camel.py. Resume a run with this script, too: td3_camel.py would go on in float32.
"""

import sys
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))  # as the scripts do, from anywhere

from cleanrl_scripts import td3_camel
from cleanrl_scripts.common.stop import run_script


def rounded(x: Tensor) -> Tensor:
    """The nearest bfloat16 of each number. On bits, since a compiler may leave out a cast to bfloat16 and back."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000).view(torch.float32)


class Linear(torch.autograd.Function):
    """x @ weight.T + bias, and its gradients, each product of rounded operands."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = rounded(x), rounded(weight)
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.mT)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        g = rounded(gradient)
        return g @ weight, g.mT @ x, gradient.sum(0)


if __name__ == "__main__":
    torch.nn.Linear.forward = lambda self, input: Linear.apply(input, self.weight, self.bias)
    run_script(td3_camel.main, "bfloat16_products.py")
