"""The interval arithmetic, as properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmwrappers import interval_around, to_native, to_normalized

quick = settings(deadline=None, max_examples=60, derandomize=True, database=None)

DTYPES = (np.float32, np.float64)
units = st.floats(-1.0, 1.0, width=32)
anything = st.floats(-1e6, 1e6, width=32)


@st.composite
def intervals(draw, min_width=0.0):
    """Two arrays of three numbers, low <= high, of one dtype."""
    dtype = draw(st.sampled_from(DTYPES))
    low = np.array(draw(st.lists(st.floats(-1e3, 1e3, width=32), min_size=3, max_size=3)), dtype=dtype)
    width = draw(st.lists(st.floats(min_width, 1e3), min_size=3, max_size=3))
    return low, low + np.array(width, dtype=dtype)


def triples(elements):
    return st.lists(elements, min_size=3, max_size=3).map(lambda values: np.array(values, dtype=np.float32))


@quick
@given(intervals(), triples(anything))
def test_native_actions_lie_in_the_interval(interval, action):
    low, high = interval
    native = to_native(action, low, high)
    assert (low <= native).all()
    assert (native <= high).all()


@quick
@given(intervals(), triples(anything))
def test_normalized_actions_lie_in_the_unit_interval(interval, action):
    assert (np.abs(to_normalized(action, *interval)) <= 1).all()


@quick
@given(intervals(min_width=0.5), triples(units))
def test_round_trips(interval, action):
    low, high = interval
    scale = np.abs(interval).max() / (high - low).min()
    np.testing.assert_allclose(to_normalized(to_native(action, low, high), low, high), action, atol=1e-6 * (1 + scale))
    native = to_native(action, low, high)
    again = to_native(to_normalized(native, low, high), low, high)
    np.testing.assert_allclose(again, native, atol=1e-5 * np.abs(interval).max())


@quick
@given(intervals())
def test_the_ends_and_the_middle(interval):
    low, high = interval
    tolerance = {"rtol": 0, "atol": 1e-6 * np.abs(interval).max()}
    np.testing.assert_allclose(to_native(-np.ones_like(low), low, high), low, **tolerance)
    np.testing.assert_allclose(to_native(np.zeros_like(low), low, high), (low + high) / 2, **tolerance)
    np.testing.assert_allclose(to_native(np.ones_like(low), low, high), high, **tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@quick
@given(actions=triples(units))
def test_on_the_unit_interval_the_maps_are_the_identity_to_the_last_bit(dtype, actions):
    one, actions = np.ones(3, dtype=dtype), actions.astype(dtype)
    np.testing.assert_array_equal(to_native(actions, -one, one), actions)
    np.testing.assert_array_equal(to_normalized(actions, -one, one), actions)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_dtype_is_preserved(dtype):
    low, high = np.array([-2.0, 0.0], dtype=dtype), np.array([4.0, 1.0], dtype=dtype)
    action = np.array([0.5, -0.5], dtype=dtype)
    arrays = [to_native(action, low, high), to_normalized(action, low, high), *interval_around(action, 0.3 * high, low, high)]
    assert [array.dtype for array in arrays] == [dtype] * 4


def test_an_interval_of_no_width_is_a_point():
    point = np.array([0.7], dtype=np.float32)
    assert to_native(np.array([-0.4]), point, point) == point
    assert to_normalized(np.array([0.9]), point, point) == 0


@pytest.mark.parametrize("batch", [(), (4,), (4, 2)])
def test_batches_broadcast_row_by_row(batch):
    rng = np.random.default_rng(0)
    low, high = np.array([-1.0, 0.0, 5.0]), np.array([1.0, 3.0, 6.0])
    actions = rng.uniform(-1, 1, (*batch, 3))
    lows, highs = np.broadcast_to(low, actions.shape), np.broadcast_to(high, actions.shape)
    for function in (to_native, to_normalized):
        together = function(actions, low, high)
        assert together.shape == actions.shape
        np.testing.assert_array_equal(together, function(actions, lows, highs))
        for index in np.ndindex(batch):
            np.testing.assert_array_equal(together[index], function(actions[index], low, high))
    # One action, many intervals: what a critic does with the stored bounds of a batch.
    one = rng.uniform(-1, 1, 3)
    np.testing.assert_array_equal(to_native(one, lows, highs), to_native(np.broadcast_to(one, lows.shape), lows, highs))


def test_arguments_are_left_alone():
    action, low, high = np.array([0.3]), np.array([-2.0]), np.array([5.0])
    to_native(action, low, high), to_normalized(action, low, high), interval_around(action, high, low, high)
    assert (action, low, high) == (0.3, -2.0, 5.0)


@quick
@given(intervals(), triples(anything), st.floats(0.001, 2.0))
def test_an_interval_around_lies_inside_and_holds_the_clipped_center(interval, center, radius):
    low, high = interval
    lower, upper = interval_around(center, radius * (high - low) / 2, low, high)
    clipped = np.clip(center, low, high)
    for smaller, larger in [(low, lower), (lower, clipped), (clipped, upper), (upper, high)]:
        assert (smaller <= larger).all()


@quick
@given(intervals(), triples(anything))
def test_radius_2_is_the_whole_space_around_any_center(interval, center):
    low, high = interval
    lower, upper = interval_around(center.astype(low.dtype), 2 * 0.5 * (high - low), low, high)
    tolerance = {"rtol": 0, "atol": np.finfo(low.dtype).eps * np.abs(interval).max()}
    np.testing.assert_allclose(lower, low, **tolerance)
    np.testing.assert_allclose(upper, high, **tolerance)


@quick
@given(intervals(), triples(anything), st.floats(0.001, 2.0))
def test_a_center_outside_is_clipped_first(interval, center, radius):
    low, high = interval
    radius = (radius * (high - low) / 2).astype(low.dtype)
    clipped = np.clip(center, low, high).astype(low.dtype)
    np.testing.assert_array_equal(interval_around(center, radius, low, high), interval_around(clipped, radius, low, high))
