"""ActorCritic: actor, critic and the normaliser of their observations; together they are saved as agent.pt."""

import copy
import math
from collections.abc import Sequence
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_scripts.common.arguments import RunArgs
from cleanrl_scripts.common.run_folder import save_agent_file, save_torch
from cleanrl_scripts.learning.distributions import distribution
from cleanrl_scripts.learning.networks import ConvNet, in_numpy, initialize_orthogonal, layers_of, mlp
from cleanrl_scripts.learning.running_mean_std import RunningMeanStd


class ActorCritic:
    """CleanRL's PPO agent: a normaliser, then two 64-64 tanh networks, or for images one convolutional network for both.

    Args:
        hidden: widths of the hidden layers (no effect for images)
    """

    def __init__(
        self,
        observation_space: gym.Space,
        action_space: gym.Space,
        rng: np.random.Generator,
        device: torch.device,
        hidden: Sequence[int] = (64, 64),
    ):
        assert observation_space.shape is not None
        self.policy = distribution(action_space)  # pyright: ignore[reportArgumentType]
        self.images = len(observation_space.shape) == 3
        self.observation_shape = observation_space.shape if self.images else (math.prod(observation_space.shape),)
        self.observations, self.returns = RunningMeanStd(*(() if self.images else self.observation_shape)), RunningMeanStd()
        self.is_frozen = False  # whether the normaliser of observations has stopped learning
        self.is_copy = False  # whether it began as the copy of a teacher
        self.device = device
        self.log_std = nn.Parameter(torch.zeros(self.policy.size if self.policy.shape else 0, device=device))
        inputs, size = [*self.observation_shape, *(() if self.images else hidden)], self.policy.size
        self.sizes = [*inputs, size]
        if self.images:
            self.network = ConvNet(self.observation_shape[0], size + 1, rng).to(device)
        else:
            self.network = nn.ModuleDict({"actor": mlp([*inputs, size]), "critic": mlp([*inputs, 1])})
            initialize_orthogonal(self.network["actor"], rng, gain=0.01)
            initialize_orthogonal(self.network["critic"], rng, gain=1.0)
            self.actor, self.critic = self.network["actor"], self.network["critic"]
            self.actor_numpy, self.critic_numpy = in_numpy(self.actor), in_numpy(self.critic)
        self.log_std_numpy = (
            self.log_std.detach().numpy if device.type == "cpu" else lambda: self.log_std.detach().cpu().numpy()
        )

    @property
    def parameters(self) -> list[nn.Parameter]:
        return [*self.network.parameters(), *([self.log_std] if self.policy.shape else [])]

    def __call__(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised observations -> the policy's outputs (batch, size) and the values (batch,), for the losses.

        For vectors ``outputs`` and ``values`` compute the same in NumPy, to act: an edit here belongs there, too.
        """
        if self.images:
            outputs = self.network(observations)
            return outputs[:, :-1], outputs[:, -1]
        return self.actor(observations), self.critic(observations)[:, 0]

    def outputs(self, observations: np.ndarray) -> np.ndarray:
        """The policy's outputs for a few observations; for vectors in NumPy alone."""
        return self.numpy(observations)[0] if self.images else self.actor_numpy(observations)

    def values(self, observations: np.ndarray) -> np.ndarray:
        """The values (batch,) of observations, images in parts."""
        if self.images:
            parts = np.array_split(observations, -(-len(observations) // 256))
            return np.concatenate([self.numpy(part)[1] for part in parts])
        return self.critic_numpy(observations)[:, 0]

    def numpy(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same as calling it, for arrays."""
        if not self.images:
            return self.outputs(observations), self.values(observations)
        was_training = self.network.training
        self.network.eval()  # dropout and batch norm act otherwise in training
        with torch.no_grad():
            outputs, values = self(torch.from_numpy(np.ascontiguousarray(observations)).to(self.device))  # maybe flipped images
        self.network.train(was_training)
        return outputs.cpu().numpy(), values.cpu().numpy()

    def normalized(self, observation: np.ndarray, update: bool = False) -> np.ndarray:
        """An observation as the networks see it; an image stays as it is, because the network divides it by 255."""
        if self.images:
            return observation
        observation = observation.ravel()
        if update and not self.is_frozen:
            self.observations.update(observation)
        z = (observation - self.observations.mean) * self.observations.inverse_std
        return np.minimum(np.maximum(z, -10.0), 10.0).astype(np.float32)

    def freeze(self, is_constant: np.ndarray) -> None:
        """Stops the updates of the observation normaliser; entries that were constant so far keep their own units."""
        self.is_frozen = True
        if not self.images:
            self.observations.set_unit_variance(is_constant.ravel())

    def sample(self, observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Sampled actions at normalised observations."""
        return self.policy.sample(self.outputs(observations), self.log_std_numpy(), rng)

    def act(self, observation: np.ndarray, rng: np.random.Generator | None = None):
        """The native action at one raw observation: the most probable one, or with rng a sample."""
        outputs = self.outputs(self.normalized(observation)[None])
        action = self.policy.mode(outputs) if rng is None else self.policy.sample(outputs, self.log_std_numpy(), rng)
        return self.policy.native(action[0])

    def value(self, observation: np.ndarray) -> float:
        """The critic's value of one raw observation, in units of normalised rewards."""
        return float(self.values(self.normalized(observation)[None])[0])

    def save(self, run_dir: Path, args: RunArgs, global_step: int) -> None:
        """Writes agent.pt, for the scripts, and agent.npz, for ``llmwrappers.load_agent``."""
        facts = {"env_id": args.env_id, "env_kwargs": args.env_kwargs, "global_step": global_step}
        save_torch(run_dir / "agent.pt", {**facts, "agent": self.state_dict()})
        rng, shape = np.random.default_rng(0), (10, *self.observation_shape)
        if self.images:
            body = getattr(self.network, "body", None)  # an edited network may have another form
            layers = layers_of(copy.deepcopy(body).cpu()) if body is not None else None
            kind, parameters, options = layers[-1] if layers else ("", [], {})
            has_value = kind == "Linear" and len(parameters[1]) == self.policy.size + 1
            layers = [*layers[:-1], (kind, [part[:-1] for part in parameters], options)] if layers and has_value else None
            arrays, observations = {"image": np.array(True)}, rng.integers(256, size=shape, dtype=np.uint8)
        else:
            layers, (mean, inverse_std) = layers_of(self.actor), (self.observations.mean, self.observations.inverse_std)
            arrays, observations = (
                {"mean": mean, "inverse_std": inverse_std},
                mean + 4.0 * rng.standard_normal(shape) / inverse_std,
            )
        head = "gaussian" if self.policy.shape else "categorical"
        save_agent_file(run_dir, args, head, layers, self.policy.space, arrays, self.act, observations)

    def state_dict(self) -> dict:
        return {
            "sizes": self.sizes,
            "layers": str(self.network),
            "network": self.network.state_dict(),
            "log_std": self.log_std.detach(),
            "observations": self.observations.state_dict(),
            "returns": self.returns.state_dict(),
            "is_frozen": self.is_frozen,
            "is_copy": self.is_copy,
        }

    def load_state_dict(self, state: dict) -> None:
        here, kinds = str(self.network), {type(part) for part in self.network.modules() if not [*part.children()]}
        are_cleanrls = self.images or kinds <= {nn.Linear, nn.Tanh}  # as the shipped agents have them, which are older
        if not (state["layers"] == here if "layers" in state else are_cleanrls):
            before = state.get("layers", "CleanRL's, of Linear and Tanh")
            raise ValueError(f"its network is {' '.join(before.split())}; here it is {' '.join(here.split())}")
        self.network.load_state_dict(state["network"])
        self.log_std.data.copy_(state["log_std"])
        self.observations.load_state_dict(state["observations"])
        self.returns.load_state_dict(state["returns"])
        self.is_frozen = state["is_frozen"]
        self.is_copy = state.get("is_copy", self.is_frozen)  # older files have one flag for both
