"""The bounds: every call of what passes the check ends soon, in little memory, and does what Python does."""

import contextlib
import functools
import json
import random
import signal
import subprocess
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest
from conftest import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from policy_corpus import HOSTILE, LEGITIMATE, OUTCOMES, QUIRKS, STATES
from policy_fuzzer import Writer, repaired

from llmwrappers.sandbox.generated_policy import GeneratedPolicy
from llmwrappers.sandbox.language import MAX_INTEGER, MAX_SIZE, PolicyFault, PolicyRejected
from llmwrappers.sandbox.limits import BoundedPolicy, _line_of, compile_policy, run_top_level
from llmwrappers.sandbox.meter import Meter
from llmwrappers.sandbox.values import size_of

BOUNDED = [name for name, (expected, _) in HOSTILE.items() if expected == "bounded"]
SECONDS = 5.0  # for one call; what is hostile takes at most 1 s or so on an idle machine
MEGABYTES = 400


# ------------------------------------------------------------------------------------------------- the corpus, in process

PLAY = """
import faulthandler, json, resource, sys, time, warnings
import numpy as np
from policy_corpus import HOSTILE
from llmwrappers.sandbox.limits import BoundedPolicy
from llmwrappers.sandbox.language import PolicyFault, PolicyRejected

def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

warnings.simplefilter("ignore")
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))
for name in sys.argv[1:]:
    faulthandler.dump_traceback_later(20, exit=True)
    before, seconds = megabytes(), []
    print(json.dumps([name]), flush=True)
    start = time.perf_counter()
    try:
        policy = BoundedPolicy(HOSTILE[name][1], None)
        seconds.append(time.perf_counter() - start)
        for observation in (np.zeros(11), np.linspace(-1.5, 2.0, 11), np.full(11, 1e7)) * 20:
            start = time.perf_counter()
            try:
                end = f"returns shape {policy(observation.copy()).shape}"
            except PolicyFault as fault:
                end = str(fault)
            seconds.append(time.perf_counter() - start)
            if sum(seconds) > 0.3:
                break
    except PolicyRejected as rejection:
        end = str(rejection)
    print(json.dumps([name, max(seconds, default=0.0), megabytes() - before, end]), flush=True)
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Name -> (seconds of the longest call, megabytes, how it ended) of each bounded policy, played up to 60 times."""
    left, ends = list(BOUNDED), {}
    folder = tmp_path_factory.mktemp("played")
    while left:
        result = subprocess.run(
            [sys.executable, "-c", PLAY, *left],
            cwd=folder,
            env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'sandbox'}", "OMP_NUM_THREADS": "1"},
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        assert lines, result.stderr
        ends |= {line[0]: tuple(line[1:]) for line in lines}
        left = left[left.index(lines[-1][0]) + 1 :]
    assert list(folder.iterdir()) == []
    return ends


@pytest.mark.parametrize("name", BOUNDED)
def test_a_hostile_policy_ends_soon_in_little_memory(played, name):
    OUTCOMES[name] = "escaped"
    assert played[name], "it ended the process, or ran for more than 20 seconds"
    seconds, megabytes, end = played[name]
    assert seconds < SECONDS, end
    assert megabytes < MEGABYTES, end
    OUTCOMES[name] = "bounded"


# ---------------------------------------------------------------------------------------------------- what Python would do


def python(source: str):
    """The policy, as Python runs it."""
    namespace = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(source, namespace)
    return namespace["policy"]


PRIORS = sorted((ROOT / "llmwrappers" / "priors" / "shipped").glob("*/policy-*.py"))


