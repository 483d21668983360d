# TD3 in a mask around a policy that an LLM wrote: CAMEL (arXiv 2502.11896) on CleanRL's td3_continuous_action.py.
#
#   for every step:
#       x = actor(obs) + noise                                 x in [-1, 1]; before learning starts x is random
#       next_obs, reward = env.step(x)                         LLMActionMask plays action = center + half_width * x: in an
#                                                              interval around the prior's action if the mask applies,
#                                                              else in the whole space
#       store obs, action, next_obs, reward, the interval of this action and the interval of the next
#       next_action = next_center + next_half_width * clip(target_actor(next_obs) + clipped noise)
#       critics  <- reward + gamma * min(target_critics(next_obs, next_action))
#       actor    <- max critic(obs, center + half_width * actor(obs))
#       targets  <- (1 - tau) * targets + tau * networks       both every second step
#   the mask applies with probability epsilon; EpsilonMaskSchedule lowers epsilon from 1 to 0 over the first fifth of the steps
#   evaluate without the mask (the agent alone: the main result) and with it; the difference is the handover gap
#
# With --prior none it is CleanRL's TD3.
import copy
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.spaces.utils import flatdim
from torch import nn

from cleanrl_scripts.common.arguments import RunArgs, check_env_id, check_ranges, parse, resumed_args
from cleanrl_scripts.common.environments import flattened, make_env, note_endless_episodes, refuse_action_space
from cleanrl_scripts.common.evaluation import evaluate
from cleanrl_scripts.common.logger import Logger
from cleanrl_scripts.common.run_folder import (
    checkpoint_of,
    prepare_torch,
    run_folder,
    save_agent_file,
    save_checkpoint,
    save_torch,
)
from cleanrl_scripts.common.stop import run_script
from cleanrl_scripts.learning.adam import Adam
from cleanrl_scripts.learning.compilation import compiled
from cleanrl_scripts.learning.divergence import refuse_divergence
from cleanrl_scripts.learning.matmul import choose_matmul
from cleanrl_scripts.learning.networks import in_numpy, initialize_uniform, layers_of, mlp
from cleanrl_scripts.learning.priors_of_arms import PRIOR_RANGES, PriorArgs, arm_name, check_prior, load_priors, prior_files
from cleanrl_scripts.learning.replay import Replay
from llmwrappers import EpsilonMaskSchedule, LLMActionMask
from llmwrappers.action_masks.intervals import center_and_half_width, to_native
from llmwrappers.errors import UserError
from llmwrappers.faults import FaultCounts


@dataclass
class Hyperparameters(PriorArgs):
    # The mask
    mask_fraction: float = 0.2
    """fraction of total_timesteps over which the probability of the mask falls from 1 to 0"""
    gate: Literal["step", "episode"] = "step"
    """whether the mask applies is drawn at every step, or once per episode"""

    # TD3
    network_hidden: tuple[int, ...] = (256, 256)
    """widths of the hidden layers of actor and critics"""
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
    """the scale of policy noise, a fraction of the interval's half-width"""
    exploration_noise: float = 0.1
    """the scale of exploration noise, a fraction as above"""
    learning_starts: int = int(25e3)
    """timestep to start learning"""
    policy_frequency: int = 2
    """the frequency of training policy (delayed)"""
    noise_clip: float = 0.5
    """noise clip parameter of the target policy smoothing regularization, a fraction as above"""


@dataclass
class Args(RunArgs, Hyperparameters):  # in --help the first base comes last
    """TD3 in a mask that fades (CAMEL). Options: what people set most; prior, mask and TD3; how a run is kept.

    Example: llmwrappers train td3-camel --env-id Ant-v4 --total-timesteps 300000 --seed 2
    """

    exp_name: str = "td3_camel"
    """the name of this experiment"""
    eval_every: int = 10_000
    """steps between evaluations"""
    eval_episodes: int = 10
    """episodes of an evaluation without the mask, and as many with it"""
    checkpoint_every: int = 10_000
    """steps between checkpoints, each at the end of an episode"""
    matmul: Literal["float32", "bfloat16"] = "float32"
    """precision of matrix products on a CPU. bfloat16 is faster on processors with matrix units for it, but in three seeds the
    final return was 11 to 51 % lower (docs/camel.md)"""


