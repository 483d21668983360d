"""Making an environment: what cannot be made is said in a sentence."""

import sys

import gymnasium as gym
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Text
from gymnasium.wrappers import FilterObservation

from llmwrappers.making import make, without_text


def broken():
    raise RuntimeError("no simulator")


gym.register("llmwrappers-tests/Broken-v0", entry_point=broken)


def test_an_environment_that_cannot_be_made_is_an_error_of_gymnasium():
    with pytest.raises(gym.error.Error, match=r"Broken-v0 cannot be made: RuntimeError: no simulator"):
        make("llmwrappers-tests/Broken-v0")


def test_an_unknown_id_hints_at_the_package():
    with pytest.raises(gym.error.UnregisteredEnv, match=r"no environment is called Nowhere-v0; .* module:Nowhere-v0$"):
        make("Nowhere-v0")


def test_what_a_new_mujoco_breaks_names_the_version_that_runs_it(monkeypatch):
    def broken():
        raise AttributeError("'mujoco._structs.MjModel' object has no attribute 'geom_bvhadr'")

    gym.register("llmwrappers-tests/OfMujoco-v0", entry_point=broken)
    monkeypatch.setitem(sys.modules, "mujoco", object())
    for version in ("4.0.0", "3.17.0"):
        monkeypatch.setattr("importlib.metadata.version", lambda name, version=version: version)
        with pytest.raises(gym.error.Error, match=rf"has no attribute.*MuJoCo {version} breaks.*pip install 'mujoco<3.9'"):
            make("llmwrappers-tests/OfMujoco-v0")
    monkeypatch.setattr("importlib.metadata.version", lambda name: "3.8.1")
    with pytest.raises(gym.error.Error) as error:
        make("llmwrappers-tests/OfMujoco-v0")
    assert "pip" not in str(error.value)


class Told(gym.Env):
    """An environment that says in words what is to be done, as MiniGrid's do."""

    observation_space = Dict(mission=Text(9), place=Box(0, 1, (2,)), room=Discrete(3))
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}


class TestWithoutText:
    def test_text_is_left_out_and_named(self):
        with pytest.warns(UserWarning, match="text is left out of the observation: mission$"):
            env = without_text(Told())
        assert list(env.observation_space) == ["place", "room"]
        assert sorted(env.reset()[0]) == ["place", "room"]

    def test_make_leaves_it_out(self):
        gym.register("llmwrappers-tests/Told-v0", entry_point=Told)
        with pytest.warns(UserWarning, match="mission"):
            assert sorted(make("llmwrappers-tests/Told-v0").reset(seed=0)[0]) == ["place", "room"]

    def test_where_there_is_nothing_to_leave_out_or_nothing_else_the_environment_is_as_it_was(self):
        numbers = FilterObservation(Told(), ["place"])
        assert without_text(numbers) is numbers
        words = FilterObservation(Told(), ["mission"])
        assert without_text(words) is words
