# TD3 guided by a policy that an LLM wrote: CAMEL (arXiv 2502.11896) on CleanRL's td3_continuous_action.py, in one file.
#
#   for every episode: which prior masks it, if any            a competition decides, by returns; ever fewer are masked
#   learn without a prior for a while: does the best one return a quarter more than the agent by then?
#       yes: it teaches; for a while the actor only copies it;  no: all are dropped, what is left is TD3
#   for every step:
#       x = actor(obs) + noise                                 x in [-1, 1]; before learning starts x is random, and until it
#                                                              has been copied a prior plays its episodes by itself
#       next_obs, reward = env.step(x)                         LLMActionMask clips it into the interval around the prior's
#       store obs, action, next_obs, reward, advice            the advice is what each prior would have done
#       x' = clip(target_actor(next_obs) + clipped noise)
#       critics  <- reward + gamma * min(target_critics(next_obs, x'))
#       actor    <- max critic(obs, actor(obs)) / mean |critic|, pulled to the prior and to the champion
#       targets  <- (1 - tau) * targets + tau * networks         both every second step
#   unmasked episodes are a trial of the actor as it was at the first of five: as good as the champion's, but for chance?
#       yes: both pulls weaken, and if their mean is as high, that actor is the champion;  no: the pulls are strong again
#       then the champion plays one, to tell its luck
#   evaluate without the mask (the learned policy alone: the headline) and with it; their difference is the handover gap
#
# That is --form taught: x is an action of the whole space, with the mask and without. In --form paper, CAMEL's own, x spans the
# interval, a = center + half_width * x; intervals are stored and used in the updates, and nothing else is learned from the
# prior. With --prior none both are CleanRL's TD3.
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
import re
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
from gymnasium.spaces import Box
from gymnasium.spaces.utils import flatdim, flatten
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from llmwrappers import EpsilonMaskSchedule, LLMActionMask, PriorAdvice, PriorCompetition, PriorPolicy, load_prior, to_native
from llmwrappers.bounds import center_and_half_width
from llmwrappers.discounted_returns import DiscountedReturns, difference
from llmwrappers.priors import load_candidates, shipped_priors


@dataclass
class Args:
    exp_name: str = "td3_camel"
    """the name of this experiment"""
    seed: int = 1
    """seed of the experiment"""
    torch_deterministic: bool = True
    """if toggled, torch uses deterministic algorithms only"""
    cuda: bool = True
    """if toggled, a GPU is used where there is one"""
    track: bool = False
    """if toggled, this experiment will be tracked with Weights and Biases (WANDB_MODE=offline needs no account)"""
    wandb_project_name: str = "llmwrappers"
    """the wandb's project name"""
    wandb_entity: str | None = None
    """the entity (team) of wandb's project"""
    wandb_tags: tuple[str, ...] = ()
    """tags of the wandb run"""
    capture_video: bool = False
    """whether to record the first episode of every evaluation, with and without the mask (check out the `videos` folder)"""
    save_model: bool = True
    """whether to save the final model into the run folder; --prior expert:RUN_DIR/model.pt uses it as a prior"""
    runs_dir: str = "runs"
    """the folder in which the run folder is made"""
    resume: str | None = None
    """a run folder: continues that run with its own arguments, as if it had never stopped"""
    checkpoint_every: int = 10_000
    """steps between checkpoints; each waits for the end of the episode"""
    eval_every: int = 10_000
    """steps between evaluations"""
    eval_episodes: int = 10
    """episodes of an evaluation, without the mask and again with it"""
    matmul: Literal["float32", "bfloat16"] = "float32"
    """on a CPU, products in full precision, or rounded to bfloat16 where the processor has matrix units for that"""

    # Algorithm specific arguments
    env_id: str = "Hopper-v4"
    """the id of the environment"""
    total_timesteps: int = 1000000
    """total timesteps of the experiments"""
    learning_rate: float = 3e-4
    """the learning rate of the optimizer"""
    buffer_size: int = int(1e6)
    """the replay memory buffer size"""
    gamma: float = 0.99
    """the discount factor gamma"""
    tau: float = 0.005
    """target smoothing coefficient"""
    batch_size: int = 256
    """the batch size of sample from the replay memory"""
    policy_noise: float = 0.2
    """the scale of policy noise, a fraction of half the action range; in the paper's form of the interval's half-width"""
    exploration_noise: float = 0.1
    """the scale of exploration noise, a fraction as above"""
    learning_starts: int = int(25e3)
    """timestep to start learning; in our form the agent then learns alone for half as many, and copies the prior for as many"""
    policy_frequency: int = 2
    """the frequency of training policy (delayed)"""
    noise_clip: float = 0.5
    """noise clip parameter of the target policy smoothing regularization, a fraction as above"""

    # The mask
    prior: str = "shipped"
    """shipped (env_id's) | none | random | a shipped prior's name | FILE.py | trusted:FILE.py | expert:MODEL.pt | auto: all the
    candidates shipped for env_id compete | auto:FOLDER: those in a folder do"""
    candidate: int | None = None
    """which of a shipped prior's candidates (its default one if not given)"""
    prior_input: str | None = None
    """what the prior is handed, if not the observation: ram (Atari's), simulator (MuJoCo's qpos and qvel), or a key of info"""
    isolation: Literal["inprocess", "process"] = "inprocess"
    """where the code of a prior is played: checked and guarded in this process, or in a locked process of its own"""
    form: Literal["taught", "paper"] = "taught"
    """taught: the actor also learns from the prior, and keeps it when the mask is gone, but may soon stand still; paper: CAMEL
    as published, as good or better after 300 000 steps"""
    radius: float = 0.3
    """half-width of the interval around the prior's action, as a fraction of half the action range, in (0, 2]"""
    mask_fraction: float = 0.2
    """fraction of total_timesteps over which the mask's probability falls from 1 to 0 (in our form none is masked until it is
    decided whether a prior teaches, but for the few episodes in which the priors show what they can do)"""
    gate: Literal["step", "episode"] = "step"
    """how often it is drawn whether the mask applies, in the paper's form; in ours, once an episode"""


class UserError(Exception):
    """What the user gave cannot work; the message says why and what would."""


# ---------------------------------------------------------------------------------------------------- environments


def random_prior(observation_space: gym.Space, action_space: Box, seed: int):
    """CAMEL's random mask: a uniformly random action, fixed for each observation so that a resumed run sees it again."""

    def policy(observation):
        digest = hashlib.blake2b(np.asarray(flatten(observation_space, observation)).tobytes(), digest_size=8).digest()
        rng = np.random.default_rng((seed, int.from_bytes(digest, "little")))
        return rng.uniform(action_space.low, action_space.high)

    return policy


