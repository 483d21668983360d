"""EntryWorth: the harmful entry of a known environment is disabled, what does no harm is not, and what is said of them."""

import json
import math

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from llmwrappers import CriticalStates, EntryWorth, LLMActionOverride
from llmwrappers.critical_states.discounted_returns import DiscountedReturns, difference


class Doors(gym.Env):
    """One step an episode, at one of three doors: action 1 pays 1 at the first and costs 1 at the second, action 0 nothing."""

    def __init__(self):
        self.action_space, self.observation_space = Discrete(2), Box(0.0, 2.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.door = int(self.np_random.integers(3))
        return np.array([self.door], np.float32), {}

    def step(self, action):
        return np.array([self.door], np.float32), (1.0, -1.0, 0.0)[self.door] * float(action), True, False, {}


EVERY_DOOR = CriticalStates([[0.0], [1.0], [2.0]], actions=[1, 1, 1], rewards=[0.0] * 3, scale=[1.0], tolerance=0.1)


def play(worth: EntryWorth, looks: int, seed: int) -> None:
    """Records what comes of the table beside an agent that tosses a coin; its value of each door is known."""
    env, agent = LLMActionOverride(Doors(), EVERY_DOOR, control_probability=0.25), np.random.default_rng(seed)
    env.reset(seed=seed)
    for _ in range(looks):
        for _ in range(60):
            observation, _ = env.reset()
            info = (step := env.step(int(agent.integers(2))))[4]
            value = (0.5, -0.5, 0.0)[int(observation[0])]
            if info["critical"]:
                worth.record(info["critical_entry"], info["action_overridden"], float(step[1]) - value)
        worth.look()
        env.disabled = worth.disabled


def test_the_harmful_entry_is_disabled_and_the_good_one_does_not():
    worth = EntryWorth(3)
    play(worth, looks=60, seed=0)
    good, harmful, idle = worth.table()
    assert worth.disabled == [1]
    assert 0 < good["low"] < 0.5 < good["high"]
    assert good["advantage"] == pytest.approx(0.5, abs=0.1)
    assert harmful["low"] < -0.5 < harmful["high"] < 0
    assert idle["advantage"] == idle["low"] == idle["high"] == 0.0
    assert good["played"] == pytest.approx(3 * good["withheld"], rel=0.2)
    # It was disabled within the first looks, and was met no more.
    assert harmful["played"] + harmful["withheld"] < 0.3 * (good["played"] + good["withheld"])
    says = "of 3 entries 1 cost return and got disabled: 1; 1 surely helped: 0; 1 met too rarely, or doing too little, to tell"
    assert str(worth) == says


def test_what_does_no_harm_is_disabled_as_rarely_as_promised():
    """Also where what comes of neighbouring steps is alike, as in an episode: which of them fire is drawn for each."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(100):
        worth = EntryWorth(4)
        for _ in range(25):
            luck = np.repeat(rng.normal(size=(4, 3)), 4, axis=1) + 0.3 * rng.normal(size=(4, 12))
            for entry, played, advantage in zip(np.repeat(range(4), 12), rng.random(48) < 0.7, luck.ravel(), strict=True):
                worth.record(int(entry), bool(played), float(advantage))
            if worth.look():
                wrong += 1
                break
    assert wrong <= 5


def test_few_steps_that_happen_to_be_alike_prove_nothing():
    """Of a toss of a coin in every step the first few may all be lost, and all won where the action was withheld."""
    worth = EntryWorth(1, discount=1.0)
    for n, advantage in ((3, None), (6, None), (1, -1.0)):
        for _ in range(n):
            worth.record(0, True, -1.0)
            worth.record(0, False, 0.0)
        worth.look()
        (row,) = worth.table()
        assert (row["advantage"], row["low"], row["high"]) == (advantage,) * 3
    assert worth.disabled == [0]


def recorded(worth: EntryWorth, effect: float, looks: int, rng: np.random.Generator, n: int = 20) -> None:
    for _ in range(looks):
        for _ in range(n):
            played = bool(rng.random() < 0.5)
            worth.record(0, played, effect * played + rng.normal())
        worth.look()


def test_an_entry_that_helped_once_is_disabled_when_it_does_harm():
    disabled = {}
    for discount in (0.8, 1.0):
        worth, rng = EntryWorth(1, discount=discount), np.random.default_rng(0)
        recorded(worth, 2.0, 40, rng)
        assert worth.disabled == []
        recorded(worth, -2.0, 15, rng)
        disabled[discount] = worth.disabled
    assert disabled == {0.8: [0], 1.0: []}


def test_all_that_is_recorded_between_two_looks_counts_alike():
    worth = EntryWorth(1, discount=0.5)
    for played, advantages in ((True, [0.0, 3.0]), (False, [1.0, 2.0])):
        for advantage in advantages:
            worth.record(0, played, advantage)
    assert worth.advantage == 0.0
    worth.look()
    for played, advantage in ((True, 3.0), (False, 0.0)):
        worth.record(0, played, advantage)
    assert worth.advantage == pytest.approx((0.5 * (0 + 3) + 3) / 2 - (0.5 * (1 + 2) + 0) / 2)


def test_an_entry_is_tested_when_the_rarer_kind_has_grown_by_a_quarter_and_its_own_tests_share_the_error():
    """Looks between, what was tested of another entry, and steps of the kind that is met more often make no difference."""
    worth, rng = EntryWorth(2, discount=1.0), np.random.default_rng(0)
    played, withheld, tested, k = DiscountedReturns(), DiscountedReturns(), (None, None, None), 0
    recorded(worth, 0.0, 20, rng)
    for n in range(1, 61):
        for returns, advantages in ((played, rng.normal(1, 1, 3)), (withheld, rng.normal(0, 1, 1))):
            for advantage in advantages:
                returns.add(float(advantage))
                worth.record(1, returns is played, float(advantage))
        if n in (10, 13, 17, 22, 28, 35, 44, 55):
            k += 1
            tested = difference(played, withheld, 0.05 / (2 * k * (k + 1)))
        worth.look()
        worth.look()
        assert tuple(worth.table()[1][name] for name in ("advantage", "low", "high")) == tested


def test_the_worth_of_all_weighs_entries_by_their_steps_and_leaves_out_the_disabled():
    worth = EntryWorth(3)
    assert math.isnan(worth.advantage)
    worth.record(2, True, 100.0)
    assert math.isnan(worth.advantage)
    for entry, advantage, n in ((0, 1.0, 2), (1, -3.0, 18)):
        for _ in range(n):
            worth.record(entry, True, advantage)
            worth.record(entry, False, 0.0)
    assert worth.advantage == pytest.approx((1 * 1.0 + 9 * -3.0) / 10)
    assert worth.look() == [1]  # equal returns leave no doubt
    assert worth.look() == []
    assert worth.advantage == 1.0


def test_the_table_is_json_and_says_nothing_where_nothing_was_seen():
    worth = EntryWorth(2)
    worth.record(1, True, 2.0)
    worth.look()
    nothing = {"advantage": None, "low": None, "high": None, "disabled": False}
    assert json.loads(json.dumps(worth.table(), allow_nan=False)) == [
        {"entry": 0, "played": 0, "withheld": 0, **nothing},
        {"entry": 1, "played": 1, "withheld": 0, **nothing},
    ]
    worth.record(1, False, 1.0)
    worth.look()
    assert worth.table()[1] == {"entry": 1, "played": 1, "withheld": 1, **nothing}


def test_state_goes_on():
    whole, cut = EntryWorth(3), EntryWorth(3)
    play(whole, looks=6, seed=1)
    play(cut, looks=6, seed=1)
    again = EntryWorth(3)
    again.load_state(json.loads(json.dumps(cut.state())))
    assert again.disabled == whole.disabled == [1]
    for worth in (whole, again):
        recorded(worth, 0.5, 3, np.random.default_rng(2))
    assert again.table() == whole.table()
    assert again.state() == whole.state()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_entries": 0}, "n_entries must be a whole number of at least 1, got 0"),
        ({"n_entries": 2.0}, "n_entries must .* got 2.0"),
        ({"n_entries": 2, "error_rate": 1.0}, r"error_rate must lie in \(0, 1\), got 1.0"),
        ({"n_entries": 2, "discount": 0.0}, r"discount must lie in \(0, 1\], got 0.0"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        EntryWorth(**arguments)


def test_wrong_records_are_refused():
    for entry in (-1, 2):
        with pytest.raises(ValueError, match=rf"entry must lie in \[0, 2\), got {entry}"):
            EntryWorth(2).record(entry, True, 0.0)
    with pytest.raises(ValueError, match="must be finite, got nan"):
        EntryWorth(2).record(0, True, math.nan)
