"""Whether some returns exceed others by more than chance explains: two tests, because two kinds of samples are compared."""

import math
import warnings
from collections.abc import Sequence

import numpy as np


def exceeds_by_student(returns: Sequence[float], others: Sequence[float]) -> bool:
    """Whether the mean of some returns is above that of others: Student's test, one-sided, at 5 %.

    For an audition: doing nothing may have played one episode, whose spread only a variance shared by both samples tells, and
    Welch's needs two of each. Committed training curves depend on what this test decided.

    Example:
        >>> exceeds_by_student([6.0, 7.0], [1.0, 2.0]), exceeds_by_student([5.0, 7.0], [1.0, 5.0])
        (True, False)
        >>> exceeds_by_student([6.0, 6.1], [1.0])
        True
    """
    import scipy.stats  # here, for the wrappers need it not

    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # a policy may return the same every time
        p_value = float(np.asarray(scipy.stats.ttest_ind(returns, others, alternative="greater"))[1])
    return float(np.mean(returns)) > float(np.mean(others)) if math.isnan(p_value) else p_value < 0.05


def exceeds_by_welch(values: Sequence[float], others: Sequence[float]) -> bool:
    """Whether the mean of some values is above that of others by more than twice the difference's standard error (Welch).

    For a choice among candidates: three runs with a prior stand against up to six without, and spread otherwise. Where the
    three spread three times as far and no mean is higher, Student's test finds one in 12 of 100 choices, this one in 8.

    Example:
        >>> exceeds_by_welch([5.0, 7.0], [1.0, 2.0]), exceeds_by_welch([5.0, 7.0], [1.0, 5.0])
        (True, False)
    """
    a, b = np.array(values), np.array(others)
    standard_error = math.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    return bool(a.mean() - b.mean() > 2 * standard_error)
