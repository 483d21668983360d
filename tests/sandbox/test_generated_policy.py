"""GeneratedPolicy at both levels of isolation, and what the probe refuses."""

import contextlib
import gc
import os
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import numpy as np
import pytest
from conftest import ROOT, Echo, Turns
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from policy_corpus import HOSTILE, LEGITIMATE, OUTCOMES
from test_limits import python

from llmwrappers.sandbox.generated_policy import GeneratedPolicy
from llmwrappers.sandbox.language import PolicyFault, PolicyRejected
from llmwrappers.sandbox.probe import vet_policy

posix = pytest.mark.skipif(os.name != "posix", reason="worker processes need POSIX")
every_level = pytest.mark.parametrize("isolation", ["inprocess", pytest.param("process", marks=posix)])
BOUNDED = [name for name, (expected, _) in HOSTILE.items() if expected == "bounded"]
SOME = BOUNDED[::5]  # each has a process of its own
DOUBLE = "def policy(obs):\n    return [obs[0] * 2, obs[1]]"


@pytest.fixture
def make():
    """``make(source, action_dim, isolation)``: a GeneratedPolicy that is closed in the end."""
    policies = []

    def made(*arguments):
        policies.append(GeneratedPolicy(*arguments))
        return policies[-1]

    yield made
    for policy in policies:
        policy.close()


# ------------------------------------------------------------------------------------------------------------- the corpus


def in_workers(play, names):
    """Name -> what ``play`` gives, each in its worker, four at a time."""
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(names, pool.map(play, names), strict=True))


def observations(name):
    return np.random.default_rng(2).standard_normal((20, LEGITIMATE[name][0]))


@pytest.fixture(scope="module")
def legitimate_in_workers():
    def play(name):
        _, shape, source = LEGITIMATE[name]
        policy = GeneratedPolicy(source, shape, "process")
        try:
            return policy.batch(observations(name))
        except PolicyRejected as rejection:
            return str(rejection)
        finally:
            policy.close()

    return in_workers(play, LEGITIMATE)


@posix
@pytest.mark.parametrize("name", LEGITIMATE)
def test_a_legitimate_policy_gives_what_python_gives_at_every_level(legitimate_in_workers, name):
    _, shape, source = LEGITIMATE[name]
    policy, plain = GeneratedPolicy(source, shape), python(source)
    expected = np.array([np.asarray(plain(observation.copy()), float) for observation in observations(name)])
    np.testing.assert_array_equal(np.array([policy(observation) for observation in observations(name)]), expected)
    np.testing.assert_array_equal(policy.batch(observations(name)), expected)
    np.testing.assert_array_equal(legitimate_in_workers[name], expected)
    OUTCOMES[name] = "played"


def play_hostile(name):
    """The seconds that three calls take in a worker, and whether its process is gone afterwards."""
    policy = GeneratedPolicy(HOSTILE[name][1], 1, "process")
    start = time.perf_counter()
    with contextlib.suppress(PolicyFault, PolicyRejected):
        policy.batch(np.array([np.zeros(11), np.linspace(-1.5, 2.0, 11), np.full(11, 1e7)]))
    seconds = time.perf_counter() - start
    worker = policy._worker
    policy.close()
    return seconds, worker is None or worker.process.returncode is not None


