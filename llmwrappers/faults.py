"""Faults: how often code that an LLM wrote has failed, and whether it is called any more."""

import warnings
from typing import NamedTuple

MAX_IN_A_ROW = 10


class FaultCounts(NamedTuple):
    """The number of all faults, and of those in a row."""

    total: int = 0
    in_a_row: int = 0


class Faults:
    """Counts failures, keeps and warns of the first one and, after ten in a row, that there will be no more calls.

    Args:
        who: the class that runs the code; a warning begins with it
        then: what happens after a failure, and where further faults are counted
        at_last: what happens after ten in a row

    Example:
        >>> faults = Faults("LLMActionMask: the prior", "the whole action space is allowed", "the mask stays off")
        >>> faults.total, faults.in_a_row, faults.is_too_many
        (0, 0, False)
    """

    def __init__(self, who: str, then: str, at_last: str):
        self.who, self.then, self.at_last = who, then, at_last
        self.total = self.in_a_row = 0
        self.first = ""

    @property
    def is_too_many(self) -> bool:
        """Whether there were ten in a row."""
        return self.in_a_row >= MAX_IN_A_ROW

    @property
    def counts(self) -> FaultCounts:
        """The number of all faults and of those in a row; a resumed run sets them."""
        return FaultCounts(self.total, self.in_a_row)

    @counts.setter
    def counts(self, counts: FaultCounts):
        self.total, self.in_a_row = counts.total, counts.in_a_row

    def add(self, reason: str, stacklevel: int) -> None:
        """Counts a fault; ``stacklevel`` is that of warnings.warn, seen from the caller."""
        self.total += 1
        self.in_a_row += 1
        if self.total == 1:
            self.first = reason
            warnings.warn(f"{self.who} failed ({reason}); {self.then}", stacklevel=stacklevel + 1)
        if self.in_a_row == MAX_IN_A_ROW:
            warnings.warn(f"{self.who} failed {MAX_IN_A_ROW} times in a row; {self.at_last}.", stacklevel=stacklevel + 1)

    def end_row(self) -> None:
        """Records a call without a fault."""
        self.in_a_row = 0
