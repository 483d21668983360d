"""llmwrappers/agent.py: an agent that is loaded acts as the script's own did, with NumPy alone."""

import csv
import json
import pickle
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
import torch
from conftest import ROOT, load_script
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.wrappers import TransformAction
from torch import nn

from cleanrl_scripts import td3_camel
from cleanrl_scripts.common.arguments import RunArgs
from cleanrl_scripts.common.evaluation import EVALUATION_STREAM, evaluate
from cleanrl_scripts.common.run_folder import save_agent_file
from cleanrl_scripts.learning.actor_critic import ActorCritic
from cleanrl_scripts.learning.networks import in_numpy, layers_of
from llmwrappers import LLMActionMask, load_agent
from llmwrappers.agent import save_agent

PPO = "--num-steps 128 --num-minibatches 4 --compile off"
SHORT = "--eval-episodes 3 --eval-every 100000 --no-cuda"
CAMEL = f"{PPO} --clone-steps 600 --clone-minibatches 4"


def train(script, arguments, tmp_path):
    load_script(ROOT / "cleanrl_scripts" / script).main([*arguments.split(), *SHORT.split(), "--runs-dir", str(tmp_path)])
    (run_dir,) = tmp_path.glob("*")
    with open(run_dir / "metrics.csv") as file:
        returns = [float(row["value"]) for row in csv.DictReader(file) if row["metric"] == "eval/episodic_return"]
    return run_dir, returns[-1]


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("ppo_camel.py", f"--env-id Pendulum-v1 --prior Pendulum-v1 --total-timesteps 1000 {CAMEL}"),
        ("ppo_camel.py", f"--env-id CartPole-v1 --prior none --total-timesteps 256 {PPO}"),
        ("ppo_camel.py", f"--env-id llmwrappers-tests/DictOneStep-v0 --prior none --total-timesteps 256 {PPO}"),
        ("ppo_camel.py", f"--env-id FrozenLake-v1 --prior none --total-timesteps 256 {PPO}"),
        ("ppo_camel.py", f"--env-id llmwrappers-tests/Pictures80-v0 --prior none --total-timesteps 256 {PPO}"),
        ("td3_camel.py", "--env-id Pendulum-v1 --total-timesteps 400 --learning-starts 100 --compile off"),
        ("td3_camel.py", "--env-id Pendulum-v1 --prior none --total-timesteps 400 --learning-starts 100 --compile off"),
        ("ppo_ultra.py", f"--env-id Hopper-v4 --arm none --agent none --total-timesteps 256 {PPO}"),
    ],
    ids=["camel", "discrete", "dict", "integer", "images", "td3", "td3-alone", "ultra"],
)
def test_its_return_is_the_evaluations(script, arguments, tmp_path):
    run_dir, returned = train(script, arguments, tmp_path)
    agent = load_agent(run_dir)
    assert agent.env_id in arguments
    assert evaluate(agent.make(), agent, seed=1, episodes=3) == pytest.approx(returned, rel=1e-5)
    if "ppo_ultra" in script:
        with pytest.raises(ValueError, match="rng samples on Discrete spaces only; the actions of Hopper-v4 are a Box"):
            agent(np.zeros(11), np.random.default_rng(0))


def test_an_agent_with_actions_without_bounds_makes_its_environment(tmp_path):
    def make(**kwargs):
        return TransformAction(gym.make("Pendulum-v1", **kwargs), np.tanh, Box(-np.inf, np.inf, (1,)))

    gym.register("llmwrappers-tests/AnyTorque-v0", entry_point=make)
    layers = [("Linear", [np.ones((1, 3), np.float32), np.zeros(1, np.float32)], {})]
    facts = {"env_id": "llmwrappers-tests/AnyTorque-v0", "env_kwargs": "{}", "script": "ppo_camel", "head": "gaussian"}
    save_agent(tmp_path, facts, layers, Box(-np.inf, np.inf, (1,)), {})
    agent = load_agent(tmp_path)
    assert agent.make().action_space.shape == (1,)
    assert agent.make(render_mode="rgb_array").render_mode == "rgb_array"
    assert agent.make(render_mode=None).render_mode is None


