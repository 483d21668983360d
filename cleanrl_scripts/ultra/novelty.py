"""Novelty: random network distillation; NoveltyBonus: a reward for it in critical states (LLM-RND)."""

import gymnasium as gym
import numpy as np
import torch

from cleanrl_scripts.learning.actor_critic import ActorCritic
from cleanrl_scripts.learning.adam import Adam
from cleanrl_scripts.learning.networks import in_numpy, initialize_orthogonal, mlp
from cleanrl_scripts.learning.running_mean_std import RunningMeanStd
from llmwrappers.critical_states.guidance import Guidance, GuidanceLookup, GuidedWrapper


class Novelty:
    """Random network distillation (arXiv 1810.12894): the error of predicting a fixed random network at a state."""

    def __init__(self, agent: ActorCritic, rng: np.random.Generator):
        sizes = [*agent.observation_shape, 64, 64, 32]
        self.target, self.predictor = mlp(sizes), mlp(sizes)
        for network in (self.target, self.predictor):
            initialize_orthogonal(network, rng, gain=1.0)
        self.target_numpy, self.predictor_numpy = in_numpy(self.target), in_numpy(self.predictor)
        self.optimizer = Adam(list(self.predictor.parameters()), eps=1e-5)
        self.agent, self.errors, self.seen = agent, RunningMeanStd(), []

    def __call__(self, observation: np.ndarray) -> float:
        """The novelty of a raw observation, in [0, 1]: its error over twice the mean error so far."""
        inputs = self.agent.normalized(observation)
        error = float(np.square(self.target_numpy(inputs[None]) - self.predictor_numpy(inputs[None])).mean())
        self.errors.update(error)
        self.seen.append(inputs)
        return min(error / (2 * float(self.errors.mean) + 1e-8), 1.0)

    def update(self, learning_rate: float) -> None:
        """Trains the predictor on the states since the last update."""
        self.optimizer.learning_rate.fill_(learning_rate)
        for inputs in torch.from_numpy(np.array(self.seen)).split(64) if self.seen else ():
            with torch.no_grad():
                targets = self.target(inputs)
            self.optimizer.step((self.predictor(inputs) - targets).square().mean())
        self.seen.clear()

    def state_dict(self) -> dict:
        return {name: getattr(self, name).state_dict() for name in ("target", "predictor", "optimizer", "errors")}

    def load_state_dict(self, state: dict) -> None:
        for name, value in state.items():
            getattr(self, name).load_state_dict(value)


class NoveltyBonus(GuidedWrapper):
    """Adds alpha times the novelty of the state acted in, if that state is critical."""

    def __init__(self, env: gym.Env, novelty: Novelty, guidance: Guidance, alpha: float, patience_steps: int):
        super().__init__(env)
        self.novelty, self.alpha = novelty, alpha
        self._lookup = GuidanceLookup(guidance, env, None, patience_steps)

    def reset(self, *, seed=None, options=None):
        self.observation, info = super().reset(seed=seed, options=options)
        return self.observation, info

    def step(self, action):
        critical = self._lookup.count() is not None
        bonus = self.alpha * self.novelty(self.observation) if critical else 0.0
        self.observation, reward, terminated, truncated, info = self.env.step(action)
        self._lookup.look(self.observation, info)
        info = {**info, "llm_reward": bonus, "critical": critical}
        return self.observation, float(reward) + bonus, terminated, truncated, info
