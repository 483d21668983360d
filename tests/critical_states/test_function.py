"""CriticalFunction: what code may return, what is a fault, and that containment is that of every policy."""

import copy
import pickle
import re

import gymnasium as gym
import numpy as np
import pytest
from conftest import Echo, Turns
from gymnasium.spaces import Box, Discrete, MultiBinary

from llmwrappers import CriticalFunction, LLMActionOverride, PolicyRejected, vet_critical_function
from llmwrappers.containment import policy as containment
from llmwrappers.containment.lint import MAX_CHARACTERS

TWO = Box(-1.0, 1.0, (2,), np.float32)
ONE = Box(-2.0, 2.0, (1,), np.float32)
FOUR = Discrete(4, start=1)


def code(*lines):
    return "import numpy as np\n\ndef critical(obs):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("space", "line", "action", "reward"),
    [
        (TWO, "return True, [0.5, -0.5], 0.25", [0.5, -0.5], 0.25),
        (TWO, "return (obs[0] < 1, np.array([0.5, -0.5]), np.float64(0.25))", [0.5, -0.5], 0.25),
        (TWO, "return [bool(obs[0] < 1), (0.5, -0.5), np.array([0.25])]", [0.5, -0.5], 0.25),
        (TWO, "return np.any(obs < 1), np.clip([9, -9], -1, 1), -1", [1, -1], -1),
        (TWO, "return True, [9.0, -0.5], 1", [1, -0.5], 1),
        (ONE, "return True, [1.5], 0", [1.5], 0),
        (ONE, "return True, 1.5, 0.0", [1.5], 0),
        (ONE, "return True, -obs[0] - 3, 0.0", [-2], 0),
        (FOUR, "return True, 4, 0.5", 4, 0.5),
        (FOUR, "return True, np.argmax(obs) + 1, 0.5", 1, 0.5),
        (FOUR, "return True, [2], 0.5", 2, 0.5),
        (Box(-1, 1, (2, 2)), "return True, [[1, 0], [0, 1]], 0.5", [[1, 0], [0, 1]], 0.5),
        (Box(-1, 1, ()), "return True, 0.5, 0.5", 0.5, 0.5),
    ],
)
def test_natural_ways_to_answer_are_understood(space, line, action, reward):
    answer = CriticalFunction(code(line), space)(np.zeros(3))
    assert answer is not None
    assert (np.asarray(answer[0]).tolist(), answer[1], type(answer[1])) == (action, reward, float)
    assert isinstance(answer[0], int) if isinstance(space, Discrete) else answer[0].dtype == space.dtype
    assert space.contains(answer[0])


@pytest.fixture
def impatient(monkeypatch):
    """Waits for a second where it would wait for twelve."""
    monkeypatch.setattr(containment, "SECONDS_TO_BEGIN", 0.5)
    monkeypatch.setattr(containment, "SECONDS_A_MESSAGE", 0.5)


def test_in_this_process_it_answers_alike():
    source = "import os\n" + code("return obs[0] < 1, [9.0, obs[0]], obs[0] + 0 * os.getpid()")
    with pytest.raises(PolicyRejected, match="line 1: import of os, which a policy cannot use"):
        CriticalFunction(source, TWO)
    for guidance in (CriticalFunction(source, TWO, is_trusted=True), CriticalFunction(source.replace("os.getpid()", "1"), TWO)):
        action, reward = guidance(np.full(3, 0.5))
        assert (action.tolist(), reward) == ([1, 0.5], 0.5)
        assert guidance(np.ones(3)) is None
        with pytest.warns(UserWarning, match="the reward must lie"):
            assert guidance(np.full(3, -2.0)) is None
        guidance.close()


def test_state_lives_for_an_episode():
    source = "n = 0\n\ndef critical(obs):\n    global n\n    n += 1\n    return n > 2, [0.0, 0.0], 0.1 * n\n"
    for is_trusted in (False, True):
        env = LLMActionOverride(Echo(steps=4), CriticalFunction(source, TWO, is_trusted))
        for _ in range(2):
            env.reset(seed=0)
            infos = [env.step(np.ones(2, np.float32))[4] for _ in range(4)]
            assert [info["action_overridden"] for info in infos] == [False, False, True, True]


@pytest.mark.parametrize("line", ["False, None, 0.0", "False, None, None", "obs[0] > 1, [0.0, 0.0], 7", "0, 0, 0"])
def test_what_is_not_critical_may_say_anything(line):
    guidance = CriticalFunction(code(f"return {line}"), TWO)
    assert guidance(np.zeros(3)) is None
    assert guidance.faults.total == 0