def expert_prior(path: str, env_id: str, observation_space: gym.Space, action_space: Box):
    """CAMEL's expert mask: the actor of a finished run of this script, on the same environment in any version of it."""
    try:
        model = torch.load(path, map_location="cpu", weights_only=True)
        sizes, trained_on = model["actor_sizes"], model["env_id"]
        actor = MLP(1, sizes, 1, torch.device("cpu"))
        actor.flat.copy_(model["actor"])
    except Exception as error:
        raise UserError(f"--prior expert:{path} is no model.pt of this script: {error}") from None
    if trained_on.rpartition("-v")[0] != env_id.rpartition("-v")[0]:
        raise UserError(f"--prior expert:{path}: its env_id is {trained_on}, --env-id is {env_id}")
    if (sizes[0], sizes[-1]) != (flatdim(observation_space), flatdim(action_space)):
        raise UserError(
            f"--prior expert:{path} maps {sizes[0]} numbers to {sizes[-1]}; the environment needs "
            f"{flatdim(observation_space)} to {flatdim(action_space)}"
        )
    act, low, high = Actor(actor), action_space.low, action_space.high

    def policy(observation):
        x = act(np.asarray(flatten(observation_space, observation), dtype=np.float32))
        return to_native(x.reshape(low.shape), low, high)

    return policy


def arm_name(args: Args) -> str:
    """none | random | expert | auto | llm | paper, as compare.py calls them, or the name of the user's own file or folder."""
    kind, _, rest = args.prior.partition(":")
    if kind == "none":
        return kind
    if args.prior == args.env_id or args.prior in shipped_priors():
        return "llm" if args.form == "taught" else "paper"
    path = Path(rest if kind == "trusted" else args.prior)
    arm = kind if kind in ("random", "expert", "auto") else path.stem if path.suffix == ".py" else path.name
    return arm + "-paper" * (args.form == "paper")


def load_priors(args: Args, observation_space: gym.Space, space: Box) -> dict[str, PriorPolicy]:
    """The policies that --prior stands for, by name: one, or all candidates."""
    kind, _, rest = args.prior.partition(":")
    if kind == "random":
        return {"random": random_prior(observation_space, space, args.seed)}
    if kind == "expert":
        return {"expert": expert_prior(rest, args.env_id, observation_space, space)}
    if args.isolation == "process" and args.prior_input is None and observation_space.shape is None:
        raise ValueError(
            f"--isolation process needs observations that are arrays, or a --prior-input that is one, got {observation_space}"
        )
    if kind == "auto":
        return load_candidates(rest or args.env_id, args.isolation, space.shape)
    name = Path(rest if kind == "trusted" else args.prior).stem if args.candidate is None else f"policy-{args.candidate}"
    return {name: load_prior(args.prior, args.candidate, args.isolation, space.shape)}


def make_env(args: Args, video_dir: Path | None = None) -> gym.Env:
    """An environment whose actions are x in [-1, 1]: of the whole space, or in the paper's form of the mask's interval."""
    options: dict = {"render_mode": "rgb_array"} if video_dir else {}
    try:
        env = gym.make(args.env_id, disable_env_checker=True, **options)
        info = env.reset(seed=0)[1] if video_dir or args.prior_input else {}
        if video_dir:
            env.render()
            env = gym.wrappers.RecordVideo(
                env, str(video_dir), episode_trigger=lambda n: n % args.eval_episodes == 0, disable_logger=True
            )
    except Exception as error:
        option = " --capture-video" if video_dir else ""
        raise UserError(f"--env-id {args.env_id}{option}: {type(error).__name__}: {error}") from None
    space = env.action_space
    if not (
        isinstance(space, Box)
        and np.issubdtype(space.dtype, np.floating)
        and space.is_bounded("both")
        and (space.low < space.high).all()
    ):
        raise UserError(f"--env-id {args.env_id}: TD3 needs a Box action space of floats with finite low < high, got {space}")
    if args.prior_input not in (None, "ram", "simulator", *info):
        raise UserError(
            f"--prior-input must be ram, simulator or a key of info, got {args.prior_input}; info has {sorted(info)}"
        )
    if args.prior == "none":
        env = gym.wrappers.RescaleAction(env, space.low.dtype.type(-1.0), space.low.dtype.type(1.0))
    else:
        try:
            priors = load_priors(args, env.observation_space, space)
            if args.form == "paper":
                (prior,) = priors.values()
                env = LLMActionMask(env, prior, args.radius, gate=args.gate, prior_input=args.prior_input)
            else:
                env = PriorAdvice(env, priors, prior_input=args.prior_input)
                env = LLMActionMask(
                    env, lambda action: action, args.radius, mapping="project", gate="episode", prior_input="prior_action"
                )
        except (ValueError, TypeError, OSError, gym.error.Error) as error:
            raise UserError(f"--env-id {args.env_id} --prior {args.prior}: {error}") from None
    if not (isinstance(env.observation_space, Box) and len(env.observation_space.shape) == 1):
        try:
            env = gym.wrappers.FlattenObservation(env)
            assert isinstance(env.observation_space, Box)
        except (AssertionError, NotImplementedError):
            raise UserError(f"--env-id {args.env_id}: cannot flatten {env.observation_space} to a vector") from None
    return env


def native_action_space(env: gym.Env) -> Box:
    """The space that make_env's mask or rescaling stands on: the units of the actions in the replay buffer."""
    while not isinstance(env, LLMActionMask | gym.wrappers.RescaleAction):
        assert isinstance(env, gym.Wrapper)
        env = env.env
    assert isinstance(env.env.action_space, Box)
    return env.env.action_space


def set_mask(env: gym.Env, args: Args, prior: str | None) -> None:
    """Puts the mask around a prior for the episodes to come, or takes it off; in the paper's form there is but one."""
    env.set_wrapper_attr("mask_epsilon", float(prior is not None), force=False)
    env.set_wrapper_attr("prior_faults_in_a_row", 0, force=False)
    if args.form == "taught" and prior is not None:
        env.set_wrapper_attr("chosen", prior, force=False)


def evaluate(env: gym.Env, act, args: Args, prior: str | None, name: str) -> float:
    """Mean return of the deterministic policy over the same seeded episodes, with the mask around a prior or without."""
    if args.prior != "none":
        set_mask(env, args, prior)
        if args.form == "taught":
            env.set_wrapper_attr("asked", [] if prior is None else [prior], force=False)
            env.set_wrapper_attr("faults_in_a_row", dict.fromkeys(env.get_wrapper_attr("names"), 0), force=False)
    if args.capture_video:
        env.set_wrapper_attr("name_prefix", name, force=False)
    returns, shape = [], env.action_space.shape
    for episode in range(args.eval_episodes):
        observation, _ = env.reset(seed=args.seed + 10_000 + episode)
        episodic_return, done = 0.0, False
        while not done:
            x = act(observation.astype(np.float32))
            observation, reward, terminated, truncated, _ = env.step(x.reshape(shape))
            episodic_return += float(reward)
            done = terminated or truncated
        returns.append(episodic_return)
    return float(np.mean(returns))


# ------------------------------------------------------------------------------------------------- networks, replay


