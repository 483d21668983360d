"""Trajectories: the episodes of one agent, as arrays in one file."""

import io
import os
import zipfile
import zlib
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from llmwrappers.envs.pong import PONG_GRID, locate
from llmwrappers.files import write_atomically


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Holds the episodes that one agent played: observations, actions and rewards.

    The T steps of all episodes follow each other; ``lengths`` gives the length of each of the E episodes. All is in native
    units.

    Args:
        env_id: the environment's id
        observations: (T, \\*obs_shape), the space's dtype, raw: the observation before each action
        actions: (T, \\*action_shape) float32 in native units as executed, or (T,) int64 on a Discrete space
        rewards: (T,) float32, the environment's own
        lengths: (E,) int64, steps of each episode, at least 1
        terminations: (E,) bool, True if the episode terminated, False if it was truncated
        final_observations: (E, \\*obs_shape), the observation after the last step of each episode
        seeds: (E,) int64, of each reset
        env_kwargs: arguments of gym.make, as a JSON object

    Raises:
        ValueError: an array has another shape or kind, the lengths do not add up, or there is NaN or Inf

    Example:
        >>> two = Trajectories("Pendulum-v1", np.zeros((5, 3)), np.zeros((5, 1)), [-1, -1, -1, -2, -2], lengths=[3, 2],
        ...                    terminations=[False, False], final_observations=np.zeros((2, 3)), seeds=[0, 1])
        >>> len(two), two.episode(1), two.returns.tolist()
        (2, slice(3, 5, None), [-3.0, -4.0])

    Change log:
        * v0.1.0 - added
    """

    env_id: str
    observations: NDArray
    actions: NDArray
    rewards: NDArray[np.float32]
    lengths: NDArray[np.int64]
    terminations: NDArray[np.bool_]
    final_observations: NDArray
    seeds: NDArray[np.int64]
    env_kwargs: str = "{}"

    def __str__(self) -> str:
        return f"{len(self)} episodes, mean return {self.returns.mean():.4g}"

    def __post_init__(self):
        if not isinstance(self.env_id, str) or not self.env_id:
            raise ValueError(f"env_id must be an environment's id, got {self.env_id!r}")
        for name, kinds, dtype in (
            ("observations", "biuf", None),
            ("actions", "iuf", None),
            ("rewards", "iuf", np.float32),
            ("lengths", "iu", np.int64),
            ("terminations", "b", np.bool_),
            ("final_observations", "biuf", None),
            ("seeds", "iu", np.int64),
        ):
            given = np.asarray(getattr(self, name))
            if given.dtype.kind not in kinds or given.ndim == 0:
                raise ValueError(f"{name} must be an array of numbers of kind {kinds!r}, got {given.dtype} {given.shape}")
            if name == "actions":
                dtype = np.int64 if given.ndim == 1 and given.dtype.kind in "iu" else np.float32
            with np.errstate(over="ignore"):
                array = given.astype(dtype or given.dtype)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ValueError(f"{name} must be finite in {array.dtype}, got {given[~np.isfinite(array)][0]}")
            object.__setattr__(self, name, array)
        steps, episodes = len(self.observations), len(self.lengths)
        if episodes == 0 or self.lengths.ndim != 1 or (self.lengths < 1).any() or self.lengths.sum() != steps:
            raise ValueError(
                f"lengths must be the steps of each episode, 1 or more, and add up to the {steps} of observations; "
                f"got {self.lengths.tolist()}, {self.lengths.sum()} in all"
            )
        for name, shape in (
            ("actions", (steps, *self.actions.shape[1:])),
            ("rewards", (steps,)),
            ("terminations", (episodes,)),
            ("final_observations", (episodes, *self.observations.shape[1:])),
            ("seeds", (episodes,)),
        ):
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {getattr(self, name).shape}")

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def returns(self) -> NDArray[np.float64]:
        """The undiscounted return of each episode, (E,)."""
        return np.array([self.rewards[self.episode(index)].sum(dtype=np.float64) for index in range(len(self))])

    @property
    def matched(self) -> NDArray:
        """The vectors that critical states are matched with, (T, size): the observations, or the objects in Pong's grids."""
        if self.env_id == PONG_GRID and self.observations.ndim == 4:
            return np.array([locate(now, before) for before, now in self.observations])
        return self.observations.reshape(len(self.observations), -1)

    def episode(self, index: int) -> slice:
        """Returns the slice of steps that an episode takes.

        Raises:
            IndexError: there is no such episode
        """
        if not 0 <= index < len(self):
            raise IndexError(f"index must be an episode in [0, {len(self)}), got {index!r}")
        end = int(self.lengths[: index + 1].sum())
        return slice(end - int(self.lengths[index]), end)

    def split(self, n: int) -> "tuple[Trajectories, Trajectories]":
        """Returns the first n episodes, and the others.

        Raises:
            ValueError: one of the two parts would be empty
        """
        if not 0 < n < len(self):
            raise ValueError(f"n must leave episodes on both sides, in [1, {len(self) - 1}], got {n!r}")
        first = self.episode(n).start
        of_steps = ("observations", "actions", "rewards")

        def part(steps: slice, episodes: slice) -> Trajectories:
            arrays = {name: getattr(self, name)[steps if name in of_steps else episodes] for name in ARRAYS}
            return Trajectories(self.env_id, **arrays, env_kwargs=self.env_kwargs)

        return part(slice(first), slice(n)), part(slice(first, None), slice(n, None))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a compressed .npz file, as a whole or not at all."""
        file = io.BytesIO()
        facts = {name: np.array(getattr(self, name)) for name in FACTS}
        np.savez_compressed(file, **facts, **{name: getattr(self, name) for name in ARRAYS})
        write_atomically(Path(path), file.getvalue())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Trajectories":
        """Reads what ``save`` wrote.

        Raises:
            ValueError: names the file and what is wrong with it
        """
        try:
            with open(path, "rb") as opened:
                if not zipfile.is_zipfile(opened):
                    raise ValueError("it is no complete .npz file")
                opened.seek(0)
                file = np.load(opened, allow_pickle=False)
                missing = {"env_id", *ARRAYS} - set(file.files)
                if missing:
                    raise ValueError(f"the field {', '.join(sorted(missing))} is missing")
                facts = {name: str(file[name]) for name in FACTS if name in file.files}  # older files have no env_kwargs
                return cls(**facts, **{name: file[name] for name in ARRAYS})
        except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(f"cannot read trajectories from {os.fspath(path)!r}: {error}") from error


FACTS = ("env_id", "env_kwargs")
ARRAYS = tuple(field.name for field in fields(Trajectories) if field.name not in FACTS)
