"""Measures a policy alone, in the numbers that one would look for in its video; and the rule that chose the defaults.

The rule: of the candidates that never fault and travel at least half as far forward as the one that travels furthest,
the highest mean return. By return alone a policy that stands still could win, because the reward for staying healthy is
high; by distance alone, a dash whose actions cost more than it gains. If ``info`` has no ``x_position``, faults and return
decide.
"""

import copy
import csv
import io
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

from llmwrappers.files import write_atomically
from llmwrappers.priors.contract import PriorPolicy, allowed_actions, begin_episode, fault_text, native_action
from llmwrappers.priors.prior_input import read_prior_input
from llmwrappers.scalar_reward import scalar_reward

RULE = (
    "of the candidates that never fault and travel at least half as far forward as the one that travels furthest, "
    "the highest mean return"
)
# A component counts as saturated within 1 % of half its range from a bound.
SATURATED = 0.99
# An episode is cut into this many windows to see whether its forward speed is steady.
WINDOWS = 10
# Mixed into the seed of random actions: default_rng(seed) alone would repeat the environment's own stream.
ACTION_STREAM = 2
HEADER = (
    f"{'policy':<8}{'return':^18}{'steps':^16}{'survived':>9}{'forward (m)':^18}{'steady':>7}{'saturated':>11}{'chatter':>9}"
    f"{'us/call':>9}{'faults':>8}"
)


@dataclass
class Measurement:
    """Measurements of a policy alone: the lists have one entry for each episode, the rest is over all calls.

    Attributes:
        distances: change of ``info["x_position"]``; empty if the environment does not report it
        terminated: how many episodes the environment ended itself, before their time limit
        survival: mean episode length as a fraction of the time limit; None without one
        steadiness: mean of ``steadiness`` over the episodes; None without ``x_position``
        saturation: share of the action components within 1 % of half their range from a bound; None on a Discrete space
        chatter: mean ``|a_t - a_(t-1)|`` as a fraction of the action range; on a Discrete space, how often the action changes
        microseconds: median time of a call; None if every call raised
        faults: number of calls that raised, or returned what no mask can use; ``first_fault`` is the first of them
    """

    returns: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    distances: list[float] = field(default_factory=list)
    terminated: int = 0
    survival: float | None = None
    steadiness: float | None = None
    saturation: float | None = None
    chatter: float | None = None
    microseconds: float | None = None
    faults: int = 0
    first_fault: str = ""


class Step(NamedTuple):
    """One step of an episode: observation, input and answer of the policy, executed action, and result.

    ``answer`` is a native action, or on a Discrete space the mask (n,) of the allowed ones; None if the policy failed.
    """

    observation: Any
    handed: Any
    info: dict[str, Any]
    answer: Any
    action: Any
    reward: float
    terminated: bool
    truncated: bool
    next_observation: Any
    next_info: dict[str, Any]
    seconds: float | None
    fault: str


def play(env: gym.Env, policy: PriorPolicy, seed: int, prior_input: str | None = None) -> Iterator[Step]:
    """Plays one seeded episode with a policy alone, and yields each step.

    The policy reads the observation, or the ``prior_input`` (see LLMActionMask).

    On a Discrete space a prior may allow several actions; one of them is drawn uniformly, from a random stream that ``seed``
    seeds. If the policy faults, the middle of the Box or any action of the Discrete space is executed.

    Example:
        >>> steps = list(play(gym.make("Pendulum-v1"), lambda obs: [-obs[1]], seed=0))
        >>> len(steps), steps[-1].truncated
        (200, True)
    """
    space, rng, seconds = env.action_space, np.random.default_rng((seed, ACTION_STREAM)), []

    def timed(observation):
        start = time.perf_counter()
        answer = policy(observation)
        seconds.append(time.perf_counter() - start)
        return answer

    def act(observation):
        if isinstance(space, Discrete):
            return allowed_actions(timed(observation), space)
        assert isinstance(space, Box)
        return native_action(timed(observation), space.low, space.high)

    observation, info = env.reset(seed=seed)
    done, unheard = False, ""
    try:
        begin_episode(policy)
    except Exception as error:
        unheard = fault_text(error, policy)
    while not done:
        seconds.clear()
        # An environment may write into what it returned, and a policy into what it reads.
        observation, handed = copy.deepcopy((observation, read_prior_input(env, prior_input, observation, info)))
        try:
            answer, fault = act(copy.deepcopy(handed)), unheard
        except Exception as error:
            answer, fault = None, unheard or fault_text(error, policy)
        if isinstance(space, Box):
            action = ((space.low + space.high) / 2 if answer is None else answer).astype(space.dtype)
        else:
            assert isinstance(space, Discrete)
            action = int(space.start + rng.choice(space.n if answer is None else np.flatnonzero(answer)))
        next_observation, reward, terminated, truncated, next_info = env.step(copy.copy(action))
        terminated, truncated = bool(terminated), bool(truncated)  # environments return NumPy's, too
        spent = seconds[0] if seconds else None
        yield Step(
            observation,
            handed,
            info,
            answer,
            action,
            scalar_reward(reward),
            terminated,
            truncated,
            next_observation,
            next_info,
            spent,
            fault,
        )
        observation, info, done, unheard = next_observation, next_info, terminated or truncated, ""


