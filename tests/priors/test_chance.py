"""llmwrappers/priors/chance.py: how often each test finds what is not there, and where it draws the line."""

import numpy as np
import pytest

from llmwrappers.priors.chance import exceeds_by_student, exceeds_by_welch


def test_more_than_chance_is_one_time_in_twenty_by_chance():
    rng = np.random.default_rng(0)
    assert np.mean([exceeds_by_student(*rng.normal(size=(2, 3))) for _ in range(1000)]) == pytest.approx(0.05, abs=0.02)


def test_what_exceeds_by_more_than_twice_the_standard_error():
    """The difference is 4 and its standard error the root of 2/2 + s^2/2, in all 2 at s^2 = 6."""
    assert exceeds_by_welch([5.0 - 1, 5.0 + 1], [1.0 - 1.7, 1.0 + 1.7])
    assert not exceeds_by_welch([5.0 - 1, 5.0 + 1], [1.0 - 1.8, 1.0 + 1.8])
    assert exceeds_by_welch([2.0, 2.0], [1.0, 1.0, 1.0])
    assert not exceeds_by_welch([1.0, 1.0], [1.0, 1.0, 1.0])


def test_where_the_fewer_spread_more_welch_errs_less_often():
    """The reason why there are two."""
    rng = np.random.default_rng(0)
    samples = [(rng.normal(0.0, 3.0, 3), rng.normal(0.0, 1.0, 6)) for _ in range(2000)]
    student, welch = (np.mean([test(*pair) for pair in samples]) for test in (exceeds_by_student, exceeds_by_welch))
    assert student == pytest.approx(0.125, abs=0.02)
    assert welch == pytest.approx(0.08, abs=0.02)
