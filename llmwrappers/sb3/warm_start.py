"""begin_as: warm-starts PPO, A2C or TRPO of Stable-Baselines3 by behaviour cloning of a prior."""

import copy
import math
import os
import warnings
from collections.abc import Callable
from numbers import Integral, Real
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

from llmwrappers.bounded_episodes import bounded
from llmwrappers.far_actions import far_actions
from llmwrappers.priors import load_candidates, load_prior, shipped_priors
from llmwrappers.priors.audition import Audition, audition, contestants
from llmwrappers.priors.contract import PriorPolicy
from llmwrappers.priors.dagger import DAgger, half_range
from llmwrappers.priors.measurement import measure

EPISODES = 3
"""So many the clone plays, to tell whether it falls short of its teacher."""


def begin_as(
    model: OnPolicyAlgorithm,
    prior: str | os.PathLike[str] | PriorPolicy,
    total_timesteps: int,
    clone_steps: int = 20_000,
    candidate: int | None = None,
    prior_input: str | None = None,
    prior_of_another_env: bool = False,
    std: float = 0.2,
    poor_std: float = 0.5,
    warmup_steps: int = 50_000,
) -> Audition:
    """Warm-starts PPO, A2C or TRPO by behaviour cloning of a prior, if an audition finds that the prior can teach.

    The audition and DAgger play in the model's first environment, as in ppo_camel.py (actor <- what the prior would do,
    critic <- discounted returns). Afterwards the exploration noise is low, the observation statistics of a VecNormalize are
    frozen, and the learning rate rises from 0 over ``warmup_steps``. If the audition refuses the prior, the model learns
    alone. ``model.num_timesteps`` counts the steps so far: continue with ``learn(..., reset_num_timesteps=False)``. The clone
    then plays three episodes, which do not count; a warning says if it returns far less than its teacher.

    For a clone that keeps its return use a VecNormalize, ``gamma=0.995`` and ``batch_size=128``.

    Args:
        model: an untrained model with an actor and a critic of vectors, in a DummyVecEnv without an LLMActionMask
        prior: a shipped prior's name or a folder: all candidates audition; a file, a callable or a class (see load_prior)
        total_timesteps: steps of the whole training, including audition and behaviour cloning
        clone_steps: the step at which behaviour cloning ends; the audition's steps count
        candidate: only this one of a shipped prior's candidates
        prior_input, prior_of_another_env: see LLMActionMask
        std: the clone's exploration noise: the standard deviation, as a fraction of half the action range
        poor_std: the same if the prior returns less than doing nothing: the agent has more to learn than to keep
        warmup_steps: steps over which the learning rate rises

    Returns:
        the audition: ``teacher`` is the prior's name, "" if it was refused; ``print(found.verdict)`` tells why

    Raises:
        TypeError: the model has no such policy or no such environments
        ValueError: a trained model; an argument outside its range; the prior fails; what LLMActionMask and load_prior refuse

    Example:
        >>> from stable_baselines3 import PPO
        >>> from stable_baselines3.common.env_util import make_vec_env
        >>> model = PPO("MlpPolicy", make_vec_env("Pendulum-v1"), n_steps=256, seed=0)
        >>> found = begin_as(model, "Pendulum-v1", total_timesteps=5000, clone_steps=4000, candidate=1)
        >>> found.teacher != "", model.num_timesteps
        (True, 4000)
        >>> model = model.learn(5000 - model.num_timesteps, reset_num_timesteps=False)
    """
    env = _first_environment(model)
    if far := far_actions(env.action_space):
        warnings.warn(far, stacklevel=2)
    if not (isinstance(total_timesteps, Integral) and isinstance(clone_steps, Integral) and 0 < clone_steps < total_timesteps):
        raise ValueError(
            "clone_steps and total_timesteps must be whole numbers, 0 < clone_steps < total_timesteps, got "
            f"{clone_steps!r} and {total_timesteps!r}"
        )
    for name, value in (("std", std), ("poor_std", poor_std)):
        if not (isinstance(value, Real) and 0 < value < math.inf):
            raise ValueError(f"{name} must be a number above 0, a fraction of half the action range, got {value!r}")
    if not (isinstance(warmup_steps, Integral) and warmup_steps >= 0):
        raise ValueError(f"warmup_steps must be a whole number of at least 0, got {warmup_steps!r}")
    prior = os.fspath(prior) if isinstance(prior, os.PathLike) else prior
    are_candidates = candidate is None and isinstance(prior, str) and (prior in shipped_priors() or Path(prior).is_dir())
    if are_candidates:
        assert isinstance(prior, str)
        priors = load_candidates(prior, env, prior_of_another_env, prior_input)
    else:
        priors = {"prior": load_prior(prior, candidate, env, prior_of_another_env, prior_input)}
    seed = model.seed or 0
    rng, teachers = np.random.default_rng(seed), contestants(env, priors, np.asarray, prior_input, 0.3, seed)
    found = audition(teachers, clone_steps, rng)
    fault = found.faults.get("prior")
    if fault and not are_candidates:  # of several candidates, one that fails only leaves the audition
        raise ValueError(f"the prior failed ({fault})")
    if model.verbose:
        print(found.verdict)
    model.num_timesteps, model._last_obs = found.steps, None  # the next learn() begins new episodes
    if not found.teacher:
        return found
    agent = _Agent(model)
    learn = agent.cloning(env.action_space, std if found.beats_nothing else poor_std)
    clone = DAgger(teachers[found.teacher], agent, learn, model.gamma, clone_steps, 1e-3, found, rng)
    for steps, episode, _ in clone.run():
        model.num_timesteps = steps
        if model.verbose > 1:
            print(f"cloning {found.teacher}: step {steps}, return {episode.episodic_return:.1f}")
    if not found.verdict.cut_after:  # else the returns are not of whole episodes
        played = measure(bounded(env), agent.act_best, EPISODES, int(rng.integers(2**31)))
        if shortfall := found.verdict_on_copy(teachers, fmean(played.returns)).shortfall:
            warnings.warn(shortfall, stacklevel=2)
    model.lr_schedule = model.learning_rate = _WarmUp(model.lr_schedule, warmup_steps / (model.n_steps * model.n_envs))
    return found


