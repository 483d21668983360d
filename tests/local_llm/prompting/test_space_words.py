"""Tests of local_llm.prompting.space_words: what a prompt says of every kind of space."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.wrappers import FlattenObservation, FrameStackObservation, NormalizeObservation

from local_llm.prompting.space_words import flattened_entries, observation_words


class Observing(gym.Env):
    """Observes a given space."""

    action_space = Discrete(2)

    def __init__(self, space):
        self.observation_space = space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}


INNER = Dict({"b": Discrete(3, start=1), "a": Dict({"z": MultiBinary(2), "y": Tuple((Box(0.0, 1.0, (1,)), Discrete(2)))})})


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (Box(-1.0, 1.0, (2,), np.float64), "numpy float64 array of shape (2,)"),
        (Discrete(3, start=1), "one integer from 1 to 3, as an array of shape ()"),
        (MultiDiscrete([3, 4]), "array of shape (2,), integers from 0 to [2, 3]"),
        (MultiBinary(3), "array of shape (3,) of 0 and 1"),
    ],
)
def test_what_an_observation_is(space, words):
    assert observation_words(Observing(space)) == words


def test_addresses_in_memory_are_left_out():
    class Odd(gym.Space):
        def __repr__(self):
            return f"Odd({object()})"

    assert observation_words(Observing(Odd())) == "Odd(<object object>)"
    assert "`obs['part']`: Odd(<object object>)" in observation_words(Observing(Dict(part=Odd())))


def test_text_is_said_to_be_of_no_use():
    words = observation_words(Observing(Dict(mission=Text(3), place=Discrete(2))))
    assert "`obs['mission']`: text, which no policy can read\n" in words


def test_the_layout_of_a_flattened_space_is_gymnasiums():
    env = FlattenObservation(Observing(INNER))
    entries = flattened_entries(env)
    assert [(name, start, end) for name, _, start, end in entries] == [
        ("a/y[0]", 0, 1),
        ("a/y[1]", 1, 3),
        ("a/z", 3, 5),
        ("b", 5, 8),
    ]
    observation = {"a": {"y": (np.array([0.5], np.float32), 1), "z": np.array([1, 0], np.int8)}, "b": 3}
    assert env.observation(observation).tolist() == [0.5, 0, 1, 1, 0, 0, 0, 1]


def test_the_layout_is_told_under_wrappers_that_leave_it():
    flat = FlattenObservation(Observing(INNER))
    assert len(flattened_entries(NormalizeObservation(flat))) == 4
    assert flattened_entries(FrameStackObservation(flat, 2)) == []
    assert flattened_entries(FlattenObservation(Observing(Box(0.0, 1.0, (4,))))) == []


@pytest.mark.parametrize(
    ("space", "row"),
    [
        (Box(0.0, 1.0, (2, 2)), "`obs[0:4]`: array of shape (2, 2), each entry in [0, 1], row by row"),
        (Discrete(3), "`obs[0:3]`: one-hot of 3 values, from 0"),
    ],
)
def test_what_has_no_keys_is_told_too(space, row):
    assert observation_words(FlattenObservation(Observing(space))).endswith(f":\n  - {row}")