def check_hostile(names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, (seconds, gone) in in_workers(play_hostile, names).items():
        assert seconds < 10, name
        assert gone, name
    assert list(tmp_path.iterdir()) == []


@posix
def test_a_hostile_policy_ends_in_a_worker_and_the_worker_with_it(tmp_path, monkeypatch):
    check_hostile(SOME, tmp_path, monkeypatch)


@posix
@pytest.mark.slow
def test_each_hostile_policy_ends_in_a_worker_and_the_worker_with_it(tmp_path, monkeypatch):
    check_hostile(BOUNDED, tmp_path, monkeypatch)


# --------------------------------------------------------------------------------------------------------------- playing


@every_level
def test_a_call_gives_a_float64_action(make, isolation):
    policy = make(DOUBLE, 2, isolation)
    action = policy([1, 2])
    assert action.tolist() == [2.0, 2.0]
    assert action.dtype == np.float64
    assert policy(np.array([1.5, 2.5], dtype=np.float32)).tolist() == [3.0, 2.5]
    action[0] = 9.0  # the caller's own
    assert policy([1, 2]).tolist() == [2.0, 2.0]


@every_level
@pytest.mark.parametrize(
    "body",
    ["obs[0] = 9.0", "obs *= 0", "obs.fill(3.0)", "obs.T[0] = 1.0", "o = obs[1:]\n    o += 1.0", "np.ravel(obs)[0] = 7.0"],
)
def test_the_observation_of_the_caller_stays_as_it_is(make, isolation, body):
    policy = make(f"import numpy as np\ndef policy(obs):\n    {body}\n    return obs", 3, isolation)
    observation, several = np.arange(3.0), np.arange(6.0).reshape(2, 3)
    policy(observation), policy.batch(several)
    assert observation.tolist() == [0.0, 1.0, 2.0]
    assert several.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


@every_level
def test_an_action_is_no_view_of_the_observation_or_of_a_constant(make, isolation):
    policy = make(
        "import numpy as np\nREST = np.zeros(2)\ndef policy(obs):\n    return REST if obs[0] > 0 else obs", 2, isolation
    )
    observation = np.zeros(2)
    for start in (observation, np.ones(2)):
        policy(start)[:] = 5.0
        assert policy(start).tolist() == [0.0, 0.0]


@every_level
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return [1.0]", r"the policy returned shape \(1,\), not \(2,\)"),
        ("return [[1.0, 2.0]]", r"the policy returned shape \(1, 2\), not \(2,\)"),
        ("return 1.0", r"the policy returned shape \(\), not \(2,\)"),
        ("return None", "real numbers"),
        ("return ['a', 'b']", "real numbers|numbers"),
        ("return [obs[0] / 0, math.nan]", "the policy returned|ZeroDivision"),
        ("return [1.0, math.inf]", "the policy returned"),
        ("return [obs[5], 1.0]", "line 3: IndexError"),
        ("x = obs[0]", "real numbers"),
        ("return [1 / int(obs[0] * 0), 0.0]", "line 3: ZeroDivisionError"),
    ],
)
def test_a_fault_raises_at_every_level(make, isolation, body, reason):
    policy = make(f"import math\ndef policy(obs):\n    {body}", 2, isolation)
    with np.errstate(all="ignore"), pytest.raises(PolicyFault, match=reason):
        policy(np.ones(3))


@every_level
def test_a_batch_marks_the_rows_of_faults(make, isolation):
    policy = make("def policy(obs):\n    return [1 / int(obs[0])]", 1, isolation)
    np.testing.assert_array_equal(policy.batch([[1.0], [0.0], [2.0]]), [[1.0], [np.nan], [0.5]])
    assert policy.restarts == 0


@every_level
def test_a_batch_may_be_empty_or_large(make, isolation):
    policy = make(DOUBLE, 2, isolation)
    assert policy.batch(np.zeros((0, 3))).shape == (0, 2)
    many = np.random.default_rng(0).standard_normal((20_000, 3))  # more than a pipe holds
    np.testing.assert_array_equal(policy.batch(many), many[:, :2] * [2.0, 1.0])


@every_level
@pytest.mark.parametrize(
    ("action_dim", "value"),
    [((2, 2), "np.outer(obs, obs)"), ((), "obs[0]"), ((1,), "obs[:1]"), (np.int64(2), "obs"), ((0,), "obs[:0]")],
)
def test_an_action_may_have_any_shape(make, isolation, action_dim, value):
    policy = make(f"import numpy as np\ndef policy(obs):\n    return {value}", action_dim, isolation)
    shape = action_dim if isinstance(action_dim, tuple) else (int(action_dim),)
    assert policy([1.0, 2.0]).shape == shape
    assert policy.batch([[1.0, 2.0]] * 3).shape == (3, *shape)


