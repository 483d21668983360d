"""Remarks on what is unusual about a state: values near their bounds, sudden changes, and where Pong's ball will be."""

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llmwrappers.envs.pong import CELLS
from local_llm.prompting.facts import ObservationEntry
from local_llm.prompting.wording import count_text, decimals_of, scaled, short_number, unit_text

# What lies between these quantiles of all recorded steps is usual.
USUAL = 0.01, 0.99
# A value is near a bound on the last third of the way there from its median, or on the last two if it takes so few steps.
NEAR, SOON_STEPS = 1 / 3, 5
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
# Where the ball meets the own paddle, how far from its centre, and how far the paddle moves in a step at most, in cells.
PADDLE_X, PADDLE_REACH, PADDLE_SPEED = 69.5, 5, 10

Array = NDArray[Any]
Remark = tuple[float, str]
"""How unusual something is, from 0 to about 3, and what it is."""


class Usual:
    """Knows what is usual in recorded states, number by number, and remarks on what is not.

    Args:
        entries: what the numbers of a state are
        states: the recorded ones, one a row
        starts: the rows that begin an episode
    """

    def __init__(self, entries: list[ObservationEntry], states: Array, starts: list[int]):
        self.entries = entries
        # The entry of each number.
        self.of = [entry for entry in entries for _ in entry.index]
        self.is_named = np.array([len(entry.index) == 1 for entry in self.of])
        changes = np.delete(np.abs(np.diff(states, axis=0, prepend=states[:1])), starts, axis=0)
        quantiles = np.quantile(states, [USUAL[0], 0.25, 0.5, USUAL[1]], axis=0)
        self.low, quarter, self.median, self.high = quantiles
        # A gait falls in every step: only the fastest quarter is said, and nothing of mere noise.
        self.moving_below = np.minimum(quarter, -0.1 * (self.high - self.low))
        self.fast = np.quantile(changes, USUAL[1], axis=0) if len(changes) else np.full(states.shape[1], np.inf)
        self.decimals = [decimals_of(width) for width in self.high - self.low]

    def remarks(self, state: Array, before: Array | None) -> list[Remark]:
        """Returns what is unusual about a state, after the one before it if there is one, most unusual first."""
        change = np.zeros(len(state)) if before is None else state - before
        ends = {entry.index[0] for entry in self.entries if entry.terminates_outside or entry.name in MOVING}
        # A block, as of contact forces, has no names for its numbers.
        odd = self.is_named & ((state < self.low) | (state > self.high) | (np.abs(change) > self.fast))
        found = []
        for i in sorted(ends | set(np.flatnonzero(odd).tolist())):
            entry = self.of[i]
            score, parts = self._bound_remark(entry, state[i], change[i], i)
            width = max(self.high[i] - self.low[i], 1e-12)
            outside = max(self.low[i] - state[i], state[i] - self.high[i])
            if outside > 0:
                score += 0.5 + min(1.0, outside / width)
                parts.append(f"unusually {'low' if state[i] < self.low[i] else 'high'}")
            if abs(change[i]) > self.fast[i]:
                score += 0.5
                size = short_number(abs(change[i]), self.decimals[i])
                parts.append(f"{'up' if change[i] > 0 else 'down'} {size} in one step")
            head = f"{entry.name} {short_number(state[i], self.decimals[i])}{unit_text(entry.unit)}"
            if leaning := direction(entry.meaning, state[i]):
                head += f" ({leaning})"
            if is_moving := entry.name in MOVING and state[i] < self.moving_below[i]:
                score += 0.25
                factor, unit = scaled(entry.unit)
                head = f"{MOVING[entry.name]} at {short_number(-state[i] * factor, 2)}{unit_text(unit)}"
            if parts or is_moving:
                found.append((score, ", ".join((head, *parts))))
        return sorted(found, key=lambda remark: -remark[0])

    def _bound_remark(self, entry: ObservationEntry, value: float, change: float, i: int) -> tuple[float, list[str]]:
        for bound, sign in zip(entry.terminates_outside or (), (-1, 1), strict=False):
            margin, way = sign * (bound - value), abs(bound - self.median[i])
            if not math.isfinite(bound):
                continue
            steps = margin / (sign * change) if sign * change > 0 else math.inf
            if margin < 0:
                return 3.0, [f"beyond its end bound {bound}"]
            if margin < NEAR * way or (margin < 2 * NEAR * way and steps <= SOON_STEPS):
                arrives = ""
                if steps <= 2 * SOON_STEPS:
                    arrives = f", there in {count_text(max(1, math.ceil(steps)), 'step', 'steps')}"
                score = 1 + max(0.0, 1 - margin / (NEAR * way + 1e-12)) + (steps <= SOON_STEPS)
                return score, [f"{margin:.2g} from its end bound {bound}{arrives}"]
        return 0.0, []


def pong_remarks(state: Array, before: Array | None) -> list[Remark]:
    """Returns where Pong's ball will be and whether the own paddle is there, and what just happened to it."""
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
        arrival, bounces = reflected(y + vy * steps)
        off = arrival - own
        after = f" after {count_text(bounces, 'bounce', 'bounces')}" if bounces else ""
        soon = count_text(round(steps), "step", "steps")
        text = f"the ball meets your paddle's column in {soon} at y {short_number(arrival, 0)}{after}"
        if abs(off) <= PADDLE_REACH:
            remarks.append((0.0, f"{text}, where your paddle is"))
        else:
            too_far = abs(off) - PADDLE_REACH > PADDLE_SPEED * (steps + 1)
            text += f", your paddle is {short_number(abs(off), 0)} too {'high' if off > 0 else 'low'}"
            # What can still be changed is of more interest, the more urgent the more.
            remarks.append((0.5, f"{text} and cannot get there") if too_far else (1 + 2 / (1 + steps), text))
    return sorted(remarks, key=lambda remark: -remark[0])


def reflected(y: float) -> tuple[float, int]:
    """Folds the way of the ball's centre into the field, whose walls it meets at 1 and 79; and how often."""
    low, high = 1.0, CELLS - 1.0
    turns, rest = divmod(y - low, high - low)
    return (low + rest if turns % 2 == 0 else high - rest), abs(int(turns))


def direction(meaning: str, value: float) -> str:
    """Returns what the sign of a value means, if the meaning of its entry says so.

    Example:
        >>> direction("positive leans forward (+x); 0 is upright", -0.1)
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
