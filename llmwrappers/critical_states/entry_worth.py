"""EntryWorth: what each entry of a table of critical states is worth, and which of them are disabled because they do harm."""

import math
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from llmwrappers.critical_states.discounted_returns import DiscountedReturns, difference

# Fewer episodes of a kind may be alike by chance, and an interval of their spread would be too narrow.
FEWEST_EPISODES = 10
# Tests share the error, so that many of them make every interval wide; and a quarter more episodes narrow it by a tenth only.
GROWTH = 1.25


@dataclass
class _Entry:
    """Each episode's advantage where an entry's action was played, that where it was withheld, and the verdict."""

    fired: DiscountedReturns
    withheld: DiscountedReturns
    fired_count: int = 0
    withheld_count: int = 0
    tests: int = 0
    tested_count: int = 0
    interval: tuple[float, float, float] = (math.nan, -math.inf, math.inf)
    is_disabled: bool = False

    def test(self, error_rate: float) -> None:
        """Renews the interval if there is enough that is new; the tests of all times miss with ``error_rate`` at most."""
        fewest = min(self.fired_count, self.withheld_count)
        if fewest < GROWTH * self.tested_count or min(self.fired.count, self.withheld.count) < FEWEST_EPISODES:
            return
        self.tests += 1
        self.tested_count = fewest
        self.interval = difference(self.fired, self.withheld, error_rate / (self.tests * (self.tests + 1)))
        self.is_disabled = self.interval[2] < 0