@pytest.mark.parametrize("lines", [("pass",), ("return",), ("return None",), ("if obs[0] > 9: return True, [0, 0], 0",)])
def test_none_is_not_critical(lines):
    """As of a callable; before, such code was given up after ten states, and the run was PPO alone."""
    function = CriticalFunction(code(*lines), TWO)
    assert function.consult(np.zeros(3)) == (-1, None)
    assert function.faults.total == 0


def test_helpers_and_constants_may_be_used():
    source = (
        '"""Doc."""\nfrom numpy import pi\nimport math\nGAIN = 0.5\n\ndef lean(obs):\n    return GAIN * obs[0]\n\n'
        "critical = lambda obs: (abs(lean(obs)) > 0.1, [math.cos(pi), lean(obs)], 1)"
    )
    action, reward = CriticalFunction(source, TWO)(np.ones(3))
    assert (action.tolist(), reward) == ([-1, 0.5], 1)


FAULTS = {
    "no tuple": ("return True", TWO, "critical must return"),
    "raises": ("return True, [0.0, 1.0], obs[7]", TWO, "line 4: IndexError"),
    "short action": ("return True, [0.0], 0.5", TWO, "the action must have 2 numbers"),
    "no action": ("return True, None, 0.5", TWO, "the action of a critical state must not be None"),
    "words": ("return True, ['up', 'down'], 0.5", TWO, "which is no number and no array of numbers"),
    "memory": ("return True, np.zeros((10**6, 10**6)), 0.5", TWO, "line 4: .*MemoryError"),
    "a file": ("return True, [0.0, 1.0], len(open('/etc/passwd').read())", TWO, "line 4: PermissionError"),
    "NaN in the action": ("return True, [0.0, np.nan], 0.5", TWO, "nan"),
    "NaN reward": ("return True, [0.0, 1.0], np.nan", TWO, r"the reward must lie in \[-1, 1\]"),
    "large reward": ("return True, [0.0, 1.0], 1.5", TWO, r"the reward must lie in \[-1, 1\]"),
    "low reward": ("return True, [0.0, 1.0], -1.01", TWO, r"the reward must lie in \[-1, 1\]"),
    "no reward": ("return True, [0.0, 1.0], None", TWO, "the reward of a critical state must not be None; 0.0 is none"),
    "not a member": ("return True, 0, 0.5", FOUR, "the action must be an integer from 1 to 4"),
    "beyond": ("return True, 5, 0.5", FOUR, "the action must be an integer from 1 to 4"),
    "no integer": ("return True, 1.5, 0.5", FOUR, "the action must be an integer from 1 to 4"),
    "NaN for an integer": ("return True, np.nan, 0.5", FOUR, ""),
    "endless": ("return True, [sum(0 for a in iter(int, 1)), 0], 0", TWO, "no answer from the policy's process in time"),
    "the end": ("raise SystemExit", TWO, "line 4: SystemExit"),
    "recursion": ("return (lambda again: again(again))(lambda again: again(again))", TWO, "line 4: RecursionError"),
}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("line", "space", "message"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_counted_and_warned_of_once(line, space, message):
    guidance = CriticalFunction(code(line), space)
    with pytest.warns(UserWarning, match=message) as warned:
        assert guidance(np.zeros(3)) is None
    assert len(warned) == 1
    # A line of the user's code, or none.
    assert "line 4: " in str(warned[0].message) or "line " not in str(warned[0].message)
    assert guidance(np.zeros(3)) is None
    assert guidance.faults.total == 2


def test_after_ten_faults_in_a_row_it_is_given_up():
    guidance = CriticalFunction(code("return True, [0.0, 1.0], obs[0]"), TWO)
    with pytest.warns(UserWarning, match="reward"):
        guidance(np.full(1, 2.0))
    for _ in range(8):
        guidance(np.full(1, 2.0))
    assert guidance(np.zeros(1)) is not None  # in a row
    for _ in range(9):
        guidance(np.full(1, 2.0))
    assert guidance(np.zeros(1)) is not None
    for _ in range(9):
        guidance(np.full(1, 2.0))
    with pytest.warns(UserWarning, match="10 times in a row"):
        guidance(np.full(1, 2.0))
    assert guidance(np.zeros(1)) is None
    assert guidance.faults.total == 28


REFUSED = {
    "import": ("import os\n" + code("return True, [os.getpid(), 1.0], 1.0"), "line 1: import of os"),
    "syntax": ("def critical(obs)\n    return 1", "line 1: SyntaxError"),
    "an open string": (code("return True, [0.0, 1.0], 1.0") + '"""', "line 5: SyntaxError"),
    "an open bracket": (code("return True, [0.0, 1.0], (1.0"), "line 4: SyntaxError"),
    "nothing": ("x = 1", "there is no function critical"),
    "policy": ("def policy(obs):\n    return obs\n\n" + code("return True, [0.0, 1.0], 1.0"), "line 1: .*define critical"),
    "too long": ("#" * MAX_CHARACTERS + "\n" + code("return 1"), "characters"),
    "too deep": (code("return " + "-" * 99_999 + "1"), "deep|parsed|nested"),
}


@pytest.mark.parametrize(("source", "message"), REFUSED.values(), ids=REFUSED)
def test_what_no_policy_may_do_is_refused_with_its_line(source, message):
    with pytest.raises(PolicyRejected, match=message) as refused:
        CriticalFunction(source, TWO)
    assert refused.value.line is None or refused.value.line <= source.count("\n") + 1


def test_a_comment_at_the_end_swallows_nothing():
    assert CriticalFunction(code("return True, [0.0, 1.0], 1.0") + "# the end \\", TWO)(np.zeros(1)) is not None


def test_it_cannot_write_into_the_observation():
    observation = np.zeros(3)
    CriticalFunction(code("obs[0] = 5", "return True, [0.0, 1.0], 1.0"), TWO)(observation)
    assert observation.tolist() == [0, 0, 0]


def test_other_spaces_and_types_are_refused():
    with pytest.raises(TypeError, match="MultiBinary"):
        CriticalFunction(code("return 1"), MultiBinary(2))
    with pytest.raises(TypeError, match="source must be a str"):
        CriticalFunction(None, TWO)


def test_a_top_level_that_fails_in_a_process_is_a_fault():
    guidance = CriticalFunction("N = 1 / 0\n" + code("return True, [0.0, N], 1.0"), TWO)
    with pytest.warns(UserWarning, match="its top level fails: ZeroDivisionError"):
        assert guidance(np.zeros(1)) is None
    assert guidance.faults.total == 1
    with pytest.raises(PolicyRejected, match="line 1: its top level fails: ZeroDivisionError"):
        CriticalFunction("N = 1 / 0\n" + code("return True, [0.0, N], 1.0"), TWO, is_trusted=True)


def test_a_truth_value_is_a_discrete_action_and_names_of_builtins_are_free():
    source = "def critical(obs):\n    len = round = obs[0]\n    return True, len > 0, 0.5"
    assert CriticalFunction(source, Discrete(2))(np.ones(1)) == (1, 0.5)


def test_a_copy_answers_alike():
    guidance = pickle.loads(pickle.dumps(CriticalFunction(code("return True, [0.0, 1.0], obs[0]"), TWO)))
    action, reward = guidance(np.full(1, 0.5))
    assert (action.tolist(), reward) == ([0, 1], 0.5)


@pytest.mark.filterwarnings("ignore:CriticalFunction. the code failed")
def test_a_copy_of_one_that_was_given_up_is_given_up():
    guidance = CriticalFunction(code("return True, [0.0, 1.0], obs[0]"), TWO)
    for _ in range(10):
        guidance(np.full(1, 2.0))
    again = copy.deepcopy(guidance)
    assert again(np.zeros(1)) is guidance(np.zeros(1)) is None
    assert again.faults.total == 10


class TestVet:
    def test_what_answers_everywhere_is_accepted(self):
        guidance = vet_critical_function(code("return obs[0] < 3, [0.5, obs[1]], -0.5"), Echo())
        assert guidance(np.zeros(3))[0].tolist() == [0.5, 0]
        assert not guidance.is_trusted
        assert vet_critical_function(code("return obs[0] > 0.5, 3, 1"), Turns())(np.ones(1)) == (3, 1)

    def test_it_leaves_the_environments_own_stream_of_actions_alone(self):
        env = gym.make("Pendulum-v1")
        env.action_space.seed(3)
        vet_critical_function(code("return True, 0.0, 1.0"), env)
        after = env.action_space.sample()
        env.action_space.seed(3)
        assert after == env.action_space.sample()

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            (code("return True, [0.5], 0"), "the action must have 2 numbers"),
            (code("return True, [0.5, 0.5], 5"), "the reward must lie"),
            (code("return True, [0.5, 0.5], obs[9]"), "line 4: IndexError"),
            (code("return obs[0] == 3, [0.5, 0.5], 5"), "the reward must lie"),  # at real observations only
            (code("return obs.shape"), "in the probe"),
            ("import os\n" + code("return os.sep"), "line 1: import"),
            (code("x = 1", "return True, [0.5, 0.5], len(open('x'))"), "line 5: PermissionError"),
            (code("while True:", "    pass"), "no answer from the policy's process in time"),
        ],
    )
    @pytest.mark.usefixtures("impatient")
    def test_what_fails_is_refused_with_a_reason_in_its_own_lines(self, source, message):
        with pytest.raises(PolicyRejected, match=message) as refused:
            vet_critical_function(source, Echo())
        assert re.findall(r"line (\d+)", str(refused.value)) in ([], ["1"], ["4"], ["5"])