def measure(env: gym.Env, policy: PriorPolicy, episodes: int, seed: int) -> Measurement:
    """Runs a policy alone for some episodes, seeded ``seed``, ``seed + 1``, ... .

    If only step reports ``info["x_position"]``, as in the v4 environments, the distance is from the end of the first step.

    Example:
        >>> measurement = measure(gym.make("Pendulum-v1"), lambda obs: [2.0], episodes=2, seed=0)
        >>> measurement.steps, measurement.survival, measurement.saturation, measurement.chatter
        ([200, 200], 1.0, 1.0, 0.0)
    """
    space, result = env.action_space, Measurement()
    seconds, actions, changes, steadinesses = [], [], [], []
    for episode in range(episodes):
        steps = list(play(env, policy, seed + episode))
        result.returns.append(sum(step.reward for step in steps))
        result.steps.append(len(steps))
        result.terminated += steps[-1].terminated
        faults = [step.fault for step in steps if step.fault]
        result.faults += len(faults)
        result.first_fault = result.first_fault or next(iter(faults), "")
        seconds += [step.seconds for step in steps if step.seconds is not None]
        actions.append(np.array([step.action for step in steps], dtype=np.float64))
        changes.append(np.diff(actions[-1], axis=0))
        positions = [info["x_position"] for info in (steps[0].info, *(s.next_info for s in steps)) if "x_position" in info]
        if positions:
            result.distances.append(float(positions[-1] - positions[0]))
            steadinesses.append(steadiness(positions))

    time_limit = env.spec and env.spec.max_episode_steps
    result.survival = float(np.mean(result.steps) / time_limit) if time_limit else None
    result.steadiness = float(np.mean(steadinesses)) if steadinesses else None
    result.microseconds = float(np.median(seconds)) * 1e6 if seconds else None
    changes = np.concatenate(changes)
    if isinstance(space, Box):
        middle, half_range = (space.low + space.high) / 2, (space.high - space.low) / 2
        # A component without a range neither saturates nor chatters.
        half_range = np.where(half_range == 0, np.inf, half_range)
        result.saturation = float(np.mean(np.abs(np.concatenate(actions) - middle) >= SATURATED * half_range))
        result.chatter = float(np.mean(np.abs(changes) / (2 * half_range))) if len(changes) else None
    else:
        result.chatter = float(np.mean(changes != 0)) if len(changes) else None
    return result


def steadiness(positions: Sequence[float]) -> float:
    """Returns 1 - (standard deviation / abs(mean)) of the forward speeds in ten equal windows of an episode, at least 0.

    It is also 0 if the mean is 0 or the episode is too short for its windows.

    Example:
        >>> steadiness([0.5 * t for t in range(101)])
        1.0
        >>> steadiness([0.0] * 101), steadiness([0.0] * 90 + list(range(11)))
        (0.0, 0.0)
    """
    if len(positions) <= WINDOWS:
        return 0.0
    edges = np.linspace(0, len(positions) - 1, WINDOWS + 1).round().astype(int)
    speeds = np.diff(np.asarray(positions, dtype=np.float64)[edges]) / np.diff(edges)
    mean = abs(speeds.mean())
    return float(max(0.0, 1.0 - speeds.std() / mean)) if mean > 0 else 0.0


