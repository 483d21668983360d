"""rollouts.py: what is stated of attributes, lengths and bounds is so in every episode that is played."""

import random
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from local_llm.prompting.render import render_prompt
from local_llm.prompting.rollouts import MOST_STEPS, fingerprint, roll_out

NUMBER = iter(range(100))


def facts_of(kind, **attributes):
    """The facts in the prompt of an environment."""
    env_id = f"llmwrappers-tests/Played{next(NUMBER)}-v0"
    gym.register(env_id, entry_point=lambda: kind(**attributes), disable_env_checker=True)
    return render_prompt(env_id).partition("# Facts\n")[2].partition("\n# Task\n")[0]


def constants_of(kind):
    return facts_of(kind).partition("object that do not change: ")[2].rstrip(".\n")


class Playing(gym.Env):
    """Ends after so many steps; its observation is made of its steps."""

    action_space: gym.Space = Discrete(2)
    observation_space: gym.Space = Box(0.0, 1.0, (2,), np.float64)

    def __init__(self, ends=20):
        self._ends = ends

    def observe(self):
        return np.array([0.0, 1.0])

    def last(self):
        return self._ends

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self.observe(), {}

    def step(self, action):
        self._steps += 1
        return self.observe(), 0.0, self._steps == self.last(), False, {}


# -------------------------------------------------------------------------------------------------------------- constants


def test_constants_are_the_numbers_that_no_episode_changes():
    class Changing(Playing):
        def __init__(self):
            super().__init__()
            self.goal, self.gain, self.render_size, self.is_slow = np.array([256.0, 0.1]), 100, 64, True
            self._secret, self.table, self.start = 3, np.zeros(9), 0.0

        def reset(self, *, seed=None, options=None):
            result = super().reset(seed=seed)
            self.start = self.np_random.uniform()
            return result

    assert constants_of(Changing) == "goal = [256.0, 0.1], gain = 100, is_slow = True"


def test_lists_of_names_are_constants_too():
    """As the states of a motor, whose documentation lists them in another order."""

    class Naming(Playing):
        def __init__(self):
            super().__init__()
            self.joint_names, self.file_names, self.title = ("hip", "knee"), [], ["one"]

        @property
        def state_names(self):
            return ["speed", "current"]

        @property
        def missing_names(self):
            raise RuntimeError("not yet")

    assert constants_of(Naming) == "joint_names = ['hip', 'knee'], state_names = ['speed', 'current']"


def test_what_comes_back_to_its_first_value_is_no_constant():
    """As Tetris' height: 0 when an episode begins and when it has ended."""

    class Falling(Playing):
        def __init__(self):
            super().__init__()
            self.place = SimpleNamespace(y=0)
            vars(self)["y"] = 0

        def step(self, action):
            result = super().step(action)
            vars(self)["y"] = self._steps % self._ends
            return result

    assert constants_of(Falling) == ""


def test_what_only_one_action_changes_is_no_constant():
    class Levered(Playing):
        action_space = Discrete(1000)

        def reset(self, *, seed=None, options=None):
            vars(self)["lever"] = 0
            return super().reset(seed=seed)

        def step(self, action):
            vars(self)["lever"] = int(action == 999)
            return super().step(action)

    assert constants_of(Levered) == ""


def test_what_a_method_assigns_is_no_constant_though_it_has_not_changed_yet():
    """As a drone's flag that it was truncated, in episodes that all crash before."""

    class Flying(Playing):
        def __init__(self):
            super().__init__()
            self.truncation, self.counter, self.mass = False, 0, 0.5

        def begin_reset(self):
            self.truncation = False

        def crash(self):
            self.counter += 1

    assert constants_of(Flying) == "mass = 0.5"


def test_constants_are_in_the_prompt_where_there_are_no_facts():
    assert "\n- Attributes of its object that do not change: min_position = -1.2, " in render_prompt("MountainCar-v0")
    assert "do not change" not in render_prompt("Pendulum-v1")


# ---------------------------------------------------------------------------------------------------------------- lengths


def test_an_environment_that_ends_its_episodes_at_one_step_has_a_limit():
    assert "An episode lasts 20 steps: each of 5 that were played, with random and with constant actions, did.\n" in facts_of(
        Playing
    )


def test_lengths_that_differ_are_told():
    class Crashing(Playing):
        def last(self):
            return self.crash

        def step(self, action):
            self.crash = self.crash if self._steps else 7 if action == 1 else 30
            return super().step(action)

    assert "lasts until the environment ends it: after 7 to 30 steps in 5 that were played" in facts_of(Crashing)


def test_what_goes_on_is_of_unknown_length():
    facts = facts_of(Playing, ends=MOST_STEPS + 1)
    assert "whether it always does is unknown: of 5 that were played, with random and with constant actions, 5 went on" in facts


def test_a_count_that_episodes_outlast_is_no_limit():
    class Misnamed(Playing):
        def __init__(self):
            super().__init__()
            self.max_steps = 10  # of something else

    assert "lasts 20 steps: each of 5" in facts_of(Misnamed)


