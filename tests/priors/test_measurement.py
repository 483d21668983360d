"""Making an environment to measure in: what cannot be made is said in a sentence."""

import gymnasium as gym
import pytest

from llmwrappers.priors.measurement import make


def broken():
    raise RuntimeError("no simulator")


gym.register("llmwrappers-tests/Broken-v0", entry_point=broken)


def test_an_environment_that_cannot_be_made_is_an_error_of_gymnasium():
    with pytest.raises(gym.error.Error, match=r"Broken-v0 cannot be made: RuntimeError: no simulator"):
        make("llmwrappers-tests/Broken-v0")


def test_an_unknown_id_hints_at_the_package():
    with pytest.raises(gym.error.NameNotFound, match=r"`Nowhere` doesn't exist.* module:Nowhere-v0\."):
        make("Nowhere-v0")
