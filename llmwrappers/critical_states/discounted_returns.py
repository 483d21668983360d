"""DiscountedReturns: a mean in which old returns count less; difference: of two such means, with its interval."""

import math
from statistics import NormalDist


class DiscountedReturns:
    """Averages returns of a learner that changes: each new return has the weight 1, which every ``forget`` reduces.

    With ``discount`` gamma, a return after which ``forget`` was called n times has the weight ``w_i = gamma^n``:
    ``count = sum w_i``, ``mean = sum w_i x_i / count``, and ``variance`` is the unbiased one of these weights. Returns
    without a ``forget`` between them have the same weight; with one before each return the weights are those of discounted
    UCB (Garivier and Moulines, arXiv 0805.3415). What was not tried for a long time becomes uncertain again.

    Args:
        discount: in (0, 1]; 1 never forgets, 0.98 remembers the time of about the last 50 calls of ``forget``

    Raises:
        ValueError: ``discount`` outside (0, 1], or a return that is not finite

    Example:
        >>> returns = DiscountedReturns(discount=0.5)
        >>> for value in (0.0, 3.0):
        ...     returns.forget()
        ...     returns.add(value)
        >>> returns.mean, returns.count
        (2.0, 1.5)

    Change log:
        * v0.1.0 - added
    """

    def __init__(self, discount: float = 1.0):
        if not 0 < discount <= 1:
            raise ValueError(f"discount must lie in (0, 1], got {discount!r}")
        self.discount = discount
        self.count = self.mean = 0.0
        self._squared_weights = self._squares = 0.0

    def forget(self) -> None:
        """Reduces the weight of all returns so far by one step."""
        self.count *= self.discount
        self._squares *= self.discount
        self._squared_weights *= self.discount**2

    def add(self, value: float) -> None:
        """Adds a return."""
        if not math.isfinite(value):
            raise ValueError(f"a return must be finite, got {value!r}")
        value = float(value)  # NumPy's float32 would make all sums float32, and none of JSON's types
        self.count += 1.0
        self._squared_weights += 1.0
        difference = value - self.mean
        self.mean += difference / self.count
        self._squares += difference * (value - self.mean)

    @property
    def variance(self) -> float:
        """The variance of single returns; infinite if there are fewer than two."""
        freedom = self.count - self._squared_weights / self.count if self.count > 0 else 0.0
        return self._squares / freedom if freedom > 1e-9 else math.inf

    def state(self) -> list[float]:
        """Returns what a checkpoint keeps."""
        return [self.count, self.mean, self._squared_weights, self._squares]

    def load_state(self, state: list[float]) -> None:
        """Restores what ``state`` returned."""
        self.count, self.mean, self._squared_weights, self._squares = state


def difference(a: DiscountedReturns, b: DiscountedReturns, error_rate: float) -> tuple[float, float, float]:
    """Returns ``a.mean - b.mean`` and the ends of its interval, which misses the truth with probability ``error_rate``.

    It is Welch's t interval, with the discounted counts as numbers of observations; infinite if these leave no more than 2
    degrees of freedom. It holds for one look. For several looks, divide the error among them: with
    ``error_rate = alpha / (k (k + 1))`` at the k-th look, all intervals together miss with probability ``alpha`` at most.

    Example:
        >>> a, b = DiscountedReturns(), DiscountedReturns()
        >>> for value in range(10):
        ...     a.add(value + 20.0)
        ...     b.add(value)
        >>> [round(x, 1) for x in difference(a, b, error_rate=0.05)]
        [20.0, 17.2, 22.8]
    """
    if not 0 < error_rate < 1:
        raise ValueError(f"error_rate must lie in (0, 1), got {error_rate!r}")
    estimate = a.mean - b.mean
    if min(a.count, b.count) <= 1 or not math.isfinite(a.variance + b.variance):
        return estimate, -math.inf, math.inf
    parts = [(returns.variance / returns.count, returns.count - 1) for returns in (a, b)]
    squared_error = sum(part for part, _ in parts)
    squares = sum(part**2 / n for part, n in parts)
    freedom = squared_error**2 / squares if squares > 0 else sum(n for _, n in parts)
    if freedom <= 2:
        return estimate, -math.inf, math.inf
    margin = student_quantile(error_rate, freedom) * math.sqrt(squared_error)
    return estimate, estimate - margin, estimate + margin


def student_quantile(two_tailed: float, freedom: float) -> float:
    """What the magnitude of Student's t exceeds with this probability, for more than 2 degrees of freedom.

    Source: Hill, "Algorithm 396", Communications of the ACM 13, 1970.

    Example:
        >>> round(student_quantile(0.05, 10), 3)
        2.228
    """
    a = 1 / (freedom - 0.5)
    b = 48 / a**2
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * math.sqrt(a * math.pi / 2) * freedom
    y = (d * two_tailed) ** (2 / freedom)
    if y > 0.05 + a:
        x = -NormalDist().inv_cdf(two_tailed / 2)
        y = x * x
        if freedom < 5:
            c += 0.3 * (freedom - 4.5) * (x + 0.6)
        c += (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = math.expm1(a * y * y)
    else:
        y = ((1 / (((freedom + 6) / (freedom * y) - 0.089 * d - 0.822) * (freedom + 2) * 3) + 0.5 / (freedom + 4)) * y - 1) * (
            freedom + 1
        ) / (freedom + 2) + 1 / y
    return math.sqrt(freedom * y)
