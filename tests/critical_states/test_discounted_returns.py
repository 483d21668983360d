"""DiscountedReturns and difference: against direct formulas, scipy, and the error rate that is promised."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from llmwrappers.critical_states.discounted_returns import DiscountedReturns, difference, student_quantile


def filled(values, discount=1.0, forgets=None) -> DiscountedReturns:
    """Forgets so many times before each value is added: once each, unless told."""
    returns = DiscountedReturns(discount)
    for i, value in enumerate(values):
        for _ in range(forgets[i] if forgets else 1):
            returns.forget()
        returns.add(float(value))
    return returns


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.integers(0, 2)), min_size=2, max_size=30), st.floats(0.5, 1.0))
def test_the_recursion_is_the_weighted_sum(steps, discount):
    values, forgets = zip(*steps, strict=True)
    returns = filled(values, discount, forgets)
    weights = discount ** (sum(forgets) - np.cumsum(forgets))
    mean = np.average(values, weights=weights)
    squares = np.sum(weights * (values - mean) ** 2)
    assert returns.count == pytest.approx(weights.sum())
    assert returns.mean == pytest.approx(mean, abs=1e-6)
    assert returns.variance == pytest.approx(squares / (weights.sum() - np.sum(weights**2) / weights.sum()), abs=1e-4)


def test_numpys_numbers_are_taken_as_pythons():
    returns = DiscountedReturns()
    for value in np.random.default_rng(0).normal(1e4, 1.0, 100).astype(np.float32):
        returns.add(value)
    assert {type(value) for value in returns.state()} == {float}


def test_forgetting_makes_uncertain_and_leaves_the_mean():
    a, b = filled([1, 2, 3, 4, 5, 6], 0.9), filled([1, 2, 3, 4, 5, 6])
    _, low, high = difference(a, b, 0.05)
    mean = a.mean
    a.forget()
    assert a.mean == mean
    _, wider_low, wider_high = difference(a, b, 0.05)
    assert wider_low < low < high < wider_high


def test_the_interval_is_welchs():
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 3, 12), rng.normal(0, 1, 7)
    interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.99)
    assert difference(filled(a), filled(b), 0.01) == pytest.approx((a.mean() - b.mean(), *interval), rel=1e-3)


@pytest.mark.parametrize("freedom", [3.01, 4, 7.5, 30, 1000])
@pytest.mark.parametrize("two_tailed", [0.8, 0.05, 0.00002, 1e-9, 1e-20])
def test_students_quantile(two_tailed, freedom):
    assert student_quantile(two_tailed, freedom) == pytest.approx(stats.t.isf(two_tailed / 2, freedom), rel=5e-3)


def test_looking_again_and_again_at_nothing_errs_as_rarely_as_promised():
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(200):
        a, b = DiscountedReturns(), DiscountedReturns()
        for look in range(1, 60):
            a.add(rng.normal())
            b.add(rng.normal())
            _, low, high = difference(a, b, 0.05 / (look * (look + 1)))
            if low > 0 or high < 0:
                wrong += 1
                break
    assert wrong <= 0.05 * 200


def test_too_little_to_tell_is_an_infinite_interval():
    for a, b in (([], []), ([1.0], [2.0, 3.0]), ([1.0, 1.0], [2.0, 3.0])):
        assert difference(filled(a), filled(b), 0.05)[1:] == (-math.inf, math.inf)


def test_equal_returns_are_certain():
    assert difference(filled([3.0] * 5), filled([1.0] * 5), 0.05) == (2.0, 2.0, 2.0)


def test_state_goes_on():
    a = filled([1, 5, 2], 0.9)
    b = DiscountedReturns(0.9)
    b.load_state(a.state())
    for returns in (a, b):
        returns.forget()
        returns.add(4.0)
    assert (a.mean, a.variance, a.count) == (b.mean, b.variance, b.count)


@pytest.mark.parametrize("discount", [0.0, 1.1, math.nan])
def test_bad_discount(discount):
    with pytest.raises(ValueError, match="discount must lie in"):
        DiscountedReturns(discount)


def test_bad_input():
    with pytest.raises(ValueError, match="must be finite, got nan"):
        DiscountedReturns().add(math.nan)
    with pytest.raises(ValueError, match="error_rate"):
        difference(filled([1, 2]), filled([1, 2]), 0.0)
