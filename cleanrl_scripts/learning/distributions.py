"""Gaussian and Categorical: a policy's distribution over a Box or a Discrete space; samples in NumPy, losses in torch."""

import math

import numpy as np
from gymnasium.spaces import Box, Discrete
from torch import Tensor


class Gaussian:
    """A normal distribution over a Box; its mean is the actor's output. Only the environment gets clipped actions."""

    def __init__(self, space: Box):
        self.space, self.size, self.shape, self.dtype = space, math.prod(space.shape), (math.prod(space.shape),), np.float32

    def sample(self, means: np.ndarray, log_std: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return means + np.exp(log_std) * rng.standard_normal(means.shape, dtype=np.float32)

    def mode(self, means: np.ndarray) -> np.ndarray:
        return means

    def native(self, action: np.ndarray) -> np.ndarray:
        """What the environment receives for one action."""
        clipped = np.minimum(np.maximum(action.reshape(self.space.shape), self.space.low), self.space.high)
        return clipped.astype(self.space.dtype, copy=False)

    def log_prob(self, means: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
        """log N(a; mean, std) of each action, (batch,)."""
        z = (actions - means) * (-log_std).exp()
        return -0.5 * z.square().sum(dim=1) - (log_std.sum() + 0.5 * math.log(2 * math.pi) * self.size)

    def entropy(self, means: Tensor, log_std: Tensor) -> Tensor:
        return log_std.sum() + 0.5 * math.log(2 * math.pi * math.e) * self.size


class Categorical:
    """A distribution over a Discrete space; its logits are the actor's output."""

    def __init__(self, space: Discrete):
        self.space, self.size, self.shape, self.dtype = space, int(space.n), (), np.int64
        self.start = int(space.start)

    def sample(self, logits: np.ndarray, log_std: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        # Gumbel's trick: the largest of the logits with this noise is distributed as their softmax.
        return (logits + rng.gumbel(size=logits.shape)).argmax(axis=1) + self.start

    def mode(self, logits: np.ndarray) -> np.ndarray:
        return logits.argmax(axis=1) + self.start

    def native(self, action) -> int:
        return int(action)

    def log_prob(self, logits: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
        return logits.log_softmax(dim=1).gather(1, (actions - self.start)[:, None])[:, 0]

    def entropy(self, logits: Tensor, log_std: Tensor) -> Tensor:
        log_probs = logits.log_softmax(dim=1)
        return -(log_probs.exp() * log_probs).sum(dim=1).mean()


def distribution(space: Box | Discrete) -> Gaussian | Categorical:
    """The distribution over an action space."""
    return Gaussian(space) if isinstance(space, Box) else Categorical(space)


def approx_kl(log_ratios: Tensor) -> Tensor:
    """An unbiased estimate of KL(old policy, policy) with low variance (http://joschu.net/blog/kl-approx.html)."""
    return (log_ratios.exp() - 1 - log_ratios).mean()
