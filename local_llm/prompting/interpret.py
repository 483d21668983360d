"""Writes states, actions and episodes as text in which a language model finds critical states.

Names, units, signs and bounds come from ``prompts/facts``, what is usual from the trajectories. A legend says once what the
numbers are; the lines of an episode then hold numbers and, in words, what is unusual about them.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from llmwrappers.critical_states.trajectories import Trajectories
from llmwrappers.envs.pong import CELLS, PONG_GRID, locate
from local_llm.prompting.facts import ActionEntry, Facts, ObservationEntry, serving
from local_llm.prompting.remarks import USUAL, Array, Remark, Usual, pong_remarks
from local_llm.prompting.wording import decimals_of, short_number, unit_text

CHARACTERS_PER_TOKEN = 3
MOST_REMARKS = 4
# A number that changes in no greater share of all steps hardly ever changes.
RARE_CHANGE = 0.05
# How the lines of an episode are shared out: evenly, to what came before its end and rare rewards, to what is unusual.
EVENLY, BEFORE_EVENTS, UNUSUAL = 0.2, 0.5, 0.3
# Rare rewards of an episode that it is told of how they came about.
MOST_EVENTS = 6
PONG, PONG_GRID_SHAPE = "llmwrappers/PongObjects-v0", (2, CELLS, CELLS)


class Interpreter:
    """Describes states, actions and episodes in words, with the names and units of the facts.

    A state is usual where each entry lies between the 1 % and the 99 % quantile of all recorded steps. Said in words are:
    values near a bound at which the episode ends, values and one-step changes that are not usual, falling (an entry named
    vertical velocity) and moving back (forward velocity). Pong's objects, or its two grids (2, 80, 80), become where the
    ball will meet the paddle's column.

    Args:
        facts: of the environment, as ``load_facts`` gives them; without, an entry is called ``observation[3]``
        trajectories: the episodes; observations are vectors or Pong's grids
        names: of the entries of a vector, where there are no facts

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

    def __init__(self, facts: Facts | None, trajectories: Trajectories, names: Sequence[str] = ()):
        shape = trajectories.observations.shape[1:]
        self._is_grid = shape == PONG_GRID_SHAPE and trajectories.env_id == PONG_GRID
        self._is_pong = self._is_grid or trajectories.env_id == PONG
        if not self._is_grid and len(shape) != 1:
            raise ValueError(
                f"observations must be vectors, or the grids of {PONG_GRID}, got the shape {shape} of {trajectories.env_id}; "
                "write critical(obs) by hand for other images, or train an agent on numbers"
            )
        if self._is_grid and facts is None:
            facts = serving(PONG)[0][1]
        self.facts, self.trajectories = facts, trajectories
        self.characters_per_token: float = CHARACTERS_PER_TOKEN
        self._states = np.array([self._vector(observation) for observation in trajectories.observations])
        size = self._states.shape[1]
        self._entries = (
            facts.observation
            if facts
            else [ObservationEntry(range(i, i + 1), names[i] if names else f"observation[{i}]", "1", "") for i in range(size)]
        )
        if self._entries[-1].index.stop != size:
            raise ValueError(f"the facts describe observations of {self._entries[-1].index.stop} numbers, got {size}")
        starts = [trajectories.episode(i).start for i in range(len(trajectories))]
        self._usual = Usual(self._entries, self._states, starts)
        # The numbers that every line shows; a block, as of contact forces, has no names for its own.
        self._columns = [entry.index[0] for entry in self._entries if len(entry.index) == 1]
        # How rare each step's rarest change is, as the share of steps in which that number changes; 1 where none is rare.
        changed = np.diff(self._states, axis=0, prepend=self._states[:1]) != 0
        changed[starts] = False
        share = np.where(changed.mean(axis=0) <= RARE_CHANGE, changed.mean(axis=0), 1.0)
        self._rarity = np.where(changed, share, 1.0).min(axis=1)
        rewards = trajectories.rewards.astype(np.float64)
        self._reward_decimals = max(2, decimals_of(float(np.ptp(rewards))))
        self._action_decimals = max(2, decimals_of(float(np.ptp(trajectories.actions))))
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
            entry, number = self._action_entry(i), short_number(value, self._action_decimals)
            parts.append(f"{entry.name} = {number}{unit_text(entry.unit)}" if entry else f"action[{i}] = {number}")
        return ", ".join(parts)

    def legend(self) -> str:
        """Says once what the numbers and words in the lines of an episode mean."""
        lines = ["Observation (index, name, unit: meaning; its usual range, 98 % of all recorded steps):"]
        for entry in self._entries:
            low, high = self._usual.low[entry.index].min(), self._usual.high[entry.index].max()
            decimals = min(self._usual.decimals[i] for i in entry.index)
            meaning = f": {entry.meaning}" if entry.meaning else ""
            unit = f" [{entry.unit}]" if entry.unit != "1" else ""
            index = f"{entry.index[0]}" if len(entry.index) == 1 else f"{entry.index[0]} to {entry.index[-1]}"
            ends = f"; the episode ends {_outside(*entry.terminates_outside)}" if entry.terminates_outside else ""
            usual = f"{short_number(low, decimals)} to {short_number(high, decimals)}"
            lines.append(f"{index} {entry.name}{unit}{meaning}{ends}; usual {usual}")
        is_discrete = self.trajectories.actions.ndim == 1
        lines.append(f"Action ({'one of' if is_discrete else 'index, name, unit, range: meaning'}):")
        if self.facts is None:
            size = self.trajectories.actions[0].size
            lines.append("a whole number" if is_discrete else f"{size} {'number' if size == 1 else 'numbers'}")
        for entry in self.facts.action if self.facts else []:
            unit = f" [{entry.unit}]" if entry.unit != "1" else ""
            bounds = "" if entry.low is None else f", {short_number(entry.low, 3)} to {short_number(entry.high or 0.0, 3)}"
            lines.append(f"{entry.index[0]} {entry.name}{unit}{bounds}: {entry.meaning}")
        return "\n".join([*lines, *self._how_to_read()])

    def _how_to_read(self) -> list[str]:
        names = ", ".join(self._usual.of[i].name for i in self._columns)
        shown = "the ball and the paddles as (x, y), v: velocities" if self._is_pong else names
        lines = [
            f"A line reads: step number: {shown} | action | reward of this step, return to come (the undiscounted sum of the "
            "rewards from this step to the end of the episode) | what is unusual."
        ]
        if self._is_pong:
            return [*lines, "Where the ball meets your paddle's column takes bounces off the walls into account."]
        if len(self._columns) < len(self._usual.of):
            lines.append("The other entries are named only where they are unusual.")
        if any(entry.terminates_outside for entry in self._entries):
            lines.append(
                "End bound: beyond it the episode ends. There in n steps: if the value goes on changing as in the last step."
            )
        return lines

    # ---------------------------------------------------------------------------------------------------------- episodes

    def episode(self, index: int, token_budget: int) -> str:
        """Writes an episode, a line a step; where the budget is too small for all, the steps that tell most.

        The first and the last step are always there, of a terminated episode the last three. Half of the budget is for steps
        in which a number changes that hardly ever does: what is carried, a door. The others come densely before its end and
        before rare rewards, and where much is unusual; what is left out is said.

        Args:
            index: of the episode
            token_budget: for the whole text, by ``characters_per_token``

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
            reward, later = short_number(rewards[i], self._reward_decimals), short_number(to_come[i], self._reward_decimals - 1)
            words = "; ".join(text for _, text in remarks[:MOST_REMARKS])
            lines.append(f"step {i}: {self._numbers(state)} | {action} | {reward}, {later}{f' | {words}' if words else ''}")
        terminated = bool(self.trajectories.terminations[index])
        final = self._vector(self.trajectories.final_observations[index])
        first = f"Episode {index}: {len(lines)} steps, return {short_number(to_come[0], self._reward_decimals - 1)}; "
        first += self._why_it_ended(final) if terminated else "it was truncated, not terminated."
        always = {0, *range(len(lines))[-3 if terminated else -1 :]}
        most = token_budget * self.characters_per_token

        def text(shares: int) -> str:
            body, before = [], -1
            for i in [*sorted(always | _pick(interest, shares)), len(lines)]:
                if i > before + 1:
                    body.append(_left_out(before + 1, i - 1, unusual, rewards, self._reward_decimals - 1))
                body += lines[i : i + 1]
                before = i
            return "\n".join([first, *body, f"after it: {self._numbers(final)}"])

        interest = np.zeros(len(lines))
        if len(text(0)) > most:
            needed = math.ceil(len(text(0)) / self.characters_per_token)
            raise ValueError(f"token_budget must be at least {needed} for episode {index}, got {token_budget!r}")
        if len(whole := text(-1)) <= most:
            return whole
        rarity = self._rarity[steps]
        for i in np.argsort(rarity, kind="stable")[: int((rarity < 1).sum())].tolist():
            if len(text(0)) > most / 2:
                break
            always |= {i}
        interest = self._interest(steps, unusual, terminated)
        interest[list(always)] = 0
        interest /= max(interest.sum(), 1e-12)
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
                    outside.append(f"{entry.name} {value:.3g}{unit_text(entry.unit)} is {_outside(low, high)}")
        return ": ".join(["it terminated", *(["; ".join(outside)] if outside else [])]) + "."

    def _remarks(self, state: Array, before: Array | None) -> list[Remark]:
        """What is unusual about a state, most unusual first."""
        return pong_remarks(state, before) if self._is_pong else self._usual.remarks(state, before)

    # ------------------------------------------------------------------------------------------------------------ numbers

    def _vector(self, observation: Array) -> Array:
        observation, shape = np.asarray(observation), self.trajectories.observations.shape[1:]
        if self._is_grid and observation.ndim == 1:  # its objects
            return observation.astype(np.float64)
        if observation.shape != shape:
            raise ValueError(f"an observation must have the shape {shape}, got {observation.shape}")
        if self._is_grid:
            return locate(observation[1], observation[0]).astype(np.float64)
        return observation.astype(np.float64)

    def _numbers(self, state: Array) -> str:
        if self._is_pong:
            in_play, x, y, vx, vy, own, own_v, opponent, opponent_v = (short_number(number, 1) for number in state)
            ball = f"ball ({x}, {y}) v ({vx}, {vy})" if in_play != "0" else "no ball"
            return f"{ball}, your paddle {own} v {own_v}, opponent's {opponent} v {opponent_v}"
        return " ".join(short_number(state[i], self._usual.decimals[i]) for i in self._columns)

    def _value(self, entry: ObservationEntry, state: Array) -> str:
        i = entry.index[0]
        if len(entry.index) > 1:
            block = state[entry.index]
            return f"{entry.name} from {short_number(block.min(), 2)} to {short_number(block.max(), 2)}{unit_text(entry.unit)}"
        low, high = (short_number(number, self._usual.decimals[i]) for number in (self._usual.low[i], self._usual.high[i]))
        usual = "" if self._usual.low[i] <= state[i] <= self._usual.high[i] else f" (usual {low} to {high})"
        return f"{entry.name} = {short_number(state[i], self._usual.decimals[i])}{unit_text(entry.unit)}{usual}"

    def _short_action(self, action: Any) -> str:
        if np.ndim(action) == 0:
            entry = self._action_entry(int(action))
            return f"{int(action)} {entry.name}" if entry else f"{int(action)}"
        return " ".join(short_number(value, self._action_decimals) for value in np.ravel(action))

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
    return f"({which} left out: {what}, reward {short_number(rewards[first : last + 1].sum(), decimals)} in all)"


def _outside(low: float, high: float) -> str:
    return f"below {low}" if high == math.inf else f"above {high}" if low == -math.inf else f"outside {low} to {high}"