def _first_environment(model: OnPolicyAlgorithm) -> gym.Env:
    policy = getattr(model, "policy", None)
    if not isinstance(policy, ActorCriticPolicy) or model.use_sde or hasattr(policy, "lstm_actor"):
        raise TypeError(f"begin_as needs a PPO, A2C or TRPO with MlpPolicy and without gSDE, got {model}")
    if model.num_timesteps:
        raise ValueError(f"begin_as needs an untrained model, got one of {model.num_timesteps} steps")
    envs = model.get_env()
    while isinstance(envs, VecNormalize | VecMonitor):
        envs = envs.venv
    if not isinstance(envs, DummyVecEnv):
        raise TypeError(f"begin_as plays in the first environment of a DummyVecEnv, VecNormalize around it or not, got {envs}")
    env = envs.envs[0]
    if not isinstance(env.action_space, Box | Discrete) or not isinstance(env.observation_space, Box):
        raise TypeError(f"begin_as needs Box or Discrete actions and Box observations (a Dict: FlattenObservation), got {env}")
    if isinstance(env.action_space, Discrete) and env.action_space.start != 0:
        raise TypeError(
            f"Stable-Baselines3 sends actions from 0, got {env.action_space}: gymnasium.wrappers.TransformAction(env, lambda "
            f"action: action + {env.action_space.start}, gymnasium.spaces.Discrete({env.action_space.n})), with a prior for it"
        )
    if env.has_wrapper_attr("native_action_space"):
        raise TypeError(f"begin_as needs an environment without an LLMActionMask: it adds the mask itself; got {env}")
    if env.has_wrapper_attr("is_guided"):
        raise TypeError(f"begin_as needs an environment without an LLM's guidance, which would act in the audition, got {env}")
    return env


class _WarmUp:
    """A learning rate, which save() keeps: it rises from 0 to the schedule's over so many updates of whichever ``learn``."""

    def __init__(self, schedule: Callable[[float], float], updates: float):
        self.schedule, self.updates, self.asked = schedule, updates, 0

    def __call__(self, progress_remaining: float) -> float:
        self.asked += progress_remaining != 1.0  # an update asks twice; at 1 a loaded model makes its optimizer
        done = (self.asked + 1) // 2
        return self.schedule(progress_remaining) * (min(done / self.updates, 1.0) if self.updates else 1.0)


