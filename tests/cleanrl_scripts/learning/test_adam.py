"""Adam is torch's, as it is and compiled; what is compiled, and when."""

import copy
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from conftest import ROOT
from torch import nn

from cleanrl_scripts import ppo_camel, ppo_ultra
from cleanrl_scripts.learning import compilation
from cleanrl_scripts.learning.actor_critic import ActorCritic
from cleanrl_scripts.learning.adam import Adam
from cleanrl_scripts.learning.compilation import compiled
from cleanrl_scripts.learning.networks import mlp
from llmwrappers.errors import UserError

CPU = torch.device("cpu")


@pytest.mark.parametrize("max_grad_norm", [0.1, float("inf")])
def test_adam_is_torchs(max_grad_norm):
    mine = mlp([7, 16, 3])
    theirs, plain = copy.deepcopy(mine), copy.deepcopy(mine)
    optimizer, reference = Adam(mine.parameters(), 1e-2), torch.optim.Adam(theirs.parameters(), lr=1e-2)
    lines = Adam(plain.parameters(), 1e-2)
    for _ in range(5):
        inputs = torch.randn(9, 7)
        optimizer.step(mine(inputs).square().sum(), max_grad_norm)
        reference.zero_grad()
        theirs(inputs).square().sum().backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), max_grad_norm)
        reference.step()
        with torch.no_grad():  # the five lines that are compiled
            lines.count += 1
            lines._step(lines.parameters, [p.grad for p in theirs.parameters()], lines.means, lines.squares)
    for a, b, c in zip(mine.parameters(), theirs.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(c, b, rtol=1e-4, atol=1e-5)


def test_adam_takes_the_gradient_of_a_plain_sum():
    """Which autograd gives as one number, expanded."""
    parameter, expected = nn.Parameter(torch.ones(100)), nn.Parameter(torch.ones(100))
    optimizer = torch.optim.Adam([expected], lr=0.1)
    Adam([parameter], 0.1).step(parameter.sum())
    expected.sum().backward()
    optimizer.step()
    torch.testing.assert_close(parameter, expected)


def test_a_parameter_that_the_loss_leaves_out_stays():
    used, unused = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))
    Adam([used, unused], 0.1).step(used.square().sum())
    assert used[0].item() < 1
    assert unused.tolist() == [1, 1]


def test_a_frozen_layer_stays_until_it_is_unfrozen():
    network = mlp([3, 4, 1])
    before = [parameter.detach().clone() for parameter in network.parameters()]
    optimizer = Adam(network.parameters(), 0.1)
    network.requires_grad_(False)
    optimizer.step(network(torch.ones(5, 3)).square().mean())
    network.requires_grad_(True)
    for is_frozen in (True, False):
        network[0].requires_grad_(not is_frozen)
        optimizer.step(network(torch.ones(5, 3)).square().mean())
        stays = [torch.equal(old, new) for old, new in zip(before, network.parameters(), strict=True)]
        assert stays == [is_frozen, is_frozen, False, False]


def test_what_is_saved_goes_on():
    network = mlp([7, 3])
    optimizer, inputs = Adam(network.parameters(), 1e-2), torch.randn(9, 7)
    optimizer.step(network(inputs).square().sum())
    other = copy.deepcopy(network)
    resumed = Adam(other.parameters(), 1e-2)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for trained, adam in ((network, optimizer), (other, resumed)):
        adam.step(trained(inputs).square().sum())
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), other.parameters(), strict=True))


def learner(wanted) -> ppo_camel.PPO:
    spaces = ppo_camel.Box(-1, 1, (5,), np.float32), ppo_camel.Box(-1, 1, (3,), np.float32)
    agent = ActorCritic(*spaces, np.random.default_rng(0), CPU)
    ppo = ppo_camel.PPO(ppo_camel.Args(ent_coef=0.01, compile=wanted), [], agent, np.random.default_rng(0))
    ppo.optimizer.learning_rate.fill_(3e-4)
    return ppo