def test_its_episodes_are_as_long_as_in_training(tmp_path):
    args = td3_camel.Args(env_id="Pendulum-v1", env_kwargs='{"g": 1.6}', max_episode_steps=7)
    layers = [("Linear", [np.zeros((1, 3), np.float32), np.zeros(1, np.float32)], {})]
    arrays = {"low": np.float32([-2]), "high": np.float32([2])}
    save_agent_file(tmp_path, args, "tanh", layers, Box(-2, 2, (1,)), arrays, lambda obs: np.zeros(1), [np.ones(3)])
    env = load_agent(tmp_path).make()
    assert (env.spec.max_episode_steps, env.unwrapped.g) == (7, 1.6)


def test_actions_of_a_discrete_space_may_be_sampled(tmp_path, capsys):
    arguments = f"--env-id CartPole-v1 --arm none --agent none --total-timesteps 256 --network-hidden 8 {PPO}"
    run_dir, _ = train("ppo_ultra.py", arguments, tmp_path)
    lines = capsys.readouterr().out.splitlines()[-3:]
    assert lines[0].endswith(" --sampled")
    assert lines[1].endswith("action = agent(observation, rng)")
    assert "as the evaluation did; without rng or --sampled, the most probable actions, which returned" in lines[2]
    agent, rng = pickle.loads(pickle.dumps(load_agent(run_dir))), np.random.default_rng(0)
    with pytest.raises(TypeError, match=r"rng must be a numpy\.random\.Generator, .* got 0"):
        agent(np.zeros(4), 0)
    states = torch.load(run_dir / "agent.pt", weights_only=True)["agent"]["network"]
    observation = np.array([0.3, 1.0, -0.1, 0.2])
    samples = [agent(observation, rng) for _ in range(4000)]
    own = ActorCritic(gym.make("CartPole-v1").observation_space, Discrete(2), rng, torch.device("cpu"), (8,))
    own.network.load_state_dict(states)
    own.observations.load_state_dict(torch.load(run_dir / "agent.pt", weights_only=True)["agent"]["observations"])
    probability = torch.softmax(own(torch.from_numpy(own.normalized(observation)[None]))[0], 1)[0, 1].item()
    assert 0.05 < probability < 0.95
    assert np.mean(samples) == pytest.approx(probability, abs=0.03)