@functools.cache
def observation_size(env_id: str) -> int:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Box2D's import warns, and does not survive an error
            env = gym.make(env_id)
        with contextlib.closing(env):
            return int(np.prod(env.observation_space.shape))
    except gym.error.DependencyNotInstalled as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("path", PRIORS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_shipped_policy_gives_what_python_gives(path):
    source, size = path.read_text("utf-8"), observation_size(path.parent.name)
    policy, expected = BoundedPolicy(source, None), python(source)
    for observation in np.random.default_rng(1).standard_normal((20, size)):
        np.testing.assert_array_equal(policy(observation.copy()), np.asarray(expected(observation.copy()), float))


@pytest.mark.parametrize("name", LEGITIMATE)
def test_a_legitimate_policy_gives_what_python_gives(name):
    size, _, source = LEGITIMATE[name]
    policy, meter = run_top_level(*compile_policy(source))
    expected = python(source)
    for observation in np.random.default_rng(1).standard_normal((20, size)):
        meter.reset(size)
        np.testing.assert_array_equal(policy(observation.copy()), expected(observation.copy()))


@pytest.mark.parametrize("quirk", QUIRKS)
def test_the_language_means_what_python_means(quirk):
    source = QUIRKS[quirk]
    policy, meter = run_top_level(*compile_policy(source))
    meter.reset(3)
    observation = np.array([0.5, -1.25, 3.0])
    assert repr(policy(observation.copy())) == repr(python(source)(observation.copy()))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("{1: 2}[(1, (2,))]", "a key of a dict must be a number, a string, or a tuple of at most 4 of them"),
        ("dict([((1, (2,)), 3)])", "a key of a dict must be"),
        ("{1: 2}.get((1, 2, 3, 4, 5))", "a key of a dict must be"),
        ("(1, (2,)) in {1: 2}", "a key of a dict must be"),
        ("np.linalg.inv(a=np.eye(40))", "more than 32 x 32"),
        ("obs.prod(None, 'O')", "take numbers and lists of numbers"),
        ("np.round(obs, obs.size * 1000)", "number of digits"),
        ("obs.round(decimals=-1000)", "number of digits"),
        ("np.eye(3)[obs[0] > 0]", "not a truth value"),
        ("np.zeros((1, 999))[[0] * 999]", "more than 10000 elements"),
        ("[0 for i in range(101) for j in range(100)]", "loops run too long|more than 10000 elements"),
    ],
)
def test_what_is_not_done_and_why(expression, message):
    with pytest.raises(PolicyFault, match=message):
        BoundedPolicy(f"import numpy as np\ndef policy(obs):\n    x = {expression}\n    return [0.0]\n", 1)(np.ones(3))


@pytest.mark.parametrize("made", ["[0 for i in range(4096)]", "[0] * 4096", "list(map(int, [0] * 4096))"])
def test_all_work_counts_more_where_a_long_list_is_about(made):
    policy, meter = run_top_level(*compile_policy(f"LONG = {made}\ndef policy(obs):\n    return [len(LONG)]\n"))
    meter.reset(3)
    assert meter.weight == 16
    policy, meter = run_top_level(*compile_policy(f"def policy(obs):\n    x = {made}\n    return [len(x)]\n"))
    meter.reset(3)
    assert meter.weight == 1
    policy(np.zeros(3))
    assert meter.weight == 16


def test_a_reason_cannot_steer_a_terminal():
    source = "def policy(obs):\n    assert obs[0] > 9, '\\x1b[2J\\ud800 all is well'\n    return [0.0]\n"
    with pytest.raises(PolicyFault, match=r"AssertionError: \?\[2J\? all is well"):
        BoundedPolicy(source, 1)(np.ones(1))
    with pytest.raises(PolicyRejected, match=r"its top level fails: .*\?\[2J\? all is well"):
        BoundedPolicy("def f():\n    assert False, '\\x1b[2J\\ud800 all is well'\nX = f()\n" + source, 1)


def test_what_numpy_raises_elsewhere_is_the_policys_to_deal_with():
    source = "import numpy as np\nX = np.log(np.array([0.0, 1.0]))\ndef policy(obs):\n    return [float(1.0 / obs[0] > X[1])]\n"
    with np.errstate(all="raise"):
        assert GeneratedPolicy(source, 1)(np.zeros(1)).tolist() == [1.0]


def test_an_observation_of_nothing_is_no_error_of_its_own():
    assert BoundedPolicy("def policy(obs):\n    return [len(obs)]\n", (1,))({}).tolist() == [0.0]