def test_the_compiled_update_is_the_same():
    """After 100 minibatches the parameters differ by 1e-4 at most, where they have moved by 5e-3 and more."""
    fast, plain, begun = learner("on"), learner("off"), learner("off")
    assert (fast.hardware.endswith("compiled"), plain.hardware.endswith("compiled")) == (True, False)
    rng = np.random.default_rng(1)
    for _ in range(100):
        arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((64, 5), (64, 3), 64, 64, 64)]
        minibatch = [torch.from_numpy(array) for array in arrays]
        minibatch.append(plain.log_probs(*minibatch[:2]).detach() + 0.1 * minibatch[2])
        got, expected = fast.learn(*minibatch), plain.learn(*minibatch)
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)
    moved = 0.0
    for a, b, c in zip(fast.agent.parameters, plain.agent.parameters, begun.agent.parameters, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-4)
        moved = max(moved, (b - c).abs().max().item())
    assert moved > 5e-3


class TestWhenItIsCompiled:
    def test_what_torch_cannot_compile_is_said_with_the_way_out(self):
        def branches(x):
            return x + 1 if x.sum() > 0 else x

        update, _ = compiled(branches, ppo_camel.Args(compile="on"), CPU)
        with pytest.raises(UserError, match=r"torch cannot compile the update \(.*\)\. Give --compile off, also to --resume"):
            update(torch.ones(3))

    @pytest.mark.parametrize(
        ("wanted", "steps", "is_compiled"), [("off", 10**6, 0), ("auto", 299_999, 0), ("auto", 300_000, 1)]
    )
    def test_as_wanted(self, wanted, steps, is_compiled, capsys):
        update, words = compiled(len, ppo_camel.Args(compile=wanted, total_timesteps=steps), CPU)
        assert (update is not len) == words.endswith("compiled") == is_compiled
        assert capsys.readouterr().out == ""

    def test_what_counts_are_the_steps_of_pretraining_where_there_are_any(self):
        pretraining = ppo_ultra.Args(pretrain_timesteps=4096, total_timesteps=10**6)
        assert compiled(len, pretraining, CPU)[0] is len
        pretraining = ppo_ultra.Args(pretrain_timesteps=10**6, total_timesteps=4096)
        assert compiled(len, pretraining, CPU)[0] is not len

    def test_where_there_is_no_home_to_write_to_torch_chooses_the_cache(self, tmp_path):
        (tmp_path / "file").write_text("")
        program = "from cleanrl_scripts.common.run_folder import prepare_torch; prepare_torch(True, 0)"
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "file"), "PYTHONPATH": str(ROOT)}
        environment.pop("TORCHINDUCTOR_CACHE_DIR", None)
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)

    @pytest.mark.parametrize(
        ("name", "script", "why"),
        [
            ("nothing", "", "no C++ compiler was found (g++; the variable CXX may name another)"),
            ("clang++", "exit 0", "no C++ compiler was found (g++; the variable CXX may name another)"),
            ("g++", "echo 'fatal error: Python.h: No such file' >&2; exit 1", "fatal error: Python.h: No such file"),
        ],
    )
    def test_without_a_compiler_that_works(self, tmp_path, name, script, why):
        """One note, although TD3 has two functions to compile, and the run goes on; torch's cache is not in /tmp."""
        compiler = tmp_path / name
        compiler.write_text(f'#!/bin/sh\ncase "$*" in *--version*) echo 13; exit 0;; esac\n{script}\n')
        compiler.chmod(0o755)
        program = (
            "import os; import numpy as np; import torch; from cleanrl_scripts.td3_camel import TD3, Args, prepare_torch\n"
            "prepare_torch(True, 0)\n"
            "td3 = TD3(Args(), 3, 1, np.random.default_rng(0), torch.device('cpu'))\n"
            "assert td3.learn_values == td3.descend_critics and td3.learn_actions == td3.descend_actor\n"
            "print(td3.hardware, os.environ['TORCHINDUCTOR_CACHE_DIR'])\n"
        )
        environment = {**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
        environment.pop("TORCHINDUCTOR_CACHE_DIR", None)  # which the tests before set
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
        cache = tmp_path / "llmwrappers" / "torchinductor"
        assert done.stdout == f"note: the update is not compiled: {why}\ncpu, 1 thread {cache}\n"

    def test_where_torch_does_not_trace_gradients(self, monkeypatch, capsys):
        compilation.can_compile.cache_clear()
        monkeypatch.setattr(compilation.torch, "_dynamo", type("_dynamo", (), {"config": object()}))
        assert compiled(len, ppo_camel.Args(compile="on"), CPU)[0] is len
        assert "does not trace gradients" in capsys.readouterr().out
        compilation.can_compile.cache_clear()
