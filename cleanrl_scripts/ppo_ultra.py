# PPO fine-tunes an agent with an LLM's guidance in critical states: ULTRA (arXiv 2505.20671) on CleanRL's PPO.
#
#   pretrain:  PPO alone until it is stuck; save the agent and its episodes, which an LLM reads offline
#   fine-tune, for every rollout:
#       for every step:
#           a ~ policy(obs);  next_obs, reward, info = env.step(a)  LLMActionOverride plays the LLM's action in critical states,
#           a = info["executed_action"] if overridden               CriticalStateRewarder adds alpha * the LLM's reward
#           store obs, a, reward
#       worth[entry] <- mean advantage when its action was played minus when it was withheld;  disable entries that do harm
#       advantages <- GAE;  for every epoch and minibatch:
#           policy <- clipped objective of its own actions + imitation of the LLM's, which fades;  values <- clipped error
#   (the paper has no imitation, --imitation-coef 0: then PPO learns from the LLM's actions as if the agent had chosen them)
#   evaluate the agent alone, without guidance: the main result
import dataclasses
import json
import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import gymnasium as gym
import numpy as np
import torch

from cleanrl_scripts.common.arguments import RunArgs, check_env_id, check_ranges, parse, resumed_args
from cleanrl_scripts.common.environments import make_flat_env, note_endless_episodes, note_far_actions
from cleanrl_scripts.common.logger import Logger
from cleanrl_scripts.common.run_folder import checkpoint_of, prepare_torch, run_folder, save_checkpoint
from cleanrl_scripts.common.stop import run_script
from cleanrl_scripts.learning.actor_critic import ActorCritic
from cleanrl_scripts.learning.adam import Adam, Parts
from cleanrl_scripts.learning.compilation import compiled
from cleanrl_scripts.learning.distributions import approx_kl
from cleanrl_scripts.learning.divergence import refuse_divergence
from cleanrl_scripts.learning.gae import gae, standardized
from cleanrl_scripts.ultra.agent_evaluation import evaluate_agent, in_words
from cleanrl_scripts.ultra.critical_state_sources import (
    SOURCE_RANGES,
    SourceArgs,
    check_sources,
    guidance_source,
    load_agent,
    load_critical_states,
    matched_info,
    source_files,
)
from cleanrl_scripts.ultra.entry_table import EpisodeAdvantages, disable, entry_table
from cleanrl_scripts.ultra.fidelity import fidelity
from cleanrl_scripts.ultra.guidance_statistics import GuidanceStatistics, guidance_counts, trouble
from cleanrl_scripts.ultra.novelty import Novelty, NoveltyBonus
from cleanrl_scripts.ultra.pong_arguments import with_pong_defaults
from cleanrl_scripts.ultra.trajectory_recording import record
from llmwrappers import CriticalFunction, CriticalStateRewarder, CriticalStates, EntryWorth, LLMActionOverride
from llmwrappers.critical_states.guidance import Guidance, GuidanceCounts, NothingCritical, entry_count
from llmwrappers.errors import UserError
from llmwrappers.files import write_atomically


@dataclass
class Hyperparameters(SourceArgs):
    alpha: float = 0.1
    """weight of the LLM's reward, or of the novelty bonus (default in Pong: 0.5)"""
    shaping: Literal["paper", "potential"] = "potential"
    """paper: the LLM's reward as it is; potential: as potential-based shaping, which keeps the optimal policy"""
    control_probability: float = 0.25
    """probability that the agent's own action is played in a critical state: this shows what an entry is worth, and entries
    that cost return are disabled. 0: no entry is ever disabled. Only for a, ra and random"""
    imitation_coef: float = 1.0
    """initial weight of the imitation of the LLM's actions, played or not. 0: no imitation. Only for a, ra and random"""
    imitation_fraction: float = 0.7
    """the fraction of total_timesteps over which that weight falls to 0; then the agent chooses all its actions"""

    # PPO
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
    """PPO fine-tunes a stuck agent (ULTRA). Options: what people set most; agent, LLM and PPO; how a run is kept.

    Example: llmwrappers train ppo-ultra --env-id Hopper-v4 --total-timesteps 100000 --seed 2
    """

    exp_name: str = "ppo_ultra"
    """the name of this experiment"""
    env_id: str = "Hopper-v4"
    """the id of the environment; ALE/Pong-v5 means llmwrappers/PongObjects-v0, Pong's objects; llmwrappers/PongGrid-v0 is its
    80x80 grid. Both have their own defaults"""


