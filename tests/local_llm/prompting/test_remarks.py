"""Tests of local_llm.prompting.remarks: what the sign of a value means, and where Pong's ball will be."""

import numpy as np
import pytest

from local_llm.prompting.remarks import direction, reflected


@pytest.mark.parametrize(
    ("meaning", "value", "said"),
    [
        ("positive leans forward (+x); 0 is upright", 0.1, "leans forward"),
        ("positive leans forward (+x); 0 is upright", -0.1, "leans back"),
        ("positive: falling towards +x", -1, "falling towards -x"),
        ("about pitch / 2 near upright; positive: nose down", -1, "nose up"),
        ("positive turns counterclockwise: it increases theta", -1, "turns clockwise"),
        ("negative swings the leg backwards; range -2.618 to 0", 1, "swings the leg forwards"),
        ("negative bends it and moves the foot backwards", 1, ""),
        ("negative: falling", 1, ""),
        ("positive straightens the knee", -1, ""),
        ("positive leans forward", 0, ""),
        ("clipped to [-10, 10]", 1, ""),
    ],
)
def test_the_meaning_of_a_sign_comes_from_the_facts(meaning, value, said):
    assert direction(meaning, value) == said


@pytest.mark.parametrize(
    ("y", "folded", "bounces"), [(40, 40, 0), (1, 1, 0), (0, 2, 1), (-10, 12, 1), (80, 78, 1), (100, 58, 1), (158, 2, 2)]
)
def test_the_ball_bounces_off_the_walls(y, folded, bounces):
    assert reflected(y) == (pytest.approx(folded), bounces)


def test_bounces_agree_with_a_ball_that_is_moved_in_small_steps():
    rng = np.random.default_rng(0)
    for y, velocity in zip(rng.uniform(1, 79, 20), rng.uniform(-8, 8, 20), strict=True):
        ball, small, turns = y, velocity / 1000, 0
        for _ in range(30_000):
            ball += small
            if not 1 <= ball <= 79:
                ball, small, turns = (2 - ball if ball < 1 else 158 - ball), -small, turns + 1
        assert reflected(y + 30 * velocity) == (pytest.approx(ball), turns)
