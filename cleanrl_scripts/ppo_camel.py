# PPO warm-started from a policy that an LLM wrote: behaviour cloning in CAMEL's mask (arXiv 2502.11896), then CleanRL's PPO.
#
#   audition:  every candidate, random actions and doing nothing play an episode; the best candidate and random actions play on;
#              the best candidate teaches if it is significantly above random actions and differs from doing nothing;
#              if there is no teacher, the rest is PPO alone
#   behaviour cloning, until clone_steps:  for every episode, played by the agent in the mask around the teacher, which fades
#                  actor  <- what the teacher would do in every state visited so far
#                  critic <- the discounted returns of the teacher's and the agent's own episodes
#              then freeze the observation normaliser; the clone explores more if its teacher is worse than doing nothing
#   PPO:       a clone has a learning rate that warms up, a larger discount factor and larger minibatches
#              for every rollout:
#                  for every step:  a ~ policy(obs);  next_obs, reward = env.step(a);  store obs, a, log policy(a | obs), reward
#                  advantages <- GAE;  for every epoch and minibatch: policy <- clipped objective, values <- clipped error
#
# With --prior none it is CleanRL's PPO, but episodes that a time limit or a checkpoint cuts are bootstrapped.
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box

from cleanrl_scripts.common.arguments import RunArgs, check_env_id, check_ranges, parse, resumed_args
from cleanrl_scripts.common.environments import make_flat_env, note_endless_episodes, note_far_actions
from cleanrl_scripts.common.evaluation import evaluate
from cleanrl_scripts.common.logger import Logger
from cleanrl_scripts.common.run_folder import checkpoint_of, prepare_torch, run_folder, save_checkpoint
from cleanrl_scripts.common.stop import run_script
from cleanrl_scripts.learning.actor_critic import ActorCritic
from cleanrl_scripts.learning.adam import Adam, Parts
from cleanrl_scripts.learning.compilation import compiled
from cleanrl_scripts.learning.distributions import approx_kl
from cleanrl_scripts.learning.divergence import refuse_divergence
from cleanrl_scripts.learning.gae import gae
from cleanrl_scripts.learning.priors_of_arms import (
    PRIOR_RANGES,
    PriorArgs,
    arm_name,
    check_prior,
    load_priors,
    prior_files,
    require_no_fault,
)
from llmwrappers.errors import UserError
from llmwrappers.priors.audition import Audition, Teacher, Verdict, audition, contestants
from llmwrappers.priors.dagger import DAgger, half_range


@dataclass
class Hyperparameters(PriorArgs):
    # Behaviour cloning
    clone_steps: int = 20_000
    """the step at which behaviour cloning ends; the audition's steps count"""
    clone_learning_rate: float = 1e-3
    """the learning rate of behaviour cloning"""
    clone_std: float = 0.2
    """exploration noise of the cloned agent: the standard deviation, as a fraction of half the action range"""
    poor_std: float = 0.5
    """the same if the prior returns less than doing nothing: the agent has more to learn than to keep"""
    clone_gamma: float = 0.995
    """the discount factor of PPO after cloning: with 0.99 the cloned agents of Hopper learn to leap and to fall"""
    clone_minibatches: int = 16
    """the number of mini-batches of PPO after cloning; with 16 it learns more slowly than with 32, but on Ant for longer"""
    warmup_steps: int = 50_000
    """steps over which the learning rate rises from 0 after cloning, so that the first updates are small"""

    # PPO
    network_hidden: tuple[int, ...] = (64, 64)
    """widths of the hidden layers, not of networks for images"""
    learning_rate: float = 3e-4
    """the learning rate of the optimizer"""
    num_envs: int = 1
    """the number of environments"""
    num_steps: int = 2048
    """the number of steps to run in each environment per policy rollout"""
    anneal_lr: bool = True
    """toggle learning rate annealing for policy and value networks"""
    gamma: float = 0.99
    """the discount factor gamma"""
    gae_lambda: float = 0.95
    """the lambda for the general advantage estimation"""
    num_minibatches: int = 32
    """the number of mini-batches"""
    update_epochs: int = 10
    """the K epochs to update the policy"""
    norm_adv: bool = True
    """toggles advantages normalization"""
    clip_coef: float = 0.2
    """the surrogate clipping coefficient"""
    clip_vloss: bool = True
    """toggles whether or not to use a clipped loss for the value function, as per the paper"""
    ent_coef: float = 0.0
    """coefficient of the entropy"""
    vf_coef: float = 0.5
    """coefficient of the value function"""
    max_grad_norm: float = 0.5
    """the maximum norm for the gradient clipping"""
    target_kl: float | None = None
    """the target KL divergence threshold"""