@pytest.mark.parametrize(("ends", "count", "words"), [(20, 20, "20"), (7, 20, "about 20"), (2000, 1000, "about 1000")])
def test_a_count_at_which_no_episode_was_seen_to_end_is_about_the_limit(ends, count, words):
    """As a drone's, which ends its episodes two steps after its count, where random actions have not crashed it before."""

    class Counting(Playing):
        def __init__(self):
            super().__init__(ends)
            self.max_steps = count

    assert f"- An episode lasts at most {words} steps.\n" in facts_of(Counting)


def test_a_time_limit_stays_what_it_is():
    assert "\n- An episode lasts at most 200 steps.\n" in render_prompt("MountainCar-v0")


# ----------------------------------------------------------------------------------------------------------------- bounds


class Straying(Playing):
    def observe(self):
        return np.array([-3.0, 0.5 + self._steps])


STRAYS = "its own interval (low [-3, 0.5], high [-3, 20.5])"
DO_NOT_HOLD = "in episodes of random and of constant actions; the declared bounds, from 0 to 1, do not hold"


def test_bounds_that_observations_leave_are_not_stated_as_facts():
    stated = "- Each entry of the observation lies in"
    assert f"{stated} {STRAYS} {DO_NOT_HOLD}.\n" in facts_of(Straying)
    assert f"{stated} [0, 1].\n" in facts_of(Playing)


@pytest.mark.parametrize("by_key", [True, False])
def test_bounds_in_a_dict_or_a_tuple_are_measured_too(by_key):
    class Nested(Straying):
        part = Straying.observation_space
        observation_space = Dict(a=Dict(b=part), c=part) if by_key else Tuple((Tuple((Discrete(2), part)), part))

        def observe(self):
            strays, inside = super().observe(), np.zeros(2)
            return {"a": {"b": strays}, "c": inside} if by_key else ((1, strays), inside)

    facts, (strays, inside) = facts_of(Nested), ("['a']['b']", "['c']") if by_key else ("[0][1]", "[1]")
    assert f"`obs{strays}`: array of shape (2,), each entry in {STRAYS} {DO_NOT_HOLD}\n" in facts
    assert f"`obs{inside}`: array of shape (2,), each entry in [0, 1]\n" in facts


def test_bounds_of_what_was_flattened_are_measured_too():
    def flat():
        class Keyed(Straying):
            observation_space = Dict(a=Straying.observation_space, b=Discrete(2))

            def observe(self):
                return {"a": super().observe(), "b": 1}

        return gym.wrappers.FlattenObservation(Keyed())

    assert f"`obs[0:2]`: a, array of shape (2,), each entry in {STRAYS} {DO_NOT_HOLD}\n" in (facts_of(flat))


def test_of_a_large_array_one_range_is_stated():
    class Large(Straying):
        observation_space = Box(0.0, 1.0, (10, 10))

        def observe(self):
            return np.linspace(-1, 2, 100).reshape(10, 10)

    assert f"lies in [-1, 2] {DO_NOT_HOLD}" in facts_of(Large)


def test_a_difference_of_precision_leaves_no_bound():
    class Rounded(Playing):
        def observe(self):
            return np.array([-1e-7, 1.0000001])

    assert "lies in [0, 1].\n" in facts_of(Rounded)


# ------------------------------------------------------------------------------------------------------------------- play


def test_what_cannot_be_played_is_not_measured():
    class Broken(Playing):
        def step(self, action):
            raise RuntimeError("no simulator")

    assert roll_out(Broken()) is None
    assert "- An episode lasts until the environment ends it.\n" in facts_of(Broken)


def test_an_environment_that_draws_from_the_common_streams_has_one_prompt():
    """Another prompt would be another question, and answered replies would not be found again."""

    class Drawing(Straying):
        def observe(self):
            return np.array([random.random(), -np.random.random()])  # noqa: NPY002

    state = random.getstate()
    first = facts_of(Drawing)
    assert random.getstate() == state
    random.random()
    np.random.random()  # noqa: NPY002
    assert facts_of(Drawing) == first


def test_what_no_seed_repeats_is_stated_without_its_numbers():
    """As Tetris, whose pieces come from a stream that no seed reaches."""
    stream = np.random.default_rng()

    class Surprising(Straying):
        def reset(self, *, seed=None, options=None):
            self.end = int(stream.integers(5, 100))
            return super().reset(seed=seed)

        def last(self):
            return self.end

        def observe(self):
            return -stream.random(2)

    facts = facts_of(Surprising)
    assert "lies in an unknown interval: the declared bounds, from 0 to 1, do not hold.\n" in facts
    assert "- An episode lasts until the environment ends it, after another number of steps each time.\n" in facts
    assert facts_of(Surprising) == facts


# ------------------------------------------------------------------------------------------------------------ fingerprint


def test_the_fingerprint_is_that_of_what_the_environment_does():
    class Paying(Playing):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return observation, self.pay, *rest

        pay = 1.0

    class Watching(Playing):
        def observe(self):
            return np.array([0.5, 1.0])

    first, again, paying, watching, longer = map(fingerprint, (Playing(), Playing(), Paying(), Watching(), Playing(21)))
    assert first == again
    assert len({first, paying, watching, longer}) == 4


def test_an_environment_that_never_plays_alike_has_no_fingerprint():
    unseeded = np.random.default_rng()

    class Noisy(Playing):
        def observe(self):
            return unseeded.random(2)

    assert fingerprint(Noisy()) == 0
