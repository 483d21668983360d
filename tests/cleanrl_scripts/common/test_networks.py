"""cleanrl_scripts/common/networks.py: MLP against stacks of torch.nn, what it refuses, Adam against torch's."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from cleanrl_scripts.common.networks import MLP, Adam

SIZES, BATCH = [7, 16, 12, 3], 9


def make(n=2, activation="relu", sizes=SIZES) -> MLP:
    network = MLP(sizes, n=n, activation=activation)
    network.initialize_uniform(np.random.default_rng(0))
    return network


def stacks(network: MLP) -> list[nn.Sequential]:
    """The same networks in torch.nn."""
    modules = []
    for k in range(network.n):
        layers = []
        for weight, bias in network.layers(network.flat.detach()):
            linear = nn.Linear(weight.shape[2], weight.shape[1])
            linear.weight.data.copy_(weight[k])
            linear.bias.data.copy_(bias[k, :, 0])
            layers += [linear, nn.ReLU() if network.activation == "relu" else nn.Tanh()]
        modules.append(nn.Sequential(*layers[:-1]))
    return modules


def flat_gradients(network: MLP, modules: list[nn.Sequential], gradients) -> torch.Tensor:
    """Gradients of the stacks' parameters in the order of the flat vector."""
    each = len(list(modules[0].parameters()))
    return torch.cat([torch.stack(gradients[j::each][: network.n]).flatten() for j in range(each)])


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("widths", [[7], [4, 3]])
@pytest.mark.parametrize("sizes", [SIZES, [7, 3]])
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_outputs_and_gradients_are_those_of_torch(activation, n, sizes, widths, columns):
    network = make(n, activation, sizes)
    modules = stacks(network)
    inputs = (torch.randn(7, BATCH).mT if columns else torch.randn(BATCH, 7)).requires_grad_()
    outputs, expected = network(*inputs.split(widths, dim=1)), torch.stack([module(inputs) for module in modules])
    torch.testing.assert_close(outputs, expected)
    np.testing.assert_allclose(network.numpy(inputs.detach().numpy()), expected.detach().numpy(), rtol=1e-4, atol=1e-6)
    aims = torch.randn(n, BATCH, 3)
    gradients = torch.autograd.grad((outputs - aims).square().sum(), [inputs, network.flat])
    theirs = torch.autograd.grad((expected - aims).square().sum(), [inputs, *(p for m in modules for p in m.parameters())])
    torch.testing.assert_close(gradients[0], theirs[0])
    torch.testing.assert_close(gradients[1], flat_gradients(network, modules, theirs[1:]))


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_frozen_networks_pass_gradients_to_their_inputs_alone(activation):
    network = make(2, activation)
    observations, actions = torch.randn(BATCH, 4), torch.randn(BATCH, 3, requires_grad=True)
    value = network(observations, actions, frozen=True, first=1)
    assert value.shape == (1, BATCH, 3)
    value.mean().backward()
    assert network.flat.grad is None
    assert observations.grad is None
    expected = stacks(network)[0](torch.cat([observations, actions], dim=1)).mean()
    torch.testing.assert_close(actions.grad, torch.autograd.grad(expected, actions)[0])


def test_the_first_of_several_leave_the_others_alone():
    network = make(2)
    inputs = torch.randn(BATCH, 7)
    (gradient,) = torch.autograd.grad(network(inputs, first=1).square().sum(), network.flat)
    (expected,) = torch.autograd.grad(network(inputs)[0].square().sum(), network.flat)
    torch.testing.assert_close(gradient, expected)


def test_batches_of_any_size_follow_each_other():
    network = make()
    for batch, first in ((9, 2), (4, 2), (4, 1), (9, 2)):
        inputs = torch.randn(batch, 7)
        loss, expected = network(inputs, first=first).square().sum(), network(inputs)[:first].square().sum()
        torch.testing.assert_close(*(torch.autograd.grad(value, network.flat)[0] for value in (loss, expected)))


def test_two_evaluations_share_a_loss():
    network = make(1)
    a, b = torch.randn(2, BATCH, 7)
    (both,) = torch.autograd.grad((network(a) * network(b)).sum(), network.flat)
    (module,) = stacks(network)
    theirs = torch.autograd.grad((module(a) * module(b)).sum(), list(module.parameters()))
    torch.testing.assert_close(both, flat_gradients(network, [module], theirs))


def test_a_step_between_forward_and_backward_is_an_error():
    """The gradient would be that of other weights."""
    network = make()
    loss = network(torch.randn(BATCH, 7)).sum()
    with torch.no_grad():
        network.flat.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_second_derivative_is_an_error():
    network, inputs = make(), torch.randn(BATCH, 7, requires_grad=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(network(inputs).sum(), inputs, create_graph=True)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda network: copy.deepcopy(network).double().float()])
def test_parameters_that_move_are_followed(duplicate):
    network, inputs = make(), torch.randn(BATCH, 7)
    network.numpy(inputs.numpy())
    network(inputs).sum().backward()
    moved = duplicate(network)
    with torch.no_grad():
        moved.flat.add_(0.1)
        torch.testing.assert_close(moved(inputs), torch.stack([module(inputs) for module in stacks(moved)]))
        np.testing.assert_allclose(moved.numpy(inputs.numpy()), moved(inputs).numpy(), rtol=1e-4, atol=1e-5)


def test_an_unknown_activation_is_refused():
    with pytest.raises(ValueError, match="activation must be 'relu' or 'tanh', got 'gelu'"):
        MLP(SIZES, activation="gelu")


@pytest.mark.parametrize("max_grad_norm", [0.1, float("inf")])
def test_adam_is_torchs(max_grad_norm):
    mine, theirs = make(), make()
    optimizer, reference = Adam([mine.flat]), torch.optim.Adam([theirs.flat], lr=1e-2)
    for _ in range(5):
        inputs = torch.randn(BATCH, 7)
        optimizer.step(mine(inputs).square().sum(), 1e-2, max_grad_norm)
        reference.zero_grad()
        theirs(inputs).square().sum().backward()
        nn.utils.clip_grad_norm_([theirs.flat], max_grad_norm)
        reference.step()
    torch.testing.assert_close(mine.flat, theirs.flat, rtol=1e-4, atol=1e-5)


def test_adam_takes_the_gradient_of_a_plain_sum():
    """Which autograd gives as one number, expanded."""
    parameter, expected = torch.nn.Parameter(torch.ones(100)), torch.nn.Parameter(torch.ones(100))
    optimizer = torch.optim.Adam([expected], lr=0.1)
    Adam([parameter]).step(parameter.sum(), 0.1)
    expected.sum().backward()
    optimizer.step()
    torch.testing.assert_close(parameter, expected)
