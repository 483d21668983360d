# PPO fine-tuned with what an LLM says about critical states: ULTRA (arXiv 2505.20671) on CleanRL's PPO, in one file.
#
#   pretrain:  plain PPO until it is stuck; keep the agent and trajectories of it, which an LLM reads offline
#   fine-tune, for every iteration:
#       for every step:
#           a ~ policy(obs)
#           next_obs, reward, info = env.step(a)        in a critical state LLMActionOverride plays the LLM's action, which is
#           a = info["executed_action"] if overridden   then credited; CriticalStateRewarder adds alpha * the LLM's reward
#           store obs, a, log policy(a | obs), reward   the log-probability is that of the action that is credited
#       worth[entry] <- advantages where its action was played, less those where it was withheld;  what does harm falls silent
#       advantages <- GAE;  for every epoch and minibatch: policy <- clipped objective, values <- clipped squared error
#   evaluate the plain agent, without the LLM's part in it: the headline
import csv
import dataclasses
import datetime
import hashlib
import importlib
import importlib.metadata
import io
import itertools
import json
import math
import os
import platform
import signal
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import gymnasium as gym
import numpy as np
import torch
import tyro
from gymnasium.spaces import Box, Discrete
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from llmwrappers import (
    CriticalFunction,
    CriticalStateRewarder,
    CriticalStates,
    EntryWorth,
    LLMActionOverride,
    Trajectories,
    tables,
)
from llmwrappers.pong import locate
from llmwrappers.tables import GuidanceLookup, GuidedWrapper, entry_count, load_guidance, shipped_tables

ACTING_ARMS = ("a", "ra", "random")


@dataclass
class Args:
    exp_name: str = "ppo_ultra"
    """the name of this experiment"""
    seed: int = 1
    """seed of the experiment"""
    torch_deterministic: bool = True
    """if toggled, torch uses deterministic algorithms only"""
    cuda: bool = True
    """if toggled, a convolutional agent uses a GPU where there is one; a small one is faster without"""
    track: bool = False
    """if toggled, this experiment will be tracked with Weights and Biases (WANDB_MODE=offline needs no account)"""
    wandb_project_name: str = "llmwrappers"
    """the wandb's project name"""
    wandb_entity: str | None = None
    """the entity (team) of wandb's project"""
    wandb_tags: tuple[str, ...] = ()
    """tags of the wandb run"""
    capture_video: bool = False
    """whether to record the first episode of every evaluation (check out the `videos` folder)"""
    save_model: bool = True
    """whether to save the final agent, and episodes of it, into the run folder"""
    runs_dir: str = "runs"
    """the folder in which the run folder is made"""
    resume: str | None = None
    """a run folder: continues that run with its own arguments, as if it had never stopped"""
    checkpoint_every: int = 50_000
    """steps between checkpoints; the episodes at hand end there"""
    eval_every: int = 20_000
    """steps between evaluations"""
    eval_episodes: int = 10
    """episodes of an evaluation"""

    # Algorithm specific arguments
    env_id: str = "Hopper-v4"
    """the id of the environment; ALE/Pong-v5 stands for its object state, llmwrappers/PongGrid-v0 is its 80x80 grid"""
    total_timesteps: int = 1000000
    """total timesteps of the experiments"""
    learning_rate: float = 3e-4
    """the learning rate of the optimizer"""
    num_envs: int = 1
    """the number of environments (8 in Pong)"""
    num_steps: int = 2048
    """the number of steps to run in each environment per policy rollout (128 in Pong)"""
    anneal_lr: bool = True
    """toggle learning rate annealing for policy and value networks"""
    gamma: float = 0.99
    """the discount factor gamma"""
    gae_lambda: float = 0.95
    """the lambda for the general advantage estimation"""
    num_minibatches: int = 32
    """the number of mini-batches (4 in Pong)"""
    update_epochs: int = 10
    """the K epochs to update the policy (4 in Pong)"""
    norm_adv: bool = True
    """toggles advantages normalization"""
    clip_coef: float = 0.2
    """the surrogate clipping coefficient (0.1 in Pong)"""
    clip_vloss: bool = True
    """toggles whether or not to use a clipped loss for the value function, as per the paper"""
    ent_coef: float = 0.0
    """coefficient of the entropy (0.01 in Pong)"""
    vf_coef: float = 0.5
    """coefficient of the value function"""
    max_grad_norm: float = 0.5
    """the maximum norm for the gradient clipping"""
    target_kl: float | None = None
    """the target KL divergence threshold"""

    # The sub-optimal agent
    pretrain_timesteps: int = 0
    """if not 0: trains a plain agent, a new one unless --agent names one, for so many steps, saves it with its trajectories,
    and ends"""
    agent: str = "shipped"
    """the agent to fine-tune: shipped (env_id's), the agent.pt of a run, or none: starts from scratch"""
    trajectory_episodes: int = 10
    """episodes of the final agent to save, acting as it does while it learns"""

    # The LLM's part
    arm: Literal["none", "a", "r", "ra", "random", "rnd", "statemask"] = "ra"
    """none: PPO goes on; a: the LLM's actions; r: its rewards; ra: both; random: both, at random states; rnd: a novelty bonus
    at the LLM's states; statemask: that bonus at the states that a learned mask network calls critical"""
    guidance: Literal["table", "code"] = "table"
    """critical states from the LLM's table, or from the function that it wrote"""
    critical_states: str = "shipped"
    """shipped (env_id's), or a folder, .json or .py that local_llm.find_critical_states wrote, or a shipped name"""
    alpha: float = 0.1
    """weight of the LLM's reward, and of the novelty bonus (0.5 in Pong)"""
    shaping: Literal["paper", "potential"] = "paper"
    """the LLM's reward as it is, or as a potential, which leaves the optimal policy what it was"""
    withhold: float = 0.25
    """probability that the agent's own action is played in a critical state, which tells what the LLM's is worth there; entries
    that cost return fall silent. 0: all speak to the end. Only for a, ra and random"""
    patience_steps: int = 20_000
    """steps of an environment after which critical states that never occurred are an error"""
    statemask_timesteps: int = 50_000
    """steps for which --arm statemask trains its mask network first"""
    fidelity_episodes: int = 0
    """if not 0: plays the agent for so many episodes with random actions at the critical states, and at as many random ones,
    prints what each costs, and ends"""


# CleanRL's defaults for Atari, where they differ.
PONG = {
    "num_envs": 8, "num_steps": 128, "num_minibatches": 4, "update_epochs": 4, "clip_coef": 0.1, "ent_coef": 0.01,
    "learning_rate": 2.5e-4, "alpha": 0.5,
}  # fmt: skip


class UserError(Exception):
    """What the user gave cannot work; the message says why and what would."""


# ---------------------------------------------------------------------------------------------------- environments


def make_env(args: Args, video_dir: Path | None = None) -> gym.Env:
    """The environment as it is: raw observations, native actions."""
    options: dict = {"render_mode": "rgb_array"} if video_dir else {}
    try:
        env = gym.make(args.env_id, disable_env_checker=True, **options)
        if video_dir:
            env.reset()
            env.render()
            env = gym.wrappers.RecordVideo(
                env, str(video_dir), episode_trigger=lambda n: n % args.eval_episodes == 0, disable_logger=True
            )
    except Exception as error:
        option = " --capture-video" if video_dir else ""
        raise UserError(f"--env-id {args.env_id}{option}: {type(error).__name__}: {error}") from None
    space = env.action_space
    is_vector = isinstance(space, Box) and len(space.shape) == 1 and np.issubdtype(space.dtype, np.floating)
    if not (is_vector or isinstance(space, Discrete)):
        raise UserError(
            f"--env-id {args.env_id}: this PPO needs a Box action space of floats of one axis or a Discrete one, got {space}"
        )
    shape = env.observation_space.shape or ()
    if len(shape) == 3 and (env.observation_space.dtype != np.uint8 or shape[1:] != (80, 80)):
        raise UserError(
            f"--env-id {args.env_id}: images must be uint8 of shape (channels, 80, 80), got {env.observation_space}; register "
            "the environment with wrappers of Gymnasium that make them so"
        )
    if not isinstance(env.observation_space, Box):
        try:
            env = gym.wrappers.FlattenObservation(env)
            assert isinstance(env.observation_space, Box)
        except (AssertionError, NotImplementedError):
            raise UserError(f"--env-id {args.env_id}: cannot flatten {env.observation_space} to a vector") from None
    return env