def test_methods_of_arrays_work_in_a_process_that_has_not_used_them():
    code = "import numpy as np\nfrom llmwrappers.sandbox.limits import BoundedPolicy\n" + "".join(
        f"BoundedPolicy('def policy(obs): return obs.{call}', None)(np.ones(3))\n"
        for call in (
            "mean()",
            "sum()",
            "std()",
            "var()",
            "min()",
            "max()",
            "any()",
            "all()",
            "clip(0, 1)",
            "prod()",
            "round(1)",
        )
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


# -------------------------------------------------------------------------------------------------------- random programs

OBSERVATION = np.array([0.5, -1.2, 3.0])


@contextlib.contextmanager
def within(seconds: float):
    """Raises TimeoutError in what takes longer."""

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def attempts(source, play, most=20):
    """Yields (source, result or error), each time without the line that raised."""
    for _ in range(most):
        result = play(source)
        yield source, result
        line = _line_of(result) if isinstance(result, Exception) else None
        if line is None or repaired(source, line) == source:
            break
        source = repaired(source, line)


random_programs = given(seed=st.integers(0, 2**40), noise=st.sampled_from([0.02, 0.06, 0.2]))
few = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
many = settings(few, max_examples=3000)


def check_call(seed, noise):
    def play(source):
        try:
            policy, meter = run_top_level(*compile_policy(source))
        except PolicyRejected as rejection:
            return rejection
        meter.reset(3)
        try:
            with within(SECONDS):
                return policy(OBSERVATION.copy())
        except TimeoutError:
            raise
        except Exception as error:
            return error

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for source, result in attempts(Writer(random.Random(seed), noise).program(), play):
            policy = None
            with contextlib.suppress(PolicyRejected):
                policy = BoundedPolicy(source, None)
            if policy is not None:
                with contextlib.suppress(PolicyFault):
                    assert np.isfinite(policy(OBSERVATION.copy())).all()
            # What ended within the bounds can be run without them.
            if not isinstance(result, Exception):
                with contextlib.suppress(TypeError, RuntimeError):  # a view of a dict is a list here, which can do more
                    assert repr(result) == repr(python(source)(OBSERVATION.copy()))


@few
@random_programs
def test_a_program_is_refused_or_faults_or_does_what_python_does(seed, noise):
    check_call(seed, noise)


@pytest.mark.slow
@many
@random_programs
def test_a_program_is_refused_or_faults_or_does_what_python_does_in_many_programs(seed, noise):
    check_call(seed, noise)


ODD = {
    "a tuple of truth values as an index": "z = obs[tuple([True])]",
    "round of a float or array": "x = 3.2 if obs[0] < 9 else obs\n    y = round(x)",
    "a dict out of a reduction": "x = np.max([{0: 3}])\n    y = x[0]",
    "a view of a dict out of a reduction": "d = {'a': 3}\n    for x in np.max(d.values()):\n        y = x",
    "an alias out of a sum": "a = [1.0]\n    s = sum([[a]], [])\n    s[0].append(3)\n    n = a[1]",
    "a default that is a truth value": "def f(i=not 0):\n        return i\n    y = obs[f()]",
    "an empty list": "n = 1.0\n    n = sum([], 3)\n    y = n * n",
    "a named generator": "n = np.sum(a=(i for i in [3]))",
    "an iterated two-dimensional array": "for row in np.eye(2):\n        y = row * 2",
    "a list in a variable that was a number": "x = 1.0\n    x = [2]\n    y = x[0]",
    "a helper that may return nothing": "def f(x):\n        if x > 9:\n            return 1.0\n    y = f(obs[0])",
    "a loop that may return nothing": "def f(x):\n        for i in range(int(x)):\n            return 1.0\n    y = f(obs[1])",
    "a helper of two kinds": "def f(x):\n        return x\n    y = f(1)\n    y = f(obs)\n    z = f([1])",
}


@pytest.mark.parametrize("program", ODD)
def test_what_is_odd_does_what_python_does_or_faults(program):
    source = f"import numpy as np\ndef policy(obs):\n    {ODD[program]}\n    return [0.0]"
    with contextlib.suppress(PolicyFault):
        assert BoundedPolicy(source, 1)(OBSERVATION.copy()).tolist() == python(source)(OBSERVATION.copy())


# ------------------------------------------------------------------------------------------------------------- the limits


def fault(body: str, observation=OBSERVATION) -> str:
    with pytest.raises(PolicyFault) as caught:
        BoundedPolicy(f"import math\nimport numpy as np\ndef policy(obs):\n    {body}", None)(np.array(observation))
    return str(caught.value)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return [3 ** 40 * 3 ** 40]", "line 4: an integer exceeds 2**62"),
        ("return np.ones(10_001)", "line 4: a value has more than 10000 elements"),
        ("return [sum([i * j for i in range(9999) for j in range(9999)])]", "line 4: too much work"),
        ("return [obs[7]]", "line 4: IndexError"),
        ("x = {}\n    return [x['kp']]", "line 5: KeyError: 'kp'"),
        ("return [1 / 0]", "line 4: ZeroDivisionError"),
        ("return ['x']", "real numbers"),
        ("return [math.nan]", "the policy returned [nan]"),
        ("return [1.0, math.inf]", "the policy returned [ 1. inf]"),
        ("pass", "real numbers"),
        ("assert obs[0] > 9, 'far'", "line 4: AssertionError"),
        ("y += 1\n    return [y]", "line 4: UnboundLocalError"),
        ("a = [1.0]\n    a[0] = a\n    return a", "line 5: a list or a dict cannot hold itself"),
        ("a = [1.0]\n    b = (a, 1)\n    a.append([b])\n    return a", "line 6: a list or a dict cannot hold itself"),
        ("a = [1.0]\n    a.insert(0, a)\n    return a", "line 5: a list or a dict cannot hold itself"),
        ("a = [1.0]\n    a.extend([a])\n    return a", "line 5: a list or a dict cannot hold itself"),
        ("d = {}\n    d['a'] = [d]\n    return d", "line 5: a list or a dict cannot hold itself"),
    ],
)
def test_a_fault_names_the_line_and_what_happened(body, reason):
    assert reason in fault(body)


