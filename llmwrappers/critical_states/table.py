"""CriticalStates: a table of critical states, with the action and the reward that an LLM suggested for each (ULTRA)."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import ArrayLike, NDArray

from llmwrappers.action_spaces import native_action_space
from llmwrappers.critical_states.table_file import STATE, from_json, to_json
from llmwrappers.files import write_atomically

SMALLEST_TOLERANCE = 1e-9


def spread(observations: ArrayLike) -> NDArray[np.float64]:
    """Returns the standard deviation of each entry of the observations (T, \\*obs_shape), flattened (d,); 1 where constant.

    Example:
        >>> spread([[0.0, 5.0], [2.0, 5.0]]).tolist()
        [1.0, 1.0]
    """
    flat = _rows(observations)
    # Constant entries are found exactly: rounding gives them a tiny deviation, and then no state would match another.
    return np.where(np.ptp(flat, axis=0) > 0, flat.std(axis=0), 1.0)


class CriticalStates:
    """Looks up the action and the reward that an LLM suggested for a critical state, by nearest neighbour.

    An observation matches the nearest state if that is near enough (floats are never exactly equal)::

        distance = sqrt(mean(((observation - state) / scale)^2)) <= tolerance

    The tolerance means the same for any size of observation: a typical deviation of a component, in units of its spread.

    Args:
        observations: (n, \\*obs_shape), the critical states, raw; kept flattened (n, d)
        actions: (n, \\*action_shape) floats in native units, or (n,) integers on a Discrete space
        rewards: (n,) in [-1, 1], the reward for acting in the state
        scale: (d,) > 0, the unit in which each entry is compared (see ``spread``)
        tolerance: the largest distance that matches, > 0
        environment: id of the environment that the table was made for, if it was made for one
        notes: one dict of JSON types for each state, not used here: the rationale, where the state comes from
        calibration: a dict of JSON types, not used here: where the tolerance comes from

    Raises:
        ValueError: an array has another shape, the table is empty, there is NaN or Inf, a reward outside [-1, 1], or a scale
            or tolerance that is not positive

    Example:
        >>> states = CriticalStates([[0.0, 0.0], [1.0, 1.0]], actions=[[0.5], [-0.5]], rewards=[1.0, -1.0],
        ...                         scale=[1.0, 1.0], tolerance=0.1)
        >>> states.match(np.array([1.0, 0.9])), states.match(np.array([0.5, 0.5]))
        (1, -1)
        >>> states(np.array([0.0, 0.1]))
        (array([0.5]), 1.0)

    Reference:
        Tan, Yan and Yang, "LLM-Guided Reinforcement Learning: Addressing Training Bottlenecks through Policy Modulation",
        arXiv 2505.20671.

    Change log:
        * v0.1.0 - added
    """

    def __init__(
        self,
        observations: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        scale: ArrayLike,
        tolerance: float,
        environment: str | None = None,
        notes: Sequence[dict[str, Any]] = (),
        calibration: dict[str, Any] | None = None,
    ):
        self.observations = _rows(_finite(observations, "observations"))
        actions = np.asarray(actions)
        self.is_discrete = actions.ndim == 1 and actions.dtype.kind in "iu"
        self.actions = actions.astype(np.int64) if self.is_discrete else _finite(actions, "actions")
        self.rewards = _finite(rewards, "rewards")
        self.scale = _finite(scale, "scale")
        n, d = self.observations.shape
        if n == 0 or d == 0:
            raise ValueError(f"observations must hold at least one state, got shape {np.shape(observations)}")
        if self.actions.ndim == 0 or len(self.actions) != n:
            raise ValueError(f"actions must hold one action for each of the {n} states, got shape {self.actions.shape}")
        if self.rewards.shape != (n,):
            raise ValueError(f"rewards must hold one number for each of the {n} states, got shape {self.rewards.shape}")
        if (np.abs(self.rewards) > 1).any():
            worst = int(np.abs(self.rewards).argmax())
            raise ValueError(f"rewards must lie in [-1, 1], got rewards[{worst}] = {self.rewards[worst]}")
        if self.scale.shape != (d,) or not (self.scale > 0).all():
            raise ValueError(f"scale must hold {d} positive numbers, got {self.scale}")
        if not (isinstance(tolerance, int | float | np.number) and 0 < tolerance < np.inf):
            raise ValueError(f"tolerance must be a positive number, got {tolerance!r}")
        if not (environment is None or isinstance(environment, str)):
            raise ValueError(f"environment must be an environment's id or None, got {environment!r}")
        if len(notes) not in (0, n) or not all(isinstance(note, dict) and not STATE & note.keys() for note in notes):
            raise ValueError(f"notes must hold one dict for each of the {n} states, without {sorted(STATE)}; got {notes!r}")
        if not (calibration is None or isinstance(calibration, dict)):
            raise ValueError(f"calibration must be a dict or None, got {calibration!r}")
        self.tolerance = float(tolerance)
        self.environment, self.notes, self.calibration = environment, tuple(notes), calibration
        for array in (self.observations, self.actions, self.rewards, self.scale):
            array.setflags(write=False)
        self._prepare_match()

    def __len__(self) -> int:
        return len(self.observations)

    def __call__(self, observation: ArrayLike) -> tuple[Any, float] | None:
        """Returns the suggested action (a new array, or an int) and reward at an observation; None if not critical."""
        index = self.match(observation)
        return None if index < 0 else self.advice(index)

    def advice(self, index: int) -> tuple[Any, float]:
        """Returns the suggested action (a new array, or an int) and reward of one state."""
        action = int(self.actions[index]) if self.is_discrete else self.actions[index].copy()
        return action, float(self.rewards[index])

    def _prepare_match(self) -> None:
        # In float32, |x - s|^2 = |x|^2 - 2 x.s + |s|^2 rules out the states that are too far away, with one product for the
        # whole table. x and s are relative to the centre of the table; else the large squares would cancel badly.
        d = self.scale.size
        self._center = self.observations.mean(axis=0)
        with np.errstate(all="ignore"):
            self._unit = 1 / (self.scale * np.sqrt(d))
            states = (self.observations - self._center) * self._unit
        if not np.abs(states).max() < 1e15:
            raise ValueError(f"scale must suit the states: in its units they are too far apart, got {self.scale}")
        states = states.astype(np.float32)
        self._minus_twice_states = -2 * states
        self._squares = np.einsum("nd,nd->n", states, states)
        self._largest_square = float(self._squares.max())
        # Bounds how far rounding can carry that sum, relative to |x|^2 + |s|^2.
        self._rounding = 4 * (d + 4) * float(np.finfo(np.float32).eps)

    def match(self, observation: ArrayLike) -> int:
        """Returns the index of the nearest state within the tolerance; -1 if there is none, for example at NaN or Inf.

        Raises:
            ValueError: an observation of another size than the states
        """
        flat = np.asarray(observation, dtype=np.float64).ravel()
        if flat.size != self.scale.size:
            raise ValueError(f"observation must have {self.scale.size} entries, got shape {np.shape(observation)}")
        with np.errstate(all="ignore"):
            x = ((flat - self._center) * self._unit).astype(np.float32)
            square = float(x.dot(x))
            sums = self._minus_twice_states.dot(x)
            sums += self._squares
            margin = self._rounding * (square + self._largest_square)
            nearest = float(sums.min())
            if not nearest + square <= self.tolerance**2 + margin:  # NaN, too
                return -1
            left = (sums <= nearest + 2 * margin).nonzero()[0]
            if len(left) == 1 and nearest + square < self.tolerance**2 - margin:
                return int(left[0])
            # float32 cannot tell which state is the nearest, or whether it is near enough.
            distances = self._distances(flat, left)
            best = distances.argmin()
            return int(left[best]) if distances[best] <= self.tolerance else -1

    def _distances(self, flat: NDArray[np.float64], rows: Any = slice(None)) -> NDArray[np.float64]:
        difference = (self.observations[rows] - flat) / self.scale
        difference *= difference
        return np.sqrt(difference.sum(axis=1) / self.scale.size)

    def consult(self, observation: Any) -> tuple[int, tuple[Any, float] | None]:
        """Returns the entry that an observation matches, and its action and reward; -1 and None if there is none."""
        entry = self.match(observation)
        return entry, self.advice(entry) if entry >= 0 else None

    def hit_rate(self, observations: ArrayLike) -> float:
        """Returns the share of the observations (T, \\*obs_shape) that match.

        Raises:
            ValueError: no observations
        """
        matches = [self.match(observation) >= 0 for observation in np.asarray(observations)]
        if not matches:
            raise ValueError("observations must hold at least one, got none")
        return float(np.mean(matches))

    def calibrated(self, observations: ArrayLike, hit_rate: float = 0.05) -> "CriticalStates":
        """Returns the same table with the smallest tolerance at which a share of these observations matches.

        Use observations that the table was not made from: those that it was made from match at any tolerance.

        Args:
            observations: (T, \\*obs_shape), finite
            hit_rate: the share that must match, in (0, 1); more match if many are equally far away

        Raises:
            ValueError: no observations, observations that are not finite, a ``hit_rate`` outside (0, 1)
        """
        if not 0 < hit_rate < 1:
            raise ValueError(f"hit_rate must lie in (0, 1), got {hit_rate!r}")
        if len(np.asarray(observations)) == 0:
            raise ValueError("observations must hold at least one to calibrate with, got none")
        flat = _rows(_finite(observations, "observations"))
        if flat.shape[1] != self.scale.size:
            raise ValueError(f"observations must have {self.scale.size} entries each, got shape {np.shape(observations)}")
        matching = max(1, int(np.ceil(hit_rate * len(flat) - 1e-9)))  # 0.07 times 100 is 7.000000000000001
        distances = np.sort([self._distances(row).min() for row in flat])
        tolerance = max(float(distances[matching - 1]), SMALLEST_TOLERANCE)
        reached = float(np.mean(distances <= tolerance))
        calibration = {"hit_rate": float(hit_rate), "reached": reached, "held_out_steps": len(flat)}
        return self._with(tolerance=tolerance, calibration=calibration)

    def moved_to(self, observations: ArrayLike) -> "CriticalStates":
        """Returns the same actions and rewards at n other states, without notes and calibration: the random control."""
        return self._with(observations=observations, notes=(), calibration=None)

    def _with(self, **changes: Any) -> "CriticalStates":
        names = ("observations", "actions", "rewards", "scale", "tolerance", "environment", "notes", "calibration")
        return CriticalStates(**{name: getattr(self, name) for name in names} | changes)

    def require_fits(self, env: gym.Env, observation_shape: tuple[int, ...] | None = None) -> None:
        """Raises ValueError unless the table can guide an agent in an environment.

        Args:
            env: the environment; with an LLMActionMask in its stack, the native action space counts
            observation_shape: shape of what is matched instead of the environment's observation; then the table may be of
                another environment
        """
        if observation_shape is None:
            env_id = None if env.spec is None else env.spec.id
            made_for = self.environment and self.environment.rpartition(":")[2]  # without the module that registers it
            if made_for is not None and env_id is not None and made_for != env_id:
                raise ValueError(f"the critical states were made for {self.environment!r}, got an environment {env_id!r}")
            observation_shape = env.observation_space.shape
            if observation_shape is None:
                raise ValueError(
                    f"critical states need observations that are arrays, got {env.observation_space}; FlattenObservation of "
                    "gymnasium.wrappers, below, makes one of a Dict"
                )
        if int(np.prod(observation_shape)) != self.scale.size:
            raise ValueError(f"the critical states have {self.scale.size} entries, got observations of {observation_shape}")
        space = native_action_space(env)
        if isinstance(space, Discrete) and self.is_discrete:
            outside = (self.actions < space.start) | (self.actions >= space.start + space.n)
        elif isinstance(space, Box) and not self.is_discrete:
            if self.actions.shape[1:] != space.shape:
                raise ValueError(f"the suggested actions have shape {self.actions.shape[1:]}, got an action space {space}")
            low, high = space.low.astype(np.float64), space.high.astype(np.float64)
            slack = 1e-6 * np.maximum(1.0, np.abs(np.where(self.actions < low, low, high)))  # float32 rounds the bounds
            outside = (self.actions < low - slack) | (self.actions > high + slack)
            outside = outside.reshape(len(self), -1).any(axis=1)
        else:
            kind = "Discrete" if self.is_discrete else "Box"
            raise ValueError(f"the suggested actions belong to a {kind} action space, got {space}")
        if outside.any():
            worst = int(outside.argmax())
            raise ValueError(f"the suggested actions must lie in {space}, got {self.actions[worst]} for state {worst}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a JSON file, as a whole or not at all: one line for each state, the same bytes for the same table."""
        write_atomically(Path(path), to_json(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "CriticalStates":
        """Reads what ``save`` wrote.

        Raises:
            ValueError: names the file and the field
        """
        try:
            return cls(**from_json(Path(path).read_text("utf-8")))
        except (OSError, ValueError, RecursionError) as error:
            raise ValueError(f"cannot read critical states from {os.fspath(path)!r}: {error}") from error


def _rows(observations: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(observations, dtype=np.float64)
    if array.ndim < 2:
        raise ValueError(f"observations must have shape (n, *obs_shape), got {array.shape}")
    return array.reshape(len(array), -1) if array.size else np.zeros((len(array), int(np.prod(array.shape[1:]))))


def _finite(values: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{name} must be an array of numbers, got {values!r:.200}: {error}. gymnasium.spaces.flatten makes one of a Dict's"
        ) from None
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} must be finite, got {array[~np.isfinite(array)][0]} in row {np.argwhere(~np.isfinite(array))[0][0]}"
        )
    return array