def random_actions(space: gym.Space, seed: int) -> PriorPolicy:
    """Returns the policy that any candidate must beat: uniformly random actions; on a Discrete space all are allowed.

    Example:
        >>> policy = random_actions(Box(-1.0, 1.0, (3,)), seed=0)
        >>> policy(None).shape
        (3,)
    """
    if isinstance(space, Discrete):
        return lambda observation: np.ones(space.n, dtype=np.int8)
    assert isinstance(space, Box)
    rng = np.random.default_rng((seed, ACTION_STREAM))
    return lambda observation: rng.uniform(space.low, space.high)


def doing_nothing(space: Box) -> PriorPolicy:
    """Returns the policy that plays the middle of the action range, and so measures the reward for standing still.

    Example:
        >>> doing_nothing(Box(-1.0, 3.0, (2,)))(None).tolist()
        [1.0, 1.0]
    """
    return lambda observation: (space.low + space.high) / 2


def choose(measurements: dict[int, Measurement]) -> int | None:
    """Returns the candidate that the rule chooses, or None if every candidate faults.

    Example:
        >>> stands_still = Measurement(returns=[1034.0], distances=[0.1])
        >>> hops = Measurement(returns=[900.0], distances=[4.0])
        >>> choose({1: stands_still, 2: hops})
        2
    """
    faultless = {number: m for number, m in measurements.items() if m.faults == 0}
    distance = {number: np.mean(m.distances) if m.distances else 0.0 for number, m in faultless.items()}
    furthest = max(distance.values(), default=0.0)
    # min, because half of a negative distance is further than the furthest.
    moving = [number for number in faultless if distance[number] >= min(furthest, furthest / 2)]
    return max(moving, key=lambda number: np.mean(faultless[number].returns), default=None)


def keep_returns(path: Path, env_id: str, policy: str, returns: Sequence[float], seed: int) -> int:
    """Writes the return of each episode into a CSV file; other rows stay, those of the same policy there are replaced.

    The columns are env_id, policy, seed, episodic_return. ``compare.py`` shows the file ``alone.csv`` of its folder.

    Args:
        seed: of the first episode; the others follow it

    Returns:
        the number of rows that it replaced

    Raises:
        ValueError: the file has other columns

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "alone.csv"
        >>> keep_returns(path, "Pendulum-v1", "prior", [-120.0, -250.5], seed=7)
        0
        >>> print(path.read_text(), end="")
        env_id,policy,seed,episodic_return
        Pendulum-v1,prior,7,-120.0
        Pendulum-v1,prior,8,-250.5
    """
    text, columns, rows = io.StringIO(), ["env_id", "policy", "seed", "episodic_return"], []
    if path.exists():
        header, *rows = [line for line in csv.reader(path.read_text("utf-8").splitlines()) if line] or [[]]
        if header != columns:
            raise ValueError(f"{path} has the columns {', '.join(header)}, not {', '.join(columns)}; give another file")
    others = [line for line in rows if line[:2] != [env_id, policy]]
    replaced, rows = len(rows) - len(others), others
    rows += [[env_id, policy, str(seed + i), repr(float(value))] for i, value in enumerate(returns)]
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.getvalue())
    return replaced


def row(name: str, m: Measurement, mark: str = "") -> str:
    """Formats one measurement as a line under ``HEADER``, and a second line if the policy faulted."""

    def spread(values: list, digits: int) -> str:
        return f"{np.mean(values):.{digits}f} +- {np.std(values):.{digits}f}" if values else "-"

    def percent(share: float | None) -> str:
        return "-" if share is None else f"{share:.1%}"

    microseconds = "-" if m.microseconds is None else f"{m.microseconds:.1f}"
    first_fault = f"\n        first fault: {m.first_fault}" if m.faults else ""
    return (
        f"{name:<8}{spread(m.returns, 1):^18}{spread(m.steps, 1):^16}{percent(m.survival):>9}{spread(m.distances, 2):^18}"
        f"{percent(m.steadiness):>7}{percent(m.saturation):>11}{percent(m.chatter):>9}{microseconds:>9}{m.faults:>8}"
        f"{mark}{first_fault}"
    )