RANGES = {
    "at least 0": ("learning_starts",),
    "at least 1": ("network_hidden", "buffer_size", "batch_size", "policy_frequency"),
    "finite and above 0": ("learning_rate",),
    "finite and at least 0": ("policy_noise", "exploration_noise", "noise_clip"),
    "in [0, 1]": ("gamma", "tau", "mask_fraction"),
}


def parse_args(argv: list[str] | None = None) -> Args:
    args = parse(Args, argv)
    if args.resume is not None:
        return resumed_args(args, argv, prior_files, schedules)
    check_ranges(args, RANGES, PRIOR_RANGES)
    check_env_id(args.env_id)
    if args.prior_source.kind == "auto":
        raise UserError(
            f"--prior {args.prior}: only ppo_camel.py chooses among candidates; give --prior shipped (with --candidate N for "
            "another one), or a file"
        )
    check_prior(args)
    return args


def schedules(args: Args) -> dict[str, float]:
    """What falls to 0 in a run, and at which step."""
    return {"the mask's probability": args.mask_fraction * args.total_timesteps} if args.prior != "none" else {}


def arm_of(args: Args) -> str:
    """td3 | paper | paper-random | paper-expert, or paper-NAME for the user's own file or folder NAME."""
    arm = arm_name(args)
    return "td3" if args.prior == "none" else "paper" if arm == "llm" else f"paper-{arm}"


def make_masked_env(args: Args, video_dir: Path | None = None) -> tuple[gym.Env, Box]:
    """The environment whose actions x in [-1, 1] span the mask's interval, and its native action space."""
    env = make_env(args, video_dir)
    space = env.action_space
    refuse_action_space(args.env_id, "TD3", space, discrete=False, bounded=True)
    assert isinstance(space, Box)
    if args.prior == "none":
        env = gym.wrappers.RescaleAction(env, space.low.dtype.type(-1.0), space.low.dtype.type(1.0))
    else:
        # load_priors tries the prior in the environment below the recorder: videos are of evaluations alone.
        (prior,) = load_priors(args, env.env if isinstance(env, gym.wrappers.RecordVideo) else env).values()
        try:
            env = LLMActionMask(env, prior, args.radius, gate=args.gate, prior_input=args.prior_input)
        except (ValueError, TypeError) as error:
            raise UserError(f"--env-id {args.env_id} --prior {args.prior}: {error}") from None
    return flattened(env, args.env_id), space


class Transition(NamedTuple):
    """What is stored of a step, in native units, with the intervals of its action and of the next; or of many, as columns."""

    obs: Any
    action: Any
    next_obs: Any
    next_center: Any
    next_half_width: Any
    center: Any
    half_width: Any
    reward: Any
    not_terminated: Any