# ------------------------------------------------------------------------------------------------------------ entries

RULES = '''
def near(obs):
    return obs[0] < 0.1, 1, 0.0  # of a helper: no entry

def critical(obs):
    """Rules, in their order: nämlich drei."""
    inner = lambda x: x + 1
    if obs[0] < 0.2:
        return True, 0, 0.5
    if obs[0] < 0.4: return (True, 1, \\
                             0.25)  # é
    for axis in range(2):
        if obs[axis] > inner(8): return near(obs)
    return False, None, None
'''


def test_each_return_is_an_entry_by_its_line():
    function = CriticalFunction(RULES, Discrete(2))
    assert (len(function), function.lines) == (4, [9, 10, 13, 14])
    answers = [function.consult(np.array(obs)) for obs in ([0.1, 0.0], [0.3, 0.0], [0.05, 10.0], [9.5, 0.0], [0.5, 0.0])]
    assert answers == [(0, (0, 0.5)), (1, (1, 0.25)), (0, (0, 0.5)), (-1, None), (-1, None)]
    assert CriticalFunction("critical = lambda obs: (obs[0] < 1, 1, 0.5)", Discrete(2)).consult(np.zeros(1)) == (0, (1, 0.5))


def test_an_entry_that_is_disabled_is_silent_and_the_others_speak():
    source = "def critical(obs):\n    if obs[0] < 2: return True, [0.5, 0.5], 0\n    return True, [-0.5, -0.5], 0\n"
    env = LLMActionOverride(Echo(steps=4), CriticalFunction(source, TWO))
    env.disabled = [0]
    env.reset(seed=0)
    infos = [env.step(np.zeros(2, np.float32))[4] for _ in range(4)]
    assert [info["critical_entry"] for info in infos] == [-1, -1, 1, 1]
    assert [float(info["received"][0]) for info in infos] == [0, 0, -0.5, -0.5]
    assert [float(info["llm_action"][0]) for info in infos] == [0, 0, -0.5, -0.5]
    with pytest.raises(ValueError, match="0 to 1"):
        env.disabled = [2]