RANGES = {
    "at least 0": ("ent_coef", "vf_coef"),
    "at least 1": ("num_envs", "num_steps", "num_minibatches", "update_epochs"),
    "finite and above 0": ("learning_rate", "clip_coef", "max_grad_norm"),
    "finite and at least 0": ("alpha", "imitation_coef"),
    "in (0, 1]": ("imitation_fraction",),
    "in [0, 1]": ("gamma", "gae_lambda"),
    "in [0, 1)": ("control_probability",),
}


def parse_args(argv: list[str] | None = None) -> Args:
    args = parse(Args, argv)
    if args.resume is not None:
        return resumed_args(args, argv, source_files, schedules)
    args = with_pong_defaults(args, argv)
    check_ranges(args, RANGES, SOURCE_RANGES)
    check_env_id(args.env_id)
    check_sources(args)
    batch = args.num_envs * args.num_steps
    if batch % args.num_minibatches:
        product = f"num_envs * num_steps = {args.num_envs} * {args.num_steps}"
        raise UserError(f"--num-minibatches {args.num_minibatches} must divide {product}")
    name = "pretrain_timesteps" if args.pretrain_timesteps else "total_timesteps"
    if getattr(args, name) < batch:
        option = f"--{name.replace('_', '-')} {getattr(args, name)}"
        raise UserError(f"{option} must be at least one rollout, num_envs * num_steps = {batch}")
    return args


# ------------------------------------------------------------------------------------------------------------ guidance


ACTING_ARMS = ("a", "ra", "random")


def schedules(args: Args) -> dict[str, float]:
    """What falls to 0 in a run, and at which step."""
    total, imitates = args.pretrain_timesteps or args.total_timesteps, args.arm in ACTING_ARMS and args.imitation_coef
    ends = {"the learning rate": total} if args.anneal_lr else {}
    return ends | ({"the imitation's weight": args.imitation_fraction * total} if imitates else {})


