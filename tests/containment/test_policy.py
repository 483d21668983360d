"""ContainedPolicy: honest code plays as in plain Python; state, batches, sharing; and nothing is left behind."""

import concurrent.futures
import copy
import multiprocessing
import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from conftest import ROOT
from programs import HONEST

from llmwrappers import ContainedPolicy, LLMActionMask, PolicyFault, PolicyRejected
from llmwrappers.containment import lock, policy, process
from llmwrappers.containment.process import LockedProcess
from llmwrappers.containment.program import Program
from llmwrappers.priors.measurement import play

COUNTER = HONEST["counter"]


def numbers(answer):
    """An answer in the form in which a process sends it."""
    if isinstance(answer, set):
        return sorted(float(x) for x in answer)
    array = np.asarray(answer)
    return array.shape, array.astype(np.float64).tobytes()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not is_running(pid)


@pytest.mark.parametrize("name", HONEST)
def test_honest_code_plays_as_in_plain_python(name):
    contained, plain = ContainedPolicy(HONEST[name]), Program(HONEST[name])
    observations = np.random.default_rng(0).standard_normal((12, 4))
    for _ in range(2):  # episodes
        contained.reset()
        plain.reset()
        for observation in observations:
            assert numbers(contained(observation)) == numbers(plain(observation.copy()))
    contained.close()


def test_state_lives_for_an_episode_and_each_policy_has_its_own():
    one, other = ContainedPolicy(COUNTER), ContainedPolicy(COUNTER)
    ones = np.ones(4)
    assert [one(ones).item(), one(ones).item(), other(ones).item(), one(ones).item()] == [1, 2, 1, 3]
    assert one._worker is other._worker
    one.reset()
    assert [one(ones).item(), other(ones).item()] == [1, 2]


def test_a_batch_is_the_calls_one_after_the_other():
    counter, rows = ContainedPolicy(COUNTER), np.ones((5, 4))
    assert [answer.item() for answer in counter.batch(rows)] == [1, 2, 3, 4, 5]
    assert counter(rows[0]).item() == 6
    assert counter.batch([]) == []
    faults = ContainedPolicy("def policy(obs):\n    return [1 / obs[0]]").batch([np.ones(1), np.array([0]), np.ones(1)][::2])
    assert [fault.tolist() for fault in faults] == [[1.0], [1.0]]
    with pytest.raises(PolicyFault, match="not all alike"):
        counter.batch([np.ones(4), np.ones(3)])


def test_a_batch_of_images_goes_in_several_messages():
    policy = ContainedPolicy("def policy(obs):\n    return [obs.mean(), obs.dtype == 'uint8']")
    images = [np.full((1000, 1000, 3), i, np.uint8) for i in range(12)]
    assert [answer.tolist() for answer in policy.batch(images)] == [[float(i), 1.0] for i in range(12)]
    assert policy(images[7]).tolist() == [7.0, 1.0]
    assert policy(images[8]).tolist() == [8.0, 1.0]


@pytest.mark.parametrize(
    "observation",
    [
        np.arange(6.0).reshape(2, 3), np.float32([1.5]), np.int64(3), 3, True, np.arange(6)[::2], np.zeros((0, 3)), [1.0, 2.0],
        {"b": np.ones(2), "a": {"c": np.int8([1]), "d": 5}}, (1, np.ones(2)), np.array(2.0),
    ],
)  # fmt: skip
def test_an_observation_arrives_as_it_is(observation):
    source = """
import numpy as np
def words(obs):
    if isinstance(obs, (dict, tuple)):
        parts = obs.items() if isinstance(obs, dict) else enumerate(obs)
        return type(obs).__name__ + str([(key, words(part)) for key, part in parts])
    return f"{np.asarray(obs).dtype} {np.shape(obs)} {np.asarray(obs).tolist()}"
def policy(obs):
    return list(words(obs).encode())
"""
    expected = Program(source)(observation)
    contained = ContainedPolicy(source)
    for _ in range(2):
        assert contained(observation).tolist() == expected


def test_what_is_no_number_is_refused_in_words():
    contained = ContainedPolicy("def policy(obs):\n    return 0.0")
    with pytest.raises(PolicyFault, match=r"holds text; .*FilterObservation"):
        contained({"mission": "go"})
    with pytest.raises(PolicyFault, match="no array of numbers"):
        contained(object())