FORMS = {
    "it calls itself": "def critical(obs):\n    return critical(obs / 2) if obs[0] > 1 else (True, [0.5, 0.5], 0.0)\n",
    "a decorator reads its answer": """\
def negative(rule):
    def played(obs):
        is_critical, action, reward = rule(obs)
        return is_critical, [-number for number in action], reward
    return played

@negative
def critical(obs):
    return True, [-0.5, -0.5], 0.0
""",
    "another function calls it": """\
def critical(obs):
    return True, [0.5, 0.5], 0.0

def describe(obs):
    return critical(obs)[1]
""",
    "its top level tries it": """\
def critical(obs):
    return True, [0.5, 0.5], 0.0

assert len(critical([0.0])) == 3
""",
    "a parameter has its name": """\
def answer(critical):
    return critical, [0.5, 0.5], 0.0

def critical(obs):
    return answer(True)
""",
    "a method": """\
class Detector:
    def critical(self, obs):
        return True, [0.5, 0.5], 0.0

critical = Detector().critical
""",
    "an object": """\
class Detector:
    def __call__(self, obs):
        return True, [0.5, 0.5], 0.0

critical: Detector = Detector()
""",
    "one of two definitions": """\
try:
    import gymnasium
except ImportError:
    gymnasium = None
if gymnasium:
    def critical(obs): return True, [0.5, 0.5], 0.0
else:
    def critical(obs): return True, [0.5, 0.5], 0.0
""",
}