@pytest.mark.parametrize(
    "assignment",
    [
        "a[0], a[1] = 5, 6",
        "i, a[i] = 2, 7",
        "a[0], (b, *a[1:]) = 1, (2, 3, 4)",
        "b = a[1] = 9",
        "[a[0], b] = a[1], a[0]",
        "a[0], b = 1",
    ],
)
def test_several_elements_are_assigned_in_the_order_of_python(assignment):
    """In an array; in a list, whose slices cannot be assigned, a fault may take the place of the answer."""
    for source in ("np.arange(3.0)", "[0.0, 1.0, 2.0]"):
        code = f"import numpy as np\ndef policy(obs):\n    a, b = {source}, -1\n    {assignment}\n    return [*a, b]\n"
        if assignment.endswith("= 1") or ("1:" in assignment and source[0] == "["):
            with pytest.raises(PolicyFault):
                BoundedPolicy(code, None)(np.ones(1))
        else:
            assert BoundedPolicy(code, None)(np.ones(1)).tolist() == python(code)(np.ones(1))


def test_the_work_of_one_call_does_not_count_for_the_next():
    source = "def policy(obs):\n    n = 0.0\n    for i in range(9000):\n        n += 1.0\n    return [n]"
    policy = BoundedPolicy(source, (1,))
    for _ in range(5):
        assert policy(np.zeros(1)).tolist() == [9000.0]


def test_large_arrays_make_work_dearer_and_only_for_their_call():
    source = """import numpy as np
def policy(obs):
    z = np.zeros(10_000) if obs[0] > 0 else np.zeros(10)
    for i in range(1000):
        z = np.sin(z)
    return z[:1]"""
    policy = BoundedPolicy(source, (1,))
    assert policy(np.zeros(1)).tolist() == [0.0]
    with pytest.raises(PolicyFault, match="too much work"):
        policy(np.ones(1))
    assert policy(np.zeros(1)).tolist() == [0.0]


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (1.0, 1),
        (MAX_INTEGER, 1),
        ([1, [2.0, 3]], 5),
        ({"a": (1, 2)}, 4),
        (np.zeros((3, 4)), 12),
        (range(7), 7),
        ("abc", 3),
        (None, 1),
    ],
)
def test_size_of_counts_elements(value, size):
    assert size_of(value) == size


