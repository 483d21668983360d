"""Tests of local_llm.prompting.documentation: what there is to read about an environment is in its prompt."""

import dataclasses
import enum
import warnings

import gymnasium as gym
import pytest
from conftest import OneStep

from local_llm.prompting.documentation import MOST_CHARACTERS, documentation
from local_llm.prompting.render import render_prompt

GAIN, UNUSED_GAIN = 2.5, 9.75
NO_DOCUMENTATION = "This environment has no documentation.\n"


class Explained(OneStep):
    """Observes two ones; the action 0.8 is rewarded best."""


class Silent(Explained):
    def reward(self, action):
        return GAIN * action

    @property
    def render_size(self):
        return "picture"


def paid(action):
    return GAIN * action


def unused(action):
    return UNUSED_GAIN * action


class Vague(OneStep):
    """A game.

    ## References
    None.
    """

    def reward(self, action):
        return paid(action)


class Side(enum.Enum):
    SELL = 0
    BUY = 1


class UnusedSide(enum.Enum):
    NONE = 0


@dataclasses.dataclass
class Paid:
    line: float = 40.0


@dataclasses.dataclass
class Position:
    unused: float


class Sided(OneStep):
    """A game."""

    def reward(self, action: Position):
        return Paid().line if action == Side.BUY.value else 0.0


class Renamed(Explained):
    pass


class Stronger(Explained):
    gain = 7.5


def test_the_docstring_of_a_base_speaks_for_a_class_without_one():
    assert documentation(Renamed(), []) == "Observes two ones; the action 0.8 is rewarded best."


@pytest.mark.parametrize(("kind", "change"), [(Silent, "        return GAIN * action"), (Stronger, "    gain = 7.5")])
def test_source_tells_what_a_class_without_a_docstring_changes_of_its_base(kind, change):
    """Else the model would read the base's signs and order, and not learn that they are others."""
    text = documentation(kind(), [])
    head, tail = text.split("\n\nIts source, which may change what is said above:\n\n```python\n")
    assert head == "Observes two ones; the action 0.8 is rewarded best."
    assert f"class {kind.__name__}(Explained):\n" in tail
    assert change in tail
    assert "class OneStep" not in tail
    assert documentation(kind(), [], with_source=False) == head


@pytest.mark.parametrize("env_id", ["Hopper-v4", "CartPole-v1", "InvertedPendulum-v5"])
def test_gymnasiums_versions_are_documented_together(env_id):
    assert "Its source" not in documentation(gym.make(env_id), [])


class Swap(gym.ObservationWrapper):
    def observation(self, observation):
        return -observation[::-1]


class Told(Swap):
    """Swaps the observation."""


def test_source_tells_what_a_wrapper_without_a_docstring_does():
    env = Told(Swap(gym.wrappers.TransformReward(Explained(), lambda reward: -reward)))
    text = documentation(env, []).split("what follows changes what is said above.\n")[1]
    inner, swap, told = text.split("\n## Wrapper ")[1:]
    assert inner.startswith("TransformReward()\n\n```python\n")
    assert "lambda reward: -reward" in inner
    assert swap == (
        "Swap()\n\n```python\nclass Swap(gym.ObservationWrapper):\n    def observation(self, observation):\n"
        "        return -observation[::-1]\n```\n"
    )
    assert told == "Told()\n\nSwaps the observation.\n"


@pytest.mark.parametrize(("words", "speaks"), [("obstacles", False), ("Obs", True), ("observed", True), ("obs_dim", True)])
def test_a_docstring_that_only_names_obstacles_does_not_describe_observations(monkeypatch, words, speaks):
    monkeypatch.setattr(Explained, "__doc__", f"{words}; actions are forces")
    assert ("Its source:" not in documentation(Explained(), [])) == speaks


def test_gymnasiums_own_bases_do_not_speak():
    class Alone(gym.Env):
        pass

    text = documentation(Alone(), [])
    assert "high-level" not in text  # as the class Env begins
    assert "class Alone(gym.Env):" in text
    assert "class Env" not in text