def matched_info(env: gym.Env) -> str | None:
    """What critical states are matched with: an agent on pixels has the objects that they show, in its info."""
    return "objects" if len(env.observation_space.shape or ()) == 3 else None


def guide(env: gym.Env, args: Args, guidance, novelty: "Novelty | None" = None) -> gym.Env:
    """Lets the LLM take its part in an environment, as the arm says."""
    if novelty:
        return NoveltyBonus(env, novelty, guidance, args.alpha, args.patience_steps)
    if args.arm in ACTING_ARMS:
        env = LLMActionOverride(
            env, guidance, info_key=matched_info(env), patience_steps=args.patience_steps, withhold=args.withhold
        )
    if args.arm in ("r", "ra", "random"):
        env = CriticalStateRewarder(
            env, guidance, args.alpha, args.shaping, args.gamma, info_key=matched_info(env), patience_steps=args.patience_steps
        )
    return env


# ---------------------------------------------------------------------------------------- networks, policies, statistics


def orthogonal(rng: np.random.Generator, rows: int, columns: int, gain: float) -> np.ndarray:
    """A random matrix with orthogonal rows or columns, as torch.nn.init.orthogonal_ draws it."""
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))
    return gain * (q if rows >= columns else q.T)


class MLP:
    """n tanh networks of one shape in NumPy: parameters in one flat vector, gradients by hand; (batch, in) -> (n, batch, out).

    Actor and critic go through one batched product a layer; of the critic's outputs only the first is used. For networks
    this small NumPy on one thread is several times faster than torch. ``extra`` parameters, the actor's log_std, lie at the
    end of the vector.
    """

    def __init__(self, sizes: list[int], gains: list[float], extra: int, rng: np.random.Generator):
        n = len(gains)
        self.sizes = sizes
        shapes = [shape for i, o in itertools.pairwise(sizes) for shape in ((n, i, o), (n, 1, o))]
        self.flat = np.zeros(sum(map(math.prod, shapes)) + extra, dtype=np.float32)
        self.gradient = np.zeros_like(self.flat)
        self.optimizer = Adam(torch.from_numpy(self.flat), torch.from_numpy(self.gradient))

        def views(flat: np.ndarray) -> list[np.ndarray]:
            ends = list(itertools.accumulate(map(math.prod, shapes)))
            return [flat[end - math.prod(shape) : end].reshape(shape) for end, shape in zip(ends, shapes, strict=True)]

        parameters, gradients = views(self.flat), views(self.gradient)
        self.weights, self.biases = parameters[::2], parameters[1::2]
        self.weight_gradients, self.bias_gradients = gradients[::2], gradients[1::2]
        self.extra, self.extra_gradient = self.flat[len(self.flat) - extra :], self.gradient[len(self.flat) - extra :]
        for layer, weight in enumerate(self.weights):
            for k, gain in enumerate(gains):
                last = layer == len(self.weights) - 1
                weight[k] = orthogonal(rng, weight.shape[1], weight.shape[2], gain if last else math.sqrt(2))

    def forward(self, inputs: np.ndarray) -> np.ndarray:
        self.activations = [inputs]
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = np.matmul(self.activations[-1], weight)
            hidden += bias
            self.activations.append(np.tanh(hidden, out=hidden))
        outputs = np.matmul(self.activations[-1], self.weights[-1])
        outputs += self.biases[-1]
        return outputs

    def backward(self, delta: np.ndarray) -> None:
        """Writes the gradient, given the loss's gradient (n, batch, out) at the outputs of the last forward."""
        for layer in reversed(range(len(self.weights))):
            below = self.activations[layer]
            np.matmul(below.swapaxes(-1, -2), delta, out=self.weight_gradients[layer])
            np.add.reduce(delta, axis=1, keepdims=True, out=self.bias_gradients[layer])
            if layer > 0:
                delta = np.matmul(delta, self.weights[layer].swapaxes(1, 2))
                slope = np.square(below)
                np.subtract(1.0, slope, out=slope)
                delta *= slope

    def step(self, learning_rate: float, max_grad_norm: float) -> None:
        norm = math.sqrt(self.gradient @ self.gradient)
        if norm > max_grad_norm:
            self.gradient *= max_grad_norm / (norm + 1e-6)
        self.optimizer.step(learning_rate)

    def state(self) -> dict:
        return {"sizes": self.sizes, "parameters": torch.from_numpy(self.flat), "optimizer": self.optimizer.state()}

    def load_state(self, state: dict) -> None:
        self.flat[:] = state["parameters"].numpy()
        if "optimizer" in state:
            self.optimizer.load_state(state["optimizer"])


