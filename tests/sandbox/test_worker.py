"""The worker process: what its locks stop, each without the others, and that nothing legitimate breaks behind them."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT

from llmwrappers.sandbox import generated_policy
from llmwrappers.sandbox.generated_policy import GeneratedPolicy
from llmwrappers.sandbox.language import FUNCTIONS, METHODS, PolicyFault, PolicyRejected
from llmwrappers.sandbox.worker import MESSAGE_BYTES, SYSCALLS, message

linux = pytest.mark.skipif(sys.platform != "linux" or os.uname().machine not in SYSCALLS, reason="seccomp is for Linux here")
posix = pytest.mark.skipif(os.name != "posix", reason="worker processes need POSIX")
pytestmark = posix

# ---------------------------------------------------------------------------------------------------------------- the locks

LOCKED = """
import ctypes, os, signal, socket, subprocess, sys, threading
import numpy as np
from llmwrappers.sandbox import worker
{before}
print(sorted(worker.lock_down()), flush=True)
folder, victim, skipped = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
def attempt(name, function):
    if name in skipped:
        return
    try:
        function()
        print(name, "DONE", flush=True)
    except BaseException as error:
        print(name, type(error).__name__, flush=True)
attempt("read", lambda: open("/etc/hosts").read())
attempt("list", lambda: os.listdir("/"))
attempt("write", lambda: open(folder + "/written", "w").write("x"))
attempt("append", lambda: kept.write("x") and kept.flush())
attempt("mkdir", lambda: os.mkdir(folder + "/made"))
attempt("remove", lambda: os.remove(folder + "/kept"))
attempt("socket", socket.socket)
attempt("pipe", os.pipe)
attempt("fork", lambda: os.fork() or os._exit(0))
attempt("exec", lambda: os.execv("/bin/true", ["true"]))
attempt("spawn", lambda: subprocess.run(["true"]))
attempt("thread", lambda: threading.Thread(target=print).start())
attempt("kill", lambda: os.kill(victim, signal.SIGKILL))
attempt("import", lambda: __import__("wave"))
attempt("memory", lambda: np.ones(2**28))
attempt("bytes", lambda: bytearray(2**31))
attempt("memory of the permitted size", lambda: bytearray(2**27))
attempt("numpy", lambda: np.linalg.svd(np.random.default_rng(0).random((9, 9))))
{after}
"""
HARMLESS = {"memory of the permitted size", "numpy"}


def locked(tmp_path, before="", after="", skipped=()):
    """Runs LOCKED; returns the locks, what came of each attempt, and whether the process to be killed still lives."""
    (tmp_path / "kept").write_text("")
    before = f"kept = open({str(tmp_path / 'kept')!r}, 'a', buffering=1)\n{before}"
    with subprocess.Popen(["sleep", "60"]) as victim:
        command = [sys.executable, "-c", LOCKED.format(before=before, after=after), str(tmp_path), str(victim.pid), *skipped]
        environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
        alive = victim.poll() is None
        victim.kill()
    assert result.returncode == 0, result.stderr
    first, *lines = result.stdout.splitlines()
    return first, dict(line.rsplit(" ", 1) for line in lines), alive


@linux
def test_a_locked_process_can_compute_and_nothing_else(tmp_path):
    locks, attempts, alive = locked(tmp_path)
    assert locks == "['limits', 'seccomp']"
    assert {name for name, outcome in attempts.items() if outcome == "DONE"} == HARMLESS
    assert alive
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_text() == ""


@linux
def test_the_limits_hold_without_seccomp(tmp_path):
    others = ("exec", "spawn", "fork", "kill", "remove", "mkdir", "thread")
    locks, attempts, _ = locked(tmp_path, before="worker._seccomp = lambda *_: False", skipped=others)
    assert locks == "['limits']"
    for name in ("read", "write", "append", "list", "socket", "pipe", "memory", "bytes"):
        assert attempts[name] != "DONE", name
    assert {attempts[name] for name in HARMLESS} == {"DONE"}


@linux
def test_seccomp_holds_without_the_limits(tmp_path):
    before = "import resource\nresource.setrlimit = lambda *_: None"
    _, attempts, alive = locked(tmp_path, before=before, skipped=("memory", "bytes"))
    # A file that was open before could be written; none is.
    assert {name for name, outcome in attempts.items() if outcome == "DONE"} == HARMLESS | {"append"}
    assert alive


@linux
def test_every_system_call_but_those_that_are_listed_is_refused(tmp_path):
    # 335 and 336, of the kernel's own probes, end the process by a signal.
    before = "libc = ctypes.CDLL(None, use_errno=True)\nallowed = (335, 336, *worker.SYSCALLS[os.uname().machine][1])"
    after = """