@dataclass
class Args(RunArgs, Hyperparameters):  # in --help the first base comes last
    """PPO warm-started from its prior. Options: what people set most; prior, cloning and PPO; how a run is kept.

    Example: llmwrappers train ppo-camel --env-id Walker2d-v4 --total-timesteps 200000 --seed 2
    """

    exp_name: str = "ppo_camel"
    """the name of this experiment"""
    prior: str = "auto"
    """auto: an audition of all candidates shipped for env_id | auto:FOLDER: of those in a folder | shipped (its default) |
    none | random | a shipped prior's name | FILE.py | trusted:FILE.py | FOLDER | expert:RUN_DIR"""


RANGES = {
    "at least 0": ("ent_coef", "vf_coef", "warmup_steps"),
    "at least 1": (
        "network_hidden",
        "num_envs",
        "num_steps",
        "num_minibatches",
        "update_epochs",
        "clone_steps",
        "clone_minibatches",
    ),
    "finite and above 0": ("learning_rate", "clone_learning_rate", "clone_std", "poor_std", "clip_coef", "max_grad_norm"),
    "in [0, 1]": ("gamma", "gae_lambda", "clone_gamma"),
}


def parse_args(argv: list[str] | None = None) -> Args:
    args = parse(Args, argv)
    if args.resume is not None:
        return resumed_args(args, argv, prior_files, schedules)
    check_ranges(args, RANGES, PRIOR_RANGES)
    check_env_id(args.env_id)
    check_prior(args)
    batch = args.num_envs * args.num_steps
    for name in ("num_minibatches",) if args.prior == "none" else ("num_minibatches", "clone_minibatches"):
        if batch % getattr(args, name):
            given = f"--{name.replace('_', '-')} {getattr(args, name)}"
            raise UserError(f"{given} must divide num_envs * num_steps = {args.num_envs} * {args.num_steps}")
    clone_steps = args.clone_steps if args.prior != "none" else 0
    if args.total_timesteps < batch + clone_steps:
        parts = "num_envs * num_steps" + f" + clone_steps = {batch} + {clone_steps}" * (args.prior != "none")
        least = batch + clone_steps
        raise UserError(f"--total-timesteps {args.total_timesteps} must be at least one rollout, {parts} = {least}")
    return args


def schedules(args: Args) -> dict[str, float]:
    """What falls to 0 in a run, and at which step."""
    return {"the learning rate": args.total_timesteps} if args.anneal_lr else {}


# ------------------------------------------------------------------------------------------------------------ behaviour cloning


class BehaviourCloning:
    """The loss of behaviour cloning: actor <- advice, critic <- returns (see ``DAgger``).

    Args:
        std: the clone's exploration noise, as a fraction of half the action range
    """

    def __init__(self, agent: ActorCritic, action_space: gym.Space, std: float):
        self.agent, self.optimizer, self.half_range = agent, Adam(list(agent.network.parameters())), torch.ones(1)
        if isinstance(action_space, Box):
            self.half_range = torch.from_numpy(half_range(action_space)).to(agent.device)
            agent.log_std.data.copy_((std * self.half_range).log())

    def learn(self, *minibatch: np.ndarray, learning_rate: float) -> float:
        """A gradient step on a minibatch of normalised observations, advice and returns; returns the actor's loss."""
        observations, advice, returns = (torch.from_numpy(array).to(self.agent.device) for array in minibatch)
        outputs, values = self.agent(observations)
        if self.agent.policy.shape:
            actor_loss = ((outputs - advice) / self.half_range).square().mean()
        else:  # cross-entropy with the actions that the teacher allows
            actor_loss = -(outputs.log_softmax(dim=1) * advice).sum(dim=1).mean()
        # The return is unknown if neither the agent nor the teacher played.
        critic_loss = (values - torch.where(returns.isnan(), values.detach(), returns)).square().mean()
        self.optimizer.learning_rate.fill_(learning_rate)
        self.optimizer.step(actor_loss + critic_loss)
        return float(actor_loss.detach())