@every_level
def test_an_observation_may_have_any_number_of_dimensions(make, isolation):
    policy = make("def policy(obs):\n    return [obs.sum(), obs.ndim]", 2, isolation)
    for shape in ((4,), (2, 3), (2, 2, 2), (), (7,)):
        assert policy(np.ones(shape)).tolist() == [np.prod(shape), len(shape)]


@every_level
def test_two_policies_play_side_by_side(make, isolation):
    one, two = (
        make("def policy(obs):\n    return [1.0]", 1, isolation),
        make("def policy(obs):\n    return [2.0]", 1, isolation),
    )
    for _ in range(3):
        assert (one([0.0]).item(), two([0.0]).item()) == (1.0, 2.0)


@every_level
def test_a_policy_pickles_and_its_copy_plays_alike(make, isolation):
    policy = make(DOUBLE, 2, isolation)
    policy([1.0, 2.0])
    copy = pickle.loads(pickle.dumps(policy))
    assert (copy.source, copy.action_dim, copy.isolation, copy.restarts) == (DOUBLE, 2, isolation, 0)
    assert copy([1.0, 2.0]).tolist() == [2.0, 2.0]
    copy.close()
    assert policy([1.0, 2.0]).tolist() == [2.0, 2.0]


@every_level
def test_a_closed_policy_starts_again_at_the_next_call(make, isolation):
    policy = make(DOUBLE, 2, isolation)
    policy.close()
    for _ in range(2):
        assert policy([1.0, 2.0]).tolist() == [2.0, 2.0]
        worker = policy._worker
        policy.close()
        policy.close()
        assert worker is None or worker.process.returncode is not None
    assert policy.restarts == 0


@posix
def test_a_forgotten_policy_ends_its_worker():
    policy = GeneratedPolicy(DOUBLE, 2, "process")
    policy([1.0, 2.0])
    process = policy._worker.process
    del policy
    gc.collect()
    assert process.returncode is not None


@posix
def test_a_fork_gets_a_worker_of_its_own_and_leaves_the_others_alone():
    code = """
import os
import numpy as np
from llmwrappers.sandbox.generated_policy import GeneratedPolicy

policy = GeneratedPolicy("def policy(obs):\\n    return [obs[0]]", 1, "process")
assert policy([1.0]).item() == 1.0
parent = policy._worker.process.pid
child = os.fork()
for i in range(200):
    assert policy([float(i + child)]).item() == i + child
assert (policy._worker.process.pid == parent) == (child != 0)
if child:
    assert os.waitpid(child, 0)[1] == 0
    assert policy([7.0]).item() == 7.0
policy.close()
"""
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((DOUBLE, 2, "thread"), "isolation must be 'inprocess' or 'process', got 'thread'"),
        ((DOUBLE, None, "process"), "needs action_dim"),
    ],
)
def test_a_wrong_argument_is_named(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        GeneratedPolicy(*arguments)


def test_warnings_do_not_change_what_a_policy_does():
    """NumPy warns of the logarithm of a negative number; the tests make errors of warnings."""
    policy = GeneratedPolicy("import numpy as np\ndef policy(obs):\n    return np.nan_to_num(np.log(obs))", 1)
    assert policy([-1.0]).tolist() == [0.0]


# --------------------------------------------------------------------------------------------------------------- the probe

VECTOR = Box(-np.inf, np.inf, (3,))
TORQUE = Box(-2.0, 2.0, (1,))


@posix
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return [1.0, 2.0]", r"the policy returned shape \(2,\), not \(1,\)"),
        ("return obs[0]", r"the policy returned shape \(\), not \(1,\)"),
        ("return [math.nan]", "the policy returned"),
        ("return [undefined(obs)]", "not defined"),
        ("return [obs[3]]", "line 4: IndexError"),
        ("return [GAINS['ki']]", "line 4: KeyError: 'ki'"),
        ("pass", "real numbers"),
        ("return [sum([i * j for i in range(9999) for j in range(9999)])]", "too much work"),
        ("while True:\n        pass", "line 4: while loops are not allowed"),
    ],
)
def test_a_policy_that_fails_everywhere_is_refused(body, reason):
    with pytest.raises(PolicyRejected, match=reason):
        vet_policy(f"import math\nGAINS = {{'kp': 1.0}}\ndef policy(obs):\n    {body}", VECTOR, TORQUE)