def guide(env: gym.Env, args: Args, guidance: Guidance, novelty: Novelty | None = None) -> gym.Env:
    """Wraps an environment so that the LLM guides the agent as the arm says."""
    settings = {"info_key": matched_info(env), "patience_steps": args.patience_steps}
    if novelty:
        return NoveltyBonus(env, novelty, guidance, args.alpha, args.patience_steps)
    if args.arm in ACTING_ARMS:
        env = LLMActionOverride(env, guidance, **settings, control_probability=args.control_probability)
    if args.arm in ("r", "ra") or (args.arm == "random" and isinstance(guidance, CriticalStates)):
        env = CriticalStateRewarder(env, guidance, args.alpha, args.shaping, args.gamma, **settings)
    return env


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
        self.actions, self.llm_actions = np.zeros((2, steps, n, *agent.policy.shape), agent.policy.dtype)
        self.rewards, self.own_rewards, self.values = np.zeros((3, steps, n), np.float32)
        self.dones, self.overridden, self.advised = np.zeros((3, steps, n), bool)
        self.entries = np.zeros((steps, n), np.int64)
        self.current = np.zeros((n, *agent.observation_shape), dtype)
        self.discounted_returns = [0.0] * n
        self.imitation_coef = torch.zeros((), device=agent.device)  # a tensor, which compiled code reads anew
        self.told = EpisodeAdvantages()
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
        args, agent, finished, self.metrics, is_imitating = self.args, self.agent, [], {}, float(self.imitation_coef) > 0
        for step in range(args.num_steps):
            self.observations[step] = self.current
            actions = agent.sample(self.current, self.rng)
            for i, env in enumerate(self.envs):
                observation, reward, terminated, truncated, info = env.step(agent.policy.native(actions[i]))
                reward = float(reward)
                own_reward = reward - info.get("llm_reward", 0.0)
                self.entries[step, i] = info.get("critical_entry", -1)
                self.overridden[step, i] = info.get("action_overridden", False)
                if self.overridden[step, i]:  # the executed action, not the agent's
                    actions[i] = np.reshape(info["executed_action"], agent.policy.shape)
                self.advised[step, i] = is_imitating and "llm_action" in info and self.entries[step, i] >= 0
                self.llm_actions[step, i] = np.reshape(info.get("llm_action", actions[i]), agent.policy.shape)
                self.discounted_returns[i] = self.discounted_returns[i] * args.gamma + reward
                agent.returns.update(self.discounted_returns[i])
                scale = float(agent.returns.inverse_std)
                self.rewards[step, i] = min(max(reward * scale, -10.0), 10.0)
                self.own_rewards[step, i] = min(max(own_reward * scale, -10.0), 10.0)
                self.dones[step, i] = terminated or truncated
                if terminated or truncated:
                    if not terminated:  # the episode would have gone on
                        at_its_end = args.gamma * agent.value(observation)
                        self.rewards[step, i] += at_its_end
                        self.own_rewards[step, i] += at_its_end
                    episode = info["episode"]
                    statistics = {"charts/episodic_return": episode["r"], "charts/episodic_length": episode["l"]}
                    finished.append((step * len(self.envs) + i + 1, statistics | info.get("guidance", {})))
                    self.reset_one(i)
                else:
                    self.current[i] = agent.normalized(observation, update=True)
            self.actions[step] = actions
        self.values[:] = agent.values(self.observations.reshape(-1, *agent.observation_shape)).reshape(self.values.shape)
        return finished

    def tell(self, worth: EntryWorth) -> None:
        """Records the advantages of the steps in critical states, from the environment's own reward and in its units.

        For rewards far ahead they use the critic, which has also learned from the LLM's rewards, if the arm has them.
        """
        args, agent = self.args, self.agent
        advantages = gae(self.own_rewards, self.values, self.dones, agent.values(self.current), args.gamma, args.gae_lambda)
        advantages /= agent.returns.inverse_std
        self.metrics |= self.told.add(worth, self.entries, self.overridden, advantages, self.dones)
        self.advised &= np.array(worth.estimates)[self.entries] > 0  # no imitation of entries without worth

    def update(self, learning_rate: float) -> None:
        """Learns from the rollout."""
        args, agent = self.args, self.agent
        self.optimizer.learning_rate.fill_(learning_rate)
        advantages = gae(self.rewards, self.values, self.dones, agent.values(self.current), args.gamma, args.gae_lambda)
        arrays = [self.observations, self.actions, advantages, advantages + self.values, self.values]
        arrays += [self.llm_actions, self.advised, credited := ~self.overridden | (args.imitation_coef == 0)]
        share = max(float(credited.mean()), 1e-9)  # the log ratios of the other steps are 0
        batch = [torch.from_numpy(array.reshape(-1, *array.shape[2:])).to(agent.device) for array in arrays]
        size = len(batch[0])
        with torch.no_grad():
            batch.append(torch.cat([self.log_probs(*rows) for rows in zip(*(t.split(2048) for t in batch[:2]), strict=True)]))
        parts = []
        for _ in range(args.update_epochs):
            indices = torch.from_numpy(self.rng.permutation(size)).to(agent.device)
            shuffled = [tensor[indices].split(size // args.num_minibatches) for tensor in batch]
            for minibatch in zip(*shuffled, strict=True):
                parts.append(self.learn(*minibatch))
            if args.target_kl is not None and float(approx_kl(parts[-1]["log_ratio"])) / share > args.target_kl:
                break
        losses = {name: torch.stack([part[name] for part in parts]) for name in parts[0]}
        log_ratios = losses.pop("log_ratio")
        is_clipped = (log_ratios.exp() - 1).abs() > args.clip_coef
        losses |= {"approx_kl": approx_kl(log_ratios) / share, "clipfrac": is_clipped.float() / share}
        self.metrics |= {f"losses/{name}": float(values.mean()) for name, values in losses.items()}
        self.metrics["ultra/advised"] = float(self.advised.mean())
        if self.advised.any():  # a probability on a Discrete space, a density on a Box
            likelihoods = self.log_probs(batch[0][batch[6]], batch[5][batch[6]]).exp()
            self.metrics["ultra/advised_likelihood"] = float(likelihoods.mean().detach())
        errors, variance = advantages, float((advantages + self.values).var())  # returns minus values, and of the returns
        self.metrics["losses/explained_variance"] = 1 - float(errors.var()) / variance if variance else math.nan
        self.metrics["charts/learning_rate"] = learning_rate
        refuse_divergence(agent.parameters)

    def log_probs(self, observations: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return self.agent.policy.log_prob(self.agent(observations)[0], self.agent.log_std, actions)

    def loss(
        self, observations, actions, advantages, returns, old_values, llm_actions, advised, credited, old_log_probs
    ) -> tuple[torch.Tensor, Parts]:
        """The loss of a minibatch (PPO, arXiv 1707.06347, equations 7 and 9), and its parts by name."""
        args, agent, policy = self.args, self.agent, self.agent.policy
        outputs, values = agent(observations)
        # The LLM's actions are no samples of the policy: E[grad log pi] is not 0 there, so errors of the values would bias it.
        log_ratio = torch.where(credited, policy.log_prob(outputs, agent.log_std, actions) - old_log_probs, 0.0)
        ratio = log_ratio.exp()  # of an imitated action it could be infinite
        if args.norm_adv:
            advantages = standardized(advantages, credited)
        clipped_ratio = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
        policy_loss = -(torch.min(advantages * ratio, advantages * clipped_ratio) * credited).mean()

        value_loss = (values - returns).square()
        if args.clip_vloss:
            clipped_values = values.clamp(old_values - args.clip_coef, old_values + args.clip_coef)
            value_loss = torch.max(value_loss, (clipped_values - returns).square())
        value_loss = 0.5 * value_loss.mean()

        entropy, imitation_loss = policy.entropy(outputs, agent.log_std), torch.zeros((), device=agent.device)
        loss = policy_loss - args.ent_coef * entropy + args.vf_coef * value_loss
        if args.imitation_coef:  # of the LLM's actions, played or not; the exploration noise, which all states share, stays
            imitation_loss = -(policy.log_prob(outputs, agent.log_std.detach(), llm_actions) * advised).mean()
            loss = loss + self.imitation_coef * imitation_loss
        losses = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy, "imitation_loss": imitation_loss}
        return loss, {**losses, "log_ratio": log_ratio}


# ------------------------------------------------------------------------------------------------------------ training


def main(argv: list[str] | None = None) -> None:
    args = parse_args(argv)
    env = make_flat_env(args)
    images = len(env.observation_space.shape or ()) == 3
    prepare_torch(args.torch_deterministic, args.seed, None if images else 1)
    device = torch.device("cuda" if images and torch.cuda.is_available() and args.cuda else "cpu")
    # All random numbers of the run but the environments'; the choice of states has its own stream.
    rng, chooser = np.random.default_rng(args.seed), np.random.default_rng((args.seed, 1))
    agent = load_agent(args, partial(ActorCritic, env.observation_space, env.action_space, rng, device))
    guidance = load_critical_states(args, env, agent, chooser, PPO)
    if args.fidelity_episodes:
        assert guidance is not None
        print(fidelity(env, agent, guidance, matched_info(env), args.fidelity_episodes, args.seed))
        return
    note_endless_episodes(env, args.env_id)
    note_far_actions(env, args.env_id)
    arm = "pretrain" if args.pretrain_timesteps else args.arm
    with run_folder(args, arm, env, source_files(args)) as run_dir:
        eval_env = make_flat_env(args, run_dir / "videos" if args.capture_video else None)
        envs: list[gym.Env] = [gym.wrappers.RecordEpisodeStatistics(make_flat_env(args)) for _ in range(args.num_envs)]
        novelty = Novelty(agent, rng) if args.arm in ("rnd", "statemask") else None
        guided_env = None  # without overrides it would play as the agent alone
        if guidance is not None:
            envs = [GuidanceStatistics(guide(env, args, guidance, novelty)) for env in envs]
        if guidance is not None and args.arm in ACTING_ARMS:
            always = dataclasses.replace(args, patience_steps=0, control_probability=0.0)
            guided_env = guide(make_flat_env(args), always, guidance)
        try:
            train(args, PPO(args, envs, agent, rng), guidance, novelty, eval_env, guided_env, run_dir, arm)
        except NothingCritical as error:
            raise UserError(f"--critical-states {guidance_source(args)}: {error}") from None
        finally:
            for opened in filter(None, (*envs, eval_env, guided_env, env)):
                opened.close()


def train(
    args: Args, ppo: PPO, guidance: Guidance | None, novelty: Novelty | None, eval_env: gym.Env, guided_env: gym.Env | None,
    run_dir: Path, arm: str,
) -> None:  # fmt: skip
    agent, rng, batch = ppo.agent, ppo.rng, args.num_envs * args.num_steps
    global_step, worth, last_return, evaluated = 0, None, math.nan, {}
    if guidance is not None and guided_env and args.control_probability:
        worth = EntryWorth(entry_count(guidance))

    with checkpoint_of(run_dir, agent.device) as checkpoint:
        if checkpoint:
            global_step, evaluated = checkpoint["global_step"], checkpoint["evaluated"]
            agent.load_state_dict(checkpoint["agent"])
            ppo.optimizer.load_state_dict(checkpoint["optimizer"])
            rng.bit_generator.state = json.loads(checkpoint["rng"])
            if novelty:
                novelty.load_state_dict(checkpoint["novelty"])
            if worth:
                worth.load_state(checkpoint["worth"])
                disable(worth, (*ppo.envs, guided_env))
            for env, counts in zip(ppo.envs, checkpoint["counts"], strict=True) if guidance is not None else ():
                env.set_wrapper_attr("counts", GuidanceCounts(*counts), force=False)
    last_checkpoint, total = global_step, (args.pretrain_timesteps or args.total_timesteps) // batch * batch
    with Logger(args, run_dir, arm, total, ppo.hardware, checkpoint) as logger:

        def evaluate_now() -> dict[str, float]:
            values = evaluate_agent(agent, eval_env, guided_env, args, f"step-{global_step}")
            logger.log(global_step, values)
            logger.print(f"eval at global_step {global_step}: {in_words(values)}")
            return values

        if not checkpoint:
            evaluated = evaluate_now()
        # At a checkpoint all episodes begin anew, with seeds from the run's own stream. The environments have no other state,
        # so a resumed run does exactly what an uninterrupted run does.
        while global_step < total:
            if global_step == last_checkpoint:
                ppo.reset()
            learning_rate = args.learning_rate * (1.0 - global_step / total if args.anneal_lr else 1.0)
            ppo.imitation_coef.fill_(args.imitation_coef * max(0.0, 1.0 - global_step / (args.imitation_fraction * total)))
            is_alone = args.imitation_coef > float(ppo.imitation_coef) == 0
            for env in ppo.envs if is_alone else ():
                env.set_wrapper_attr("control_probability", 1.0, force=False)
            episodes = ppo.collect()
            if worth and not is_alone:
                ppo.tell(worth)
                if worth.look():
                    disable(worth, (*ppo.envs, guided_env))
            ppo.update(learning_rate)
            if novelty:
                novelty.update(learning_rate)
            for ended_after, metrics in episodes:
                logger.log(global_step + ended_after, metrics)
                last_return = metrics["charts/episodic_return"]
            global_step += batch
            logger.progress(global_step, last_return)
            logger.log(global_step, {**ppo.metrics, "charts/SPS": logger.steps_per_second})
            if worth:
                logger.log(global_step, {"ultra/disabled_entries": len(worth.disabled), "ultra/advantage": worth.advantage})
            if isinstance(guidance, CriticalFunction):
                logger.log(global_step, {"ultra/faults": sum(env.get_wrapper_attr("counts").faults for env in ppo.envs)})
            if global_step // args.eval_every > (global_step - batch) // args.eval_every or global_step == total:
                evaluated = evaluate_now()
            if global_step >= last_checkpoint + args.checkpoint_every or global_step == total:
                last_checkpoint = global_step
                ppo.told.end(worth)
                state = {"global_step": global_step, "evaluated": evaluated, "agent": agent.state_dict()}
                state |= {"optimizer": ppo.optimizer.state_dict(), "rng": json.dumps(rng.bit_generator.state)}
                state |= {"novelty": novelty and novelty.state_dict(), "worth": worth and worth.state()}
                state["counts"] = [tuple(env.get_wrapper_attr("counts")) for env in ppo.envs if guidance is not None]
                save_checkpoint(run_dir, {**state, "logger": logger.state_dict()})

        summary: dict = evaluated | ({} if guidance is None else {"guidance": guidance_counts(ppo.envs)})
        if worth and guidance is not None:
            summary["entries"] = {"count": entry_count(guidance), "disabled": worth.disabled, "helped": worth.helped}
            write_atomically(run_dir / "entries.json", json.dumps(entry_table(worth, guidance), indent=1))
        if args.save_model:
            agent.save(run_dir, args, global_step)
            if args.trajectory_episodes:
                trajectories = record(make_flat_env(args), args, agent)
                trajectories.save(run_dir / "trajectories.npz")
                logger.print(f"{trajectories} in trajectories.npz")
        verdicts = str(worth or ""), "" if guidance is None else trouble(**summary["guidance"])
        logger.write_summary(global_step, summary, "; ".join(filter(None, verdicts)))


if __name__ == "__main__":
    run_script(main, "ppo_ultra.py")
