"""EntryWorth: what each entry of a guidance is worth; it disables the entries that do harm."""

import math
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from llmwrappers.critical_states.discounted_returns import DiscountedReturns, difference

# Fewer episodes of a kind may be alike by chance, and then the interval is too narrow.
FEWEST_EPISODES = 10
# All tests share the error, so many tests make every interval wide, and a quarter more episodes narrow it only by a tenth.
GROWTH = 1.25


@dataclass
class _Entry:
    """The advantages, by episode, when an entry's action was played and when it was withheld, and the result of the tests."""

    played: DiscountedReturns
    withheld: DiscountedReturns
    played_count: int = 0
    withheld_count: int = 0
    tests: int = 0
    tested_count: int = 0
    interval: tuple[float, float, float] = (math.nan, -math.inf, math.inf)
    is_disabled: bool = False

    def test(self, error_rate: float) -> None:
        """Updates the interval if there are enough new episodes; all tests together err with probability ``error_rate``."""
        fewest = min(self.played_count, self.withheld_count)
        if fewest < GROWTH * self.tested_count or min(self.played.count, self.withheld.count) < FEWEST_EPISODES:
            return
        self.tests += 1
        self.tested_count = fewest
        self.interval = difference(self.played, self.withheld, error_rate / (self.tests * (self.tests + 1)))
        self.is_disabled = self.interval[2] < 0


class EntryWorth:
    """Estimates the worth of each entry of the guidance, and disables those that are significantly harmful.

    When an entry matches, a random draw decides whether its action is played or withheld (LLMActionOverride's
    ``control_probability``), so the two kinds of steps differ in the action alone. The advantages of these steps are computed
    from the environment's own reward; those of one episode and kind are averaged first::

        worth(entry) = mean(advantage | played) - mean(advantage | withheld)        in units of the return

    with Welch's interval (see ``discounted_returns.difference``). An entry is disabled for good at the first test in which
    its interval lies below 0. The error is divided among entries and tests, ``error_rate / (n_entries k (k + 1))`` at an
    entry's k-th test. So with probability 1 - ``error_rate`` no harmless entry is ever disabled, if episodes are independent
    and mean advantages normal. If a very low advantage is rare (a fall in one episode of twenty), the withheld episodes, which
    are fewer, may not include one yet. Then harmless entries are disabled more often; a larger ``control_probability`` helps.

    A look tests an entry only if the smaller of its two numbers of episodes has grown by a quarter since its last test. So
    there are about ten tests while that number grows tenfold, however often one looks. Each of these few tests has a larger
    share of the error, and so a narrower interval. The wait costs at most a quarter more episodes. The first test needs 10
    episodes of each kind.

    Args:
        n_entries: number of entries of the guidance
        error_rate: in (0, 1), for all entries and tests together
        discount: in (0, 1], the factor by which each ``look()`` lowers the weight of older records, because the agent changes;
            1 never forgets, 0.999 remembers about the last 1000 looks. An entry that matches a few times between looks and has
            little effect needs hundreds of looks; a smaller discount forgets it before that

    Raises:
        ValueError: ``n_entries`` is not a positive whole number, or ``error_rate`` or ``discount`` is out of range

    Example:
        >>> import random
        >>> coin, worth = random.Random(0), EntryWorth(n_entries=2)
        >>> for _ in range(400):
        ...     played = coin.random() < 0.75
        ...     worth.record(0, played, coin.gauss(1.0 if played else 0.0, 1.0))
        ...     worth.record(1, played, coin.gauss(-1.0 if played else 0.0, 1.0))
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

    def record(self, entry: int, played: bool, advantage: float) -> None:
        """Records the mean advantage of an episode's steps in which an entry was played, or was withheld.

        Args:
            entry: the entry's number, from 0
            played: whether the entry's action was played
            advantage: the mean over these steps of this episode, in units of the return

        Raises:
            ValueError: there is no such entry, or the advantage is not finite
        """
        if not 0 <= entry < len(self._entries):
            raise ValueError(f"entry must lie in [0, {len(self._entries)}), got {entry!r}")
        met = self._entries[entry]
        if played:
            met.played.add(advantage)
            met.played_count += 1
        else:
            met.withheld.add(advantage)
            met.withheld_count += 1

    def look(self) -> list[int]:
        """Tests the entries and returns those that it disables; call it from time to time, as after each rollout."""
        newly = []
        for index, entry in enumerate(self._entries):
            if entry.is_disabled:
                continue
            entry.test(self.error_rate / len(self._entries))
            if entry.is_disabled:
                newly.append(index)
            # Once per look: between two looks the agent is the same, so its episodes have the same weight.
            entry.played.forget()
            entry.withheld.forget()
        return newly

    @property
    def disabled(self) -> list[int]:
        """The entries that are disabled."""
        return [index for index, entry in enumerate(self._entries) if entry.is_disabled]

    @property
    def helped(self) -> list[int]:
        """The entries that surely helped: the interval of their last test lies above 0."""
        return [index for index, entry in enumerate(self._entries) if entry.interval[1] > 0]

    @property
    def estimates(self) -> list[float]:
        """What each entry is worth so far, without an interval; NaN for one that was never played, or never withheld."""
        return [e.played.mean - e.withheld.mean if e.played.count and e.withheld.count else math.nan for e in self._entries]

    @property
    def advantage(self) -> float:
        """The mean worth of the entries that are not disabled, weighted by episodes; NaN if nothing can be compared."""
        compared = [e for e in self._entries if not e.is_disabled and e.played.count > 0 and e.withheld.count > 0]
        if not compared:
            return math.nan
        weights = [entry.played.count + entry.withheld.count for entry in compared]
        return fmean((entry.played.mean - entry.withheld.mean for entry in compared), weights)

    def table(self) -> list[dict[str, Any]]:
        """Returns a dict of JSON types for each entry: its episodes so far, and its worth with the interval of its last test.

        ``low`` and ``high`` are None for an entry with too few episodes; before its first test ``advantage`` is None, too.
        """
        rows = []
        for index, entry in enumerate(self._entries):
            advantage, low, high = (number if math.isfinite(number) else None for number in entry.interval)
            counts = {"played": entry.played_count, "withheld": entry.withheld_count}
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
        """Returns what a checkpoint keeps."""
        return [
            [
                e.played.state(),
                e.withheld.state(),
                e.played_count,
                e.withheld_count,
                e.tests,
                e.tested_count,
                e.interval,
                e.is_disabled,
            ]
            for e in self._entries
        ]

    def load_state(self, state: list[list[Any]]) -> None:
        """Restores what ``state`` returned."""
        for e, kept in zip(self._entries, state, strict=True):
            played, withheld, e.played_count, e.withheld_count, e.tests, e.tested_count, interval, e.is_disabled = kept
            e.played.load_state(played)
            e.withheld.load_state(withheld)
            e.interval = tuple(interval)