@posix
@pytest.mark.parametrize("isolation", ["inprocess", "process"])
@pytest.mark.parametrize(
    "body",
    [
        "return [obs[0] / float(obs @ obs)]",  # fails at zeros
        "return [1.0 / int(obs[0] * 1e6)]",
        "return [math.exp(min(obs[0], 800.0))]",  # overflows far out
        "return [math.acos(max(-1.0, min(1.0, obs[0])))]",
        "assert abs(obs[0]) < 1e3\n    return [obs[0]]",
        "return [obs[0] if obs[0] < 1e4 else math.nan]",
    ],
)
def test_a_policy_that_fails_only_at_zeros_or_far_out_is_kept(body, isolation):
    policy = vet_policy(f"import math\ndef policy(obs):\n    {body}", VECTOR, TORQUE, isolation)
    assert policy.isolation == isolation
    assert policy([0.5, 0.25, -0.25]).shape == (1,)
    policy.close()


@posix
def test_a_policy_that_fails_at_real_observations_is_refused():
    source = "def policy(obs):\n    assert abs(obs[0] ** 2 + obs[1] ** 2 - 1.0) > 0.01\n    return [obs[2]]"
    env = gym.make("Pendulum-v1")
    vet_policy(source, env.observation_space, env.action_space)
    with pytest.raises(PolicyRejected, match="line 2: AssertionError"):
        vet_policy(source, env.observation_space, env.action_space, env=env)
    assert vet_policy("def policy(obs):\n    return [-obs[2]]", env.observation_space, env.action_space, env=env)(
        [1, 0, 3]
    ).tolist() == [-3.0]


@posix
def test_a_slow_policy_is_refused(monkeypatch):
    monkeypatch.setattr("llmwrappers.sandbox.probe.SLOWEST_CALL", 1e-4)
    source = "def policy(obs):\n    x = obs[0]\n    for i in range(5000):\n        x = x * 0.5\n    return [x]"
    with pytest.raises(PolicyRejected, match="a call takes longer than the"):
        vet_policy(source, VECTOR, TORQUE)


@posix
def test_a_policy_with_a_memory_is_refused_or_has_none():
    """The action is one of the observation alone, or there is no policy."""
    for source in (
        "import numpy as np\ndef policy(obs):\n    return np.empty(1)",
        "SEEN = []\ndef policy(obs):\n    SEEN.append(1.0)\n    return [len(SEEN)]",
        "SEEN = (i for i in range(99))\ndef policy(obs):\n    return [sum([1 for i in SEEN])]",
        "import numpy as np\nSEEN = np.zeros(1)\ndef policy(obs):\n    SEEN[0] += 1.0\n    return SEEN",
        "import numpy as np\nS = np.zeros(1)\ndef policy(obs):\n    if obs[0] > 1e7:\n        S[0] = 1.0\n    return [S[0]]",
    ):
        try:
            policy = vet_policy(source, VECTOR, TORQUE)
        except PolicyRejected:
            continue
        actions = [policy.batch([[scale] * 3])[0, 0] for scale in (1.0, 1e8, 1.0, 1.0)]
        assert actions[0] == actions[2] == actions[3]


@posix
def test_the_probe_finds_a_policy_that_answers_differently(monkeypatch):
    """No program that passes can do so; so the worker is made to."""
    answers = iter(range(10_000))
    monkeypatch.setattr(
        "llmwrappers.sandbox.generated_policy._Worker.ask",
        lambda self, rows: (np.full((len(rows), 1), float(next(answers))), np.zeros(len(rows), bool), ""),
    )
    with pytest.raises(PolicyRejected, match="the same observation gives different actions"):
        vet_policy("def policy(obs):\n    return [0.0]", VECTOR, TORQUE)