def test_text_in_a_dict_is_left_out_with_a_warning():
    contained = ContainedPolicy("def policy(obs):\n    return [len(obs), *obs['place']]")
    with pytest.warns(UserWarning, match="a policy in a locked process does not see text; left out: mission$"):
        answers = contained.batch([{"mission": "go", "place": np.float32([i, 2])} for i in range(2)])
    answers.append(contained({"mission": "go there", "place": np.float32([3, 4])}))  # without a second warning
    assert [answer.tolist() for answer in answers] == [[1, 0, 2], [1, 1, 2], [1, 3, 4]]


def test_a_fault_names_the_line():
    contained = ContainedPolicy("def policy(obs):\n    x = 3\n    return [x / int(obs[0])]")
    for _ in range(2):
        with pytest.raises(PolicyFault, match=r"^line 3: ZeroDivisionError: division by zero$"):
            contained(np.zeros(1))
        assert contained(np.ones(1)).tolist() == [3.0]
    assert contained.restarts == 0


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x = 1 / 0\ndef policy(obs):\n    return 0", "line 1: its top level fails: ZeroDivisionError"),
        (
            "class Policy:\n    def __init__(self, env):\n        pass\n    def act(self, obs): ...",
            "top level fails: TypeError",
        ),
        ("policy = 3", "must define policy.obs., or a class Policy .*found 3"),
        (
            "def policy(obs):\n    return 0\nraise SystemExit(3)",
            "line 3: .*SystemExit: 3; what only a script does",
        ),
    ],
)
def test_a_program_that_holds_no_policy(source, reason):
    with pytest.raises((PolicyFault, PolicyRejected), match=reason):
        ContainedPolicy(source)(np.ones(1))


@pytest.mark.parametrize("draw", ["random.random()", "numpy.random.uniform()"])
def test_what_is_drawn_without_a_seed_is_the_same_in_every_process(draw):
    source = f"import random\nimport numpy\ndef policy(obs):\n    return [{draw}]"
    first = ContainedPolicy(source)
    drawn = [first(np.ones(1)).item() for _ in range(3)]
    first.close()
    assert [ContainedPolicy(source)(np.ones(1)).item()] == drawn[:1]


def test_copies_and_pickles_have_a_state_of_their_own():
    counter, ones = ContainedPolicy(COUNTER), np.ones(4)
    counter(ones)
    for copied in (copy.deepcopy(counter), pickle.loads(pickle.dumps(counter))):
        assert copied(ones).item() == 1
    assert counter(ones).item() == 2


# ------------------------------------------------------------------------------------------------- a process that does not last


def test_a_dead_process_is_started_anew():
    counter, other, ones = ContainedPolicy(COUNTER), ContainedPolicy(COUNTER), np.ones(4)
    assert [counter(ones).item(), counter(ones).item(), other(ones).item()] == [1, 2, 1]
    os.kill(counter._worker.process.pid, signal.SIGKILL)
    with pytest.raises(PolicyFault, match="died"):
        counter(ones)
    assert [counter(ones).item(), other(ones).item()] == [1, 1]
    assert (counter.restarts, other.restarts) == (1, 0)


def test_a_process_is_killed_where_it_hangs(monkeypatch):
    monkeypatch.setattr(process, "SECONDS_A_MESSAGE", 0.3)
    monkeypatch.setattr(policy, "SECONDS_A_MESSAGE", 0.3)
    contained = ContainedPolicy("def policy(obs):\n    while obs[0] > 0:\n        pass\n    return 5.0")
    assert contained(np.zeros(1)) == 5.0
    pid = contained._worker.process.pid
    for ask in (contained, lambda obs: contained.batch([obs])):
        with pytest.raises(PolicyFault, match="in time; it was killed"):
            ask(np.ones(1))
        assert contained(np.zeros(1)) == 5.0
    assert gone(pid)
    assert contained.restarts == 2


def test_the_limit_of_cpu_time_lasts_until_it_is_raised_again():
    contained = ContainedPolicy("def policy(obs):\n    return 0.0")
    contained(np.zeros(1))
    limit, _ = resource.prlimit(contained._worker.process.pid, resource.RLIMIT_CPU)
    assert limit >= process.CALLS_UNTIL_CARE * process.SECONDS_A_MESSAGE


def test_a_process_outlives_the_thread_that_started_it():
    counter, answers = ContainedPolicy(COUNTER), []
    for _ in range(3):
        thread = threading.Thread(target=lambda: answers.append(counter(np.ones(4)).item()))
        thread.start()
        thread.join()
    assert (answers, counter(np.ones(4)).item(), counter.restarts) == ([1, 2, 3], 4, 0)