class MLP:
    """n ReLU networks of one shape: parameters in one flat vector, one batched product a layer, gradients by hand.

    So one Adam call and one lerp_ serve all parameters, and a training step allocates next to nothing. Weights are
    (n, out, in) as in torch.nn.Linear; inputs and activations have one column a transition, (n, width, batch), which makes
    the products with the narrow last layer five times faster than rows do.

    With `norm`, hidden units pass a layer norm without parameters before the ReLU, which bounds what a critic can make of
    actions that it was never shown (RLPD, arXiv 2302.02948).
    """

    def __init__(self, n: int, sizes: list[int], batch_size: int, device: torch.device, norm: bool = False):
        self.n, self.sizes, self.norm = n, sizes, norm
        self.shapes = [shape for i, o in itertools.pairwise(sizes) for shape in ((n, o, i), (n, o, 1))]
        self.flat = torch.zeros(sum(map(math.prod, self.shapes)), device=device)
        self.gradient = torch.zeros_like(self.flat)
        self.weights, self.biases = self.views(self.flat)
        self.weight_gradients, self.bias_gradients = self.views(self.gradient)
        self.outputs = [torch.zeros(n, width, batch_size, device=device) for width in sizes[1:]]
        self.deltas = [torch.zeros_like(output) for output in self.outputs[:-1]]
        self.normed = [torch.zeros_like(output) for output in self.outputs[:-1]] if norm else []
        self.deviations = [torch.zeros(n, 1, batch_size, device=device) for _ in self.normed]  # their inverses

    def views(self, flat: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The weights and the biases of each layer, as views of a flat vector."""
        parts = flat.split([math.prod(shape) for shape in self.shapes])
        views = [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return views[::2], views[1::2]

    def initialize(self, rng: np.random.Generator) -> None:
        """Draws weights and biases from U(-k, k), k = fan_in ** -0.5, as torch.nn.Linear does."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            bound = weight.shape[2] ** -0.5
            for parameter in (weight, bias):
                parameter.copy_(torch.from_numpy(rng.uniform(-bound, bound, tuple(parameter.shape))))

    def first(self) -> "MLP":
        """The first of the n networks, on the same memory."""
        network = object.__new__(MLP)
        network.n, network.norm = 1, self.norm
        for name in ("weights", "biases", "outputs", "deltas", "normed", "deviations"):
            setattr(network, name, [tensor[:1] for tensor in getattr(self, name)])
        return network

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(in, batch) -> (n, out, batch), in a buffer that the next forward overwrites."""
        hidden = inputs.expand(self.n, -1, -1)
        for layer, (weight, bias, output) in enumerate(zip(self.weights, self.biases, self.outputs, strict=True)):
            hidden = torch.baddbmm(bias, weight, hidden, out=output)
            if output is not self.outputs[-1]:
                if self.norm:
                    self._normalize(layer)
                else:
                    output.relu_()
        return hidden

    def _normalize(self, layer: int) -> None:
        """The layer norm and the ReLU after it; backward needs the output of both."""
        output, normed, deviation = self.outputs[layer], self.normed[layer], self.deviations[layer]
        torch.sub(output, output.mean(dim=1, keepdim=True), out=normed)
        torch.mul(normed, normed, out=output)
        torch.mean(output, dim=1, keepdim=True, out=deviation).add_(1e-5).rsqrt_()
        torch.clamp_min(normed.mul_(deviation), 0.0, out=output)

    def backward(self, inputs: torch.Tensor, delta: torch.Tensor) -> None:
        """Writes the parameters' gradient, given the loss's gradient (n, out, batch) at the output of the last forward."""
        for layer in reversed(range(len(self.weights))):
            below = self.outputs[layer - 1] if layer > 0 else inputs.expand(self.n, -1, -1)
            torch.bmm(delta, below.mT, out=self.weight_gradients[layer])
            torch.sum(delta, dim=2, keepdim=True, out=self.bias_gradients[layer])
            if layer > 0:
                delta = self._delta_below(layer, delta)

    def input_gradient(self, delta: torch.Tensor, inputs: slice) -> torch.Tensor:
        """The gradient (n, inputs, batch) at some of the inputs; the parameters' own is not formed."""
        for layer in reversed(range(1, len(self.weights))):
            delta = self._delta_below(layer, delta)
        return torch.bmm(self.weights[0][:, :, inputs].mT, delta)

    def _delta_below(self, layer: int, delta: torch.Tensor) -> torch.Tensor:
        hidden, below = self.outputs[layer - 1], self.deltas[layer - 1]
        torch.bmm(self.weights[layer].mT, delta, out=below)
        # The ReLU's derivative, in place and in one pass.
        torch.ops.aten.threshold_backward.grad_input(below, hidden, 0, grad_input=below)
        if self.norm:
            normed, deviation = self.normed[layer - 1], self.deviations[layer - 1]
            along = torch.mul(below, normed, out=hidden).mean(dim=1, keepdim=True)  # nobody needs hidden any more
            below.sub_(below.mean(dim=1, keepdim=True)).addcmul_(normed, along, value=-1.0).mul_(deviation)
        return below


class Adam:
    """Adam on one flat vector, in torch's fused kernel; torch.optim.Adam takes twice as long to get to it."""

    def __init__(self, network: MLP, learning_rate: float):
        self.parameters, self.gradient, self.learning_rate = network.flat, network.gradient, learning_rate
        self.mean, self.square = torch.zeros_like(network.flat), torch.zeros_like(network.flat)
        self.steps = torch.zeros((), device=network.flat.device)

    def step(self) -> None:
        self.steps += 1  # the kernel reads it, and would divide by 0
        torch._fused_adam_(  # pyright: ignore[reportPrivateImportUsage]
            [self.parameters], [self.gradient], [self.mean], [self.square], [], [self.steps],
            lr=self.learning_rate, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip


class Actor:
    """x = tanh(actor(obs)) for one observation, in NumPy on the network's own memory (on a GPU, on a copy)."""

    def __init__(self, network: MLP):
        self.network, self.host = network, network.flat.cpu()
        weights, biases = network.views(self.host)
        self.layers = [(weight[0].numpy(), bias[0, :, 0].numpy()) for weight, bias in zip(weights, biases, strict=True)]

    def refresh(self) -> None:
        """Takes over what the network has learned; on a CPU the memory is the same and nothing is done."""
        self.host.copy_(self.network.flat)

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        hidden = observation
        for weight, bias in self.layers[:-1]:
            hidden = np.maximum(weight @ hidden + bias, 0.0)
        weight, bias = self.layers[-1]
        return np.tanh(weight @ hidden + bias)


class Replay:
    """One float32 row a transition, so that a batch is one gather.

    row = [obs | action | next_obs | next_center | next_half_width | center | half_width | reward | not_terminated | advice]

    The advice is what every candidate would do at obs, as x: candidates * action_dim numbers, NaN where one was not asked or
    made a fault.
    """

    def __init__(self, capacity: int, observation_dim: int, action_dim: int, candidates: int = 0):
        o, a = observation_dim, action_dim
        self.fields, end = [], 0
        for width in (o, a, o, a, a, a, a, 1, 1, candidates * a):
            self.fields.append(slice(end, end + width))
            end += width
        self.rows = np.empty((capacity, end), dtype=np.float32)
        self.tensor = torch.from_numpy(self.rows)
        self.added = self.written = 0
        self.held: list[np.ndarray] = []

    def hold(self, *transition) -> None:
        """Keeps a transition aside, not to be sampled until it is released."""
        self.held.append(np.concatenate(transition, axis=None, dtype=np.float32))
        del self.held[: -max(len(self.rows) // 2, 1)]  # the other half is for the agent's own

    def release(self) -> None:
        """Adds what was held."""
        for row in self.held:
            self.rows[self.added % len(self.rows)] = row
            self.added += 1
        self.held = []

    def add(self, *transition) -> None:
        row = self.rows[self.added % len(self.rows)]
        for field, value in zip(self.fields, transition, strict=True):
            row[field] = value
        self.added += 1

    def sample(self, rng: np.random.Generator, out: torch.Tensor) -> None:
        indices = rng.integers(0, min(self.added, len(self.rows)), len(out))
        torch.index_select(self.tensor, 0, torch.from_numpy(indices), out=out)

    # On disk each row lies where it was added, in order, so that a checkpoint only writes what is new.
    def save(self, path: Path) -> None:
        first = max(self.written, self.added - len(self.rows))
        with open(path, "r+b" if path.exists() else "wb") as file:
            file.seek(first * self.rows[0].nbytes)
            file.write(self.rows[np.arange(first, self.added) % len(self.rows)].data)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        self.written = self.added

    def load(self, path: Path, added: int) -> None:
        first = max(0, added - len(self.rows))
        row = self.rows.shape[1]
        numbers = np.fromfile(path, np.float32, count=(added - first) * row, offset=first * self.rows[0].nbytes)
        self.rows[np.arange(first, added) % len(self.rows)] = numbers.reshape(added - first, row)
        self.added = self.written = added


# --------------------------------------------------------------------------------------------------------- learner


class TD3:
    """Masking-aware TD3: the actor and the target actor map x in [-1, 1] into the stored intervals (CAMEL).

    In our form, once a prior teaches, the actor descends

        -mean Q(obs, actor(obs)) / mean |Q(obs, actor(obs))| + sum_t pull_t * mean ((actor(obs) - x_t) / radius)^2

    as TD3+BC does with a data set (arXiv 2106.06860), where x_t is what the teaching prior and the champion would do, and the
    critics have a layer norm. The champion is an earlier self that has won its trial (see Trials), and the policy that is
    evaluated and saved.
    """

    def __init__(self, args: Args, replay: Replay, observation_dim: int, action_dim: int, rng, device: torch.device):
        self.args, self.replay, self.rng = args, replay, rng
        actor_sizes = [observation_dim, 256, 256, action_dim]
        critic_sizes = [observation_dim + action_dim, 256, 256, 1]
        self.actor, self.target_actor = (MLP(1, actor_sizes, args.batch_size, device) for _ in range(2))
        norm = args.form == "taught" and args.prior != "none"
        self.critics, self.target_critics = (MLP(2, critic_sizes, args.batch_size, device, norm) for _ in range(2))
        self.first_critic = self.critics.first()
        self.challenger, self.champion = (MLP(1, actor_sizes, args.batch_size, device) for _ in range(2))
        self.has_champion = False
        self.teacher: int | None = None  # whose advice pulls the actor
        self.prior_pull = self.champion_pull = 0.0
        self.act, self.challenger_act, self.champion_act = (Actor(n) for n in (self.actor, self.challenger, self.champion))
        self.losses: dict[str, float] = {}
        self.begin(norm=False)

        # A batch as it is gathered, one row a transition, and as the networks read it, one column a transition.
        self.rows = torch.empty(args.batch_size, replay.rows.shape[1])
        self.batch = self.rows.mT.contiguous().to(device)
        observation, action, next_observation, next_center, *rest, advice = replay.fields
        self.observation, self.action = self.batch[observation], self.batch[action]
        self.observation_action = self.batch[observation.start : action.stop]
        self.next_observation = self.batch[next_observation]
        # The target action is computed where the center of its interval was stored, right behind the next observation.
        self.next_action = self.batch[next_center]
        self.next_observation_action = self.batch[next_observation.start : next_center.stop]
        self.next_half_width, self.center, self.half_width, self.reward, self.not_terminated = (
            self.batch[field] for field in rest
        )
        self.advice = self.batch[advice].unflatten(0, (-1, action_dim))
        self.action_inputs = action
        self.ascend = torch.full((1, 1, args.batch_size), -1.0 / args.batch_size, device=device)

    def update(self, global_step: int, copying: bool = False) -> None:
        """One step of the critics, and every policy_frequency steps one of the actor and of the targets.

        While `copying` the actor follows its teacher alone, at every step.
        """
        args = self.args
        self.replay.sample(self.rng, self.rows)
        self.batch.copy_(self.rows.mT)
        noise = self.rng.standard_normal(self.next_action.shape, dtype=np.float32)
        noise = torch.from_numpy(noise).to(self.batch.device).mul_(args.policy_noise)

        next_x = self.target_actor.forward(self.next_observation)[0].tanh_()
        next_x.add_(noise.clamp_(-args.noise_clip, args.noise_clip)).clamp_(-1.0, 1.0)
        self.next_action.addcmul_(self.next_half_width, next_x)
        next_values = self.target_critics.forward(self.next_observation_action).amin(dim=0)
        targets = torch.addcmul(self.reward, self.not_terminated, next_values, value=args.gamma)

        values = self.critics.forward(self.observation_action)
        errors = values - targets
        if global_step % 100 == 0:
            qf1_loss, qf2_loss = errors.square().mean(dim=(1, 2)).tolist()
            qf1_values, qf2_values = values.mean(dim=(1, 2)).tolist()
            self.losses |= {
                "losses/qf1_values": qf1_values,
                "losses/qf2_values": qf2_values,
                "losses/qf1_loss": qf1_loss,
                "losses/qf2_loss": qf2_loss,
                "losses/qf_loss": (qf1_loss + qf2_loss) / 2.0,
            }
        self.critics.backward(self.observation_action, errors.mul_(2.0 / args.batch_size))
        self.critic_optimizer.step()

        if copying or global_step % args.policy_frequency == 0:
            x = self.actor.forward(self.observation)[0].tanh_()
            torch.addcmul(self.center, self.half_width, x, out=self.action)
            values = self.first_critic.forward(self.observation_action)
            if copying:
                delta = torch.zeros_like(x)
            else:
                delta = self.first_critic.input_gradient(self.ascend, self.action_inputs)[0]
                delta.mul_(self.half_width)  # da/dx
            pulls = []
            if self.teacher is not None:
                pulls.append((self.prior_pull, self.advice[self.teacher]))
            if self.has_champion:
                pulls.append((self.champion_pull, self.champion.forward(self.observation)[0].tanh_()))
            if pulls:
                delta.div_(values.abs().mean())
            for pull, advice in pulls:
                offset = x.sub(advice).nan_to_num_(0.0)
                delta.add_(offset, alpha=2.0 * pull / (args.radius**2 * offset.numel()))
            delta.mul_(x.square_().neg_().add_(1.0))  # dx/du = 1 - x^2 for x = tanh(u)
            self.actor.backward(self.observation, delta.unsqueeze(0))
            self.actor_optimizer.step()
            if global_step % 100 == 0:
                self.losses["losses/actor_loss"] = -values.mean().item()
            self.act.refresh()
            self.target_actor.flat.lerp_(self.actor.flat, args.tau)
            self.target_critics.flat.lerp_(self.critics.flat, args.tau)

    def begin(self, norm: bool) -> None:
        """Draws actor and critics, whatever they had learned; the critics with a layer norm or without."""
        self.set_norm(norm)
        for network, target in ((self.actor, self.target_actor), (self.critics, self.target_critics)):
            network.initialize(self.rng)
            target.flat.copy_(network.flat)
        self.actor_optimizer = Adam(self.actor, self.args.learning_rate)
        self.critic_optimizer = Adam(self.critics, self.args.learning_rate)
        self.act.refresh()

    def set_norm(self, norm: bool) -> None:
        """Puts the critics' layer norm in or takes it out."""
        self.critics.norm = self.target_critics.norm = self.first_critic.norm = norm

    def challenge(self) -> None:
        """Makes the actor, as it is now, the challenger, which stays as it is while it is tried."""
        self.challenger.flat.copy_(self.actor.flat)
        self.challenger_act.refresh()

    def crown(self) -> None:
        """Makes the challenger the champion."""
        self.champion.flat.copy_(self.challenger.flat)
        self.champion_act.refresh()
        self.has_champion = True

    def state(self) -> dict:
        """What has been learned; who teaches, and how strongly, is set anew at the beginning of each episode."""
        return {
            "actor": self.actor.flat,
            "target_actor": self.target_actor.flat,
            "critics": self.critics.flat,
            "target_critics": self.target_critics.flat,
            "challenger": self.challenger.flat,
            "champion": self.champion.flat,
            "has_champion": self.has_champion,
            "norm": self.critics.norm,
            "optimizers": [(adam.mean, adam.square, adam.steps) for adam in (self.actor_optimizer, self.critic_optimizer)],
        }

    def load_state(self, state: dict) -> None:
        for name in ("actor", "target_actor", "critics", "target_critics", "challenger", "champion"):
            getattr(self, name).flat.copy_(state[name])
        for adam, saved in zip((self.actor_optimizer, self.critic_optimizer), state["optimizers"], strict=True):
            for tensor, value in zip((adam.mean, adam.square, adam.steps), saved, strict=True):
                tensor.copy_(value)
        self.has_champion = state["has_champion"]
        self.set_norm(state["norm"])
        for act in (self.act, self.challenger_act, self.champion_act):
            act.refresh()


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
                    config={**dataclasses.asdict(args), "arm": arm},
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


def prior_hash(args: Args) -> str | None:
    """The hash of the file, or of the files of the folder, that the prior is read from, if it is the user's own."""
    path = Path(re.sub("^(expert|trusted|auto):", "", args.prior))
    files = [path] if path.is_file() else sorted([*path.glob("*.py"), *path.glob("provenance.json")])  # which has the default
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest() if files else None


def describe_run(args: Args, env: gym.Env) -> dict:
    """What one needs to know to repeat a run."""

    def git(*command: str) -> str | None:
        folder = Path(__file__).parent
        try:
            done = subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True, check=False)
        except OSError:  # no git on this machine
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    packages = ("llmwrappers", "numpy", "torch", "gymnasium", "mujoco")
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
        "prior_sha256": prior_hash(args),
        "env_spec": env.unwrapped.spec and dataclasses.asdict(env.unwrapped.spec),
    }


# What each argument may be, beyond its type.
RANGES = {
    "at least 0": (lambda value: value >= 0, ("learning_starts", "seed", "policy_noise", "exploration_noise", "noise_clip")),
    "at least 1": (
        lambda value: value >= 1,
        ("total_timesteps", "buffer_size", "batch_size", "policy_frequency", "checkpoint_every", "eval_every", "eval_episodes"),
    ),
    "above 0": (lambda value: value > 0, ("learning_rate",)),
    "in [0, 1]": (lambda value: 0 <= value <= 1, ("gamma", "tau", "mask_fraction")),
    "in (0, 2]": (lambda value: 0 < value <= 2, ("radius",)),
}


def parse_args(argv: list[str] | None = None) -> Args:
    args = tyro.cli(Args, args=argv)
    if args.resume is not None:
        return resumed_args(args.resume, argv)
    for words, (is_valid, names) in RANGES.items():
        for name in names:
            if not is_valid(getattr(args, name)):
                raise UserError(f"--{name.replace('_', '-')} must be {words}, got {getattr(args, name)}")
    try:
        module, _, name = args.env_id.rpartition(":")
        if module:
            importlib.import_module(module)  # which registers it
        gym.spec(name)
    except (gym.error.Error, ImportError) as error:
        raise UserError(
            f"--env-id {args.env_id}: {error} (priors are shipped for {', '.join(shipped_priors())}; "
            "gymnasium.pprint_registry() lists every environment)"
        ) from None
    if args.prior == "shipped":
        if args.env_id not in shipped_priors() and args.candidate is None:
            raise UserError(
                f"no prior is shipped as the default of --env-id {args.env_id} (those of {', '.join(shipped_priors())} are). "
                "Give a Python file that defines policy(obs) with --prior path/to/policy.py, let the candidates of an "
                "environment that has some compete with --prior auto, or train without one: --prior none"
            )
        args.prior = args.env_id
    kind = args.prior.partition(":")[0]
    one_of_many = kind not in ("none", "random", "auto", "expert")
    if args.candidate is not None and not one_of_many:
        raise UserError(f"--candidate {args.candidate} needs a shipped prior, got --prior {args.prior}")
    if args.prior_input is not None and kind in ("none", "random", "expert"):
        raise UserError(f"--prior-input {args.prior_input} needs a prior that is code, got --prior {args.prior}")
    if kind == "auto" and args.form == "paper":
        raise UserError(f"--prior {args.prior} needs --form taught: in the paper's form there is one prior")
    return args


def resumed_args(run_dir: str, argv: list[str] | None) -> Args:
    """The arguments of a run; none of those given may differ from them, nor the prior's file from what it was."""
    path = Path(run_dir) / "args.json"
    try:
        description = json.loads(path.read_text())
        saved = Args(**description["args"])
        saved = dataclasses.replace(saved, resume=run_dir, wandb_tags=tuple(saved.wandb_tags))
        args = tyro.cli(Args, args=argv, default=saved)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"--resume {run_dir}: no run of this script: {path}: {error}") from None
    for field in dataclasses.fields(Args):
        given, before = getattr(args, field.name), getattr(saved, field.name)
        if given != before:
            option = field.name.replace("_", "-")
            raise UserError(f"--{option} {given}: the run in {run_dir} has {before}; --resume takes no other arguments")
    if prior_hash(args) != description.get("prior_sha256"):
        raise UserError(f"--resume {run_dir}: the prior {args.prior} is no longer the file that the run began with")
    return args


def choose_matmul(precision: str) -> str:
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


# ------------------------------------------------------------------------------------------------------------ training


def interval(info: dict, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Center and half-width of the next action's interval; without a mask it is the whole space."""
    center, half_width = center_and_half_width(info.get("action_low", low), info.get("action_high", high))
    return center.ravel(), half_width.ravel()


class Trials:
    """Decides whether the best prior teaches, and lets go of it as the actor's own returns allow.

    It teaches if it returns a quarter more, counted from random actions, than the agent that has learned alone until then in
    its best three episodes in a row: a prior that the agent would soon leave behind is in its way, so else all are dropped.
    It must also be 1.25 standard deviations of episodes of random actions above their mean. Then a trial is five unmasked
    episodes, all played by the actor as it was at the first, two of them without exploration noise. It passes unless their
    mean lies below that of the champion's episodes (at first, of the masked episodes of the best prior) by more than a
    twentieth of what that is above an untaught agent, and by more than chance explains in 15 of 100 trials. The first actor
    that passes is the champion; a later one replaces it if its mean is at least as high. After each trial the champion plays
    an episode, too, without noise: the best of many trials was lucky, and what it owes to luck shows then. Each trial that
    passes weakens the pull of the prior, until it is let go for good, and that of the champion; each that fails strengthens
    the first, and gives the second its full strength back.
    """

    ALONE_EPISODES, EPISODES = 3, 5
    TOLERANCE = 0.05
    WEAKEST, STRONGEST = 0.001, 0.2

    def __init__(self):
        self.alone: list[float] = []  # the last returns of the agent that learns alone
        self.best_alone = -math.inf  # the greatest mean of so many in a row
        self.trial = DiscountedReturns()
        self.decided_at: int | None = None  # the step at which it was decided
        self.decision = ""
        self.champion: DiscountedReturns | None = None
        self.has_defended = True  # since the last trial
        self.prior_pull = self.champion_pull = self.STRONGEST
        self.passed = 0

    def record_alone(self, episodic_return: float) -> None:
        """Takes in the return of an episode of the agent that learns alone."""
        self.alone = [*self.alone, episodic_return][-self.ALONE_EPISODES :]
        if len(self.alone) == self.ALONE_EPISODES:
            self.best_alone = max(self.best_alone, float(np.mean(self.alone)))

    def begin(self, global_step: int, prior: DiscountedReturns | None, untaught: DiscountedReturns) -> bool:
        """Decides whether a prior with these returns teaches from here on."""
        self.decided_at = global_step
        chance = math.sqrt(untaught.variance) if math.isfinite(untaught.variance) else 0.0
        gain_alone = self.best_alone - untaught.mean
        teaches = prior is not None and prior.mean - untaught.mean > 1.25 * max(gain_alone, chance)
        best = f"the best prior returned {prior.mean:.1f}" if prior is not None else "no prior was in play"
        then = "that began to teach it" if teaches else "it was left alone"
        self.decision = f"At step {global_step}, when the agent alone had returned {self.best_alone:.1f} and {best}, {then}."
        return teaches

    def record_defence(self, episodic_return: float) -> None:
        """Takes in the return of an episode of the champion."""
        assert self.champion is not None
        self.champion.add(episodic_return)
        self.has_defended = True

    def record(self, episodic_return: float, best: DiscountedReturns, untaught_return: float) -> bool:
        """Takes in the return of an episode of the challenger; True if it ends a trial that makes it the champion."""
        self.trial.add(episodic_return)
        if self.trial.count < self.EPISODES:
            return False
        trial, self.trial = self.trial, DiscountedReturns()
        margin, _, high = difference(trial, best, error_rate=0.3)
        tolerated = -self.TOLERANCE * max(best.mean - untaught_return, 0.0)
        # Without an interval, of too few episodes to compare with, the means have to do.
        passes = margin >= tolerated or tolerated <= high < math.inf
        wins = margin >= 0.0 or (passes and self.champion is None)
        if wins:
            self.champion = trial
        self.has_defended = self.champion is None
        if passes:
            self.champion_pull *= 0.8
            self.passed += 1
            self.prior_pull = 0.4 * self.prior_pull if self.prior_pull > self.WEAKEST else 0.0
        else:
            self.prior_pull = min(1.5 * self.prior_pull, self.STRONGEST)
            self.champion_pull = self.STRONGEST
        return wins

    def state(self) -> list:
        returns = [self.alone, self.best_alone, self.trial.state(), self.champion and self.champion.state()]
        return [*returns, self.has_defended, self.decided_at, self.decision, self.prior_pull, self.champion_pull, self.passed]

    def load_state(self, state: list) -> None:
        self.alone, self.best_alone, trial, champion, self.has_defended, *rest = state
        self.decided_at, self.decision, self.prior_pull, self.champion_pull, self.passed = rest
        self.trial.load_state(trial)
        if champion is not None:
            self.champion = DiscountedReturns()
            self.champion.load_state(champion)


class Teaching:
    """What our form decides between episodes: which prior masks the next, who teaches, whether the champion is challenged.

    The agent is TD3 without a prior at first: for learning_starts steps it is random, then it learns alone, from its own
    steps (with those of bad priors among them it learns next to nothing, and does not recover), for half as many. Between
    its episodes each prior plays one, or up to three while that takes no more than a third of the steps. Then it is decided
    whether one teaches. If so, the agent learns from all steps, and copies its teacher for as many steps as it was random;
    after that its unmasked episodes are trials. If not, all is as if there had been no prior, but for the steps that it took
    to find out.
    """

    def __init__(self, args: Args, candidates: list[str], td3: TD3):
        self.args, self.td3 = args, td3
        self.competition, self.trials = PriorCompetition(candidates), Trials()
        self.mask_steps = args.mask_fraction * args.total_timesteps

    def begin_episode(self, global_step: int, rng: np.random.Generator) -> None:
        competition, trials, warm_up = self.competition, self.trials, self.args.learning_starts
        self.mask_epsilon = max(1.0 - global_step / self.mask_steps, 0.0) if self.mask_steps > 0 else 0.0
        own_steps = self.td3.replay.added
        if own_steps >= warm_up and competition.untaught is None and competition.episodes[None] > 1:
            competition.begin_learning()
        all_played = self.mask_epsilon == 0 or all(competition.episodes[name] > 0 for name in competition.alive)
        knows_enough = all_played and own_steps >= 1.5 * warm_up and trials.best_alone > -math.inf
        if knows_enough and trials.decided_at is None:
            self._decide(global_step)
        alone = trials.decided_at is None
        # Whose mask is on; None: nobody's.
        self.prior = self._untried(own_steps) if alone else competition.choose(rng, self.mask_epsilon)
        self.learns_alone = alone and self.prior is None and own_steps >= warm_up
        copied = trials.decided_at is not None and global_step >= trials.decided_at + warm_up
        teacher = None if alone or trials.prior_pull == 0.0 else competition.leader
        self.copying = teacher is not None and not copied
        self.holds = alone and self.prior is not None
        # Until the actor has copied its teacher, the mask is around a prior that plays by itself.
        self.prior_plays = self.prior is not None and (alone or self.copying)
        # Whose advice is to be stored: while there is a mask, that of all who may come to mask or teach.
        self.asked = list(competition.alive) if self.mask_epsilon > 0 or alone else [teacher] if teacher else []
        self.td3.teacher = competition.candidates.index(teacher) if teacher else None
        self.td3.prior_pull, self.td3.champion_pull = trials.prior_pull, trials.champion_pull
        self.rival: DiscountedReturns | None = None  # what a trial, if the episode is part of one, has to match
        self.defends = self.prior is None and not trials.has_defended
        if self.prior is None and copied and not self.defends:
            self.rival = trials.champion or (competition.returns[teacher] if teacher else None)
        if self.rival and trials.trial.count == 0:
            self.td3.challenge()

    def _untried(self, own_steps: int) -> str | None:
        """The prior that is to play before it is decided whether one teaches."""
        episodes, prior_steps = self.competition.episodes, len(self.td3.replay.held)
        rarest = min(self.competition.alive, key=episodes.__getitem__, default=None)
        if rarest is None or self.mask_epsilon == 0 or prior_steps >= own_steps:
            return None
        more = episodes[rarest] < PriorCompetition.FIRST_EPISODES and 2 * prior_steps <= own_steps
        return rarest if episodes[rarest] == 0 or more else None

    def _decide(self, global_step: int) -> None:
        leader = self.competition.leader
        prior = None if leader is None else self.competition.returns[leader]
        if self.trials.begin(global_step, prior, self.competition.baseline):
            self.td3.replay.release()
            self.td3.begin(norm=True)  # forgets what was learned alone: a saturated tanh would copy slowly
            return
        self.td3.replay.held = []
        for name in list(self.competition.alive):
            played = self.competition.episodes[name] > 0
            self.competition.drop(
                name, "it was not well above the agent alone and chance" if played else "it was not played in time"
            )

    @property
    def act(self) -> Actor:
        """Who plays, if no prior does."""
        if self.defends:
            return self.td3.champion_act
        return self.td3.challenger_act if self.rival else self.td3.act

    @property
    def exploration_noise(self) -> float:
        """The champion, and every other episode of a trial, is played as it is evaluated: what wins by noise may fall."""
        return 0.0 if self.defends or (self.rival and self.trials.trial.count % 2) else self.args.exploration_noise

    def end_episode(self, episodic_return: float, still_asked: list[str]) -> dict[str, float]:
        """Takes in the episode's return, and which of the priors that were asked did not make fault upon fault; the metrics."""
        for name in set(self.asked) - set(still_asked):
            self.competition.drop(name, "it failed")
        if self.mask_epsilon > 0:
            self.competition.record(self.prior, episodic_return)
        if self.learns_alone:
            self.trials.record_alone(episodic_return)
        if self.defends:
            self.trials.record_defence(episodic_return)
        if self.rival and self.trials.record(episodic_return, self.rival, self.competition.baseline.mean):
            self.td3.crown()
        values = {"trials/passed": float(self.trials.passed)}
        values["trials/prior_pull"] = 0.0 if self.td3.teacher is None else self.trials.prior_pull
        values["trials/champion_pull"] = self.trials.champion_pull if self.td3.has_champion else 0.0
        # While the agent is untaught, its own episodes change what all candidates are worth; later, only theirs do.
        for name in self.competition.candidates if self.competition.untaught is None else [self.prior]:
            if name is not None and self.competition.episodes[name] > 0:
                for end, value in zip(("", "_low", "_high"), self.competition.worth(name), strict=True):
                    if math.isfinite(value):
                        values[f"worth/{name}{end}"] = value
        return values

    def verdict(self) -> str:
        """What the priors were worth, and whether one taught, in sentences."""
        return f"{self.competition.verdict()}\n{self.trials.decision}".strip()

    def state(self) -> list:
        return [self.competition.state(), self.trials.state()]

    def load_state(self, state: list) -> None:
        competition, trials = state
        self.competition.load_state(competition)
        self.trials.load_state(trials)


def main(argv: list[str] | None = None) -> None:
    # The papers' results are on v4; gymnasium warns that there is a v5.
    warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)
    args = parse_args(argv)
    arm = arm_name(args)
    env = make_env(args)
    if env.spec is not None and env.spec.max_episode_steps is None:
        print(
            f"note: {args.env_id} has no time limit; an evaluation and a checkpoint wait for the end of their episode, so if "
            "episodes may never end, register it with max_episode_steps",
            flush=True,
        )
    mask_ends, copied = args.mask_fraction * args.total_timesteps, 2.5 * args.learning_starts
    if args.prior != "none" and args.form == "taught":
        when = (
            f"note: a prior can teach from step {1.5 * args.learning_starts:.0f} (1.5 times --learning-starts) on, and is "
            f"copied for {args.learning_starts} steps"
        )
        if copied >= args.total_timesteps:
            print(f"{when}; the run ends at {args.total_timesteps}: little else will be learned", flush=True)
        elif 0 < mask_ends <= copied:
            print(f"{when}; by then, at step {mask_ends:.0f}, the mask has faded: it is never around the agent", flush=True)
    if args.prior != "none" and args.form == "paper":
        env = EpsilonMaskSchedule(env, args.total_timesteps, args.mask_fraction)
        if 0 < mask_ends <= args.learning_starts:
            print(
                f"note: the mask has faded at step {mask_ends:.0f}, before learning starts at step {args.learning_starts}: the "
                "prior only shapes the warm-up",
                flush=True,
            )
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
    eval_env = make_env(args, run_dir / "videos" if args.capture_video else None)
    # A full disk also stops TensorBoard's writer thread, which would print a traceback of its own.
    threading.excepthook = lambda hook: None if isinstance(hook.exc_value, OSError) else threading.__excepthook__(hook)
    try:
        run(args, env, eval_env, run_dir, arm)
    except OSError as error:
        raise UserError(
            f"cannot read or write {error.filename or run_dir}: {error.strerror or error}. What was written before is kept: "
            f"{how_to_resume(run_dir)}"
        ) from None
    finally:
        env.close()
        eval_env.close()


def how_to_resume(run_dir: Path) -> str:
    from_where = "goes on from its last checkpoint" if (run_dir / "checkpoint.pt").exists() else "starts it again"
    return f"--resume {run_dir} {from_where}"


def run(args: Args, env: gym.Env, eval_env: gym.Env, run_dir: Path, arm: str) -> None:
    masked, taught = args.prior != "none", args.prior != "none" and args.form == "taught"
    space = native_action_space(env)
    observation_dim, action_dim = flatdim(env.observation_space), flatdim(space)
    full_center, full_half_width = interval({}, space.low, space.high)
    candidates = env.get_wrapper_attr("names") if taught else []

    torch.set_grad_enabled(False)  # every gradient is written out above
    torch.set_flush_denormal(True)  # the moments of dead units decay to denormals, on which Adam takes ten times as long
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(args.torch_deterministic)
    device = torch.device("cuda" if torch.cuda.is_available() and args.cuda else "cpu")
    hardware = f"cpu, {torch.get_num_threads()} threads, {choose_matmul(args.matmul)}" if device.type == "cpu" else "cuda"
    rng = np.random.default_rng(args.seed)  # every random number of the run but the environments' own
    replay = Replay(min(args.buffer_size, args.total_timesteps), observation_dim, action_dim, len(candidates))
    td3 = TD3(args, replay, observation_dim, action_dim, rng, device)
    teaching = Teaching(args, candidates, td3) if taught else None

    global_step, next_checkpoint, csv_bytes, seconds = 0, args.checkpoint_every, 0, 0.0
    checkpoint_path, replay_path = run_dir / "checkpoint.pt", run_dir / "replay.bin"
    if checkpoint_path.exists():
        try:
            checkpoint = torch.load(checkpoint_path, weights_only=True, map_location=device)
            global_step, csv_bytes, seconds = (checkpoint[name] for name in ("global_step", "csv_bytes", "seconds"))
            td3.load_state(checkpoint["td3"])
            replay.load(replay_path, checkpoint["transitions"])
            replay.held = list(checkpoint["held"].cpu().numpy())
            rng.bit_generator.state = json.loads(checkpoint["rng"])
            for name, value in checkpoint["mask"].items():
                env.set_wrapper_attr(name, value, force=False)
            if teaching:
                teaching.load_state(checkpoint["teaching"])
        except Exception as error:
            raise UserError(f"--resume {run_dir}: its checkpoint is damaged or of another run: {error}") from None
        next_checkpoint = global_step + args.checkpoint_every

    def advised(info: dict) -> np.ndarray:
        """What every candidate would do next, as x of the whole space, (candidates, action_dim)."""
        if not taught:
            return np.empty((0, action_dim), np.float32)
        return (info["prior_actions"].reshape(len(candidates), action_dim) - full_center) / full_half_width

    def save_checkpoint() -> None:
        replay.save(replay_path)
        os.fsync(metrics.file.fileno())
        names = ["prior_faults", "prior_faults_in_a_row"] if masked else []
        names += ["fault_counts", "faults_in_a_row"] if taught else ["elapsed_steps"] if masked else []
        state = {
            "global_step": global_step,
            "csv_bytes": metrics.file.tell(),
            "seconds": progress.seconds,
            "td3": td3.state(),
            "transitions": replay.added,
            "held": torch.from_numpy(np.array(replay.held)),
            "rng": json.dumps(rng.bit_generator.state),
            "mask": {name: env.get_wrapper_attr(name) for name in names},
            "teaching": teaching and teaching.state(),
        }
        write_atomically(checkpoint_path, serialize(state))

    def evaluate_now() -> dict[str, float]:
        act = td3.champion_act if td3.has_champion else td3.act
        unmasked = evaluate(eval_env, act, args, None, f"step-{global_step}")
        values = {"eval/episodic_return": unmasked}
        line = f"eval at global_step {global_step}: return {unmasked:.1f} without the mask"
        if masked:
            # Around the best candidate so far; if all were dropped there is no mask any more, nor a gap.
            prior = teaching.competition.leader or next(iter(teaching.competition.alive), None) if teaching else args.prior
            with_mask = evaluate(eval_env, act, args, prior, f"step-{global_step}-masked") if prior else unmasked
            values |= {"eval/masked_return": with_mask, "eval/handover_gap": with_mask - unmasked}
            line += f", {with_mask:.1f} with it, handover gap {with_mask - unmasked:.1f}"
        metrics.log(global_step, values)
        progress.print(line)
        return values

    metrics = Metrics(args, run_dir, arm, global_step, csv_bytes)
    (run_dir / "summary.json").unlink(missing_ok=True)  # a finished run that is resumed goes back to its last checkpoint
    progress = Progress(args.total_timesteps, global_step, seconds)
    print(f"{'resuming' if csv_bytes else 'training'} {run_dir} on {hardware}", flush=True)

    # A checkpoint is made between episodes, where a reset with a seed of the run's own stream is all the state there is in
    # an environment; so one that resumes there does exactly what an uninterrupted run does.
    try:
        if global_step == 0:
            evaluate_now()
        last_return = math.nan
        while global_step < args.total_timesteps:
            act, exploration_noise = td3.act, args.exploration_noise
            if teaching:
                teaching.begin_episode(global_step, rng)
                act, exploration_noise = teaching.act, teaching.exploration_noise
                env.set_wrapper_attr("asked", list(teaching.asked), force=False)
                set_mask(env, args, teaching.prior)
            observation, info = env.reset(seed=int(rng.integers(2**31)))
            observation = observation.astype(np.float32)
            center, half_width = interval(info if not taught else {}, space.low, space.high)
            advice = advised(info)
            episodic_return, episodic_length, masked_steps, widths, done = 0.0, 0, 0, 0.0, False
            while not done and global_step < args.total_timesteps:
                warming = replay.added < args.learning_starts
                if teaching and teaching.prior_plays:
                    x = advice[candidates.index(teaching.prior)] + rng.uniform(-0.5, 0.5, action_dim) * args.radius
                    x = np.nan_to_num(x).clip(-1.0, 1.0).astype(np.float32)
                elif warming:
                    x = rng.uniform(-1.0, 1.0, action_dim).astype(np.float32)
                else:
                    x = act(observation)
                    x += exploration_noise * rng.standard_normal(action_dim, dtype=np.float32)
                    x = np.minimum(np.maximum(x, -1.0), 1.0)
                if masked:
                    masked_steps += info["mask_active"]
                    widths += info["action_high"] - info["action_low"]

                next_observation, reward, terminated, truncated, info = env.step(x.reshape(space.shape))
                next_observation = next_observation.astype(np.float32)
                action = info["executed_action"].ravel() if masked else center + half_width * x
                next_center, next_half_width = interval(info if not taught else {}, space.low, space.high)
                holds = teaching is not None and teaching.holds
                (replay.hold if holds else replay.add)(
                    observation, action, next_observation, next_center, next_half_width, center, half_width,
                    reward, not terminated, advice.ravel(),
                )  # fmt: skip
                observation, center, half_width = next_observation, next_center, next_half_width
                advice = advised(info)
                episodic_return += float(reward)
                episodic_length += 1
                done = terminated or truncated
                global_step += 1

                if replay.added > args.learning_starts and not holds:
                    td3.update(global_step, copying=teaching is not None and teaching.copying)
                if global_step % 100 == 0:
                    metrics.log(global_step, td3.losses)
                    td3.losses.clear()  # where no update follows there are none
                    progress.update(global_step, last_return)
                if global_step % args.eval_every == 0 and global_step < args.total_timesteps:
                    evaluate_now()

            if done:
                last_return = episodic_return
                values = {"charts/episodic_return": episodic_return, "charts/episodic_length": episodic_length}
                if masked:
                    values["mask/epsilon"] = teaching.mask_epsilon if teaching else env.get_wrapper_attr("mask_epsilon")
                    values["mask/active"] = masked_steps / episodic_length
                    # The mean width of the interval as a fraction of the action range.
                    values["mask/width"] = float(np.mean(widths / (space.high - space.low))) / episodic_length
                    faults = env.get_wrapper_attr("fault_counts").values() if taught else [info["prior_faults"]]
                    values["mask/prior_faults"] = sum(faults)
                if teaching:
                    values |= teaching.end_episode(episodic_return, env.get_wrapper_attr("asked"))
                values["charts/SPS"] = progress.steps_per_second(global_step)
                metrics.log(global_step, values)
            if done and global_step >= next_checkpoint:
                save_checkpoint()
                next_checkpoint = global_step + args.checkpoint_every

        if args.save_model:
            actor = td3.champion if td3.has_champion else td3.actor
            network = {"actor_sizes": actor.sizes, "actor": actor.flat.cpu(), "critics": td3.critics.flat.cpu()}
            write_atomically(run_dir / "model.pt", serialize({"env_id": args.env_id, **network}))
        summary = {"global_step": global_step, "seconds": round(progress.seconds, 1), **evaluate_now()}
        if teaching:
            summary["verdict"] = teaching.verdict()
            progress.print(summary["verdict"])
        write_atomically(run_dir / "summary.json", json.dumps(summary, indent=2).encode())  # the run has finished
        metrics.close()
        progress.close()
        print(f"finished in {run_dir}")
    except (KeyboardInterrupt, SystemExit):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # it stops already
        progress.print(f"stopped at global_step {global_step}: {how_to_resume(run_dir)}")
        raise


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except UserError as error:
        sys.exit(f"td3_camel.py: error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
