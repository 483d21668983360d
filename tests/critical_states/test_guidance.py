"""Shipped tables, and what a name, a path or an object stands for."""

import copy
import os

import gymnasium as gym
import numpy as np
import pytest
from conftest import Echo, Turns
from gymnasium.spaces import Box, Discrete

import llmwrappers.critical_states.guidance
from llmwrappers import (
    CriticalFunction,
    CriticalStateRewarder,
    CriticalStates,
    LLMActionOverride,
    PolicyRejected,
    load_guidance,
    load_prior,
)
from llmwrappers.critical_states.guidance import GuidanceLookup, entry_count, shipped_guidance

STATES = CriticalStates([[0.0, 0.0, 0.0]], [[0.5, -0.5]], [1.0], scale=np.ones(3), tolerance=0.1)
CODE = "def critical(obs):\n    return obs[0] == 0, [0.25, 4.0], -1.0\n"


TABLES = ["Ant-v4", "Hopper-v4", "Walker2d-v4", "llmwrappers-PongObjects-v0"]
CODES = ["DoorKey", "HopperBeyond", "KeyCorridor", "LockedRoom", "MultiRoom"]


def test_the_guidance_of_the_docs_is_shipped():
    assert shipped_guidance() == sorted([*TABLES, *(f"llmwrappers-{name}-v0" for name in CODES)])


@pytest.mark.parametrize("name", CODES)
def test_shipped_code_fits_its_environment(name):
    env = LLMActionOverride(gym.make(f"llmwrappers:llmwrappers/{name}-v0"), f"llmwrappers/{name}-v0")
    env.reset(seed=0)
    assert env.step(env.action_space.sample())[4]["critical"].dtype == bool
    env.close()


