"""Writes states, actions and episodes as text in which a language model finds critical states.

Names, units, signs and bounds come from the facts (``prompts/*.toml``), what is usual from the trajectories. A legend says
once what the numbers are; the lines of an episode then hold numbers and, in words, what is unusual about them.
"""

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llmwrappers.critical_states.trajectories import Trajectories
from llmwrappers.envs.pong import CELLS, locate
from local_llm.facts import ActionEntry, Facts, ObservationEntry, serving

CHARACTERS_PER_TOKEN = 3
# What lies between these quantiles of all recorded steps is usual.
USUAL = 0.01, 0.99
# A value is near a bound on the last third of the way there from its median, or on the last two if it takes so few steps.
NEAR, SOON_STEPS = 1 / 3, 5
# A wider observation shows so many entries in each line; the others are named where they are unusual.
MOST_COLUMNS = 12
MOST_REMARKS = 4
# How the lines of an episode are shared out: evenly, to what came before its end and rare rewards, to what is unusual.
EVENLY, BEFORE_EVENTS, UNUSUAL = 0.2, 0.5, 0.3
# Rare rewards of an episode that it is told of how they came about.
MOST_EVENTS = 6
# "positive leans forward (+x)" also says what negative is.
OPPOSITES = dict(
    pair
    for one, other in (
        ("forward", "back"),
        ("forwards", "backwards"),
        ("left", "right"),
        ("up", "down"),
        ("counterclockwise", "clockwise"),
        ("+x", "-x"),
        ("+y", "-y"),
    )
    for pair in ((one, other), (other, one))
)
# Said of these entries when they are negative.
MOVING = {"vertical velocity": "falling", "forward velocity": "moving back"}
PONG, PONG_GRID_SHAPE = "llmwrappers/PongObjects-v0", (2, CELLS, CELLS)
# Where the ball meets the own paddle, how far from its centre, and how far the paddle moves in a step at most, in cells.
PADDLE_X, PADDLE_REACH, PADDLE_SPEED = 69.5, 5, 10

Array = NDArray[Any]
# How unusual something is, from 0 to about 3, and what it is.
Remark = tuple[float, str]