@pytest.mark.parametrize("is_trusted", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_critical_may_have_any_form_and_answers_its_callers_as_written(form, is_trusted):
    guidance = CriticalFunction(FORMS[form], TWO, is_trusted)
    entry, advice = guidance.consult(np.full(3, 3.0))
    assert advice is not None
    assert (advice[0].tolist(), advice[1]) == ([0.5, 0.5], 0.0)
    assert entry == (form == "one of two definitions" and not is_trusted)
    assert len(guidance) == len(guidance.lines) == 1 + (form == "one of two definitions")
    assert guidance.faults.counts.total == 0


def test_the_entry_of_code_that_calls_itself_is_that_of_the_call_from_outside():
    source = "def critical(obs):\n    if obs[0] > 1:\n        return critical(obs / 2)\n    return True, [0.5, 0.5], 0.0\n"
    guidance = CriticalFunction(source, TWO)
    assert [guidance.consult(np.full(3, size))[0] for size in (3.0, 0.5)] == [0, 1]


def test_an_answer_that_is_repeated_has_the_entry_that_it_came_from():
    source = """
def hold(rule):
    def played(obs):
        if obs[0] > 0:
            played.answer = rule(obs)
        return played.answer
    return played

@hold
def critical(obs):
    if obs[0] > 5:
        return True, [0.5, 0.5], 0.0
    return True, [-0.5, -0.5], 0.0
"""
    guidance = CriticalFunction(source, TWO)
    assert [guidance.consult(np.full(3, size))[0] for size in (9.0, -1.0, 1.0, -1.0, -1.0)] == [0, 0, 1, 1, 1]


def test_code_without_critical_is_refused():
    with pytest.raises(PolicyRejected, match=r"no function critical\(obs\)"):
        CriticalFunction("def danger(obs):\n    return True, [0.5, 0.5], 0.0\n", TWO)
    with pytest.raises(PolicyRejected, match="line 3: policy is not what is asked for"):
        CriticalFunction("def critical(obs):\n    return policy[0]\npolicy = [None]\n", TWO)


def test_a_variable_of_its_own_name_is_not_a_call_of_itself():
    guidance = CriticalFunction("def critical(obs):\n    critical = obs[0] < 0\n    return critical, [0.5, 0.5], -0.1\n", TWO)
    assert guidance(np.ones(3)) is None
    assert guidance(-np.ones(3)) is not None


@pytest.mark.parametrize("is_trusted", [False, True])
def test_a_reset_that_fails_is_a_fault(is_trusted):
    fails_at_once_again = "\n\nbegun = 0\n\n\ndef reset():\n    global begun\n    begun += 1\n    assert begun < 2\n"
    guidance = CriticalFunction(code("return False, None, 0") + fails_at_once_again, TWO, is_trusted)
    assert guidance(np.zeros(3)) is None
    with pytest.warns(UserWarning, match="AssertionError"):
        assert [guidance.reset(), guidance(np.zeros(3))] == [None, None]


@pytest.mark.parametrize("answer", ["None", "False", "obs[0] > 5", "(False, None, None)", "(False, 0, None)"])
def test_what_is_not_critical_may_be_said_in_many_ways(answer):
    guidance = CriticalFunction(f"import numpy as np\ndef critical(obs):\n    return {answer}\n", TWO)
    assert guidance.consult(np.zeros(3)) == (-1, None)
    assert guidance.faults.total == 0


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("True", r"critical must return \(is_critical, action, reward\) or None, got True"),
        ("(True, [0.0, 0.0])", "critical must return"),
        ("()", "critical must return"),
        ("(float('nan'), [0.0, 0.0], 0.5)", "is_critical is NaN"),
    ],
)
def test_a_wrong_answer_is_named(answer, reason):
    guidance = CriticalFunction(f"def critical(obs):\n    return {answer}\n", TWO)
    with pytest.warns(UserWarning, match=reason):
        assert guidance(np.zeros(3)) is None


def test_code_that_was_given_up_is_not_reset_either():
    source = "def critical(obs):\n    return obs[9], [0.0, 0.0], 0.0\n\n\nbegun = 0\n\n\ndef reset():\n    global begun\n"
    guidance = CriticalFunction(source + "    begun += 1\n    assert begun < 2\n", TWO, is_trusted=True)
    with pytest.warns(UserWarning, match="CriticalFunction"):
        answers = [guidance(np.zeros(3)) for _ in range(12)]
    assert answers == [None] * 12
    guidance.reset()
    assert guidance.faults.total == 10


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_code_of_any_editor(mark, end):
    source = "critical = lambda obs: (obs[0] < 1, [0.5, 0.5], 0.5)\nname = '''two\nlines'''\n"
    guidance = CriticalFunction(mark + source.replace("\n", end), TWO)
    assert guidance.consult(np.zeros(1))[0] == 0
    assert guidance(np.ones(1)) is None