# ------------------------------------------------------------------------------------------------------------- PPO


class PPO:
    """Collects rollouts from environments, one after the other, and learns from them."""

    def __init__(self, args: Args, envs: list[gym.Env], agent: ActorCritic, rng: np.random.Generator):
        self.args, self.envs, self.agent, self.rng = args, envs, agent, rng
        self.optimizer = Adam(agent.parameters, eps=1e-5)
        descent = self.optimizer.descent(self.loss, args.max_grad_norm)
        self.learn, self.hardware = compiled(descent, args, agent.device, agent.images)
        steps, n = args.num_steps, len(envs)
        dtype = np.uint8 if agent.images else np.float32
        self.observations = np.zeros((steps, n, *agent.observation_shape), dtype)
        self.actions = np.zeros((steps, n, *agent.policy.shape), agent.policy.dtype)
        self.rewards, self.values = np.zeros((2, steps, n), np.float32)
        self.dones = np.zeros((steps, n), bool)
        self.current = np.zeros((n, *agent.observation_shape), dtype)
        self.discounted_returns = [0.0] * n
        self.gamma, self.num_minibatches = args.gamma, args.num_minibatches
        self.metrics: dict[str, float] = {}

    def reset(self) -> None:
        """Begins new episodes in all environments, so that their state depends on the seeds alone."""
        for i in range(len(self.envs)):
            self.reset_one(i)

    def reset_one(self, i: int) -> None:
        observation, _ = self.envs[i].reset(seed=int(self.rng.integers(2**31)))
        self.current[i] = self.agent.normalized(observation, update=True)
        self.discounted_returns[i] = 0.0

    def collect(self) -> list[tuple[int, dict[str, float]]]:
        """Fills the rollout; returns the metrics of each episode that ended, and after how many of its steps."""
        args, agent, finished = self.args, self.agent, []
        for step in range(args.num_steps):
            self.observations[step] = self.current
            actions = agent.sample(self.current, self.rng)
            for i, env in enumerate(self.envs):
                observation, reward, terminated, truncated, info = env.step(agent.policy.native(actions[i]))
                reward = float(reward)
                self.discounted_returns[i] = self.discounted_returns[i] * self.gamma + reward
                agent.returns.update(self.discounted_returns[i])
                self.rewards[step, i] = min(max(reward * float(agent.returns.inverse_std), -10.0), 10.0)
                self.dones[step, i] = terminated or truncated
                if terminated or truncated:
                    if not terminated:  # the episode would have gone on
                        self.rewards[step, i] += self.gamma * agent.value(observation)
                    episode = info["episode"]
                    statistics = {"charts/episodic_return": episode["r"], "charts/episodic_length": episode["l"]}
                    finished.append((step * len(self.envs) + i + 1, statistics))
                    self.reset_one(i)
                else:
                    self.current[i] = agent.normalized(observation, update=True)
            self.actions[step] = actions
        self.values[:] = agent.values(self.observations.reshape(-1, *agent.observation_shape)).reshape(self.values.shape)
        return finished

    def update(self, learning_rate: float) -> None:
        """Learns from the rollout."""
        args, agent = self.args, self.agent
        self.optimizer.learning_rate.fill_(learning_rate)
        next_values = agent.values(self.current)
        advantages = gae(self.rewards, self.values, self.dones, next_values, self.gamma, args.gae_lambda)
        arrays = [self.observations, self.actions, advantages, advantages + self.values, self.values]
        batch = [torch.from_numpy(array.reshape(-1, *array.shape[2:])).to(agent.device) for array in arrays]
        size = len(batch[0])
        with torch.no_grad():
            batch.append(torch.cat([self.log_probs(*rows) for rows in zip(*(t.split(2048) for t in batch[:2]), strict=True)]))
        parts = []
        for _ in range(args.update_epochs):
            indices = torch.from_numpy(self.rng.permutation(size)).to(agent.device)
            shuffled = [tensor[indices].split(size // self.num_minibatches) for tensor in batch]
            for minibatch in zip(*shuffled, strict=True):
                parts.append(self.learn(*minibatch))
            if args.target_kl is not None and float(approx_kl(parts[-1]["log_ratio"])) > args.target_kl:
                break
        losses = {name: torch.stack([part[name] for part in parts]) for name in parts[0]}
        log_ratios = losses.pop("log_ratio")
        losses |= {"approx_kl": approx_kl(log_ratios), "clipfrac": ((log_ratios.exp() - 1).abs() > args.clip_coef).float()}
        self.metrics = {f"losses/{name}": float(values.mean()) for name, values in losses.items()}
        errors, variance = advantages, float((advantages + self.values).var())  # returns minus values, and of the returns
        self.metrics["losses/explained_variance"] = 1 - float(errors.var()) / variance if variance else math.nan
        self.metrics["charts/learning_rate"] = learning_rate
        refuse_divergence(agent.parameters)

    def log_probs(self, observations: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return self.agent.policy.log_prob(self.agent(observations)[0], self.agent.log_std, actions)

    def loss(self, observations, actions, advantages, returns, old_values, old_log_probs) -> tuple[torch.Tensor, Parts]:
        """The loss of a minibatch (PPO, arXiv 1707.06347, equations 7 and 9), and its parts by name."""
        args, agent, policy = self.args, self.agent, self.agent.policy
        outputs, values = agent(observations)
        log_ratio = policy.log_prob(outputs, agent.log_std, actions) - old_log_probs
        ratio = log_ratio.exp()

        if args.norm_adv and len(advantages) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        clipped_ratio = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
        policy_loss = -torch.min(advantages * ratio, advantages * clipped_ratio).mean()

        value_loss = (values - returns).square()
        if args.clip_vloss:
            clipped_values = values.clamp(old_values - args.clip_coef, old_values + args.clip_coef)
            value_loss = torch.max(value_loss, (clipped_values - returns).square())
        value_loss = 0.5 * value_loss.mean()

        entropy = policy.entropy(outputs, agent.log_std)
        loss = policy_loss - args.ent_coef * entropy + args.vf_coef * value_loss
        return loss, {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy, "log_ratio": log_ratio}


# ------------------------------------------------------------------------------------------------------------ training


def main(argv: list[str] | None = None) -> None:
    args = parse_args(argv)
    env = make_flat_env(args)
    images = len(env.observation_space.shape or ()) == 3
    prepare_torch(args.torch_deterministic, args.seed, None if images else 1)
    device = torch.device("cuda" if images and torch.cuda.is_available() and args.cuda else "cpu")
    rng = np.random.default_rng(args.seed)  # every random number of the run but the environments' own
    agent = ActorCritic(env.observation_space, env.action_space, rng, device, args.network_hidden)
    raw_env, observe = (env.env, env.observation) if isinstance(env, gym.wrappers.FlattenObservation) else (env, np.asarray)
    priors = load_priors(args, raw_env)
    try:
        teachers = contestants(raw_env, priors, observe, args.prior_input, args.radius, args.seed) if priors else {}
    except (ValueError, TypeError) as error:
        raise UserError(f"--env-id {args.env_id} --prior {args.prior}: {error}") from None
    note_endless_episodes(env, args.env_id)
    note_far_actions(env, args.env_id)
    arm = arm_name(args)
    with run_folder(args, arm, env, prior_files(args)) as run_dir:
        eval_env = make_flat_env(args, run_dir / "videos" if args.capture_video else None)
        envs: list[gym.Env] = [gym.wrappers.RecordEpisodeStatistics(make_flat_env(args)) for _ in range(args.num_envs)]
        try:
            train(args, PPO(args, envs, agent, rng), teachers, eval_env, run_dir, arm)
        finally:
            for env in (*envs, eval_env, raw_env):
                env.close()


def train(args: Args, ppo: PPO, teachers: dict[str, Teacher], eval_env: gym.Env, run_dir: Path, arm: str) -> None:
    agent, rng, batch = ppo.agent, ppo.rng, args.num_envs * args.num_steps
    global_step, start, verdict, evaluated = 0, 0, None, {}
    with checkpoint_of(run_dir, agent.device) as checkpoint:
        if checkpoint:
            global_step, start, evaluated = checkpoint["global_step"], checkpoint["start"], checkpoint["evaluated"]
            verdict = Verdict(**checkpoint["audition"]) if checkpoint["audition"] else None
            agent.load_state_dict(checkpoint["agent"])
            ppo.optimizer.load_state_dict(checkpoint["optimizer"])
            rng.bit_generator.state = json.loads(checkpoint["rng"])
    with Logger(args, run_dir, arm, args.total_timesteps, ppo.hardware, checkpoint) as logger:

        def evaluate_now() -> dict[str, float]:
            returned = evaluate(eval_env, agent.act, args.seed, args.eval_episodes, f"step-{global_step}")
            logger.log(global_step, {"eval/episodic_return": returned})
            logger.print(f"eval at global_step {global_step}: return {returned:.1f}")
            return {"eval/episodic_return": returned}

        if not checkpoint:
            evaluated = evaluate_now()
            if teachers:
                start, found = begin(args, agent, teachers, rng, logger)
                global_step = start
                evaluated = evaluate_now()
                verdict = found.verdict_on_copy(teachers, evaluated["eval/episodic_return"])
                if verdict.falls_short:
                    logger.print(verdict.shortfall)
        # At a checkpoint all episodes begin anew, with seeds from the run's own stream. The environments have no other state,
        # so a resumed run does exactly what an uninterrupted run does.
        last_checkpoint = global_step
        if agent.is_copy:
            ppo.gamma, ppo.num_minibatches = args.clone_gamma, args.clone_minibatches
        total = start + (args.total_timesteps - start) // batch * batch
        last_return = math.nan
        while global_step < total:
            if global_step == last_checkpoint:
                ppo.reset()
            learning_rate = args.learning_rate * (1.0 - global_step / total if args.anneal_lr else 1.0)
            if agent.is_copy:
                learning_rate *= min(1.0, (global_step + batch - start) / max(args.warmup_steps, 1))
            episodes = ppo.collect()
            ppo.update(learning_rate)
            for ended_after, metrics in episodes:
                logger.log(global_step + ended_after, metrics)
                last_return = metrics["charts/episodic_return"]
            global_step += batch
            logger.progress(global_step, last_return)
            logger.log(global_step, {**ppo.metrics, "charts/SPS": logger.steps_per_second})
            if global_step // args.eval_every > (global_step - batch) // args.eval_every or global_step == total:
                evaluated = evaluate_now()
            if global_step >= last_checkpoint + args.checkpoint_every or global_step == total:
                last_checkpoint = global_step
                state = {"global_step": global_step, "start": start, "evaluated": evaluated, "agent": agent.state_dict()}
                state |= {"audition": verdict and asdict(verdict)}
                state |= {"optimizer": ppo.optimizer.state_dict(), "rng": json.dumps(rng.bit_generator.state)}
                save_checkpoint(run_dir, {**state, "logger": logger.state_dict()})

        if args.save_model:
            agent.save(run_dir, args, global_step)
        summary = {**evaluated, "taught": agent.is_copy, "audition": verdict and asdict(verdict)}
        logger.write_summary(global_step, summary, str(verdict or ""))


def begin(args: Args, agent: ActorCritic, teachers: dict[str, Teacher], rng, logger: Logger) -> tuple[int, Audition]:
    """The audition and behaviour cloning; returns the steps that they took, and the audition."""
    found, steps = audition(teachers, args.clone_steps, rng), 0
    require_no_fault(args, found.faults)
    logger.print(str(found.verdict))
    for name, episodes in found.played.items():
        for episode in episodes:
            steps += len(episode.rewards)
            logger.log(steps, {f"audition/{name}": episode.episodic_return})
    if not found.teacher:
        return steps, found
    teacher = teachers[found.teacher]
    loss = BehaviourCloning(agent, teacher.env.action_space, args.clone_std if found.beats_nothing else args.poor_std)
    clone = DAgger(teacher, agent, loss.learn, args.clone_gamma, args.clone_steps, args.clone_learning_rate, found, rng)
    for steps, episode, epsilon in clone.run():
        values = {"mask/epsilon": epsilon, "losses/clone_loss": clone.loss}
        if not episode.is_cut:  # by the end of behaviour cloning
            values |= {"charts/episodic_return": episode.episodic_return, "charts/episodic_length": float(len(episode.rewards))}
        logger.progress(steps, episode.episodic_return)
        logger.log(steps, {**values, "charts/SPS": logger.steps_per_second})
        if steps >= args.clone_steps:
            logger.print("final pass of behaviour cloning over all states: some seconds without a step")
    agent.is_copy = True
    return steps, found


if __name__ == "__main__":
    run_script(main, "ppo_camel.py")