class Interpreter:
    """Describes states, actions and episodes in words, with the names and units of the facts.

    A state is usual where each entry lies between the 1 % and the 99 % quantile of all recorded steps. Said in words are:
    values near a bound at which the episode ends, values and one-step changes that are not usual, falling (an entry named
    vertical velocity) and moving back (forward velocity). Pong's objects, or its two grids (2, 80, 80), become where the
    ball will meet the paddle's column.

    Args:
        facts: of the environment, as ``load_facts`` gives them; without, an entry is called ``observation[3]``
        trajectories: the episodes; observations are vectors or Pong's grids

    Raises:
        ValueError: observations of another shape, or of another size than that of the facts

    Example:
        >>> observations = [[0.1, 0.0], [0.1, 0.1], [0.1, 0.0], [0.9, 0.0]]
        >>> played = Trajectories("Two-v0", np.array(observations), np.array([0, 1, 1, 0]), np.ones(4), lengths=[4],
        ...                       terminations=[True], final_observations=np.zeros((1, 2)), seeds=[0])
        >>> interpreter = Interpreter(None, played)
        >>> interpreter.state(observations[3])
        'observation[0] = 0.9 (usual 0.1 to 0.88), observation[1] = 0. Remarks: observation[0] 0.9, unusually high.'
        >>> print(interpreter.episode(0, token_budget=100))
        Episode 0: 4 steps, return 4; it terminated.
        step 0: 0.1 0 | 0 | 1, 4
        step 1: 0.1 0.1 | 1 | 1, 3 | observation[1] 0.1, unusually high
        step 2: 0.1 0 | 1 | 1, 2
        step 3: 0.9 0 | 0 | 1, 1 | observation[0] 0.9, unusually high, up 0.8 in one step
        after it: 0 0

    Change log:
        * v0.1.0 - added
    """

    def __init__(self, facts: Facts | None, trajectories: Trajectories):
        shape = trajectories.observations.shape[1:]
        self._is_grid = shape == PONG_GRID_SHAPE
        self._is_pong = self._is_grid or trajectories.env_id == PONG
        if not self._is_grid and len(shape) != 1:
            raise ValueError(f"observations must be vectors or Pong's grids {PONG_GRID_SHAPE}, got the shape {shape}")
        self._notes = []
        if self._is_grid and facts is None:
            facts = serving(PONG)[0][1]
            self._notes = facts.notes
        self.facts, self.trajectories = facts, trajectories
        self._states = np.array([self._vector(observation) for observation in trajectories.observations])
        size = self._states.shape[1]
        self._entries = (
            facts.observation
            if facts
            else [ObservationEntry(range(i, i + 1), f"observation[{i}]", "1", "") for i in range(size)]
        )
        if self._entries[-1].index.stop != size:
            raise ValueError(f"the facts describe observations of {self._entries[-1].index.stop} numbers, got {size}")
        # The entry of each number.
        self._of = [entry for entry in self._entries for _ in entry.index]
        self._is_named = np.array([len(entry.index) == 1 for entry in self._of])
        self._columns = self._choose_columns()
        starts = [trajectories.episode(i).start for i in range(len(trajectories))]
        changes = np.delete(np.abs(np.diff(self._states, axis=0, prepend=self._states[:1])), starts, axis=0)
        quantiles = np.quantile(self._states, [USUAL[0], 0.25, 0.5, USUAL[1]], axis=0)
        self._low, quarter, self._median, self._high = quantiles
        # A gait falls in every step: only the fastest quarter is said, and nothing of mere noise.
        self._moving_below = np.minimum(quarter, -0.1 * (self._high - self._low))
        self._fast = np.quantile(changes, USUAL[1], axis=0) if len(changes) else np.full(size, np.inf)
        self._decimals = [_decimals(width) for width in self._high - self._low]
        rewards = trajectories.rewards.astype(np.float64)
        self._reward_decimals = max(2, _decimals(float(np.ptp(rewards))))
        self._usual_rewards, self._median_reward = np.quantile(rewards, USUAL), np.median(rewards)
        # Rare, sudden and far from what is usual: a point in a game, a crash.
        spread, change = np.ptp(rewards), np.abs(np.diff(rewards, prepend=self._median_reward))
        rare = (np.abs(rewards - self._median_reward) >= spread / 2) & (change >= spread / 4) & (spread > 0)
        self._is_rare_reward = rare & (rare.mean() <= 0.05)

    # --------------------------------------------------------------------------------------------------------- sentences

    def state(self, observation: Array, previous: Array | None = None) -> str:
        """Describes one state in full: names, values, units, and what is unusual.

        Args:
            observation: as the environment returned it
            previous: the one before; with it, changes are described too
        """
        state = self._vector(observation)
        before = None if previous is None else self._vector(previous)
        parts = [self._numbers(state)] if self._is_pong else [self._value(entry, state) for entry in self._entries]
        remarks = [text for _, text in self._remarks(state, before)]
        sentences = [", ".join(parts), *(["Remarks: " + "; ".join(remarks)] if remarks else [])]
        return " ".join(f"{sentence}." for sentence in sentences)

    def action(self, action: Any) -> str:
        """Describes one action: names, values and units."""
        if np.ndim(action) == 0:
            entry = self._action_entry(int(action))
            return f"{int(action)} ({entry.name}: {entry.meaning})" if entry else f"{int(action)}"
        parts = []
        for i, value in enumerate(np.ravel(action).tolist()):
            entry = self._action_entry(i)
            parts.append(
                f"{entry.name} = {_number(value, 2)}{_unit(entry.unit)}" if entry else f"action[{i}] = {_number(value, 2)}"
            )
        return ", ".join(parts)

    def legend(self) -> str:
        """Says once what the numbers and words in the lines of an episode mean."""
        lines = ["Observation (index, name, unit: meaning; its usual range, 98 % of all recorded steps):"]
        for entry in self._entries:
            low, high = self._low[entry.index].min(), self._high[entry.index].max()
            decimals = min(self._decimals[i] for i in entry.index)
            meaning = f": {entry.meaning}" if entry.meaning else ""
            unit = f" [{entry.unit}]" if entry.unit != "1" else ""
            index = f"{entry.index[0]}" if len(entry.index) == 1 else f"{entry.index[0]} to {entry.index[-1]}"
            ends = f"; the episode ends {_outside(*entry.terminates_outside)}" if entry.terminates_outside else ""
            lines.append(
                f"{index} {entry.name}{unit}{meaning}{ends}; usual {_number(low, decimals)} to {_number(high, decimals)}"
            )
        is_discrete = self.trajectories.actions.ndim == 1
        lines.append(f"Action ({'one of' if is_discrete else 'index, name, unit, range: meaning'}):")
        if self.facts is None:
            size = self.trajectories.actions[0].size
            lines.append("a whole number" if is_discrete else f"{size} {'number' if size == 1 else 'numbers'}")
        for entry in self.facts.action if self.facts else []:
            unit = f" [{entry.unit}]" if entry.unit != "1" else ""
            bounds = "" if entry.low is None else f", {_number(entry.low, 3)} to {_number(entry.high or 0.0, 3)}"
            lines.append(f"{entry.index[0]} {entry.name}{unit}{bounds}: {entry.meaning}")
        lines += [f"Note: {note}" for note in self._notes]
        return "\n".join([*lines, *self._how_to_read()])

    def _how_to_read(self) -> list[str]:
        names = ", ".join(self._of[i].name for i in self._columns)
        shown = "the ball and the paddles as (x, y), v: velocities" if self._is_pong else names
        lines = [
            f"A line reads: step number: {shown} | action | reward of this step, return to come (the undiscounted sum of the "
            "rewards from this step to the end of the episode) | what is unusual."
        ]
        if self._is_pong:
            return [*lines, "Where the ball meets your paddle's column takes bounces off the walls into account."]
        if len(self._columns) < len(self._of):
            lines.append("The other entries are named only where they are unusual.")
        if any(entry.terminates_outside for entry in self._entries):
            lines.append(
                "End bound: beyond it the episode ends. There in n steps: if the value goes on changing as in the last step."
            )
        return lines

    # ---------------------------------------------------------------------------------------------------------- episodes

    def episode(self, index: int, token_budget: int) -> str:
        """Writes an episode, a line a step; where the budget is too small for all, the steps that tell most.

        The first and the last step are always there, of a terminated episode the last three. The others come densely
        before its end and before rare rewards, and where much is unusual; what is left out is said.

        Args:
            index: of the episode
            token_budget: for the whole text, a token being 3 characters

        Raises:
            IndexError: no such episode
            ValueError: a budget too small for the steps that are always there
        """
        steps = self.trajectories.episode(index)
        states, rewards = self._states[steps], self.trajectories.rewards[steps].astype(np.float64)
        to_come = rewards[::-1].cumsum()[::-1]
        lines, unusual = [], np.zeros(len(states))
        for i, state in enumerate(states):
            remarks = self._remarks(state, states[i - 1] if i else None)
            if self._is_rare_reward[steps.start + i] or not self._usual_rewards[0] <= rewards[i] <= self._usual_rewards[1]:
                which = "low" if rewards[i] < self._median_reward else "high"
                remarks.insert(0, (1.0, f"unusually {which} reward"))
            unusual[i] = sum(score for score, _ in remarks[:MOST_REMARKS])
            action = self._short_action(self.trajectories.actions[steps.start + i])
            reward, later = _number(rewards[i], self._reward_decimals), _number(to_come[i], self._reward_decimals - 1)
            words = "; ".join(text for _, text in remarks[:MOST_REMARKS])
            lines.append(f"step {i}: {self._numbers(state)} | {action} | {reward}, {later}{f' | {words}' if words else ''}")
        terminated = bool(self.trajectories.terminations[index])
        final = self._vector(self.trajectories.final_observations[index])
        first = f"Episode {index}: {len(lines)} steps, return {_number(to_come[0], self._reward_decimals - 1)}; "
        first += self._why_it_ended(final) if terminated else "it was truncated, not terminated."
        always = {0, *range(len(lines))[-3 if terminated else -1 :]}
        interest = self._interest(steps, unusual, terminated)
        interest[list(always)] = 0
        interest /= max(interest.sum(), 1e-12)

        def text(shares: int) -> str:
            body, before = [], -1
            for i in [*sorted(always | _pick(interest, shares)), len(lines)]:
                if i > before + 1:
                    body.append(_left_out(before + 1, i - 1, unusual, rewards, self._reward_decimals - 1))
                body += lines[i : i + 1]
                before = i
            return "\n".join([first, *body, f"after it: {self._numbers(final)}"])

        most = token_budget * CHARACTERS_PER_TOKEN
        if len(text(0)) > most:
            needed = math.ceil(len(text(0)) / CHARACTERS_PER_TOKEN)
            raise ValueError(f"token_budget must be at least {needed} for episode {index}, got {token_budget!r}")
        if len(whole := text(-1)) <= most:
            return whole
        # More shares do not always mean a longer text: the search keeps to what it has seen fit.
        fits, too_many = 0, 2 * len(lines) + 1
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            fits, too_many = (middle, too_many) if len(text(middle)) <= most else (fits, middle)
        return text(fits)

    def _interest(self, steps: slice, unusual: Array, terminated: bool) -> Array:
        """How much of the episode's text each step should have, as a share."""
        length = len(unusual)
        before_events = np.zeros(length)
        events: list[int] = np.flatnonzero(self._is_rare_reward[steps]).tolist()
        if terminated and length - 1 not in events:
            events.append(length - 1)
        if len(events) > MOST_EVENTS:
            # How each of a few came about tells more than that there were many.
            chosen = np.linspace(0, len(events) - 1, MOST_EVENTS).round().astype(int)
            unusual = unusual.copy()
            unusual[np.delete(events, chosen)] = 0
            events = [events[i] for i in chosen]
        for event in events:
            # Falls with the distance: equal shares of it lie 1, 2, 4, 8, ... steps before the event.
            before_events[: event + 1] += 1 / (1 + np.arange(event, -1, -1))
        interest = np.full(length, EVENLY / length)
        for share, part in ((BEFORE_EVENTS, before_events), (UNUSUAL, unusual)):
            if part.any():
                interest += share * part / part.sum()
        return interest

    def _why_it_ended(self, final: Array) -> str:
        outside = []
        for entry in self._entries:
            if entry.terminates_outside:
                (low, high), value = entry.terminates_outside, final[entry.index[0]]
                if not low <= value <= high:
                    outside.append(f"{entry.name} {value:.3g}{_unit(entry.unit)} is {_outside(low, high)}")
        return ": ".join(["it terminated", *(["; ".join(outside)] if outside else [])]) + "."

    # ------------------------------------------------------------------------------------------------------------ remarks

    def _remarks(self, state: Array, before: Array | None) -> list[Remark]:
        """What is unusual about a state, most unusual first."""
        if self._is_pong:
            return sorted(_pong_remarks(state, before), key=lambda remark: -remark[0])
        change = np.zeros(len(state)) if before is None else state - before
        ends = {entry.index[0] for entry in self._entries if entry.terminates_outside or entry.name in MOVING}
        # A block, as of contact forces, has no names for its numbers.
        odd = self._is_named & ((state < self._low) | (state > self._high) | (np.abs(change) > self._fast))
        found = []
        for i in sorted(ends | set(np.flatnonzero(odd).tolist())):
            entry = self._of[i]
            score, parts = self._bound_remark(entry, state[i], change[i], i)
            width = max(self._high[i] - self._low[i], 1e-12)
            outside = max(self._low[i] - state[i], state[i] - self._high[i])
            if outside > 0:
                score += 0.5 + min(1.0, outside / width)
                parts.append(f"unusually {'low' if state[i] < self._low[i] else 'high'}")
            if abs(change[i]) > self._fast[i]:
                score += 0.5
                size = _number(abs(change[i]), self._decimals[i])
                parts.append(f"{'up' if change[i] > 0 else 'down'} {size} in one step")
            head = f"{entry.name} {_number(state[i], self._decimals[i])}{_unit(entry.unit)}"
            if direction := _direction(entry.meaning, state[i]):
                head += f" ({direction})"
            if is_moving := entry.name in MOVING and state[i] < self._moving_below[i]:
                score += 0.25
                factor, unit = _scaled(entry.unit)
                head = f"{MOVING[entry.name]} at {_number(-state[i] * factor, 2)}{_unit(unit)}"
            if parts or is_moving:
                found.append((score, ", ".join((head, *parts))))
        return sorted(found, key=lambda remark: -remark[0])

    def _bound_remark(self, entry: ObservationEntry, value: float, change: float, i: int) -> tuple[float, list[str]]:
        for bound, sign in zip(entry.terminates_outside or (), (-1, 1), strict=False):
            margin, way = sign * (bound - value), abs(bound - self._median[i])
            if not math.isfinite(bound):
                continue
            steps = margin / (sign * change) if sign * change > 0 else math.inf
            if margin < 0:
                return 3.0, [f"beyond its end bound {bound}"]
            if margin < NEAR * way or (margin < 2 * NEAR * way and steps <= SOON_STEPS):
                arrives = f", there in {_steps(max(1, math.ceil(steps)))}" if steps <= 2 * SOON_STEPS else ""
                score = 1 + max(0.0, 1 - margin / (NEAR * way + 1e-12)) + (steps <= SOON_STEPS)
                return score, [f"{margin:.2g} from its end bound {bound}{arrives}"]
        return 0.0, []

    # ------------------------------------------------------------------------------------------------------------ numbers

    def _vector(self, observation: Array) -> Array:
        observation, shape = np.asarray(observation), self.trajectories.observations.shape[1:]
        if observation.shape != shape:
            raise ValueError(f"an observation must have the shape {shape}, got {observation.shape}")
        if self._is_grid:
            return locate(observation[1], observation[0]).astype(np.float64)
        return observation.astype(np.float64)

    def _choose_columns(self) -> list[int]:
        """The numbers that every line shows: all, or those with bounds, and the body's before the joints'."""
        if len(self._of) <= MOST_COLUMNS:
            return list(range(len(self._of)))
        # An action "front left hip torque" drives the joint "front left hip".
        joints = tuple(f"{entry.name.rpartition(' ')[0]} " for entry in (self.facts.action if self.facts else []))

        def rank(entry: ObservationEntry) -> int:
            return 0 if entry.terminates_outside else 2 if entry.name.startswith(joints) else 1

        single = [entry for entry in sorted(self._entries, key=rank) if len(entry.index) == 1]
        body = [entry for entry in single if rank(entry) < 2] or single
        return sorted(entry.index[0] for entry in body[:MOST_COLUMNS])

    def _numbers(self, state: Array) -> str:
        if self._is_pong:
            in_play, x, y, vx, vy, own, own_v, opponent, opponent_v = (_number(number, 1) for number in state)
            ball = f"ball ({x}, {y}) v ({vx}, {vy})" if in_play != "0" else "no ball"
            return f"{ball}, your paddle {own} v {own_v}, opponent's {opponent} v {opponent_v}"
        return " ".join(_number(state[i], self._decimals[i]) for i in self._columns)

    def _value(self, entry: ObservationEntry, state: Array) -> str:
        i = entry.index[0]
        if len(entry.index) > 1:
            block = state[entry.index]
            return f"{entry.name} from {_number(block.min(), 2)} to {_number(block.max(), 2)}{_unit(entry.unit)}"
        low, high = (_number(number, self._decimals[i]) for number in (self._low[i], self._high[i]))
        usual = "" if self._low[i] <= state[i] <= self._high[i] else f" (usual {low} to {high})"
        return f"{entry.name} = {_number(state[i], self._decimals[i])}{_unit(entry.unit)}{usual}"

    def _short_action(self, action: Any) -> str:
        if np.ndim(action) == 0:
            entry = self._action_entry(int(action))
            return f"{int(action)} {entry.name}" if entry else f"{int(action)}"
        return " ".join(_number(value, 2) for value in np.ravel(action))

    def _action_entry(self, index: int) -> ActionEntry | None:
        return next((entry for entry in (self.facts.action if self.facts else []) if index in entry.index), None)