def test_after_a_reset_that_fails_the_policy_goes_on():
    source = "episode = 0\ndef reset():\n    global episode\n    episode += 1\n    if episode == 3: raise ValueError('third')\n"
    contained = ContainedPolicy(source + "def policy(obs):\n    return [1.0]")
    assert contained(np.zeros(1)) == 1.0
    contained.reset()
    assert contained(np.zeros(1)) == 1.0
    contained.reset()
    with pytest.raises(PolicyFault, match="line 5: ValueError: third"):
        contained(np.zeros(1))
    assert contained(np.zeros(1)) == 1.0
    broken = ContainedPolicy("x = 1 / 0\n" + "def policy(obs):\n    return [1.0]")
    for _ in range(2):
        with pytest.raises(PolicyFault, match="division by zero"):
            broken(np.zeros(1))


@pytest.mark.parametrize("shape", [(2**62, 2**62), (-1, -1), (-(2**40), 1)])
def test_an_answer_of_an_impossible_shape_is_malformed(shape):
    frame = bytearray(process.SIZE.pack(24) + struct.pack("<BB6x2q", 0, 2, *shape))
    with pytest.raises(PolicyFault, match="malformed"):
        process.answers_in(frame, len(frame), 1)


def test_a_thousand_episodes_need_one_process():
    counter, ones = ContainedPolicy(COUNTER), np.ones(4)
    pids = set()
    for _ in range(1000):
        counter.reset()
        assert counter(ones).item() == 1
        pids.add(counter._worker.process.pid)
    assert len(pids) == 1
    for _ in range(300):  # states that nobody holds are let go of
        ContainedPolicy(COUNTER)(ones)
    (pid,) = pids
    assert int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") < 2**27
    counter.close()
    del counter
    assert gone(pid)


def test_a_fork_has_a_process_of_its_own():
    counter, ones = ContainedPolicy(COUNTER), np.ones(4)
    counter(ones)
    pid = counter._worker.process.pid
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(lambda_in_fork, (counter,)) == [1.0, 2.0]
    assert is_running(pid)
    assert counter(ones).item() == 2


def lambda_in_fork(counter):
    return [counter(np.ones(4)).item(), counter(np.ones(4)).item()]


def test_threads_may_share_a_policy():
    pure = ContainedPolicy("def policy(obs):\n    return [obs[0] * 2]")
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda i: pure(np.full(2, float(i))).item(), range(400)))
    assert answers == [2.0 * i for i in range(400)]


class Four(gym.Env):
    observation_space = gym.spaces.Box(-9, 9, (4,), np.float64)
    action_space = gym.spaces.Box(-99, 99, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        return np.ones(4), {}

    def step(self, action):
        return np.ones(4), 0.0, False, False, {}


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_async_vector_environments(tmp_path, context):
    (tmp_path / "counter.py").write_text(COUNTER)
    make = Masked(str(tmp_path / "counter.py"))
    envs = gym.vector.AsyncVectorEnv([make] * 2, context=context)
    _, info = envs.reset(seed=0)
    centers = [(info["action_low"] + info["action_high"])[:, 0] / 2]
    for _ in range(3):
        info = envs.step(np.zeros((2, 1)))[4]
        centers.append((info["action_low"] + info["action_high"])[:, 0] / 2)
    envs.close()
    assert np.array_equal(centers, [[1, 1], [2, 2], [3, 3], [4, 4]])


class Masked:
    def __init__(self, prior):
        self.prior = prior

    def __call__(self):
        return LLMActionMask(Four(), self.prior, radius=0.01)


OWNER = """
import os, sys, threading, time
import numpy as np
from llmwrappers import ContainedPolicy
policy = ContainedPolicy("def policy(obs):\\n    while obs[0] > 0: pass\\n    return 0.0")
policy(np.zeros(1))
print(policy._worker.process.pid, flush=True)
{end}
"""


@pytest.mark.parametrize(
    ("end", "number", "code"),
    [
        ("time.sleep(60)", signal.SIGKILL, -9),
        ("policy(np.ones(1))", signal.SIGKILL, -9),
        ("policy(np.ones(1))", signal.SIGINT, None),
        ("time.sleep(60)", signal.SIGTERM, -15),
        ("sys.exit(3)", None, 3),
        ("raise ValueError", None, 1),
        ("os._exit(4)", None, 4),
        ("pid = os.fork()\nif pid == 0: time.sleep(60)\nos.kill(pid, 9); os._exit(5)", None, 5),
    ],
)
def test_nothing_is_left_when_the_owner_ends(end, number, code):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER.format(end=end)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, text=True,
        start_new_session=True,
    )  # fmt: skip
    pid = int(owner.stdout.readline())
    if number is not None:
        assert is_running(pid)
        time.sleep(0.2)  # it is asleep, or in the middle of a call
        os.killpg(owner.pid, number)
    result = owner.wait(timeout=30)
    owner.stdout.close()
    assert code is None or result == code
    assert gone(pid)


