"""ActorCritic: actor, critic and the statistics that normalise what they see; all that is saved as agent.pt."""

import math

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_scripts.common.distributions import distribution
from cleanrl_scripts.common.networks import MLP, ConvNet
from cleanrl_scripts.common.running_mean_std import RunningMeanStd


class ActorCritic:
    """CleanRL's PPO agent: two 64-64 tanh networks behind a normaliser, for images one convolutional network for both.

    Actor and critic go through one batched product a layer; of the critic's outputs only the first is used.
    """

    def __init__(self, observation_space: gym.Space, action_space: gym.Space, rng: np.random.Generator, device: torch.device):
        assert observation_space.shape is not None
        self.policy = distribution(action_space)  # pyright: ignore[reportArgumentType]
        self.images = len(observation_space.shape) == 3
        self.observation_shape = observation_space.shape if self.images else (math.prod(observation_space.shape),)
        self.observations, self.returns = RunningMeanStd(*(() if self.images else self.observation_shape)), RunningMeanStd()
        self.is_frozen = False  # whether the normaliser of observations has stopped learning
        self.device = device
        self.log_std = nn.Parameter(torch.zeros(self.policy.size if self.policy.shape else 0, device=device))
        if self.images:
            self.network = ConvNet(self.observation_shape[0], self.policy.size + 1, rng).to(device)
        else:
            self.network = MLP([*self.observation_shape, 64, 64, self.policy.size], n=2, activation="tanh")
            self.network.initialize_orthogonal(rng, gains=[0.01, 1.0])

    @property
    def parameters(self) -> list[nn.Parameter]:
        return [*self.network.parameters(), *([self.log_std] if self.policy.shape else [])]

    def __call__(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised observations -> the policy's outputs (batch, size) and the values (batch,)."""
        if self.images:
            outputs = self.network(observations)
            return outputs[:, :-1], outputs[:, -1]
        outputs, values = self.network(observations)
        return outputs, values[:, 0]

    def numpy(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same for a few observations; those that are vectors need no torch."""
        if isinstance(self.network, ConvNet):
            with torch.no_grad():
                outputs, values = self(torch.from_numpy(observations).to(self.device))
            return outputs.cpu().numpy(), values.cpu().numpy()
        outputs, values = self.network.numpy(observations)
        return outputs, values[:, 0]

    def normalized(self, observation: np.ndarray, update: bool = False) -> np.ndarray:
        """An observation as the networks see it; images, which they divide by 255, as they are."""
        if self.images:
            return observation
        observation = observation.ravel()
        if update and not self.is_frozen:
            self.observations.update(observation)
        z = (observation - self.observations.mean) * self.observations.inverse_std
        return np.minimum(np.maximum(z, -10.0), 10.0).astype(np.float32)

    def sample(self, observations: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Actions drawn at normalised observations, and the values there."""
        outputs, values = self.numpy(observations)
        return self.policy.sample(outputs, self.log_std.detach().cpu().numpy(), rng), values

    def act(self, observation: np.ndarray, rng: np.random.Generator | None = None):
        """The native action at one raw observation: the most probable one, or with rng a sample."""
        outputs, _ = self.numpy(self.normalized(observation)[None])
        log_std = self.log_std.detach().cpu().numpy()
        return self.policy.native((self.policy.mode(outputs) if rng is None else self.policy.sample(outputs, log_std, rng))[0])

    def value(self, observation: np.ndarray) -> float:
        """The critic's value of one raw observation, in units of normalised rewards."""
        return float(self.numpy(self.normalized(observation)[None])[1][0])

    def state_dict(self) -> dict:
        return {
            "sizes": self.network.sizes,
            "network": self.network.state_dict(),
            "log_std": self.log_std.detach(),
            "observations": self.observations.state_dict(),
            "returns": self.returns.state_dict(),
            "is_frozen": self.is_frozen,
        }

    def load_state_dict(self, state: dict) -> None:
        self.network.load_state_dict(state["network"])
        self.log_std.data.copy_(state["log_std"])
        self.observations.load_state_dict(state["observations"])
        self.returns.load_state_dict(state["returns"])
        self.is_frozen = state["is_frozen"]