def is_refused(n):
    return libc.syscall(n, -1, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == 1
print("calls", str([n for n in range(600) if n not in allowed and not is_refused(n)]).replace(" ", ""))
print("x32", str([n for n in range(600) if n not in (335, 336) and not is_refused(0x40000000 + n)]).replace(" ", ""))
"""
    _, attempts, _ = locked(tmp_path, before=before, after=after)
    assert (attempts["calls"], attempts["x32"]) == ("[]", "[]")


# -------------------------------------------------------------------------------------- a worker that plays what it is given

UNCHECKED = """
import importlib.util, sys, types
from pathlib import Path
import numpy as np
package = types.ModuleType("llmwrappers")
package.__path__ = [{package!r}]
sys.modules["llmwrappers"] = package
from llmwrappers.sandbox import limits, worker

class Unchecked:
    def __init__(self, source, shape):
        self.namespace, self.shape = {{}}, shape
        exec(source, self.namespace)
    def __call__(self, observation):
        return np.asarray(self.namespace["policy"](observation), dtype=float).reshape(self.shape)

limits.BoundedPolicy = Unchecked
worker.main()
"""


@pytest.fixture
def unchecked(monkeypatch):
    """``unchecked(source)``: a policy in a worker without the check and the bounds, so that the other fences are alone."""
    policies = []
    popen = subprocess.Popen

    def start(command, **kwargs):
        return popen([sys.executable, "-c", UNCHECKED.format(package=str(ROOT / "llmwrappers"))], **kwargs)

    def make(source, action_dim=1):
        with monkeypatch.context() as patch:
            patch.setattr(generated_policy, "check_policy", lambda source: None)
            policies.append(GeneratedPolicy(source, action_dim, "process"))
        return policies[-1]

    monkeypatch.setattr(generated_policy.subprocess, "Popen", start)
    monkeypatch.setattr(generated_policy, "SECONDS_A_MESSAGE", 0.3)
    yield make
    for policy in policies:
        policy.close()


def test_an_unchecked_policy_plays(unchecked):
    assert unchecked("def policy(obs):\n    return [obs[0] * 2]")(np.ones(3)).tolist() == [2.0]


def test_a_worker_that_hangs_is_killed_and_started_anew(unchecked):
    policy = unchecked("def policy(obs):\n    while obs[0] > 0:\n        pass\n    return [5.0]")
    assert policy(np.zeros(3)).tolist() == [5.0]
    process = policy._worker.process
    with pytest.raises(PolicyFault, match=r"no answer from the policy's process within 0.3 seconds; it was killed"):
        policy(np.ones(3))
    assert process.returncode is not None
    assert policy.restarts == 1
    assert policy(np.zeros(3)).tolist() == [5.0]
    assert policy.restarts == 1


def test_a_worker_that_hangs_in_a_batch_is_killed_too(unchecked):
    policy = unchecked("def policy(obs):\n    while obs[0] > 0:\n        pass\n    return [5.0]")
    with pytest.raises(PolicyFault, match=r"it was killed"):
        policy.batch(np.eye(3))
    assert policy.batch(np.zeros((2, 3))).tolist() == [[5.0], [5.0]]


def test_a_worker_that_dies_is_started_anew(unchecked):
    policy = unchecked("import os\ndef policy(obs):\n    return [5.0] if obs[0] == 0 else os._exit(3)")
    for restarts in (1, 2):
        with pytest.raises(PolicyFault, match=r"died"):
            policy(np.ones(3))
        assert policy.restarts == restarts
        assert policy(np.zeros(3)).tolist() == [5.0]


def test_a_worker_that_is_killed_from_outside_is_started_anew():
    policy = GeneratedPolicy("def policy(obs):\n    return [obs[0]]", 1, "process")
    assert policy(np.ones(3)).tolist() == [1.0]
    policy._worker.process.kill()
    policy._worker.process.wait()
    with pytest.raises(PolicyFault, match=r"died"):
        policy(np.ones(3))
    assert policy(np.full(3, 2.0)).tolist() == [2.0]
    assert policy.restarts == 1
    policy.close()


@linux
@pytest.mark.parametrize(
    ("attack", "reason"),
    [
        ("open('/etc/hosts')", "Error"),
        ("open('written', 'w')", "Error"),
        ("__import__('socket')", "Error"),
        ("os.fork()", "PermissionError|BlockingIOError"),
        ("os.kill(os.getpid(), 9)", "PermissionError"),
        ("os.system('true') == 0 and 1 / 0", "returned"),
        ("np.ones(2**28)", "allocate"),
        ("obs.tofile('written')", "Error"),
    ],
)
def test_the_lock_stops_what_the_check_would_let_through(unchecked, tmp_path, monkeypatch, attack, reason):
    monkeypatch.chdir(tmp_path)
    policy = unchecked(f"import os\nimport numpy as np\ndef policy(obs):\n    {attack}\n    return [float('nan')]")
    with pytest.raises(PolicyFault):
        policy(np.ones(3))
    assert list(tmp_path.iterdir()) == []
    assert policy.restarts in (0, 1)


def test_a_worker_knows_nothing_of_the_environment(unchecked, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "x")
    policy = unchecked("import os\ndef policy(obs):\n    return ['SECRET_TOKEN' in os.environ, 'PATH' in os.environ]", 2)
    assert policy(np.ones(1)).tolist() == [0.0, 1.0]


def test_a_worker_computes_with_the_kernels_that_we_compute_with(unchecked, monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    policy = unchecked("import os\ndef policy(obs):\n    return [os.environ['OPENBLAS_CORETYPE'] == 'Haswell']")
    assert policy(np.ones(1)).tolist() == [1.0]


@pytest.mark.parametrize("said", ["b'x'", "b'x' * 5000", "bytes(8) * 33", "b'\\xff' * 272"])
def test_a_worker_that_says_what_it_should_not_neither_hangs_nor_breaks_us(unchecked, said):
    policy = unchecked(f"import os\ndef policy(obs):\n    os.write(1, {said})\n    return [5.0]")
    for _ in range(4):
        try:
            action = policy(np.ones(1))
        except PolicyFault:
            continue
        assert action.shape == (1,)
        assert np.isfinite(action).all()


def test_an_action_that_is_not_finite_is_a_fault_whatever_the_worker_says(unchecked):
    policy = unchecked("def policy(obs):\n    return [obs[0] / 1, float('inf')]", 2)
    with pytest.raises(PolicyFault, match="no finite action"):
        policy(np.ones(1))


def test_a_top_level_that_hangs_is_killed(unchecked, monkeypatch):
    monkeypatch.setattr(generated_policy, "SECONDS_TO_COMPILE", 1.0)
    processes, start = [], subprocess.Popen  # which the fixture has replaced

    def note(*arguments, **named):
        processes.append(start(*arguments, **named))
        return processes[-1]

    monkeypatch.setattr(generated_policy.subprocess, "Popen", note)
    policy = unchecked("while True:\n    pass")
    with pytest.raises(PolicyFault, match=r"no answer from the policy's process within 1.0 seconds; it was killed"):
        policy(np.ones(1))
    assert processes[0].poll() is not None
    assert policy.restarts == 1


def test_an_observation_of_one_number_is_the_same_in_a_process():
    source = "def policy(obs):\n    x = obs\n    x += 1\n    return [float(0 < obs < 2), 1.0]"
    assert [GeneratedPolicy(source, 2, isolation)(0).tolist() for isolation in ("inprocess", "process")] == [[1.0, 1.0]] * 2


def test_a_top_level_that_fails_is_a_rejection():
    policy = GeneratedPolicy("N = 1 / 0\ndef policy(obs):\n    return [N]", 1, "process")
    with pytest.raises(PolicyRejected, match=r"its top level fails: ZeroDivisionError"):
        policy(np.ones(1))


def test_an_interrupt_leaves_no_answer_for_the_next_call(monkeypatch):
    policy = GeneratedPolicy("def policy(obs):\n    return [obs[0]]", 1, "process")
    assert policy(np.ones(3)).tolist() == [1.0]

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(generated_policy._Worker, "_read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            policy(np.full(3, 2.0))
    assert policy(np.full(3, 3.0)).tolist() == [3.0]
    policy.close()


def test_a_message_has_its_size_whatever_it_says():
    for text in ("", "é" * 1000, "x" * MESSAGE_BYTES, "\ud800", "a\0b", ValueError("no")):
        assert len(message(text)) == MESSAGE_BYTES


# --------------------------------------------------------------------------------- nothing legitimate breaks behind the lock


def calls(names: str, template: str) -> dict[str, str]:
    """Name -> a call of it, for functions that are called alike; f stands for the function."""
    return {name: template.replace("f", name, 1) for name in names.split()}


CALLS = {
    **calls("np.arctan2 np.hypot np.copysign np.maximum np.minimum np.fmax np.fmin np.add np.subtract np.multiply", "f(a, b)"),
    **calls("np.divide np.logical_and np.logical_or np.logical_xor np.greater np.greater_equal np.less np.equal", "f(a, b)"),
    **calls("np.less_equal np.not_equal np.dot np.inner np.vdot np.cross np.outer np.matmul np.convolve np.polyval", "f(a, b)"),
    **calls("np.isin np.array_equal np.allclose np.isclose np.searchsorted np.append np.trapezoid math.dist", "f(a, b)"),
    **calls("np.true_divide np.floor_divide np.power np.float_power np.mod np.remainder np.fmod np.heaviside", "f(a, 2.0)"),
    **calls("np.concatenate np.hstack np.vstack np.stack np.column_stack np.transpose", "f([a, b])"),
    **calls("np.trace np.fliplr np.flipud np.linalg.inv np.linalg.pinv np.linalg.det", "f(m)"),
    **calls("np.zeros np.ones np.empty np.arange np.eye np.identity", "f(3)"),
    **calls("np.full_like np.tile np.repeat np.roll", "f(a, 2)"),
    **calls("math.pow math.hypot math.copysign math.fmod math.remainder math.isclose math.atan2", "f(a[0], 2.0)"),
    **calls("math.asin math.acos math.atanh", "f(0.3)"),
    **calls("math.acosh", "f(1.5)"),
    **calls("math.fsum", "f(a)"),
    **calls("np.clip", "f(a, -1, 1)"),
    **calls("np.where", "f(a > 0, a, b)"),
    **calls("np.interp", "f(0.5, np.sort(a), b)"),
    **calls("np.full", "f(3, 2.0)"),
    **calls("np.linspace", "f(0, 1, 5)"),
    **calls("np.reshape np.broadcast_to", "f(a, (1, 3))"),
    **calls("np.expand_dims", "f(a, 0)"),
    **calls("np.swapaxes", "f(m, 0, 1)"),
    **calls("np.select", "f([a > 0, b > 0], [a, b], 0.5)"),
    **calls("np.take", "f(a, [0, 2])"),
    **calls("np.percentile", "f(a, 30)"),
    **calls("np.linalg.solve", "f(m, a)"),
    **calls("np.arccosh", "f(a + 1.0)"),
    **calls("np.digitize", "f(a, np.sort(b))"),
}
METHOD_CALLS = {
    **{
        "dot": "a.dot(b)",
        "clip": "a.clip(-1, 1)",
        "astype": "a.astype(int)",
        "reshape": "a.reshape(3, 1)",
        "item": "a[:1].item()",
    },
    **{"append": "grown([1.0], a[0])", "extend": "[1.0].extend([2.0]) or 1", "insert": "[1.0].insert(0, 2.0) or 1"},
    **{"get": "{'k': 1.0}.get('k')", "items": "len({'k': 1.0}.items())", "keys": "len({'k': 1.0}.keys())"},
    **{"values": "sum({'k': 1.0}.values())", "fill": "a.copy().fill(1.0) or 1", "tolist": "sum(a.tolist())"},
}


def test_every_function_and_method_can_be_called_in_a_worker():
    ways = [CALLS.get(name, f"{name}(abs(a[0]) + 0.1)" if name.startswith("math.") else f"{name}(a)") for name in FUNCTIONS]
    ways += [METHOD_CALLS.get(name, f"a.{name}()") for name in sorted(METHODS)]
    source = "import math\nimport numpy as np\ndef grown(x, y):\n    x.append(y)\n    return x\n"
    source += "def number(x):\n    return [float(np.sum(x))]\n"
    source += (
        "def policy(obs):\n    k = int(obs[0])\n    a = obs[1:4]\n    b = obs[4:7]\n    m = np.array([a, b, [1.0, 2.0, 3.5]])\n"
    )
    source += (
        "".join(f"    if k == {k}:\n        return number({call})\n" for k, call in enumerate(ways)) + "    return [0.0]\n"
    )
    here, there = GeneratedPolicy(source, 1), GeneratedPolicy(source, 1, "process")
    rows = np.tile([0.0, 0.3, 0.9, 0.4, 0.2, -0.5, 1.5], (len(ways), 1))
    rows[:, 0] = range(len(ways))
    with np.errstate(all="ignore"):
        expected, got = here.batch(rows), there.batch(rows)
    there.close()
    assert [call for call, action in zip(ways, expected, strict=True) if not math.isfinite(action[0])] == []
    assert [call for call, one, other in zip(ways, expected, got, strict=True) if one != other] == []


@pytest.mark.parametrize(
    "call",
    [
        *("obs.sum(axis=7)", "obs @ np.ones(9)", "np.zeros(3)[9]", "np.linalg.inv(np.zeros((2, 2)))", "[[1], [1, 2]] + obs"),
        *("obs.reshape(9, 9)", "1 / 0", "{}['a']", "math.sqrt(-1)", "undefined", "np.ones(10**6)", "int('x')", "[9.0, 9.0]"),
        *("obs * math.nan", "'x'", "None + 1"),
    ],
)
def test_a_fault_says_the_same_in_a_worker_as_here(call):
    source = f"import math\nimport numpy as np\ndef policy(obs):\n    if obs[0] > 9:\n        undefined = 1\n    return {call}"
    reasons = []
    for isolation in ("inprocess", "process"):
        policy = GeneratedPolicy(source, 1, isolation)
        with pytest.raises(PolicyFault) as caught:
            policy(np.ones(3))
        reasons.append(str(caught.value)[:200])
        policy.close()
    assert "__import__" not in reasons[0]
    assert reasons[0] == reasons[1]