def test_it_needs_no_torch_and_may_be_a_prior(tmp_path):
    run_dir, returned = train("ppo_camel.py", f"--env-id Pendulum-v1 --prior none --total-timesteps 256 {PPO}", tmp_path)
    code = f"""
import sys
sys.modules.update(dict.fromkeys(("torch", "tyro", "scipy", "cleanrl_scripts", "local_llm")))
from llmwrappers import load_agent
agent = load_agent({str(run_dir)!r})
env, returns = agent.make(), []
for seed in {np.random.default_rng((1, EVALUATION_STREAM)).integers(2**31, size=3).tolist()}:
    observation, info = env.reset(seed=seed)
    total, done = 0.0, False
    while not done:
        observation, reward, terminated, truncated, info = env.step(agent(observation))
        total, done = total + reward, terminated or truncated
    returns.append(total)
print(sum(returns) / 3)
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True).stdout
    assert float(printed) == pytest.approx(returned, rel=1e-5)
    masked = LLMActionMask(gym.make("Pendulum-v1"), load_agent(run_dir / "agent.npz"))
    assert masked.reset(seed=0)[1]["mask_active"]


def test_a_layer_without_a_form_in_numpy_leaves_no_file(tmp_path, monkeypatch, capsys):
    ppo_camel = load_script(ROOT / "cleanrl_scripts" / "ppo_camel.py")
    odd = lambda sizes: nn.Sequential(nn.Linear(sizes[0], 8), nn.Tanh(), Odd(), nn.Linear(8, sizes[-1]))  # noqa: E731
    monkeypatch.setattr("cleanrl_scripts.learning.actor_critic.mlp", odd)
    arguments = f"--env-id Pendulum-v1 --prior none --total-timesteps 256 {PPO} {SHORT} --runs-dir {tmp_path}"
    ppo_camel.main(arguments.split())
    (run_dir,) = tmp_path.glob("*")
    assert "note: no agent.npz" in capsys.readouterr().out
    with pytest.raises(FileNotFoundError, match=r"no agent at .*agent.npz: .* a layer without a form in NumPy"):
        load_agent(run_dir)


@pytest.mark.parametrize("script", ["ppo_camel.py", "td3_camel.py"])
def test_an_edited_agent_that_the_file_does_not_know_leaves_none(script, tmp_path, monkeypatch, capsys):
    """Such as observations clipped elsewhere, or other outputs; before, load_agent acted otherwise without a word."""
    module = load_script(ROOT / "cleanrl_scripts" / script)
    arguments = f"--env-id Pendulum-v1 --prior none {SHORT} --runs-dir {tmp_path}"
    if script == "td3_camel.py":
        act = module.TD3.act
        monkeypatch.setattr(module.TD3, "act", lambda self, observation: -act(self, observation))
        arguments += " --total-timesteps 300 --learning-starts 100 --compile off"
    else:
        clipped = lambda self, observation, update=False: np.clip(observation.ravel(), -0.5, 0.5).astype(np.float32)  # noqa: E731
        monkeypatch.setattr(ActorCritic, "normalized", clipped)
        arguments += f" --total-timesteps 256 {PPO}"
    module.main(arguments.split())
    (run_dir,) = tmp_path.glob("*")
    assert "note: no agent.npz, because load_agent would act otherwise than your edited agent" in capsys.readouterr().out
    assert not (run_dir / "agent.npz").exists()
    assert (run_dir / "model.pt" if script == "td3_camel.py" else run_dir / "agent.pt").exists()


def test_a_network_with_more_outputs_than_actions_leaves_no_file(tmp_path, capsys):
    """Such as one with a deviation that depends on the state."""
    args, space = RunArgs(env_id="Pendulum-v1", exp_name="edited"), gym.make("Pendulum-v1").action_space
    layers, observations = layers_of(nn.Linear(3, 2)), np.zeros((10, 3), np.float32)
    save_agent_file(tmp_path, args, "tanh", layers, space, {}, lambda observation: np.zeros(1), observations)
    assert "no agent.npz" in capsys.readouterr().out
    assert not any(tmp_path.iterdir())


class Odd(nn.Module):
    def forward(self, x):
        return x * 2


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 3, dilation=2), nn.Conv2d(3, 6, 3, groups=3),
        nn.Flatten(2), nn.LayerNorm([9, 9]), nn.GELU(), nn.Linear(3, 4, bias=False), nn.LayerNorm(3, elementwise_affine=False),
        Residual(nn.Linear(3, 3), nn.Tanh()), nn.utils.spectral_norm(nn.Linear(3, 3)).eval(),
        type("Tanh", (nn.Module,), {"forward": lambda self, x: x}),
    ],
    ids=lambda layer: str(layer),
)  # fmt: skip
def test_layers_that_are_a_little_different_are_not_taken_for_known_ones(layer):
    layer = layer() if isinstance(layer, type) else layer
    assert layers_of(layer) is None
    is_of_images = isinstance(layer, nn.Conv2d | nn.Flatten) or (isinstance(layer, nn.LayerNorm) and layer.elementwise_affine)
    x = torch.randn(2, 3, 9, 9) if is_of_images else torch.randn(2, 3)
    np.testing.assert_allclose(in_numpy(layer)(x.numpy()), layer(x).detach().numpy(), atol=1e-6)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, (2, 4), stride=3), nn.Conv2d(3, 4, 3, stride=(2, 1)), nn.LayerNorm(9), nn.Flatten(),
        nn.ELU(0.7), nn.SiLU(),
    ],
    ids=lambda layer: str(layer),
)  # fmt: skip
def test_layers_are_torchs(layer):
    x = torch.randn(2, 3, 9, 9)
    assert layers_of(layer) is not None
    np.testing.assert_allclose(in_numpy(layer)(x.numpy()), layer(x).detach().numpy(), atol=2e-6)


@pytest.mark.parametrize("damage", ["text", "no facts", "a layer of the future"])
def test_what_is_no_agent_is_refused(damage, tmp_path):
    path = tmp_path / "agent.npz"
    if damage == "text":
        path.write_text("hello")
    elif damage == "no facts":
        np.savez(path, x=np.zeros(3))
    else:
        facts = {"env_id": "Pendulum-v1", "env_kwargs": "{}", "script": "mine", "head": "tanh", "start": 0}
        np.savez(path, facts=np.array(json.dumps({**facts, "layers": [["Attention", 0, {}]]})))
    with pytest.raises(ValueError, match=r"agent.npz is no agent.npz of these scripts \("):
        load_agent(tmp_path)


def test_an_agent_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    facts = {"env_id": "Pendulum-v1", "env_kwargs": "{}", "script": "mine", "head": "tanh"}
    layers = [("Linear", [np.ones((1, 3), np.float32), np.zeros(1, np.float32)], {})]
    save_agent(tmp_path, facts, layers, gym.make("Pendulum-v1").action_space, {})
    before = (tmp_path / "agent.npz").read_bytes()
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        save_agent(tmp_path, facts, [*layers, *layers], gym.make("Pendulum-v1").action_space, {})
    assert [path.name for path in tmp_path.iterdir()] == ["agent.npz"]
    assert (tmp_path / "agent.npz").read_bytes() == before


def test_an_observation_of_several_integers(tmp_path):
    env_id = "llmwrappers-tests/Dials-v0"
    gym.register(env_id, entry_point=Dials, disable_env_checker=True)
    layers = [("Linear", [np.arange(7.0, dtype=np.float32)[None], np.zeros(1, np.float32)], {})]
    facts = {"env_id": env_id, "env_kwargs": "{}", "script": "ppo_camel", "head": "gaussian"}
    save_agent(tmp_path, facts, layers, Box(-9.0, 9.0, (1,)), {})
    agent = load_agent(tmp_path)
    assert agent(np.array([1, 2])).tolist() == [1.0 + 5.0]  # one-hot: places 1 and 3 + 2


class Dials(gym.Env):
    action_space, observation_space = Box(-9.0, 9.0, (1,)), MultiDiscrete([3, 4])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_observation_that_is_not_finite_is_refused_as_in_training(value, tmp_path):
    layers = [("Linear", [np.ones((1, 3), np.float32), np.zeros(1, np.float32)], {})]
    facts = {"env_id": "Pendulum-v1", "env_kwargs": "{}", "script": "td3_camel", "head": "tanh"}
    save_agent(tmp_path, facts, layers, gym.make("Pendulum-v1").action_space, {})
    message = f"the agent of Pendulum-v1 reads finite numbers, entry 1 of the observation is {value}"
    with pytest.raises(ValueError, match=message):
        load_agent(tmp_path)(np.array([0.5, value, 0.0]))


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"\x93NUMPY\x01\x00"])
def test_a_damaged_file_is_no_agent(damage, tmp_path):
    layers = [("Linear", [np.ones((1, 3), np.float32), np.zeros(1, np.float32)], {})]
    facts = {"env_id": "Pendulum-v1", "env_kwargs": "{}", "script": "td3_camel", "head": "tanh"}
    save_agent(tmp_path, facts, layers, Box(-2.0, 2.0, (1,)), {})
    file = tmp_path / "agent.npz"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match="is no agent.npz of these scripts .*; give the run's folder"):
        load_agent(tmp_path)