class EntryWorth:
    """Estimates what each entry of a table is worth, and disables those that surely do harm.

    Where an entry matches, a coin decides whether its action is played (LLMActionOverride's ``control_probability``), so that
    nothing but the action tells the two kinds of steps apart. With the advantages of these steps, estimated from the
    environment's own reward, and an episode's steps of a kind taken together as one mean::

        worth(entry) = mean(advantage | fired) - mean(advantage | withheld)

    with Welch's interval (see ``discounted_returns.difference``). An entry is disabled, for good, at the first test at which
    its interval lies wholly below 0. The error is divided among entries and tests, ``error_rate / (n_entries k (k + 1))`` at an
    entry's k-th test, so that with probability 1 - ``error_rate`` no entry that does no harm is disabled at any time, as far
    as episodes are independent and means of advantages normal. Where an advantage is rare and far below the rest (a fall in one
    episode of twenty), the fewer withheld ones may not have seen it yet, and harmless entries are disabled more often, the
    more so the less is withheld.

    A look tests an entry only if the smaller of its two numbers of episodes has grown by a quarter since its last test. So
    there are about ten tests for every tenfold of episodes, however often one looks, and each may err more often than a test
    of every look could: the intervals are narrower. To wait costs at most a quarter more episodes. The first test takes 10 of
    each kind.

    Args:
        n_entries: of the table
        error_rate: in (0, 1), for all entries and tests together
        discount: in (0, 1], how much what was recorded before a look counts after it, because the agent changes; 1 never
            forgets, 0.999 remembers about the last 1000 looks. An entry met a few times between looks, that does little, takes
            hundreds of them to judge: who forgets faster never knows

    Raises:
        ValueError: ``n_entries`` that is no positive number, ``error_rate`` or ``discount`` out of range

    Example:
        >>> import random
        >>> coin, worth = random.Random(0), EntryWorth(n_entries=2)
        >>> for _ in range(400):
        ...     fired = coin.random() < 0.75
        ...     worth.record(0, fired, coin.gauss(1.0 if fired else 0.0, 1.0))
        ...     worth.record(1, fired, coin.gauss(-1.0 if fired else 0.0, 1.0))
        >>> worth.look(), worth.disabled
        ([1], [1])
        >>> print(worth)
        of 2 entries 1 cost return and got disabled: 1; 1 surely helped: 0; 0 met too rarely, or doing too little, to tell

    Change log:
        * v0.1.0 - added
    """

    def __init__(self, n_entries: int, error_rate: float = 0.05, discount: float = 0.999):
        if isinstance(n_entries, bool) or not isinstance(n_entries, int) or n_entries < 1:
            raise ValueError(f"n_entries must be a whole number of at least 1, got {n_entries!r}")
        if not 0 < error_rate < 1:
            raise ValueError(f"error_rate must lie in (0, 1), got {error_rate!r}")
        self.error_rate = error_rate
        self._entries = [_Entry(DiscountedReturns(discount), DiscountedReturns(discount)) for _ in range(n_entries)]

    def record(self, entry: int, fired: bool, advantage: float) -> None:
        """Takes in the mean advantage of an episode's steps on which an entry matched and was played, or was withheld.

        Raises:
            ValueError: no such entry, or an advantage that is not finite
        """
        if not 0 <= entry < len(self._entries):
            raise ValueError(f"entry must lie in [0, {len(self._entries)}), got {entry!r}")
        met = self._entries[entry]
        if fired:
            met.fired.add(advantage)
            met.fired_count += 1
        else:
            met.withheld.add(advantage)
            met.withheld_count += 1

    def look(self) -> list[int]:
        """Returns the entries that are disabled now; to be called now and then, as after each rollout."""
        newly = []
        for index, entry in enumerate(self._entries):
            if entry.is_disabled:
                continue
            entry.test(self.error_rate / len(self._entries))
            if entry.is_disabled:
                newly.append(index)
            # Once a look: what comes between two looks is from one agent, and counts alike.
            entry.fired.forget()
            entry.withheld.forget()
        return newly

    @property
    def disabled(self) -> list[int]:
        """The entries that are disabled."""
        return [index for index, entry in enumerate(self._entries) if entry.is_disabled]

    @property
    def helped(self) -> list[int]:
        """The entries that surely helped: at their last test the interval lay wholly above 0."""
        return [index for index, entry in enumerate(self._entries) if entry.interval[1] > 0]

    @property
    def estimates(self) -> list[float]:
        """What each entry is worth so far, without an interval; NaN for one that has not been played both ways."""
        return [e.fired.mean - e.withheld.mean if e.fired.count and e.withheld.count else math.nan for e in self._entries]

    @property
    def advantage(self) -> float:
        """What the entries that speak are worth together, each weighed by its episodes; NaN where nothing can be compared."""
        compared = [e for e in self._entries if not e.is_disabled and e.fired.count > 0 and e.withheld.count > 0]
        if not compared:
            return math.nan
        weights = [entry.fired.count + entry.withheld.count for entry in compared]
        return fmean((entry.fired.mean - entry.withheld.mean for entry in compared), weights)

    def table(self) -> list[dict[str, Any]]:
        """Returns a dict of JSON types for each entry: its episodes so far, and its worth with the interval at its last test.

        ``low`` and ``high`` are None for an entry met too rarely for an interval, ``advantage`` too for one not yet tested.
        """
        rows = []
        for index, entry in enumerate(self._entries):
            advantage, low, high = (number if math.isfinite(number) else None for number in entry.interval)
            counts = {"fired": entry.fired_count, "withheld": entry.withheld_count}
            rows.append(
                {"entry": index, **counts, "advantage": advantage, "low": low, "high": high, "disabled": entry.is_disabled}
            )
        return rows

    def __str__(self) -> str:
        parts = []
        for entries, what in ((self.disabled, "cost return and got disabled"), (self.helped, "surely helped")):
            parts.append(f"{len(entries)} {what}{': ' if entries else ''}{', '.join(map(str, entries))}")
        unclear = len(self._entries) - len(self.disabled) - len(self.helped)
        return f"of {len(self._entries)} entries {'; '.join(parts)}; {unclear} met too rarely, or doing too little, to tell"

    def state(self) -> list[list[Any]]:
        """Returns what a checkpoint keeps, in JSON types."""
        return [
            [
                e.fired.state(),
                e.withheld.state(),
                e.fired_count,
                e.withheld_count,
                e.tests,
                e.tested_count,
                e.interval,
                e.is_disabled,
            ]
            for e in self._entries
        ]

    def load_state(self, state: list[list[Any]]) -> None:
        """Goes on from what ``state`` returned."""
        for e, kept in zip(self._entries, state, strict=True):
            fired, withheld, e.fired_count, e.withheld_count, e.tests, e.tested_count, interval, e.is_disabled = kept
            e.fired.load_state(fired)
            e.withheld.load_state(withheld)
            e.interval = tuple(interval)