@posix
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("[1, 0, 2, 0]", "0 or 1 for each action"),
        ("[0.5, 1, 1, 1]", "0 or 1 for each action"),
        ("[0, 0, 0, 0]", "allow one at least"),
        ("[1, 0, 1]", r"shape \(3,\), not \(4,\)"),
        ("2", r"shape \(\), not \(4,\)"),
    ],
)
def test_a_policy_of_a_discrete_space_must_give_truth_values(value, reason):
    with pytest.raises(PolicyRejected, match=reason):
        vet_policy(f"def policy(obs):\n    return {value}", Box(0.0, 1.0, (1,)), Discrete(4))


@posix
@pytest.mark.parametrize("start", [0, 3])
def test_a_policy_of_a_discrete_space_plays(start):
    env = Turns(n=4, start=start)
    policy = vet_policy(
        "def policy(obs):\n    return [True, obs[0] > 0.5, False, True]", env.observation_space, env.action_space, env=env
    )
    assert policy([0.75]).tolist() == [1.0, 1.0, 0.0, 1.0]


@posix
def test_a_box_of_several_dimensions_is_served():
    env = Echo(shape=(2, 3))
    policy = vet_policy(
        "import numpy as np\ndef policy(obs):\n    return np.tanh(obs[1:]).reshape(2, 3)",
        env.observation_space,
        env.action_space,
        env=env,
    )
    assert policy(np.zeros(7)).shape == (2, 3)
    with pytest.raises(PolicyRejected, match=r"the policy returned shape \(6,\), not \(2, 3\)"):
        vet_policy("import numpy as np\ndef policy(obs):\n    return np.tanh(obs[1:])", env.observation_space, env.action_space)


@posix
@pytest.mark.parametrize(
    "space", [Discrete(5), MultiDiscrete([3, 4]), MultiBinary(3), Box(0, 255, (4, 4, 3), np.uint8)], ids=str
)
def test_every_space_of_arrays_may_be_observed(space):
    policy = vet_policy("import numpy as np\ndef policy(obs):\n    return [np.sum(obs) * 1e-9]", space, TORQUE)
    assert policy(space.sample()).shape == (1,)


def test_other_spaces_are_named():
    with pytest.raises(TypeError, match="serves Box and Discrete action spaces"):
        vet_policy(DOUBLE, VECTOR, MultiDiscrete([2, 2]))


NESTED = Dict({"to": Dict({"goal": Box(-1.0, 1.0, (2,)), "door": Discrete(3)}), "at": Box(-1.0, 1.0, (2, 1))})


@posix
@pytest.mark.parametrize("isolation", ["inprocess", "process"])
def test_a_dict_is_read_by_key(isolation):
    source = "def policy(obs):\n    return [obs['to']['goal'][1] - obs['at'][1, 0] + 0.25 * obs['to']['door']]"
    policy = vet_policy(source, NESTED, TORQUE, isolation)
    observation = {"to": {"goal": np.array([9.0, 0.5]), "door": 2}, "at": np.array([[9.0], [0.125]])}
    assert policy(observation).tolist() == [0.875]
    assert policy.batch([observation] * 2).tolist() == [[0.875]] * 2
    assert observation["to"]["door"] == 2
    policy.close()


@posix
@pytest.mark.parametrize("isolation", ["inprocess", "process"])
def test_a_dict_comes_sorted_whatever_the_environment_does(isolation):
    policy = GeneratedPolicy("def policy(obs):\n    return [obs[key] for key in obs]", 2, isolation)
    assert policy({"b": 2.0, "a": 1.0}).tolist() == [1.0, 2.0]
    policy.close()


@posix
def test_a_policy_that_reads_a_key_that_is_not_there_is_refused():
    with pytest.raises(PolicyRejected, match="line 2: KeyError: 'aim'"):
        vet_policy("def policy(obs):\n    return [obs['aim'][0]]", NESTED, TORQUE)


@pytest.mark.parametrize("space", [Text(3), Dict({"mission": Text(3), "at": VECTOR}), Tuple((VECTOR, TORQUE))], ids=str)
def test_what_is_no_array_is_no_observation_that_the_probe_serves(space):
    with pytest.raises(TypeError, match="observations that are arrays, or a Dict of arrays, got"):
        vet_policy(DOUBLE, space, TORQUE)


