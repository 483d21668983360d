"""The control for code: other actions in the same states."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from cleanrl_scripts.ultra.permuted_actions import PermutedActions
from llmwrappers import CriticalFunction
from llmwrappers.errors import UserError

UNIT, RANGES, WHEEL = Box(-1.0, 1.0, (2,)), Box(np.float32([-1, 0]), np.float32([1, 100])), Box(-2.0, 2.0, (1,))


def moved(action, space, seed=0):
    function = CriticalFunction(f"def critical(obs):\n    return True, {action}, 0.5\n", space, is_trusted=True)
    control = PermutedActions.of(function, np.random.default_rng(seed))
    told, reward = control(np.zeros(3))
    assert reward == 0.5
    assert space.contains(told)
    return told


@pytest.mark.parametrize(
    ("space", "action"),
    [(UNIT, [1.0, -1.0]), (UNIT, [0.0, 0.0]), (UNIT, [0.9, 0.8]), (RANGES, [0.5, 90.0]), (RANGES, [0.0, 50.0]), (WHEEL, 0.0)],
)
@pytest.mark.parametrize("seed", range(3))
def test_each_component_moves_by_a_quarter_of_its_range(space, action, seed):
    """Before, [a, -a] and a zero stayed as they were, and ranges that differ gave one and the same action."""
    distance = np.abs(moved(action, space, seed) - np.ravel(action)) / (space.high - space.low)
    assert distance.min() >= 0.249


def test_different_actions_have_different_controls():
    assert len({tuple(moved([a, b], RANGES)) for a, b in ((0.5, 90.0), (0.0, 50.0), (0.9, 60.0))}) == 3


def test_in_equal_ranges_components_are_permuted_and_mirrored():
    assert moved([0.9, 0.25], UNIT).tolist() == pytest.approx([-0.25, -0.9])


@pytest.mark.parametrize("action", range(4))
def test_each_discrete_action_has_another(action):
    assert moved(action + 2, Discrete(4, start=2)) != action + 2


def test_actions_without_bounds_are_refused():
    with pytest.raises(UserError, match=r"--arm random: .* bounded actions, got Box\("):
        moved([0.0], Box(0.0, np.inf, (1,)))