class ConvNet:
    """DQN's first convolutional network for actor and critic together, with MLP's methods; (batch, channels, 80, 80) uint8."""

    def __init__(self, channels: int, outputs: int, rng: np.random.Generator, device: torch.device):
        nn = torch.nn
        self.sizes, self.device = [channels, 80, 80, outputs], device
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**31)))
            self.body = nn.Sequential(
                nn.Conv2d(channels, 16, 8, stride=4), nn.ReLU(), nn.Conv2d(16, 32, 4, stride=2), nn.ReLU(), nn.Flatten(),
                nn.Linear(32 * 8 * 8, 256), nn.ReLU(), nn.Linear(256, outputs + 1),
            )  # fmt: skip
            layers = [layer for layer in self.body if isinstance(layer, nn.Conv2d | nn.Linear)]
            for layer in layers:
                nn.init.orthogonal_(layer.weight, math.sqrt(2))
                layer.bias.data.zero_()  # pyright: ignore[reportOptionalMemberAccess]
            # A policy that begins near uniform, and values of the usual size.
            nn.init.orthogonal_(layers[-1].weight[:-1], 0.01)
            nn.init.orthogonal_(layers[-1].weight[-1:], 1.0)
        self.body.to(device)
        self.optimizer = torch.optim.Adam(self.body.parameters(), eps=1e-5)
        self.extra = self.extra_gradient = np.zeros(0, np.float32)

    def forward(self, inputs: np.ndarray) -> np.ndarray:
        with torch.enable_grad():
            self.outputs = self.body(torch.from_numpy(inputs).to(self.device).float().div_(255.0))
        outputs = self.outputs.detach().cpu().numpy()
        return np.stack([outputs[:, :-1], np.repeat(outputs[:, -1:], outputs.shape[1] - 1, axis=1)])

    def backward(self, delta: np.ndarray) -> None:
        gradient = np.concatenate([delta[0], delta[1, :, :1]], axis=1)
        self.optimizer.zero_grad()
        self.outputs.backward(torch.from_numpy(gradient).to(self.device))

    def step(self, learning_rate: float, max_grad_norm: float) -> None:
        torch.nn.utils.clip_grad_norm_(self.body.parameters(), max_grad_norm)
        self.optimizer.param_groups[0]["lr"] = learning_rate
        self.optimizer.step()

    def state(self) -> dict:
        return {"sizes": self.sizes, "parameters": self.body.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state(self, state: dict) -> None:
        self.body.load_state_dict(state["parameters"])
        if "optimizer" in state:
            self.optimizer.load_state_dict(state["optimizer"])


class Adam:
    """Adam on one flat vector, in torch's fused kernel."""

    def __init__(self, parameters: torch.Tensor, gradient: torch.Tensor):
        self.parameters, self.gradient = parameters, gradient
        self.mean, self.square, self.steps = torch.zeros_like(parameters), torch.zeros_like(parameters), torch.zeros(())

    def step(self, learning_rate: float) -> None:
        self.steps += 1  # the kernel reads it, and would divide by 0
        torch._fused_adam_(  # pyright: ignore[reportPrivateImportUsage]
            [self.parameters], [self.gradient], [self.mean], [self.square], [], [self.steps],
            lr=learning_rate, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-5, amsgrad=False, maximize=False,
        )  # fmt: skip

    def state(self) -> tuple:
        return self.mean, self.square, self.steps

    def load_state(self, state: tuple) -> None:
        for tensor, value in zip(self.state(), state, strict=True):
            tensor.copy_(value)


class Gaussian:
    """A normal distribution over a Box, its mean the actor's output; actions are clipped only as the environment gets them."""

    def __init__(self, space: Box):
        self.low, self.high, self.size = space.low, space.high, space.shape[0]
        self.shape, self.dtype, self.extra = space.shape, np.float32, self.size

    def sample(self, outputs: np.ndarray, log_std: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return outputs + np.exp(log_std) * rng.standard_normal(outputs.shape, dtype=np.float32)

    def mode(self, outputs: np.ndarray) -> np.ndarray:
        return outputs

    def native(self, action: np.ndarray):
        """What the environment receives for one action."""
        return np.minimum(np.maximum(action, self.low), self.high)

    def log_prob(self, outputs: np.ndarray, log_std: np.ndarray, actions: np.ndarray) -> np.ndarray:
        self.z = (actions - outputs) * np.exp(-log_std)
        return -0.5 * np.square(self.z).sum(axis=1) - (log_std.sum() + 0.5 * math.log(2 * math.pi) * self.size)

    def backward(self, log_std: np.ndarray, delta: np.ndarray, ent_coef: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Gradients at outputs and log_std of the loss less ent_coef * entropy, and the entropy; delta is at log_prob's."""
        entropy = float(log_std.sum()) + 0.5 * math.log(2 * math.pi * math.e) * self.size
        scaled = delta[:, None] * self.z
        return scaled * np.exp(-log_std), (scaled * self.z).sum(axis=0) - delta.sum() - ent_coef, entropy


class Categorical:
    """A distribution over a Discrete space, its logits the actor's output."""

    def __init__(self, space: Discrete):
        self.start, self.size = int(space.start), int(space.n)
        self.shape, self.dtype, self.extra = (), np.int64, 0

    def sample(self, outputs: np.ndarray, log_std: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        # Gumbel's trick: the largest of the logits with this noise is distributed as their softmax.
        return (outputs + rng.gumbel(size=outputs.shape)).argmax(axis=1) + self.start

    def mode(self, outputs: np.ndarray) -> np.ndarray:
        return outputs.argmax(axis=1) + self.start

    def native(self, action):
        return int(action)

    def log_prob(self, outputs: np.ndarray, log_std: np.ndarray, actions: np.ndarray) -> np.ndarray:
        shifted = outputs - outputs.max(axis=1, keepdims=True)
        self.log_probs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        self.chosen = np.arange(len(actions)), actions - self.start
        return self.log_probs[self.chosen]

    def backward(self, log_std: np.ndarray, delta: np.ndarray, ent_coef: float) -> tuple[np.ndarray, np.ndarray, float]:
        probs = np.exp(self.log_probs)
        entropies = -(probs * self.log_probs).sum(axis=1, keepdims=True)
        gradient = probs * (ent_coef / len(delta) * (self.log_probs + entropies) - delta[:, None])
        gradient[self.chosen] += delta
        return gradient, log_std, float(entropies.mean())


class Moments:
    """Running mean and variance, one sample at a time, as gymnasium's normalisers keep them."""

    def __init__(self, *shape: int):
        self.mean, self.count, self.sum_squares = np.zeros(shape), 1e-4, np.full(shape, 1e-4)
        self.inverse_std = np.ones(shape)

    def update(self, sample) -> None:
        self.count += 1.0
        delta = sample - self.mean
        self.mean += delta / self.count
        self.sum_squares += delta * delta * ((self.count - 1.0) / self.count)
        self.inverse_std = 1.0 / np.sqrt(self.sum_squares / self.count + 1e-8)

    def state(self) -> dict:
        return {"mean": torch.from_numpy(self.mean), "sum_squares": torch.from_numpy(self.sum_squares), "count": self.count}

    def load_state(self, state: dict) -> None:
        self.mean, self.sum_squares = state["mean"].double().numpy().copy(), state["sum_squares"].double().numpy().copy()
        self.count = float(state["count"])
        self.inverse_std = 1.0 / np.sqrt(self.sum_squares / self.count + 1e-8)


class Agent:
    """Actor, critic, and the statistics that normalise what they see: all that is saved as agent.pt."""

    def __init__(self, observation_space: gym.Space, action_space: gym.Space, rng: np.random.Generator, device: torch.device):
        assert observation_space.shape is not None
        self.policy = Gaussian(action_space) if isinstance(action_space, Box) else Categorical(action_space)  # pyright: ignore
        self.images = len(observation_space.shape) == 3
        self.observation_shape = observation_space.shape if self.images else (math.prod(observation_space.shape),)
        self.observations, self.returns = Moments(*(() if self.images else self.observation_shape)), Moments()
        if self.images:
            self.network = ConvNet(self.observation_shape[0], self.policy.size, rng, device)
        else:
            self.network = MLP([*self.observation_shape, 64, 64, self.policy.size], [0.01, 1.0], self.policy.extra, rng)

    def normalized(self, observation: np.ndarray, update: bool = False) -> np.ndarray:
        """An observation as the networks see it; images, which they divide by 255, as they are."""
        if self.images:
            return observation
        observation = observation.ravel()
        if update:
            self.observations.update(observation)
        z = (observation - self.observations.mean) * self.observations.inverse_std
        return np.minimum(np.maximum(z, -10.0), 10.0).astype(np.float32)

    def act(self, observation: np.ndarray, rng: np.random.Generator | None = None):
        """The native action at one raw observation: the most probable one, or with rng a sample."""
        outputs, _ = self.network.forward(self.normalized(observation)[None])
        actions = self.policy.mode(outputs) if rng is None else self.policy.sample(outputs, self.network.extra, rng)
        return self.policy.native(actions[0])

    def value(self, observation: np.ndarray) -> float:
        """The critic's value of one raw observation, in units of normalised rewards."""
        return float(self.network.forward(self.normalized(observation)[None])[1, 0, 0])

    def state(self) -> dict:
        return {
            "network": self.network.state(),
            "observations": self.observations.state(),
            "returns": self.returns.state(),
        }

    def load_state(self, state: dict) -> None:
        self.network.load_state(state["network"])
        self.observations.load_state(state["observations"])
        self.returns.load_state(state["returns"])


# ------------------------------------------------------------------------------------------------------------- learner


class PPO:
    """Collects rollouts from environments played one after the other, and learns from them."""

    def __init__(self, args: Args, envs: list[gym.Env], agent: Agent, rng: np.random.Generator):
        self.args, self.envs, self.agent, self.rng = args, envs, agent, rng
        steps, n = args.num_steps, len(envs)
        dtype = np.uint8 if agent.images else np.float32
        self.observations = np.zeros((steps, n, *agent.observation_shape), dtype)
        self.actions = np.zeros((steps, n, *agent.policy.shape), agent.policy.dtype)
        self.log_probs, self.rewards, self.own_rewards, self.values = np.zeros((4, steps, n), np.float32)
        self.dones, self.overridden = np.zeros((2, steps, n), bool)
        self.entries = np.zeros((steps, n), np.int64)
        self.current = np.zeros((n, *agent.observation_shape), dtype)
        self.discounted_returns = [0.0] * n
        self.episodes = [Episode() for _ in envs]
        self.metrics: dict[str, float] = {}

    def reset(self) -> None:
        """Begins new episodes everywhere, so that there is no state in the environments but what the seeds give them."""
        for i in range(len(self.envs)):
            self._reset(i)

    def _reset(self, i: int) -> None:
        observation, _ = self.envs[i].reset(seed=int(self.rng.integers(2**31)))
        self.current[i] = self.agent.normalized(observation, update=True)
        self.discounted_returns[i], self.episodes[i] = 0.0, Episode()

    def collect(self) -> list["Episode"]:
        """Fills the rollout; returns the episodes that ended."""
        args, agent, policy, network = self.args, self.agent, self.agent.policy, self.agent.network
        finished = []
        for step in range(args.num_steps):
            self.observations[step] = self.current
            outputs, values = network.forward(self.current)
            actions = policy.sample(outputs, network.extra, self.rng)
            for i, env in enumerate(self.envs):
                observation, reward, terminated, truncated, info = env.step(policy.native(actions[i]))
                self.overridden[step, i] = info.get("action_overridden", False)
                self.entries[step, i] = info.get("critical_entry", -1)
                if self.overridden[step, i]:
                    # The learner credits what was done, not what it proposed.
                    actions[i] = info["executed_action"]
                reward = float(reward)
                own_reward = reward - info.get("llm_reward", 0.0)
                self.episodes[i].add(reward, info)
                self.discounted_returns[i] = self.discounted_returns[i] * args.gamma + reward
                agent.returns.update(self.discounted_returns[i])
                scale = float(agent.returns.inverse_std)
                reward, own_reward = min(max(reward * scale, -10.0), 10.0), min(max(own_reward * scale, -10.0), 10.0)
                self.dones[step, i] = terminated or truncated
                if terminated or truncated:
                    if not terminated:
                        at_its_end = args.gamma * agent.value(observation)
                        reward, own_reward = reward + at_its_end, own_reward + at_its_end
                    self.episodes[i].ended_after = step * len(self.envs) + i + 1
                    finished.append(self.episodes[i])
                    self._reset(i)
                else:
                    self.current[i] = agent.normalized(observation, update=True)
                self.rewards[step, i], self.own_rewards[step, i] = reward, own_reward
            self.actions[step], self.values[step] = actions, values[:, 0]
            self.log_probs[step] = policy.log_prob(outputs, network.extra, self.actions[step])
        return finished

    def advantages(self, rewards: np.ndarray) -> np.ndarray:
        """Generalised advantage estimates (steps, envs); an episode at hand goes on with its value."""
        args = self.args
        next_values = self.agent.network.forward(self.current)[1, :, 0]
        advantages = np.zeros_like(rewards)
        for i in range(len(self.envs)):
            advantage, next_value = 0.0, float(next_values[i])
            columns = (rewards[:, i].tolist(), self.values[:, i].tolist(), self.dones[:, i].tolist())
            estimates = []
            for reward, value, done in zip(*map(reversed, columns), strict=True):
                alive = args.gamma * (not done)
                advantage = reward + alive * next_value - value + alive * args.gae_lambda * advantage
                next_value = value
                estimates.append(advantage)
            advantages[:, i] = estimates[::-1]
        return advantages

    def tell(self, worth: EntryWorth) -> None:
        """Records what came of the steps in critical states, by the environment's own reward and in its units.

        What lies further ahead is told by the values, which have learned of the LLM's rewards too, where there are any.
        """
        advantages = self.advantages(self.own_rewards) / self.agent.returns.inverse_std
        for place in zip(*np.nonzero(self.entries >= 0), strict=True):
            worth.record(int(self.entries[place]), bool(self.overridden[place]), float(advantages[place]))

    def update(self, learning_rate: float) -> None:
        """The epochs of one iteration."""
        args = self.args
        advantages = self.advantages(self.rewards)
        batch = [self.observations, self.actions, self.log_probs, advantages, advantages + self.values, self.values]
        batch = [array.reshape(-1, *array.shape[2:]) for array in batch]
        size = len(batch[0])
        minibatch = size // args.num_minibatches
        totals, losses, count = np.zeros(5), np.zeros(5), 0
        for _ in range(args.update_epochs):
            indices = self.rng.permutation(size)
            shuffled = [array[indices] for array in batch]
            for start in range(0, size, minibatch):
                losses = self.minibatch(*[array[start : start + minibatch] for array in shuffled], learning_rate=learning_rate)
                totals += losses
                count += 1
            if args.target_kl is not None and losses[3] > args.target_kl:
                break
        names = ("policy_loss", "value_loss", "entropy", "approx_kl", "clipfrac")
        self.metrics = {f"losses/{name}": total / count for name, total in zip(names, totals, strict=True)}
        variance = np.var(batch[4])
        self.metrics["losses/explained_variance"] = float(1 - np.var(batch[4] - batch[5]) / variance) if variance else math.nan
        self.metrics["charts/learning_rate"] = learning_rate

    def minibatch(self, observations, actions, old_log_probs, advantages, returns, old_values, *, learning_rate) -> tuple:
        """One step on the clipped objective (PPO, arXiv 1707.06347, equation 7) and the clipped squared error of the values."""
        args, policy, network = self.args, self.agent.policy, self.agent.network
        n, c = len(advantages), args.clip_coef
        if args.norm_adv and n > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)
        outputs, values = network.forward(observations)
        log_ratio = policy.log_prob(outputs, network.extra, actions) - old_log_probs
        ratio = np.exp(log_ratio)

        unclipped, clipped = -advantages * ratio, -advantages * np.minimum(np.maximum(ratio, 1 - c), 1 + c)
        # Where the clipped loss is the larger one it is a constant.
        delta = np.where(unclipped >= clipped, unclipped, 0.0) / n
        output_delta, extra_delta, entropy = policy.backward(network.extra, delta, args.ent_coef)

        errors = values[:, 0] - returns
        change = values[:, 0] - old_values
        squares, slopes = np.square(errors), errors
        if args.clip_vloss:
            clipped_errors = errors - change + np.minimum(np.maximum(change, -c), c)
            # Not by the squares alone: inside the range they differ by rounding, which would stop the gradient.
            is_clipped = (np.abs(change) > c) & (np.square(clipped_errors) > squares)
            squares, slopes = np.where(is_clipped, np.square(clipped_errors), squares), np.where(is_clipped, 0.0, errors)
        network_delta = np.zeros((2, *outputs.shape), np.float32)
        network_delta[0], network_delta[1, :, 0] = output_delta, slopes * (args.vf_coef / n)
        network.backward(network_delta)
        network.extra_gradient[:] = extra_delta
        network.step(learning_rate, args.max_grad_norm)
        policy_loss = float(np.maximum(unclipped, clipped).mean())
        approx_kl = float((ratio - 1 - log_ratio).mean())
        return policy_loss, 0.5 * float(squares.mean()), entropy, approx_kl, float((np.abs(ratio - 1) > c).mean())


class Episode:
    """What an episode gave: the environment's own return, and what was added to it."""

    def __init__(self):
        self.episodic_return = self.llm_return = 0.0
        self.length = self.critical = self.overridden = 0
        self.ended_after = 0  # so many steps of the rollout, of all environments

    def add(self, reward: float, info: dict) -> None:
        llm_reward = info.get("llm_reward", 0.0)
        self.episodic_return += reward - llm_reward
        self.llm_return += llm_reward
        self.length += 1
        self.critical += info.get("critical", False)
        self.overridden += info.get("action_overridden", False)

    def metrics(self, guided: bool) -> dict[str, float]:
        values = {"charts/episodic_return": self.episodic_return, "charts/episodic_length": self.length}
        if guided:
            values["ultra/hit_rate"] = self.critical / self.length
            values["ultra/override_rate"] = self.overridden / self.length
            values["ultra/llm_return"] = self.llm_return
            magnitude = abs(self.episodic_return) + abs(self.llm_return)
            values["ultra/llm_share"] = abs(self.llm_return) / magnitude if magnitude else 0.0
        return values


# ---------------------------------------------------------------------------------------- the other arms of the comparison


class Novelty:
    """Random network distillation (arXiv 1810.12894): how badly a fixed random network is predicted at a state."""

    def __init__(self, agent: Agent, rng: np.random.Generator):
        sizes = [*agent.observation_shape, 64, 64, 32]
        self.target, self.predictor = MLP(sizes, [1.0], 0, rng), MLP(sizes, [1.0], 0, rng)
        self.agent, self.errors, self.seen = agent, Moments(), []

    def __call__(self, observation: np.ndarray) -> float:
        """The novelty of a raw observation, in [0, 1]: its error over twice the mean error so far."""
        inputs = self.agent.normalized(observation)
        error = float(np.square(self.target.forward(inputs[None]) - self.predictor.forward(inputs[None])).mean())
        self.errors.update(error)
        self.seen.append(inputs)
        return min(error / (2 * float(self.errors.mean) + 1e-8), 1.0)

    def update(self, learning_rate: float) -> None:
        """Teaches the predictor the states seen since the last update."""
        for start in range(0, len(self.seen), 64):
            inputs = np.array(self.seen[start : start + 64])
            errors = self.predictor.forward(inputs) - self.target.forward(inputs)
            self.predictor.backward(errors * np.float32(2 / errors.size))
            self.predictor.step(learning_rate, math.inf)
        self.seen.clear()

    def state(self) -> dict:
        return {"target": self.target.state(), "predictor": self.predictor.state(), "errors": self.errors.state()}

    def load_state(self, state: dict) -> None:
        for name in ("target", "predictor", "errors"):
            getattr(self, name).load_state(state[name])


class NoveltyBonus(GuidedWrapper):
    """Adds alpha times the novelty of the state acted in, where that state is critical (LLM-RND)."""

    def __init__(self, env: gym.Env, novelty: Novelty, guidance, alpha: float, patience_steps: int):
        super().__init__(env)
        self.novelty, self.alpha = novelty, alpha
        self._lookup = GuidanceLookup(guidance, env, None, patience_steps)

    def reset(self, *, seed=None, options=None):
        self.observation, info = self.env.reset(seed=seed, options=options)
        self._lookup.look(self.observation, info)
        return self.observation, info

    def step(self, action):
        critical = self._lookup.count() is not None
        bonus = self.alpha * self.novelty(self.observation) if critical else 0.0
        self.observation, reward, terminated, truncated, info = self.env.step(action)
        self._lookup.look(self.observation, info)
        info = {**info, "llm_reward": bonus, "critical": critical}
        return self.observation, float(reward) + bonus, terminated, truncated, info


class Blinded(gym.Wrapper):
    """The mask network's task (StateMask, as RICE states it, arXiv 2405.03064): by action 1 the agent acts at random.

    Blinding is paid for, so the mask network learns to do it wherever the return does not suffer; where it does not, the
    agent's action matters.
    """

    def __init__(self, env: gym.Env, agent: Agent, rng: np.random.Generator, bonus: float):
        super().__init__(env)
        self.agent, self.rng, self.bonus = agent, rng, bonus
        self.native_action_space, self.action_space = env.action_space, Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.native_action_space.seed(int(self.rng.integers(2**31)))
        self.observation, info = self.env.reset(seed=seed, options=options)
        return self.observation, info

    def step(self, action):
        native = self.native_action_space.sample() if action else self.agent.act(self.observation, self.rng)
        self.observation, reward, terminated, truncated, info = self.env.step(native)
        return self.observation, float(reward) + self.bonus * action, terminated, truncated, info


def statemask(args: Args, agent: Agent, table: CriticalStates, trajectories: Trajectories, rng, device) -> CriticalStates:
    """As many states as the table has, where a mask network is least willing to blind the agent."""
    shown, held_out = split(table, trajectories)
    envs: list[gym.Env] = [Blinded(make_env(args), agent, rng, bonus=0.01 * float(np.abs(trajectories.rewards).mean() or 1.0))]
    mask = Agent(envs[0].observation_space, envs[0].action_space, rng, device)
    ppo = PPO(dataclasses.replace(args, num_steps=2048, num_minibatches=32, update_epochs=10), envs, mask, rng)
    ppo.reset()
    iterations = max(args.statemask_timesteps // 2048, 1)
    progress = Progress(iterations * 2048, 0)
    for iteration in range(iterations):
        ppo.collect()
        ppo.update(args.learning_rate * (1 - iteration / iterations))
        progress.update((iteration + 1) * 2048, math.nan)
    progress.close()
    envs[0].close()
    logits, _ = mask.network.forward(np.array([mask.normalized(observation) for observation in shown.observations]))
    importance = logits[:, 0] - logits[:, 1]  # the logit of leaving the agent alone
    return placed(table, shown, held_out, np.argsort(-importance, kind="stable"))


def random_states(table: CriticalStates, trajectories: Trajectories, rng: np.random.Generator) -> CriticalStates:
    """The table's actions and rewards at as many random states of the same episodes."""
    shown, held_out = split(table, trajectories)
    return placed(table, shown, held_out, rng.permutation(len(shown.observations)))


def split(table: CriticalStates, trajectories: Trajectories) -> tuple[Trajectories, Trajectories]:
    """The episodes from which the table was made, and those that set its tolerance."""
    return trajectories.split(int((table.calibration or {}).get("table_episodes", len(trajectories) // 2)))


def matchable(observations: np.ndarray) -> np.ndarray:
    """What tables are matched with: observations as vectors, of Pong's grids the objects in them."""
    if observations.ndim < 4:
        return observations.reshape(len(observations), -1)
    return np.array([locate(now, before) for before, now in observations])


def placed(table: CriticalStates, shown: Trajectories, held_out: Trajectories, order: np.ndarray) -> CriticalStates:
    """The table at the first states in this order, with the table's hit rate."""
    held_out_states = matchable(held_out.observations)
    moved = table.moved_to(matchable(shown.observations[order[: len(table)]]))
    return moved.calibrated(held_out_states, max(table.hit_rate(held_out_states), 1 / len(held_out_states)))


# ------------------------------------------------------------------------------------------------ evaluation, trajectories


def evaluate(env: gym.Env, agent: Agent, args: Args, name: str) -> float:
    """Mean return of the most probable actions over the same seeded episodes every time."""
    if args.capture_video:
        env.set_wrapper_attr("name_prefix", name, force=False)
    returns = []
    for episode in range(args.eval_episodes):
        observation, _ = env.reset(seed=args.seed + 10_000 + episode)
        episodic_return, done = 0.0, False
        while not done:
            observation, reward, terminated, truncated, info = env.step(agent.act(observation))
            episodic_return += float(reward) - info.get("llm_reward", 0.0)
            done = terminated or truncated
        returns.append(episodic_return)
    return float(np.mean(returns))


def record(agent: Agent, args: Args, episodes: int) -> Trajectories:
    """Episodes of the agent as it acts while it learns: its actions are samples."""
    env, steps = make_env(args), []
    lengths, terminations, final_observations = [], [], []
    seeds = [args.seed + 20_000 + episode for episode in range(episodes)]
    for seed in seeds:
        rng, length, done = np.random.default_rng(seed), 0, False
        observation, _ = env.reset(seed=seed)
        while not done:
            action = agent.act(observation, rng)
            next_observation, reward, terminated, truncated, _ = env.step(action)
            steps.append((np.array(observation), action, float(reward)))
            observation, length, done = next_observation, length + 1, terminated or truncated
        lengths.append(length)
        terminations.append(terminated)
        final_observations.append(np.array(observation))
    env.close()
    observations, actions, rewards = zip(*steps, strict=True)
    return Trajectories(
        env_id=args.env_id,
        observations=np.array(observations),
        actions=np.array(actions, agent.policy.dtype),
        rewards=np.array(rewards, np.float32),
        lengths=np.array(lengths, np.int64),
        terminations=np.array(terminations, bool),
        final_observations=np.array(final_observations),
        seeds=np.array(seeds, np.int64),
    )


def entries_of(worth: EntryWorth, guidance) -> list[dict]:
    """What each entry was worth, with what the LLM said there and where in its episodes that was."""
    rows = worth.table()
    if isinstance(guidance, CriticalStates):
        notes = guidance.notes or ({},) * len(rows)
        for row, action, reward, note in zip(rows, guidance.actions.tolist(), guidance.rewards.tolist(), notes, strict=True):
            row |= {"action": action, "reward": reward} | {name: note[name] for name in ("episode", "step") if name in note}
    return rows


def fidelity(args: Args, agent: Agent, guidance) -> str:
    """What a random action costs at the critical states, and at as many random ones: StateMask's test of an explanation.

    The three episodes of a seed begin alike; which steps are critical is seen on the way, and the random ones come with the
    rate at which that seed's critical ones did. The interval is a 95 % bootstrap over seeds.
    """
    env = make_env(args)
    key = matched_info(env)
    losses, rates = [], []
    for episode in range(args.fidelity_episodes):
        returns, rate = [], 0.0
        for blinded in ("never", "critical", "random"):
            seed = args.seed + 30_000 + episode
            rng, coin = np.random.default_rng(seed), np.random.default_rng((seed, 1))
            env.action_space.seed(seed)
            observation, info = env.reset(seed=seed)
            episodic_return, length, hits, done = 0.0, 0, 0, False
            while not done:
                action = agent.act(observation, rng)
                if blinded == "critical":
                    blind = guidance(info[key] if key else observation) is not None
                else:
                    blind = blinded == "random" and coin.random() < rate
                observation, reward, terminated, truncated, info = env.step(env.action_space.sample() if blind else action)
                episodic_return, length, hits = episodic_return + float(reward), length + 1, hits + blind
                done = terminated or truncated
            if blinded == "critical":
                rate = hits / length
            returns.append(episodic_return)
        rates.append(rate)
        losses.append((returns[0], returns[0] - returns[1], returns[0] - returns[2]))
    plain, critical, random = np.array(losses).T
    draws = np.random.default_rng(0).integers(0, len(plain), (10_000, len(plain)))

    def interval(values: np.ndarray) -> str:
        low, high = np.percentile(values[draws].mean(axis=1), (2.5, 97.5))
        return f"{values.mean():.1f} [{low:.1f}, {high:.1f}]"

    return (
        f"fidelity over {len(plain)} episodes, 95 % intervals; random actions at {100 * np.mean(rates):.1f} % of the steps\n"
        f"  return of the agent                       {interval(plain)}\n"
        f"  lost by random actions at critical states {interval(critical)}\n"
        f"  lost by random actions at random states   {interval(random)}\n"
        f"  difference                                {interval(critical - random)}"
    )


# ------------------------------------------------------------------------------------ run folder: metrics, checkpoints


class Metrics:
    """Writes every metric to metrics.csv and TensorBoard, and to W&B with --track."""

    def __init__(self, args: Args, run_dir: Path, arm: str, global_step: int, csv_bytes: int):
        path = run_dir / "metrics.csv"
        if csv_bytes and (not path.exists() or path.stat().st_size < csv_bytes):
            raise UserError(f"{path} is shorter than the checkpoint beside it says")
        self.file = open(path, "a", newline="")  # noqa: SIM115
        self.file.truncate(csv_bytes)  # what an interrupted run wrote after its last checkpoint will come again
        self.csv = csv.writer(self.file, lineterminator="\n")
        if not csv_bytes:
            self.csv.writerow(["global_step", "metric", "value"])
        self.tensorboard = SummaryWriter(str(run_dir), purge_step=global_step + 1 if csv_bytes else 0)
        self.wandb = None
        if args.track:
            try:
                import wandb

                self.wandb = wandb.init(
                    project=args.wandb_project_name,
                    entity=args.wandb_entity,
                    group=f"{args.env_id}-{arm}",
                    tags=[*args.wandb_tags, args.env_id, arm],
                    config=dataclasses.asdict(args),
                    name=run_dir.name,
                    id=run_dir.name,
                    resume="allow",
                    dir=str(run_dir),
                )
            except Exception as error:
                raise UserError(f"--track: {error} (WANDB_MODE=offline needs neither account nor network)") from None

    def log(self, global_step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self.csv.writerow([global_step, name, repr(float(value))])
            self.tensorboard.add_scalar(name, value, global_step)
        self.file.flush()
        if self.wandb:
            self.wandb.log(values, step=global_step)

    def close(self) -> None:
        self.file.close()
        self.tensorboard.close()
        if self.wandb:
            self.wandb.finish()


class Progress:
    """A bar with steps per second, the latest return and the time left; where there is no terminal, a line now and then."""

    def __init__(self, total_timesteps: int, global_step: int, seconds: float = 0.0):
        self.start_step, self.start_time, self.last_line = global_step, time.monotonic(), time.monotonic()
        self.seconds_before = seconds
        self.total = total_timesteps
        self.bar = tqdm(total=total_timesteps, initial=global_step, unit="step", dynamic_ncols=True, disable=None)

    @property
    def seconds(self) -> float:
        """How long the run has taken, with what it took before it was resumed."""
        return self.seconds_before + time.monotonic() - self.start_time

    def steps_per_second(self, global_step: int) -> float:
        return (global_step - self.start_step) / max(time.monotonic() - self.start_time, 1e-9)

    def update(self, global_step: int, last_return: float) -> None:
        """Shows where the run is."""
        if not self.bar.disable:
            self.bar.set_postfix_str(f"return {last_return:.0f}", refresh=False)
            self.bar.update(global_step - self.bar.n)
        elif time.monotonic() - self.last_line > 15:
            self.last_line = time.monotonic()
            rate = self.steps_per_second(global_step)
            left = datetime.timedelta(seconds=int((self.total - global_step) / rate))
            self.print(f"global_step {global_step}/{self.total}  return {last_return:.0f}  SPS {rate:.0f}  left {left}")

    def close(self) -> None:
        self.bar.update(self.total - self.bar.n)
        self.bar.close()

    def print(self, line: str) -> None:
        self.bar.write(line)
        sys.stdout.flush()


def write_atomically(path: Path, data: bytes | memoryview) -> None:
    """Leaves at path either what was there or all of the data, whatever happens meanwhile."""
    partial = path.with_name(path.name + ".partial")
    try:
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def serialize(state: dict) -> memoryview:
    """torch.save in memory, where it cannot fail for want of disk space."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getbuffer()


def file_hashes(args: Args) -> dict[str, str]:
    """The hashes of the files that a run depends on, so that a resumed one notices if they have changed."""
    paths = {"agent": agent_path(args), "trajectories": None if args.pretrain_timesteps else trajectories_path(args)}
    if args.arm != "none" and not args.pretrain_timesteps:
        source = Path(guidance_source(args))
        paths["critical_states"] = source / "table.json" if source.is_dir() else source
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in paths.items()
        if path is not None and path.is_file()
    }


def describe_run(args: Args, env: gym.Env) -> dict:
    """What one needs to know to repeat a run."""

    def git(*command: str) -> str | None:
        folder = Path(__file__).parent
        try:
            done = subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True, check=False)
        except OSError:  # no git on this machine
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    packages = ("llmwrappers", "numpy", "torch", "gymnasium", "mujoco", "ale-py")
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    commit = git("rev-parse", "HEAD")
    # A comparison that grows where it is committed changes nothing that a run depends on.
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)benchmarks/comparisons")
    return {
        "args": dataclasses.asdict(args),
        "versions": versions,
        "git_commit": commit and commit + ("-dirty" if changed else ""),
        "command": sys.argv,
        "sha256": file_hashes(args),
        "env_spec": env.unwrapped.spec and dataclasses.asdict(env.unwrapped.spec),
    }


# What each argument may be, beyond its type.
RANGES = {
    "at least 0": (
        lambda value: value >= 0,
        ("seed", "pretrain_timesteps", "trajectory_episodes", "fidelity_episodes", "ent_coef", "vf_coef", "patience_steps"),
    ),
    "at least 1": (
        lambda value: value >= 1,
        (
            "total_timesteps", "num_envs", "num_steps", "num_minibatches", "update_epochs", "checkpoint_every", "eval_every",
            "eval_episodes", "statemask_timesteps",
        ),
    ),
    "finite and above 0": (lambda value: 0 < value < math.inf, ("learning_rate", "clip_coef", "max_grad_norm")),
    "finite and at least 0": (lambda value: 0 <= value < math.inf, ("alpha",)),
    "in [0, 1]": (lambda value: 0 <= value <= 1, ("gamma", "gae_lambda")),
    "in [0, 1)": (lambda value: 0 <= value < 1, ("withhold",)),
}  # fmt: skip


def parse_args(argv: list[str] | None = None) -> Args:
    args = tyro.cli(Args, args=argv)
    if args.resume is not None:
        return resumed_args(args.resume, argv)
    if args.env_id == "ALE/Pong-v5":
        print(
            "ALE/Pong-v5 is played from its object state here, llmwrappers/PongObjects-v0 (80x80 grid: llmwrappers/PongGrid-v0)"
        )
        args.env_id = "llmwrappers/PongObjects-v0"
    if args.env_id.startswith("llmwrappers/Pong"):
        args = tyro.cli(Args, args=argv, default=dataclasses.replace(Args(), **PONG))
        args.env_id = args.env_id.replace("ALE/Pong-v5", "llmwrappers/PongObjects-v0")
    for words, (is_valid, names) in RANGES.items():
        for name in names:
            if not is_valid(getattr(args, name)):
                raise UserError(f"--{name.replace('_', '-')} must be {words}, got {getattr(args, name)}")
    batch = args.num_envs * args.num_steps
    if batch % args.num_minibatches:
        raise UserError(
            f"--num-minibatches {args.num_minibatches} must divide num_envs * num_steps = {args.num_envs} * {args.num_steps}"
        )
    steps = args.pretrain_timesteps or args.total_timesteps
    if steps < batch:
        name = "pretrain" if args.pretrain_timesteps else "total"
        raise UserError(f"--{name}-timesteps {steps} must be at least one rollout, num_envs * num_steps = {batch}")
    try:
        module, _, name = args.env_id.rpartition(":")
        if module:
            importlib.import_module(module)  # which registers it
        gym.spec(name)
    except (gym.error.Error, ImportError) as error:
        raise UserError(
            f"--env-id {args.env_id}: {error} (tables are shipped for {', '.join(shipped_tables())}; "
            "gymnasium.pprint_registry() lists every environment)"
        ) from None
    if args.pretrain_timesteps and args.fidelity_episodes:
        raise UserError(
            f"--fidelity-episodes {args.fidelity_episodes} plays an agent that has been trained, and trains none; give it "
            "without --pretrain-timesteps"
        )
    if args.pretrain_timesteps:
        args.agent = "none" if args.agent == "shipped" else args.agent
        args.arm = "none"
        return args
    if args.agent == "shipped" and not (table_folder(args) / "agent.pt").is_file():
        raise UserError(
            f"no agent is shipped for --env-id {args.env_id} (shipped: {', '.join(shipped_tables())}). Train one with "
            "--pretrain-timesteps 300000 and give --agent RUN_DIR/agent.pt, or begin from scratch with --agent none"
        )
    needed = args.arm != "none" or args.fidelity_episodes
    if args.critical_states == "shipped" and needed and not (table_folder(args) / "table.json").is_file():
        raise UserError(
            f"no table is shipped for --env-id {args.env_id} (shipped: {', '.join(shipped_tables())}). Let a model write "
            f"one: python -m local_llm.find_critical_states --env-id {args.env_id} --trajectories RUN_DIR/trajectories.npz; or "
            "train without: --arm none"
        )
    if args.arm in ("random", "statemask") and args.guidance == "code":
        raise UserError(f"--arm {args.arm} moves the states of a table, so it needs --guidance table, got --guidance code")
    return args


def resumed_args(run_dir: str, argv: list[str] | None) -> Args:
    """The arguments of a run; none of those given may differ from them, nor the files it reads from what they were."""
    path = Path(run_dir) / "args.json"
    try:
        description = json.loads(path.read_text())
        saved = Args(**{"withhold": 0.0, **description["args"]})  # a run that was begun before there was --withhold
        saved = dataclasses.replace(saved, resume=run_dir, wandb_tags=tuple(saved.wandb_tags))
        args = tyro.cli(Args, args=argv, default=saved)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"--resume {run_dir}: no run of this script: {path}: {error}") from None
    for field in dataclasses.fields(Args):
        given, before = getattr(args, field.name), getattr(saved, field.name)
        if given != before:
            option = field.name.replace("_", "-")
            raise UserError(f"--{option} {given}: the run in {run_dir} has {before}; --resume takes no other arguments")
    for name, sha256 in description.get("sha256", {}).items():
        if file_hashes(args).get(name) != sha256:
            raise UserError(
                f"--resume {run_dir}: the file of --{name.replace('_', '-')} is not the one that the run began with"
            )
    return args


# -------------------------------------------------------------------------------------------------- what a run starts from


def table_folder(args: Args) -> Path:
    """Where the table of the environment is shipped, its agent and that agent's trajectories."""
    return Path(tables.__file__).parent / args.env_id.replace("/", "-")


def agent_path(args: Args) -> Path | None:
    if args.agent == "none":
        return None
    return table_folder(args) / "agent.pt" if args.agent == "shipped" else Path(args.agent)


def trajectories_path(args: Args) -> Path | None:
    """The episodes saved with the agent."""
    path = agent_path(args)
    return path and path.with_name("trajectories.npz")


def guidance_source(args: Args) -> Path | str:
    """The file or folder of the LLM's critical states, or a shipped name, if there is no such file or folder."""
    folder = table_folder(args) if args.critical_states == "shipped" else Path(args.critical_states)
    if args.guidance == "code" and (folder.is_dir() or args.critical_states == "shipped"):
        return folder / "critical.py"
    return folder if folder.exists() else args.critical_states


def load_agent(agent: Agent, path: Path, env_id: str) -> None:
    """Takes over an agent.pt.

    Raises:
        UserError: no such file, damaged, of another environment or of another architecture
    """
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        sizes, saved_id = list(saved["agent"]["network"]["sizes"]), saved["env_id"]
    except Exception as error:
        raise UserError(f"--agent {path} is no agent.pt of this script: {type(error).__name__}: {error}") from None
    if saved_id != env_id:
        raise UserError(f"--agent {path}: its env_id is {saved_id}, --env-id is {env_id}")
    if sizes != agent.network.sizes:
        raise UserError(f"--agent {path}: its network's sizes are {sizes}; {env_id} needs {agent.network.sizes}")
    try:
        agent.load_state(saved["agent"])
    except Exception as error:
        raise UserError(f"--agent {path} is damaged: {type(error).__name__}: {error}") from None


def save_agent(path: Path, agent: Agent, args: Args, global_step: int) -> None:
    """Writes agent.pt, without the optimizer's state."""
    state = agent.state()
    network = {name: value for name, value in state["network"].items() if name != "optimizer"}
    saved = {"env_id": args.env_id, "global_step": global_step, "agent": {**state, "network": network}}
    write_atomically(path, serialize(saved))


def guidance_of(args: Args, agent: Agent, env: gym.Env, rng: np.random.Generator, device: torch.device):
    """What names the critical states in this arm; None in the arm `none`."""
    if args.arm == "none" and not args.fidelity_episodes:
        return None
    if args.arm in ("rnd", "statemask") and agent.images:
        raise UserError(f"--arm {args.arm} needs observations that are vectors; {args.env_id} has images")
    source = guidance_source(args)
    try:
        guidance = load_guidance(source, env, info_key=matched_info(env))
    except (ValueError, TypeError, OSError) as error:
        raise UserError(f"--critical-states {source}: {error}") from None
    if isinstance(guidance, CriticalStates) != (args.guidance == "table"):
        raise UserError(f"--guidance {args.guidance}: --critical-states {source} is the other kind; a table ends in .json")
    if (key := matched_info(env)) and key not in (info := env.reset(seed=0)[1]):
        raise UserError(f"--arm {args.arm}: images are matched by info[{key!r}], and info has {sorted(info)}")
    if args.arm not in ("random", "statemask"):
        return guidance
    assert isinstance(guidance, CriticalStates)  # as parse_args sees to
    path = trajectories_path(args)
    if path is None:
        raise UserError(f"--arm {args.arm} chooses states from the trajectories beside --agent, got --agent none")
    try:
        trajectories = Trajectories.load(path)
        if args.arm == "random":
            return random_states(guidance, trajectories, rng)
        return statemask(args, agent, guidance, trajectories, rng, device)
    except ValueError as error:
        raise UserError(f"--arm {args.arm} chooses states from {path}: {error}") from None


# ------------------------------------------------------------------------------------------------------------ training


def main(argv: list[str] | None = None) -> None:
    # The papers' results are on v4; gymnasium warns that there is a v5.
    warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)
    args = parse_args(argv)
    torch.use_deterministic_algorithms(args.torch_deterministic)
    torch.set_flush_denormal(True)  # the moments of small gradients decay to denormals, on which Adam takes ten times as long
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    env = make_env(args)
    images = len(env.observation_space.shape or ()) == 3
    device = torch.device("cuda" if images and torch.cuda.is_available() and args.cuda else "cpu")
    if not images:
        torch.set_num_threads(1)  # all that torch does for a small agent is Adam, in 10 microseconds on one thread
    # Every random number of the run but the environments' own; what chooses states has a stream to itself.
    rng, chooser = np.random.default_rng(args.seed), np.random.default_rng((args.seed, 1))
    agent = Agent(env.observation_space, env.action_space, rng, device)
    if path := agent_path(args):
        load_agent(agent, path, args.env_id)
    guidance = guidance_of(args, agent, env, chooser, device)
    env.close()
    if args.fidelity_episodes:
        print(fidelity(args, agent, guidance))
        return

    arm = "pretrain" if args.pretrain_timesteps else args.arm
    if args.resume:
        run_dir = Path(args.resume)
    else:
        name = f"{args.env_id.replace('/', '-')}__{args.exp_name}__{arm}__{args.seed}__{int(time.time())}"
        run_dir = Path(args.runs_dir) / name
        try:
            run_dir.mkdir(parents=True)
            write_atomically(run_dir / "args.json", json.dumps(describe_run(args, env), indent=2, default=str).encode())
        except OSError as error:
            raise UserError(f"--runs-dir {args.runs_dir}: cannot make the run folder {run_dir}: {error.strerror}") from None
    if env.spec is not None and env.spec.max_episode_steps is None:
        print(
            f"note: {args.env_id} has no time limit; an evaluation and a recording wait for the end of their episode, so if "
            "episodes may never end, register it with max_episode_steps",
            flush=True,
        )
    # A full disk also stops TensorBoard's writer thread, which would print a traceback of its own.
    threading.excepthook = lambda hook: None if isinstance(hook.exc_value, OSError) else threading.__excepthook__(hook)
    eval_env = make_env(args, run_dir / "videos" if args.capture_video else None)
    novelty = Novelty(agent, rng) if args.arm in ("rnd", "statemask") else None
    envs = []
    try:
        for _ in range(args.num_envs):
            envs.append(guide(make_env(args), args, guidance, novelty))
        run(args, PPO(args, envs, agent, rng), novelty, guidance, eval_env, run_dir, arm)
    except OSError as error:
        raise UserError(
            f"cannot read or write {error.filename or run_dir}: {error.strerror or error}. What was written before is kept: "
            f"{how_to_resume(run_dir)}"
        ) from None
    except RuntimeError as error:
        if not str(error).startswith("no state was critical"):
            raise
        raise UserError(f"--critical-states {guidance_source(args)}: {error}") from None
    finally:
        for env in (*envs, eval_env):
            env.close()


def how_to_resume(run_dir: Path) -> str:
    from_where = "goes on from its last checkpoint" if (run_dir / "checkpoint.pt").exists() else "starts it again"
    return f"--resume {run_dir} {from_where}"


def run(args: Args, ppo: PPO, novelty: Novelty | None, guidance, eval_env: gym.Env, run_dir: Path, arm: str) -> None:
    agent, rng = ppo.agent, ppo.rng
    batch = args.num_envs * args.num_steps
    iterations = (args.pretrain_timesteps or args.total_timesteps) // batch
    total = iterations * batch
    guided_env = worth = None  # elsewhere it would play as the plain agent does
    if args.arm in ACTING_ARMS:
        guided_env = guide(make_env(args), dataclasses.replace(args, patience_steps=0, withhold=0.0), guidance)
        worth = EntryWorth(entry_count(guidance)) if args.withhold else None

    global_step, next_checkpoint, csv_bytes, seconds = 0, args.checkpoint_every, 0, 0.0
    checkpoint_path = run_dir / "checkpoint.pt"

    def silence(worth: EntryWorth) -> None:
        for env in filter(None, (*ppo.envs, guided_env)):
            env.set_wrapper_attr("silent", worth.silent, force=False)

    if checkpoint_path.exists():
        try:
            checkpoint = torch.load(checkpoint_path, weights_only=True, map_location="cpu")
            global_step, csv_bytes, seconds = (checkpoint[name] for name in ("global_step", "csv_bytes", "seconds"))
            agent.load_state(checkpoint["agent"])
            rng.bit_generator.state = json.loads(checkpoint["rng"])
            if novelty:
                novelty.load_state(checkpoint["novelty"])
            if worth:
                worth.load_state(checkpoint["worth"])
                silence(worth)
            if guidance is not None:
                for env, counts in zip(ppo.envs, checkpoint["counts"], strict=True):
                    env.set_wrapper_attr("counts", tuple(counts), force=False)
        except Exception as error:
            raise UserError(f"--resume {run_dir}: its checkpoint is damaged or of another run: {error}") from None
        next_checkpoint = global_step + args.checkpoint_every

    def save_checkpoint() -> None:
        os.fsync(metrics.file.fileno())
        state = {
            "global_step": global_step,
            "csv_bytes": metrics.file.tell(),
            "seconds": progress.seconds,
            "agent": agent.state(),
            "rng": json.dumps(rng.bit_generator.state),
            "novelty": novelty and novelty.state(),
            "worth": worth and worth.state(),
            "counts": [env.get_wrapper_attr("counts") for env in ppo.envs] if guidance is not None else None,
        }
        write_atomically(checkpoint_path, serialize(state))

    def evaluate_now() -> dict[str, float]:
        plain = evaluate(eval_env, agent, args, f"step-{global_step}")
        values, line = {"eval/episodic_return": plain}, f"eval at global_step {global_step}: return {plain:.1f}"
        if guided_env:
            guided_env.set_wrapper_attr("counts", (0, 0), force=False)  # code that fell silent in the last one speaks again
            guided = evaluate(guided_env, agent, dataclasses.replace(args, capture_video=False), "")
            values["eval/guided_return"] = guided
            line += f" of the plain agent, {guided:.1f} with the LLM's actions"
        metrics.log(global_step, values)
        progress.print(line)
        return values

    metrics = Metrics(args, run_dir, arm, global_step, csv_bytes)
    (run_dir / "summary.json").unlink(missing_ok=True)  # a finished run that is resumed goes back to its last checkpoint
    progress = Progress(total, global_step, seconds)
    threads = "cpu, NumPy" if isinstance(agent.network, MLP) else str(agent.network.device)
    print(f"{'resuming' if csv_bytes else 'training'} {run_dir} on {threads}", flush=True)

    # A checkpoint is made where all episodes begin anew, with seeds of the run's own stream: then there is no state in the
    # environments, and a run that resumes there does exactly what an uninterrupted run does.
    try:
        if global_step == 0:
            evaluate_now()
        ppo.reset()
        last_return = math.nan
        while global_step < total:
            learning_rate = args.learning_rate * (1.0 - global_step / total if args.anneal_lr else 1.0)
            episodes = ppo.collect()
            if worth:
                ppo.tell(worth)
                if worth.look():
                    silence(worth)
            ppo.update(learning_rate)
            if novelty:
                novelty.update(learning_rate)
            for episode in episodes:
                metrics.log(global_step + episode.ended_after, episode.metrics(guided=guidance is not None))
                last_return = episode.episodic_return
            global_step += batch
            if worth:
                metrics.log(global_step, {"ultra/silent_entries": len(worth.silent), "ultra/advantage": worth.advantage})
            if isinstance(guidance, CriticalFunction):
                metrics.log(global_step, {"ultra/faults": sum(env.get_wrapper_attr("counts")[2] for env in ppo.envs)})
            metrics.log(global_step, {**ppo.metrics, "charts/SPS": progress.steps_per_second(global_step)})
            progress.update(global_step, last_return)
            if global_step // args.eval_every > (global_step - batch) // args.eval_every and global_step < total:
                evaluate_now()
            if next_checkpoint <= global_step < total:
                save_checkpoint()
                ppo.reset()
                next_checkpoint = global_step + args.checkpoint_every

        evaluation = evaluate_now()
        if worth:
            write_atomically(run_dir / "entries.json", json.dumps(entries_of(worth, guidance), indent=1).encode())
            progress.print(str(worth))
        if args.save_model:
            save_agent(run_dir / "agent.pt", agent, args, global_step)
            if args.trajectory_episodes:
                trajectories = record(agent, args, args.trajectory_episodes)
                trajectories.save(run_dir / "trajectories.npz")
                progress.print(
                    f"{len(trajectories)} episodes, mean return {trajectories.returns.mean():.1f}, in trajectories.npz"
                )
        summary = {"global_step": global_step, "seconds": round(progress.seconds, 1), **evaluation}
        if worth:
            summary["verdict"] = str(worth)
        write_atomically(run_dir / "summary.json", json.dumps(summary, indent=2).encode())  # the run has finished
        metrics.close()
        progress.close()
        print(f"finished in {run_dir}")
    except (KeyboardInterrupt, SystemExit):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # it stops already
        progress.print(f"stopped at global_step {global_step}: {how_to_resume(run_dir)}")
        raise
    finally:
        metrics.file.close()
        if guided_env:
            guided_env.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except UserError as error:
        sys.exit(f"ppo_ultra.py: error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