def test_the_process_stays_on_its_owners_core():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is but one core")
    contained, mine = ContainedPolicy("def policy(obs):\n    return 0.0"), os.sched_getaffinity(0)
    try:
        for core in sorted(mine)[:2]:
            os.sched_setaffinity(0, {core})
            for _ in range(process.CALLS_UNTIL_CARE + 1):
                contained(np.zeros(1))
            assert os.sched_getaffinity(contained._worker.process.pid) == {core}
    finally:
        os.sched_setaffinity(0, mine)


def test_without_a_lock_code_from_a_model_is_refused(monkeypatch):
    monkeypatch.setattr(lock.platform, "machine", lambda: "riscv64")
    with pytest.raises(PolicyRejected, match=r"plays only in a locked process.*'trusted:FILE.py' plays it as it is"):
        ContainedPolicy("def policy(obs):\n    return 0.0")


def test_a_kernel_that_refuses_the_lock(monkeypatch, tmp_path):
    copied = tmp_path / "llmwrappers" / "containment"
    copied.mkdir(parents=True)
    for path in (ROOT / "llmwrappers" / "containment").glob("*.py"):
        (copied / path.name).write_text(path.read_text())
    (copied / "lock.py").write_text((copied / "lock.py").read_text() + "\n\ndef _seccomp(*_):\n    return False\n")
    monkeypatch.setattr(process, "WORKER", copied / "worker.py")
    with pytest.raises(PolicyRejected, match="a container that forbids the lock"):
        ContainedPolicy(f"def policy(obs):\n    return {time.time()}")(np.zeros(1))


class TestAProcessThatDoesNotStart:
    @pytest.fixture
    def source(self, monkeypatch, tmp_path):
        worker = tmp_path / "worker.py"
        worker.write_text("import numpyy\n")
        monkeypatch.setattr(process, "WORKER", worker)
        return f"def policy(obs):\n    return [{time.time()}]"

    def test_is_refused_with_the_reason(self, source):
        with pytest.raises(PolicyRejected, match=r"does not start \(the policy's process died\): can .* import NumPy"):
            ContainedPolicy(source)(np.zeros(1))

    def test_ends_a_run_instead_of_training_without_the_prior(self, source, tmp_path):
        file = tmp_path / "policy.py"
        file.write_text(source)
        env = LLMActionMask(gym.make("Pendulum-v1"), str(file))
        with pytest.raises(PolicyRejected, match="does not start"):
            env.reset(seed=0)
        with pytest.raises(PolicyRejected, match="does not start"):
            next(play(gym.make("Pendulum-v1"), ContainedPolicy(source), 0))

    def test_later_is_a_fault_of_one_call(self, monkeypatch, tmp_path):
        policy = ContainedPolicy("def policy(obs):\n    while obs[0]:\n        pass\n    return [0.0]")
        policy(np.zeros(1))
        with monkeypatch.context() as patch:
            patch.setattr(process, "WORKER", tmp_path / "missing.py")
            assert policy._worker is not None
            policy._worker.killed(OSError())
            with pytest.raises(PolicyFault, match="the policy's process died"):
                policy(np.zeros(1))
        assert policy(np.zeros(1)) == [0.0]


def test_the_order_of_a_set_of_strings_is_the_same_in_every_process():
    answers = set()
    for number in range(4):  # another source is another process
        policy = ContainedPolicy(f"# {number}\ndef policy(obs):\n    return [ord(c) for c in set('trotpacewalk')]")
        answers.add(tuple(policy(np.zeros(1))))
    assert len(answers) == 1


def test_it_says_what_it_is():
    assert (
        repr(ContainedPolicy(textwrap.dedent("def policy(obs):\n    return 0")))
        == "<a policy of 2 lines, plays in a locked process>"
    )


def test_threads_may_show_a_program_observations_of_several_shapes(monkeypatch):
    exchange = LockedProcess.exchange

    def slow_exchange(self, *message):
        time.sleep(0.005)  # another thread has its turn
        return exchange(self, *message)

    monkeypatch.setattr(LockedProcess, "exchange", slow_exchange)
    source = "import numpy as np\n\ndef policy(obs):\n    return [obs.size]\n"
    first = ContainedPolicy(source)
    first(np.zeros(2))
    sizes = [3 + number % 4 for number in range(24)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda size: int(ContainedPolicy(source)(np.zeros(size))[0]), sizes))
    assert answers == sizes