def test_the_module_speaks_where_no_class_does(monkeypatch):
    kind = type("Nameless", (OneStep,), {"__module__": "nameless"})
    monkeypatch.setitem(__import__("sys").modules, "nameless", type(warnings)("nameless", "Observations and actions are one."))
    monkeypatch.setattr(OneStep, "__doc__", None)
    assert documentation(kind(), []) == "Observations and actions are one."


def test_an_environment_that_is_adapted_speaks_too():
    class Adapter(gym.Env):
        """Makes another library's environments Gymnasium's."""

        def __init__(self):
            self.held = Explained()

    text = documentation(Adapter(), [])
    assert text.startswith("Makes another library's environments Gymnasium's.\n\nObserves two ones")


def test_source_is_shown_where_the_docstring_says_neither_observation_nor_action():
    text = documentation(Vague(), [])
    assert text.startswith("A game.\n\nIts source:\n\n```python\nGAIN = 2.5\n\nclass Vague(OneStep):\n")
    assert "    def reward(self, action):\n        return paid(action)\n\nclass OneStep(gym.Env):\n" in text
    assert "\n\ndef paid(action):\n    return GAIN * action\n" in text
    assert "UNUSED_GAIN" not in text
    assert "class Env" not in text
    assert "Its source" not in documentation(Explained(), [])
    assert "Its source" not in documentation(Vague(), [], with_source=False)


def test_the_source_comes_with_the_enumerations_and_dataclasses_that_it_names():
    """As the actions that gym-anytrading numbers and the rewards that Tetris names, elsewhere in their packages."""
    text = documentation(Sided(), [])
    assert "```python\nclass Side(enum.Enum):\n    SELL = 0\n    BUY = 1\n\n@dataclasses.dataclass\nclass Paid:\n" in text
    assert text.index("line: float = 40.0") < text.index("class Sided(OneStep):")
    assert "nused" not in text


class Game:
    def play(self, action):
        return paid(action)


class Crowd:
    def cheer(self):
        return "a long, long, long shout"


class Playing(OneStep):
    """A game."""

    def __init__(self):
        super().__init__()
        self.game, self.crowd = Game(), Crowd()

    def reward(self, action):
        return self.game.play(action)


def test_the_source_of_what_an_environment_holds_follows_as_far_as_there_is_room(monkeypatch):
    text = documentation(Playing(), [])
    assert "class OneStep(gym.Env):" in text
    assert "\n\nclass Game:\n    def play(self, action):\n        return paid(action)\n\nclass Crowd:\n" in text
    assert "def paid(action):" in text
    monkeypatch.setattr("local_llm.prompting.documentation.MOST_CHARACTERS", len(text) - 100)
    text = documentation(Playing(), [])
    assert "class Game:" in text
    assert "class Crowd:" not in text
    assert "too long" not in text


def test_the_source_leaves_out_what_renders(monkeypatch):
    monkeypatch.setattr(Explained, "__doc__", None)
    text = documentation(Silent(), [])
    assert "def reward" in text
    assert "picture" not in text
    assert "@property" not in text


def test_long_source_is_cut():
    class Long(Vague):
        pass

    words = "\n".join(f"line {i} of what the class is" for i in range(2000))
    source = f'class Long(Vague):\n    text = """{words}"""\n'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("inspect.getsource", lambda kind: source)
        text = documentation(Long(), [])
    assert MOST_CHARACTERS < len(text) < MOST_CHARACTERS + 200
    assert text.endswith("of what the class is\n# The rest is too long to be shown.\n```\n")


def test_where_nothing_is_left_to_say_the_user_is_warned():
    kind = type("Made", (gym.Env,), {"__module__": "made", "observation_space": OneStep().observation_space})
    kind.action_space, kind.reset, kind.step = OneStep().action_space, OneStep.reset, OneStep.step
    gym.register("llmwrappers-tests/Made-v0", entry_point=lambda: kind(), disable_env_checker=True)
    with pytest.warns(UserWarning, match="Made-v0 has neither documentation nor source that can be read"):
        prompt = render_prompt("llmwrappers-tests/Made-v0")
    assert f"# Environment documentation\n{NO_DOCUMENTATION}" in prompt
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        render_prompt("CartPole-v1")