def _pick(interest: Array, shares: int) -> set[int]:
    """The most interesting step of each of so many equal shares of the interest; -1: all steps."""
    if shares < 0:
        return set(range(len(interest)))
    owner = ((interest.cumsum() - interest / 2) * shares).astype(int)
    return set({owner[i]: i for i in np.argsort(interest, kind="stable").tolist()}.values()) if shares else set()


def _left_out(first: int, last: int, unusual: Array, rewards: Array, decimals: int) -> str:
    which = f"step {first}" if first == last else f"steps {first} to {last}"
    count = int(np.count_nonzero(unusual[first : last + 1]))
    what = f"{count} of them unusual" if count and first < last else "unusual" if count else "nothing unusual"
    return f"({which} left out: {what}, reward {_number(rewards[first : last + 1].sum(), decimals)} in all)"


def _pong_remarks(state: Array, before: Array | None) -> list[Remark]:
    """Where the ball will be and whether the own paddle is there, and what just happened to the ball."""
    in_play, x, y, vx, vy, own = state[:6]
    if not in_play:
        return []
    remarks = []
    if before is not None and not before[0]:
        remarks.append((0.5, "the ball appears"))
    elif before is not None and vx * before[3] < 0:
        remarks.append((1.0, "the opponent returned the ball" if vx > 0 else "you returned the ball"))
    if vx < 0:
        remarks.append((0.0, "the ball moves away from you"))
    elif vx > 0 and x > PADDLE_X + 1:
        remarks.append((0.0, "the ball is past your paddle"))
    elif vx > 0:
        steps = max(0.0, (PADDLE_X - x) / vx)
        arrival, bounces = _reflected(y + vy * steps)
        off = arrival - own
        after = f" after {bounces} {'bounce' if bounces == 1 else 'bounces'}" if bounces else ""
        text = f"the ball meets your paddle's column in {_steps(steps)} at y {_number(arrival, 0)}{after}"
        if abs(off) <= PADDLE_REACH:
            remarks.append((0.0, f"{text}, where your paddle is"))
        else:
            too_far = abs(off) - PADDLE_REACH > PADDLE_SPEED * (steps + 1)
            text += f", your paddle is {_number(abs(off), 0)} too {'high' if off > 0 else 'low'}"
            # What can still be changed is of more interest, the more urgent the more.
            remarks.append((0.5, f"{text} and cannot get there") if too_far else (1 + 2 / (1 + steps), text))
    return remarks