@pytest.mark.parametrize(
    "value",
    [
        MAX_INTEGER + 1,
        np.zeros(MAX_SIZE + 1),
        [0.0] * (MAX_SIZE + 1),
        [[0.0] * 200] * 200,
        [[[[[[[[[1]]]]]]]]],
        np.array(["a"]),
        np.array([None]),
        np.zeros((0, 10**9)),
        [[range(MAX_SIZE)] * 9],
        np.str_("a"),
        open,
        np,
        (x for x in "a"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_size_of_refuses_what_is_too_large_or_no_value_of_a_policy(value):
    with pytest.raises(PolicyFault):
        size_of(value)


def test_a_meter_raises_when_nothing_is_left():
    meter = Meter()
    meter.reset()
    meter.spend(99_999)
    with pytest.raises(PolicyFault, match="too much work"):
        meter.spend(2)


# ------------------------------------------------------------------------------------------------------ nothing is changed


def test_a_policy_cannot_change_what_lives_on_between_calls():
    for change in (
        "TABLE[0] = obs[0]",
        "TABLE += 1",
        "TABLE.fill(3)",
        "t = TABLE\n    t[:] = 0",
        "t = PAIR[0]\n    t *= 2",
        "np.abs(TABLE[:2])[0]",
    ):
        source = "import numpy as np\nTABLE = np.arange(3.0)\nPAIR = (TABLE[1:], 3)\n"
        source += f"def policy(obs):\n    {change}\n    return TABLE"
        try:
            policy = BoundedPolicy(source, (3,))
        except PolicyRejected:  # an augmented assignment makes a local variable of it
            continue
        for _ in range(2):
            with contextlib.suppress(PolicyFault):
                assert policy(np.full(1, 7.0)).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("name", STATES)
def test_a_policy_keeps_no_state(name):
    try:
        policy = BoundedPolicy(STATES[name], (1,))
    except PolicyRejected:
        return
    actions = []
    for _ in range(3):
        try:
            actions.append(policy(np.ones(1)).tolist())
        except PolicyFault:
            actions.append("fault")
    assert actions[0] == actions[1] == actions[2]


def test_the_fault_of_a_policy_that_keeps_state_says_so():
    policy = BoundedPolicy("SEEN = []\ndef policy(obs):\n    SEEN.append(1.0)\n    return [len(SEEN)]", (1,))
    for _ in range(2):
        with pytest.raises(PolicyFault, match=r"line 3: .* keeps no state between calls"):
            policy(np.ones(1))


def test_a_list_of_gains_outside_may_be_read_and_copied():
    source = """
GAINS = [1.0, 2.0]
def policy(obs):
    g = GAINS.copy()
    g.append(obs[0])
    h = list(GAINS)
    h[0] = 9.0
    return g"""
    policy = BoundedPolicy(source, (3,))
    assert [policy(np.ones(1)).tolist() for _ in range(2)] == [[1.0, 2.0, 1.0]] * 2


def test_the_top_level_is_bounded_too():
    for top, reason in [
        ("N = 3 ** 99", "2\\*\\*62"),
        ("N = [0] * 10**9", "10000"),
        ("N = [i for i in range(9999) for j in range(9999)]", "too much work"),
        ("N = 1 / 0", "ZeroDivisionError"),
        ("def f():\n    x = 1.0\n    for i in range(60):\n        x = (x, x)\n    return x\nN = f()", "10000"),
        ("def f():\n    x = 1.0\n    for i in range(9000):\n        x = (x,)\n    return x\nN = f()", "10000"),
    ]:
        with (
            within(SECONDS),
            pytest.raises(PolicyRejected, match=f"line \\d+: its top level fails: .*{reason}|its top level fails: .*{reason}"),
        ):
            BoundedPolicy(f"{top}\ndef policy(obs):\n    return [0.0]", (1,))
