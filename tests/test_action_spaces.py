"""require_action_space: the way out that it names works."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from llmwrappers.action_spaces import require_action_space


@pytest.mark.parametrize(
    ("space", "way_out"),
    [
        (MultiDiscrete([3, 2]), "Discrete(6), which numbers the combinations: lambda i: np.array(np.unravel_index(i, (3, 2)))"),
        (
            MultiDiscrete([[2, 2], [2, 3]], np.int8),
            "Discrete(24), which numbers the combinations: "
            "lambda i: np.array(np.unravel_index(i, (2, 2, 2, 3)), np.int8).reshape(2, 2)",
        ),
        (
            MultiBinary(3),
            "Discrete(8), which numbers the combinations: lambda i: np.array(np.unravel_index(i, (2, 2, 2)), np.int8)",
        ),
        (MultiBinary((1, 3)), "combinations: lambda i: np.array(np.unravel_index(i, (2, 2, 2)), np.int8).reshape(1, 3)"),
        (MultiBinary(80), "Discrete(n), which numbers the actions to choose among"),
        (MultiDiscrete([3], start=[1]), "Discrete(n), which numbers the actions to choose among"),
        (
            Tuple((Discrete(5), Discrete(5))),
            "which numbers the actions to choose among, or a Box of floats that holds the parts one after the other",
        ),
        (Dict(a=Box(0, 1)), "or a Box of floats that holds the parts one after the other"),
        (
            Box(0, 9, (2,), np.int64),
            "a Box of floats with finite bounds, which are rounded: lambda action: np.rint(action).astype(np.int64)",
        ),
        (Box(0, np.inf, (2,)), "a Box of floats with finite bounds"),
    ],
)
def test_an_action_space_that_no_policy_serves_has_a_way_out(space, way_out):
    with pytest.raises(ValueError) as error:
        require_action_space(space)
    message = str(error.value)
    assert message.startswith("needs a Discrete action space or a Box of floats with finite bounds, got ")
    assert message.endswith(way_out)
    if "lambda" in way_out:  # it works
        function = eval(way_out.partition(": ")[2], {"np": np})
        for i in range(6):
            assert function(np.float32([i, i]) if isinstance(space, Box) else i) in space
