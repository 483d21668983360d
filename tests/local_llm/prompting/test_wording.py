"""Tests of local_llm.prompting.wording: numbers are as short as they can be."""

import pytest

from local_llm.prompting.wording import decimals_of, short_number


@pytest.mark.parametrize(
    ("value", "decimals", "text"), [(-0.001, 2, "0"), (1.5, 3, "1.5"), (100.0, 0, "100"), (-2.04, 1, "-2"), (0.25, 2, "0.25")]
)
def test_numbers_are_short(value, decimals, text):
    assert short_number(value, decimals) == text


def test_decimals_tell_a_twentieth_of_the_range_apart():
    for width in (0.003, 0.01, 0.05, 0.4, 1, 3, 12, 80):
        assert 10.0 ** -decimals_of(width) <= max(width / 10, 10.0**-4)
    assert decimals_of(1000) == 0
    assert decimals_of(0) == 2