@pytest.mark.parametrize("name", TABLES)
def test_a_shipped_table_fits_its_environment(name):
    states = CriticalStates.load(f"{llmwrappers.critical_states.guidance.SHIPPED}/{name}/table.json")
    assert states.environment is not None
    assert states.environment.replace("/", "-") == name
    guidance = load_guidance(states.environment, gym.make(states.environment))
    assert guidance(states.observations[0]) is not None


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A folder of tables that has one, for an environment with a "/" in its id."""
    folder = tmp_path / "llmwrappers-tests-Echo-v0"
    folder.mkdir()
    STATES.save(folder / "table.json")
    (tmp_path / "Unfinished-v0").mkdir()
    monkeypatch.setattr(llmwrappers.critical_states.guidance, "SHIPPED", tmp_path)
    return folder


def test_shipped_guidance_are_the_folders_that_hold_one(shipped):
    assert shipped_guidance() == ["llmwrappers-tests-Echo-v0"]


def test_a_function_with_state_is_refused():
    def guidance(observation):
        return None

    guidance.reset = lambda: None
    with pytest.raises(TypeError, match=r"a function cannot be copied.* Give an object of a class with __call__"):
        LLMActionOverride(Echo(), guidance)


def test_names_paths_and_folders_stand_for_the_same_table(shipped):
    for source in (
        "llmwrappers-tests-Echo-v0",
        "llmwrappers-tests/Echo-v0",
        shipped,
        str(shipped),
        shipped / "table.json",
        os.fspath(shipped / "table.json"),
    ):
        guidance = load_guidance(source, Echo())
        assert isinstance(guidance, CriticalStates)
        assert guidance(np.zeros(3))[0].tolist() == [0.5, -0.5]


def test_a_path_to_code_stands_for_a_critical_function(tmp_path):
    (tmp_path / "critical.py").write_text(CODE)
    for source in (tmp_path / "critical.py", tmp_path, str(tmp_path)):  # a folder that holds no table, too
        guidance = load_guidance(source, Echo())
        assert isinstance(guidance, CriticalFunction)
        action, reward = guidance(np.zeros(3))
        assert (action.tolist(), reward) == ([0.25, 1.0], -1.0)
    STATES.save(tmp_path / "table.json")
    assert isinstance(load_guidance(tmp_path, Echo()), CriticalStates)


def test_refused_code_names_the_file_and_the_line(tmp_path):
    path = tmp_path / "critical.py"
    path.write_text("import os\n" + CODE.replace("4.0", "len(os.sep)"))
    with pytest.raises(PolicyRejected, match=r"line 1: import of os.*critical\.py"):
        load_guidance(path, Echo())
    assert load_guidance(f"trusted:{path}", Echo())(np.zeros(3))[0].tolist() == [0.25, 1.0]
    path.write_text("x = 1\n")
    with pytest.raises(PolicyRejected, match=r"there is no function critical\(obs\) \(in '.*critical\.py'\)$"):
        load_guidance(path, Echo())


def test_trusted_code_opens_what_lies_beside_it(tmp_path):
    """As the file of a prior does, whatever the current folder is."""
    np.save(tmp_path / "action.npy", [0.25, 1.0])
    load = "import numpy as np\nfrom pathlib import Path\nACTION = np.load(Path(__file__).parent / 'action.npy')\n"
    (tmp_path / "critical.py").write_text(f"{load}def critical(obs):\n    return True, ACTION, 0.5\n")
    guidance = load_guidance(f"trusted:{tmp_path / 'critical.py'}", Echo())
    for same in (guidance, copy.deepcopy(guidance)):
        assert same(np.zeros(3))[0].tolist() == [0.25, 1.0]


@pytest.mark.parametrize("trusted", ["", "trusted:"])
def test_code_sees_what_a_prior_sees(tmp_path, trusted):
    """The same entries with the same types as a prior from the same kind of file."""
    seen = "[obs['speed'].dtype.num, obs['gear'].dtype.num + obs['speed'][1] + len(obs)]"
    critical, prior = tmp_path / "critical.py", tmp_path / "prior.py"
    critical.write_text(f"def critical(obs):\n    return True, {seen}, 0.5\n")
    prior.write_text(f"def policy(obs):\n    return {seen}\n")
    observation = {"speed": np.float32([1, 2]), "gear": np.int64(3)}
    env = Echo(-99.0, 99.0)
    action, _ = load_guidance(f"{trusted}{critical}", env)(observation)
    assert action.tolist() == list(load_prior(f"{trusted}{prior}")(observation))
    assert action.tolist() == [np.dtype(np.float32).num, np.dtype(np.int64).num + 4.0]
    (tmp_path / "critical.py").write_bytes(b"\xff")
    with pytest.raises(PolicyRejected, match=r"critical\.py.* UTF-8"):
        load_guidance(tmp_path / "critical.py", Echo())


def test_an_object_stands_for_itself_if_it_fits():
    for guidance in (STATES, lambda observation: None):
        assert load_guidance(guidance, Echo()) is guidance
    with pytest.raises(ValueError, match=r"3 entries, got observations of \(1,\)"):
        load_guidance(STATES, Turns())


def test_with_an_info_key_the_actions_alone_must_fit():
    class Other(Echo):
        observation_space = gym.spaces.Box(0, 1, (7, 7))

        def __init__(self):
            self.action_space = Echo().action_space

    assert load_guidance(STATES, Other(), info_key="objects") is STATES
    with pytest.raises(ValueError, match="Box"):
        load_guidance(STATES, Turns(), info_key="objects")


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("Nowhere-v0", "which does not exist"),
        ("nowhere.json", "which does not exist"),
        ("trusted:nowhere.py", "which does not exist"),
        (".", "which is none of these"),
        ("README.md", "which is none of these"),
    ],
)
def test_an_unknown_source_lists_the_shipped_ones(shipped, source, problem):
    with pytest.raises(ValueError, match=rf"\(llmwrappers-tests-Echo-v0\).* got '{source}', {problem}"):
        load_guidance(source, Echo())


def test_without_any_shipped_table_the_error_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(llmwrappers.critical_states.guidance, "SHIPPED", tmp_path)
    assert shipped_guidance() == []
    with pytest.raises(ValueError, match=r"\(none\)"):
        load_guidance("Hopper-v4", Echo())


@pytest.mark.parametrize("source", [None, 3])
def test_something_else_is_a_type_error(source):
    with pytest.raises(TypeError, match="critical_states must be"):
        load_guidance(source, Echo())


@pytest.mark.parametrize("advice", [(True, 0, 0.5), (False, 1, 0.0), 1, False, {1: 0.5}])
def test_a_callable_that_answers_as_code_in_a_file_does_is_refused(advice):
    """On CartPole (True, 0, 0.5) would be read as action 1 and reward 0."""
    lookup = GuidanceLookup(lambda observation: advice, Echo(), None, 0)
    with pytest.raises(ValueError, match=r"must return \(action, reward\), or None .* got .*\.py file"):
        lookup.look(np.zeros(3), {})


class TestSilence:
    TWO = CriticalStates(np.eye(3)[:2], [[0.5, -0.5], [0.0, 0.0]], [1.0, 0.0], scale=np.ones(3), tolerance=0.1)

    def test_entries_are_counted(self):
        assert entry_count(self.TWO) == 2
        assert entry_count(lambda observation: None) == 1

    def test_a_disabled_entry_gives_no_advice_from_the_next_observation_on(self):
        lookup = GuidanceLookup(self.TWO, Echo(), None, 0)
        assert lookup.look(np.eye(3)[1], {})[1] == 0.0
        assert lookup.entry == 1
        lookup.disabled = frozenset({1})
        assert lookup.count() is not None
        assert lookup.look(np.eye(3)[1], {}) is None
        assert (lookup.entry, lookup.count()) == (-1, None)
        assert lookup.look(np.eye(3)[0], {})[1] == 1.0
        assert lookup.entry == 0
        lookup.disabled = frozenset()
        assert lookup.look(np.eye(3)[1], {}) is not None
        assert lookup.hit_count == 1


def test_without_guidance_the_agent_plays_alone_from_the_next_step_on():
    env = LLMActionOverride(Echo(steps=50), lambda obs: ([0.5, -0.5], 1.0))
    env = gym.wrappers.TimeLimit(CriticalStateRewarder(env, lambda obs: ([0.5, -0.5], 1.0), alpha=100.0, patience_steps=2), 50)
    env.reset(seed=0)
    for is_guided in (True, False, True):
        env.set_wrapper_attr("is_guided", is_guided, force=False)
        assert env.get_wrapper_attr("is_guided") == is_guided
        env.step(np.zeros(2, np.float32))  # the advice about the last observation is gone, too
        for _ in range(3):
            _, reward, _, _, info = env.step(np.zeros(2, np.float32))
            assert (reward > 50, bool(info["critical"]), bool(info["action_overridden"])) == (is_guided,) * 3
            assert info["executed_action"].tolist() == ([0.5, -0.5] if is_guided else [0.0, 0.0])


@pytest.mark.parametrize("space", [Discrete(3), Box(-10, 10, (1,)), Box(-2, 2, (2,))])
def test_code_that_was_made_for_other_actions_is_refused(space):
    code = CriticalFunction("def critical(obs):\n    return False\n", space)
    with pytest.raises(ValueError, match=r"made for actions .* got an environment of Box\(-2.0, 2.0, \(1,\), float32\)"):
        LLMActionOverride(gym.make("Pendulum-v1"), code)