def _reflected(y: float) -> tuple[float, int]:
    """Folds the way of the ball's centre into the field, whose walls it meets at 1 and 79; and how often."""
    low, high = 1.0, CELLS - 1.0
    turns, rest = divmod(y - low, high - low)
    return (low + rest if turns % 2 == 0 else high - rest), abs(int(turns))


def _direction(meaning: str, value: float) -> str:
    """What the sign of a value means, if the meaning of its entry says so.

    Example:
        >>> _direction("positive leans forward (+x); 0 is upright", -0.1)
        'leans back'
    """
    found = re.search(r"\b(positive|negative):? ([^;,:()]+)", meaning)
    if not found or value == 0:
        return ""
    phrase = found[2].strip()
    if (found[1] == "positive") == (value > 0):
        return phrase
    words = [OPPOSITES.get(word, word) for word in phrase.split()]
    # Two statements in one have no single opposite.
    return "" if words == phrase.split() or "and" in words else " ".join(words)


def _scaled(unit: str) -> tuple[float, str]:
    """Splits "7.5 m/s" into its number and its unit."""
    number, _, rest = unit.partition(" ")
    return (float(number), rest) if re.fullmatch(r"[\d.]+", number) and rest else (1.0, unit)


def _unit(unit: str) -> str:
    factor, rest = _scaled(unit)
    return "" if unit == "1" else f" (x {unit})" if factor != 1 else f" {rest}"


def _steps(count: float) -> str:
    return "1 step" if round(count) == 1 else f"{round(count)} steps"


def _outside(low: float, high: float) -> str:
    return f"below {low}" if high == math.inf else f"above {high}" if low == -math.inf else f"outside {low} to {high}"


def _decimals(width: float) -> int:
    """How many decimals tell about a twentieth of a range from the next."""
    return min(4, max(0, 1 - math.floor(math.log10(width / 2)))) if width > 0 else 2


def _number(value: float, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text