class TD3:
    """Masking-aware TD3 (CAMEL): the outputs x in [-1, 1] of the actor and the target actor span the stored intervals."""

    def __init__(self, args: Args, observation_dim: int, action_dim: int, rng: np.random.Generator, device: torch.device):
        self.args, self.rng, self.device, self.action_dim = args, rng, device, action_dim
        self.actor = mlp([observation_dim, *args.network_hidden, action_dim], nn.ReLU).to(device)
        self.critics = nn.ModuleList(mlp([observation_dim + action_dim, *args.network_hidden, 1], nn.ReLU) for _ in range(2))
        for network in (self.actor, *self.critics.to(device)):
            initialize_uniform(network, rng)
        self.target_actor, self.target_critics = copy.deepcopy(self.actor), copy.deepcopy(self.critics)
        self.actor_optimizer = Adam(self.actor.parameters(), args.learning_rate)
        self.critic_optimizer = Adam(self.critics.parameters(), args.learning_rate)
        self.act_numpy = in_numpy(self.actor)  # on the same memory: if you replace the actor or p.data, make this anew
        self.learn_values, _ = compiled(self.descend_critics, args, device)
        self.learn_actions, self.hardware = compiled(self.descend_actor, args, device)
        widths = Transition(
            obs=observation_dim, action=action_dim, next_obs=observation_dim, next_center=action_dim,
            next_half_width=action_dim, center=action_dim, half_width=action_dim, reward=1, not_terminated=1,
        )  # fmt: skip
        self.replay = Replay(min(args.buffer_size, args.total_timesteps), widths)
        self.rows = torch.empty(args.batch_size, self.replay.width)
        self.losses: dict[str, float] = {}

    def act(self, observation: np.ndarray) -> np.ndarray:
        """x = tanh(actor(obs)) for one observation."""
        x = np.tanh(self.act_numpy(observation.astype(np.float32)[None])[0])
        refuse_divergence([x])
        return x

    def update(self, global_step: int) -> None:
        """One gradient step of the critics; every policy_frequency steps also one of the actor, and the targets move."""
        args = self.args
        self.replay.sample(self.rng, out=self.rows)
        rows = self.rows.to(self.device)
        noise = self.rng.standard_normal((self.action_dim, args.batch_size), dtype=np.float32)
        values, losses = self.learn_values(rows, torch.from_numpy(noise).mT.to(self.device))
        if global_step % 100 == 0:
            for i, (value, loss) in enumerate(zip(values.tolist(), losses.tolist(), strict=True), start=1):
                self.losses |= {f"losses/qf{i}_values": value, f"losses/qf{i}_loss": loss}
            self.losses["losses/qf_loss"] = losses.mean().item()
        if global_step % args.policy_frequency == 0:
            actor_loss = self.learn_actions(rows)
            if global_step % 100 == 0:
                self.losses["losses/actor_loss"] = actor_loss.item()

    def descend_critics(self, rows: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """One gradient step of the critics; returns their mean values and losses. torch.compile makes it one function."""
        args, batch = self.args, self.replay.columns(rows)
        with torch.no_grad():
            noise = (noise * args.policy_noise).clamp(-args.noise_clip, args.noise_clip)
            next_x = (self.target_actor(batch.next_obs).tanh() + noise).clamp(-1.0, 1.0)
            next_state = torch.cat([batch.next_obs, batch.next_center + batch.next_half_width * next_x], dim=1)
            next_values = torch.stack([critic(next_state) for critic in self.target_critics]).amin(dim=0)
            targets = batch.reward + args.gamma * batch.not_terminated * next_values
        values = [critic(torch.cat([batch.obs, batch.action], dim=1)) for critic in self.critics]
        losses = torch.stack([(value - targets).square().mean() for value in values])
        self.critic_optimizer.step(losses.sum())
        return torch.stack([value.mean() for value in values]).detach(), losses.detach()

    def descend_actor(self, rows: torch.Tensor) -> torch.Tensor:
        """One gradient step of the actor, then moves all targets; returns the loss. torch.compile makes it one function."""
        batch = self.replay.columns(rows)
        action = batch.center + batch.half_width * self.actor(batch.obs).tanh()
        loss = -self.critics[0](torch.cat([batch.obs, action], dim=1)).mean()
        self.actor_optimizer.step(loss)
        with torch.no_grad():
            pairs = (self.actor, self.target_actor), (self.critics, self.target_critics)
            for parameter, target in ((p, t) for n, m in pairs for p, t in zip(n.parameters(), m.parameters(), strict=True)):
                target.lerp_(parameter, self.args.tau)
        return loss.detach()

    def parts(self) -> dict[str, nn.Module | Adam | torch.optim.Optimizer]:
        """What a checkpoint keeps: every network and optimizer, also those that you add; put a parameter into an nn.Module."""
        return {name: part for name, part in vars(self).items() if isinstance(part, nn.Module | Adam | torch.optim.Optimizer)}

    def state_dict(self) -> dict:
        return {name: part.state_dict() for name, part in self.parts().items()} | {"transitions": self.replay.added}

    def load_state_dict(self, state: dict, replay: Path) -> None:
        for name, part in self.parts().items():
            part.load_state_dict(state[name])
        self.replay.load(replay, state["transitions"])


def main(argv: list[str] | None = None) -> None:
    args = parse_args(argv)
    env, space = make_masked_env(args)
    note_endless_episodes(env, args.env_id)
    if args.learning_starts >= args.total_timesteps:
        print(
            f"note: --learning-starts {args.learning_starts}: the run ends at step {args.total_timesteps}, before it learns "
            "anything; all its actions are random",
            flush=True,
        )
    if args.prior != "none":
        env = EpsilonMaskSchedule(env, args.total_timesteps, args.mask_fraction)
        mask_ends = args.mask_fraction * args.total_timesteps
        if mask_ends == 0:
            print("note: --mask-fraction 0: the mask never applies, so the prior has no effect", flush=True)
        elif args.learning_starts < args.total_timesteps and mask_ends <= args.learning_starts:
            print(
                f"note: the mask has faded at step {mask_ends:.0f}, before learning starts at step {args.learning_starts}: the "
                "prior only confines the random actions before that",
                flush=True,
            )
    with run_folder(args, arm_of(args), env, prior_files(args)) as run_dir:
        eval_env, _ = make_masked_env(args, run_dir / "videos" if args.capture_video else None)
        try:
            train(args, env, eval_env, space, run_dir)
        finally:
            env.close()
            eval_env.close()


def train(args: Args, env: gym.Env, eval_env: gym.Env, space: Box, run_dir: Path) -> None:
    prepare_torch(args.torch_deterministic, args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() and args.cuda else "cpu")
    matmul = f", {choose_matmul(args.matmul)}" if device.type == "cpu" else ""
    masked, action_dim = args.prior != "none", flatdim(space)
    rng = np.random.default_rng(args.seed)  # every random number of the run but the environments' own
    td3 = TD3(args, flatdim(env.observation_space), action_dim, rng, device)
    global_step, last_return, evaluated = 0, math.nan, {}
    with checkpoint_of(run_dir, device) as checkpoint:
        if checkpoint:
            global_step, evaluated = checkpoint["global_step"], checkpoint["evaluated"]
            td3.load_state_dict(checkpoint["td3"], run_dir / "replay.bin")
            rng.bit_generator.state = json.loads(checkpoint["rng"])
            if masked:
                env.get_wrapper_attr("prior_faults").counts = FaultCounts(*checkpoint["prior_faults"])
                env.set_wrapper_attr("elapsed_steps", checkpoint["elapsed_steps"], force=False)
    next_checkpoint = global_step + args.checkpoint_every

    def interval(info: dict) -> tuple[np.ndarray, np.ndarray]:
        """Center and half-width of the next action's interval; without a mask the interval is the whole space."""
        bounds = info.get("action_low", space.low), info.get("action_high", space.high)
        center, half_width = center_and_half_width(*bounds)
        return center.ravel(), half_width.ravel()

    def evaluate_now() -> dict[str, float]:
        def mean_return(mask_epsilon: float, name: str) -> float:
            if masked:
                eval_env.set_wrapper_attr("mask_epsilon", mask_epsilon, force=False)
                eval_env.get_wrapper_attr("prior_faults").end_row()
            return evaluate(eval_env, lambda obs: td3.act(obs).reshape(space.shape), args.seed, args.eval_episodes, name)

        alone = mean_return(0.0, f"step-{global_step}")
        values = {"eval/episodic_return": alone}
        line = f"eval at global_step {global_step}: return {alone:.1f} without the mask"
        if masked:
            with_mask = mean_return(1.0, f"step-{global_step}-masked")
            values |= {"eval/masked_return": with_mask, "eval/handover_gap": with_mask - alone}
            line += f", {with_mask:.1f} with it, handover gap {with_mask - alone:.1f}"
        logger.log(global_step, values)
        logger.print(line)
        return values

    # Checkpoints are made between episodes. The next reset takes its seed from the run's own stream, so the environment has no
    # other state, and a resumed run does exactly what an uninterrupted run does. The last checkpoint may cut an episode, so
    # that --resume can take more steps from there.
    with Logger(args, run_dir, arm_of(args), args.total_timesteps, td3.hardware + matmul, checkpoint) as logger:
        if not checkpoint:
            evaluated = evaluate_now()
        while global_step < args.total_timesteps:
            observation, info = env.reset(seed=int(rng.integers(2**31)))
            observation = np.array(observation)  # a copy: env may write the next one over it
            center, half_width = interval(info)
            episodic_return, episodic_length, masked_steps, widths, done = 0.0, 0, 0, 0.0, False
            while not done and global_step < args.total_timesteps:
                if global_step < args.learning_starts:
                    x = rng.uniform(-1.0, 1.0, action_dim).astype(np.float32)
                else:
                    x = td3.act(observation) + args.exploration_noise * rng.standard_normal(action_dim, dtype=np.float32)
                    x = np.minimum(np.maximum(x, -1.0), 1.0)
                if masked:
                    masked_steps += info["mask_active"]
                    widths += info["action_high"] - info["action_low"]

                next_observation, reward, terminated, truncated, info = env.step(
                    x.reshape(space.shape).astype(space.dtype, copy=False)
                )
                action = info["executed_action"].ravel() if masked else center + half_width * x
                next_center, next_half_width = interval(info)
                transition = Transition(
                    obs=observation, action=action, next_obs=next_observation, next_center=next_center,
                    next_half_width=next_half_width, center=center, half_width=half_width, reward=reward,
                    not_terminated=not terminated,
                )  # fmt: skip
                td3.replay.add(transition)
                observation, center, half_width = np.array(next_observation), next_center, next_half_width
                episodic_return += float(reward)
                episodic_length += 1
                done = terminated or truncated
                global_step += 1

                if global_step > args.learning_starts:
                    td3.update(global_step)
                if global_step % 100 == 0:
                    logger.log(global_step, td3.losses)
                    td3.losses.clear()  # the old losses are not logged again if no update follows
                    logger.progress(global_step, last_return)
                if global_step % args.eval_every == 0 or global_step == args.total_timesteps:
                    evaluated = evaluate_now()

            if done:
                last_return = episodic_return
                logger.progress(global_step, last_return)
                values = {"charts/episodic_return": episodic_return, "charts/episodic_length": episodic_length}
                if masked:
                    values["mask/epsilon"] = env.get_wrapper_attr("mask_epsilon")
                    values["mask/active"] = masked_steps / episodic_length
                    # The mean width of the interval as a fraction of the action range.
                    values["mask/width"] = float(np.mean(widths / (space.high - space.low))) / episodic_length
                    values["mask/prior_faults"] = info["prior_faults"]
                logger.log(global_step, {**values, "charts/SPS": logger.steps_per_second})
            if (done and global_step >= next_checkpoint) or global_step == args.total_timesteps:
                next_checkpoint = global_step + args.checkpoint_every
                refuse_divergence([*td3.actor.parameters(), *td3.critics.parameters()])
                td3.replay.save(run_dir / "replay.bin")
                state = {
                    "global_step": global_step,
                    "td3": td3.state_dict(),
                    "rng": json.dumps(rng.bit_generator.state),
                    "prior_faults": tuple(env.get_wrapper_attr("prior_faults").counts) if masked else None,
                    "elapsed_steps": env.get_wrapper_attr("elapsed_steps") if masked else None,
                    "evaluated": evaluated,
                    "logger": logger.state_dict(),
                }
                save_checkpoint(run_dir, state)

        if args.save_model:
            networks = {"actor": td3.actor.cpu().state_dict(), "critics": td3.critics.cpu().state_dict()}
            save_torch(run_dir / "model.pt", {"env_id": args.env_id, **networks})
            save_agent_file(
                run_dir, args, "tanh", layers_of(td3.actor), space, {},
                act=lambda obs: to_native(td3.act(obs).reshape(space.shape), space.low, space.high),
                observations=td3.replay.rows[: td3.replay.added][:10, td3.replay.fields[0]],
            )  # fmt: skip
        logger.write_summary(global_step, evaluated)


if __name__ == "__main__":
    run_script(main, "td3_camel.py")