class FrozenMeanStd(RunningMeanStd):
    """Frozen observation statistics: an update would change the inputs of the cloned networks.

    Entries that were constant keep their own units: their variance is near 0, and any change would be huge.
    """

    def __init__(self, statistics: RunningMeanStd, is_constant: NDArray[np.bool_]):
        super().__init__(shape=np.shape(statistics.mean))
        self.mean, self.count = copy.deepcopy((statistics.mean, statistics.count))
        self.var = np.where(is_constant, 1.0, statistics.var)

    def update_from_moments(self, batch_mean, batch_var, batch_count) -> None:
        """Does nothing."""


class _Returns:
    """The statistics with which a VecNormalize scales rewards; without a VecNormalize rewards stay as they are."""

    def __init__(self, normaliser: VecNormalize | None):
        self.normaliser, self.inverse_std = normaliser, 1.0

    def update(self, sample: float) -> None:
        if self.normaliser is not None and self.normaliser.norm_reward:
            self.normaliser.ret_rms.update(np.array([sample]))
            self.inverse_std = float(1 / np.sqrt(self.normaliser.ret_rms.var + self.normaliser.epsilon))


class _Agent:
    """A model of Stable-Baselines3 as DAgger sees it."""

    def __init__(self, model: OnPolicyAlgorithm):
        self.policy: Any = model.policy
        normaliser = model.get_vec_normalize_env()
        self.normaliser = normaliser if normaliser is not None and normaliser.norm_obs else None
        self.returns = _Returns(normaliser)

    def freeze(self, is_constant: NDArray[np.bool_]) -> None:
        if self.normaliser is not None:
            assert isinstance(self.normaliser.obs_rms, RunningMeanStd)
            self.normaliser.obs_rms = FrozenMeanStd(self.normaliser.obs_rms, is_constant)

    def normalized(self, observation: NDArray, update: bool = False) -> NDArray:
        if self.normaliser is None:
            return np.asarray(observation)
        if update:
            assert isinstance(self.normaliser.obs_rms, RunningMeanStd)
            self.normaliser.obs_rms.update(observation[None])
        return np.asarray(self.normaliser.normalize_obs(observation))

    def act(self, observation: NDArray, rng: np.random.Generator) -> Any:
        return self.policy.predict(self.normalized(observation))[0]

    def act_best(self, observation: NDArray) -> Any:
        return self.policy.predict(self.normalized(observation), deterministic=True)[0]

    def value(self, observation: NDArray) -> float:
        with torch.no_grad():
            return float(self.policy.predict_values(self._tensor(self.normalized(observation)[None])))

    def cloning(self, space: gym.Space, std: float) -> Callable[..., float]:
        """Returns a step of behaviour cloning (see DAgger), and sets the exploration noise to a clone's."""
        policy, optimizer = self.policy, torch.optim.Adam(self.policy.parameters(), 1e-3)
        unit = torch.ones(1)
        if isinstance(space, Box):
            unit = torch.from_numpy(half_range(space)).to(policy.device)
            policy.log_std.data.copy_((std * unit).log())

        def learn(*minibatch: NDArray, learning_rate: float) -> float:
            observations, advice, returns = (self._tensor(array) for array in minibatch)
            distribution = policy.get_distribution(observations).distribution
            if isinstance(space, Box):
                actor_loss = ((distribution.mean - advice) / unit).square().mean()
            else:
                actor_loss = -(distribution.logits.log_softmax(dim=1) * advice).sum(dim=1).mean()
            values = policy.predict_values(observations)[:, 0]
            critic_loss = (values - torch.where(returns.isnan(), values.detach(), returns)).square().mean()
            optimizer.param_groups[0]["lr"] = learning_rate
            optimizer.zero_grad()
            (actor_loss + critic_loss).backward()
            optimizer.step()
            return float(actor_loss.detach())

        return learn

    def _tensor(self, array: NDArray) -> torch.Tensor:
        return torch.as_tensor(array, device=self.policy.device)
