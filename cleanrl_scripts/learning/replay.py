"""Replay: a replay buffer of one float32 row a transition, so that a batch is one gather."""

import os
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch

T = TypeVar("T", bound=tuple)


class Replay(Generic[T]):
    """The last ``capacity`` transitions, each a row of float32, sampled uniformly.

    Args:
        widths: how many numbers each field of a transition has, in the NamedTuple that transitions are

    Example:
        >>> from typing import Any, NamedTuple
        >>> class Transition(NamedTuple):
        ...     observation: Any
        ...     reward: Any
        >>> replay = Replay(capacity=100, widths=Transition(observation=3, reward=1))
        >>> replay.add(Transition(np.zeros(3), reward=2.0))
        >>> rows = torch.empty(4, replay.width)
        >>> replay.sample(np.random.default_rng(0), out=rows)
        >>> replay.columns(rows).reward.ravel().tolist()
        [2.0, 2.0, 2.0, 2.0]
    """

    def __init__(self, capacity: int, widths: T):
        self.kind, self.widths, self.width = type(widths), list(widths), sum(widths)
        ends = np.cumsum(self.widths).tolist()
        self.fields = [slice(end - width, end) for end, width in zip(ends, self.widths, strict=True)]
        self.rows = np.empty((capacity, self.width), dtype=np.float32)
        self.tensor = torch.from_numpy(self.rows)
        self.added = self.written = 0

    def add(self, transition: T) -> None:
        """Adds a transition."""
        row = self.rows[self.added % len(self.rows)]
        for field, value in zip(self.fields, transition, strict=True):
            row[field] = value
        self.added += 1

    def sample(self, rng: np.random.Generator, out: torch.Tensor) -> None:
        """Fills ``out``, (batch, width), with random transitions."""
        indices = rng.integers(0, min(self.added, len(self.rows)), len(out))
        torch.index_select(self.tensor, 0, torch.from_numpy(indices), out=out)

    def columns(self, rows: torch.Tensor) -> T:
        """The fields of sampled transitions, (batch, width) each."""
        return self.kind(*rows.split(self.widths, dim=1))

    # On disk each row lies where it was added, in order, so that a checkpoint only writes what is new.
    def save(self, path: Path) -> None:
        """Appends to a file what was added since the last time."""
        first = max(self.written, self.added - len(self.rows))
        with open(path, "r+b" if path.exists() else "wb") as file:
            file.seek(first * self.rows[0].nbytes)
            file.write(self.rows[np.arange(first, self.added) % len(self.rows)].data)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        self.written = self.added

    def load(self, path: Path, added: int) -> None:
        """Takes over the last of the first ``added`` transitions in a file."""
        first = max(0, added - len(self.rows))
        numbers = np.fromfile(path, np.float32, count=(added - first) * self.width, offset=first * self.rows[0].nbytes)
        self.rows[np.arange(first, added) % len(self.rows)] = numbers.reshape(added - first, self.width)
        self.added = self.written = added