FRAME = Box(0, 255, (210, 160, 3), np.uint8)
SEARCH = """
import numpy as np

def policy(obs):
    red = np.all(obs == np.array([200, 72, 72]), axis=2)
    gray = obs @ np.array([0.3, 0.59, 0.11])
    bright = np.where(gray > 100, gray, 0.0)
    ys, xs = np.where(red[93:189])
    return [np.mean(xs) + bright[ys, xs].sum() + np.maximum(gray, bright).max() + gray[red].sum() if len(xs) else -1.0]
"""


@posix
def test_an_image_is_looked_through_as_a_whole():
    policy, elsewhere = vet_policy(SEARCH, FRAME, TORQUE), vet_policy(SEARCH, FRAME, TORQUE, "process")
    frame = np.zeros(FRAME.shape, np.uint8)
    assert policy(frame).tolist() == elsewhere(frame).tolist() == [-1.0]
    frame[100, 30:33] = 200, 72, 72
    assert policy(frame).tolist() == elsewhere(frame).tolist() == pytest.approx([31.0 + 110.4 + 3 * 110.4])
    elsewhere.close()


@pytest.mark.parametrize(
    "many",
    [
        "-obs",
        "+obs",
        "abs(obs)",
        "obs + 1.0",
        "obs == 1",
        "np.sin(obs)",
        "obs.copy()",
        "[*obs]",
        "obs[obs > 0]",
        "obs.tolist()",
    ],
)
def test_a_policy_cannot_fill_the_memory_with_copies_of_an_image(many):
    policy = GeneratedPolicy(f"import numpy as np\ndef policy(obs):\n    x = [{', '.join([many] * 600)}]\n    return [1.0]", 1)
    assert policy(np.ones(3)).tolist() == [1.0] or many == "[*obs]"
    with pytest.raises(PolicyFault, match="too much work|more than 100800 elements"):
        policy(np.ones(FRAME.shape))


@pytest.mark.parametrize("body", ["sum([x for x in obs.ravel()])", "np.outer(obs[:, :, 0], obs)[0, 0]", "np.zeros(100801)[0]"])
def test_an_image_makes_no_room_for_more(body):
    policy = GeneratedPolicy(f"import numpy as np\ndef policy(obs):\n    return [{body}]", 1)
    with pytest.raises(PolicyFault, match="too much work|more than 100800 elements"):
        policy(np.ones(FRAME.shape))


@posix
def test_nothing_of_a_policy_runs_here_before_the_probe(monkeypatch):
    """The probe is in a process of its own; only what it lets through is built here."""
    built = []
    bounded = "llmwrappers.sandbox.generated_policy.BoundedPolicy"
    monkeypatch.setattr(bounded, lambda *arguments: built.append(arguments))
    with pytest.raises(PolicyRejected):
        vet_policy("def policy(obs):\n    return [1.0, 2.0]", VECTOR, TORQUE)
    assert built == []


@posix
def test_the_check_and_the_probe_of_a_candidate_are_quick():
    source = (ROOT / "llmwrappers" / "priors" / "shipped" / "Hopper-v4" / "policy-1.py").read_text("utf-8")
    start = time.perf_counter()
    vet_policy(source, Box(-np.inf, np.inf, (11,)), Box(-1.0, 1.0, (3,)))
    assert time.perf_counter() - start < 10


def test_the_sandbox_needs_numpy_alone():
    code = """
import sys, types
sys.modules.update(dict.fromkeys(("gymnasium", "torch", "scipy")))  # None: importing it raises ImportError
package = types.ModuleType("llmwrappers")
package.__path__ = ["llmwrappers"]
sys.modules["llmwrappers"] = package
import numpy as np
from llmwrappers.sandbox.generated_policy import GeneratedPolicy
assert GeneratedPolicy("def policy(obs): return [2 * obs[0]]", 1)(np.ones(1)).tolist() == [2.0]
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
