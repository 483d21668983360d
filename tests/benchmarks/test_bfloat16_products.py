"""Products of operands rounded to bfloat16: torch's own rounding, in the product and in both gradients."""

import sys

import pytest
import torch
from conftest import ROOT
from torch.nn.functional import linear

sys.path.append(str(ROOT / "benchmarks"))
from bfloat16_products import Linear, rounded


@pytest.fixture
def operands() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(*shape, generator=generator, requires_grad=True) for shape in ((32, 17), (8, 17), (8,)))


def test_numbers_of_any_size_round_as_torch_rounds_them():
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0)) * torch.logspace(-30, 30, 1000)
    ties = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 0.0, -0.0, torch.inf])
    for numbers in (x, ties):
        assert torch.equal(rounded(numbers), numbers.bfloat16().float())
    assert not torch.equal(rounded(x), x)


def test_product_and_gradients_have_rounded_operands_and_the_bias_is_exact(operands):
    x, weight, bias = operands
    short_x, short_weight = (t.detach().bfloat16().float() for t in (x, weight))
    y = Linear.apply(x, weight, bias)
    torch.testing.assert_close(y, linear(short_x, short_weight, bias))
    (2.5 * y.square().sum()).backward()
    gradient = 5 * y.detach()
    short = gradient.bfloat16().float()
    torch.testing.assert_close(x.grad, short @ short_weight)
    torch.testing.assert_close(weight.grad, short.mT @ short_x)
    torch.testing.assert_close(bias.grad, gradient.sum(0))
    assert not torch.allclose(y, linear(x, weight, bias), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch about torch
def test_compiled_products_are_rounded_too(operands):
    x, weight, bias = (t.detach() for t in operands)
    compiled = torch.compile(Linear.apply, fullgraph=True)
    torch.testing.assert_close(compiled(x, weight, bias), Linear.apply(x, weight, bias), rtol=1e-6, atol=1e-6)
