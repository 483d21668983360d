"""Policies as people and models write them, and hostile ones: data for the tests of containment.

HONEST plays on observations of four float64 numbers. A hostile program tries for an effect outside its process; FOLDER, VICTIM
and OWNER in it are replaced by a folder, by the number of another process, and by that of the process that contains it.
"""

HONEST = {
    "integer": "def policy(obs):\n    return 1 if obs[0] > 0 else 0",
    "numpy integer": "import numpy as np\ndef policy(obs):\n    return np.argmax(obs)",
    "truth value": "def policy(obs):\n    return obs[2] + obs[3] > 0",
    "set": "def policy(obs):\n    return {i for i in range(4) if obs[i] > 0} or {0}",
    "truth vector": "def policy(obs):\n    return obs > 0",
    "list": "def policy(obs):\n    return [-2.0 * obs[0], 1]",
    "scalar": "import math\ndef policy(obs):\n    return math.sin(obs[0])",
    "float32": "import numpy as np\ndef policy(obs):\n    return np.float32([obs[0], obs[1] / 3])",
    "nested list": "def policy(obs):\n    return [[obs[0]], [obs[1]]]",
    "counter": "n = 0\ndef policy(obs):\n    global n\n    n += 1\n    return [n * obs[0]]",
    "integral": "memory = {'integral': 0.0}\ndef policy(obs):\n    memory['integral'] += 0.05 * obs[0]\n    return [-memory['integral']]",
    "last error": """
last = None
def policy(obs):
    global last
    derivative = 0.0 if last is None else (obs[0] - last) / 0.02
    last = obs[0]
    return [-obs[0] - 0.1 * derivative]""",
    "oscillator": """
import numpy as np
class Policy:
    def __init__(self):
        self.reset()
    def reset(self):
        self.phase = 0.0
    def act(self, obs):
        self.phase = (self.phase + 0.1) % (2 * np.pi)
        return np.array([np.sin(self.phase), np.cos(self.phase)]) + 0.01 * obs[:2]""",
    "class that is called": """
class Policy:
    gains = (1.0, 0.5)
    def __init__(self):
        self.steps = 0
    def __call__(self, obs):
        self.steps += 1
        return [sum(k * x for k, x in zip(self.gains, obs)) / self.steps]""",
    "object named policy": """
class PID:
    def __init__(self, p, i=0.0):
        self.p, self.i, self.total = p, i, 0.0
    def __call__(self, obs):
        self.total += obs[0]
        return [self.p * obs[0] + self.i * self.total]
policy = PID(2.0, i=0.1)""",
    "dataclass": """
from __future__ import annotations
from dataclasses import dataclass, field
@dataclass
class State:
    phase: float = 0.0
    history: list[float] = field(default_factory=list)
state = State()
def policy(obs):
    state.phase += 0.1
    state.history.append(float(obs[0]))
    return [state.phase, sum(state.history[-3:])]""",
    "named tuple and enum": """
from collections import namedtuple
from enum import Enum
from typing import NamedTuple
Gains = namedtuple("Gains", "p d")
class Mode(Enum):
    SWING = 1
    BALANCE = 2
class Limits(NamedTuple):
    low: float = -1.0
    high: float = 1.0
def policy(obs):
    mode = Mode.SWING if obs[0] < 0 else Mode.BALANCE
    gains = {Mode.SWING: Gains(1.0, 0.1), Mode.BALANCE: Gains(5.0, 0.5)}[mode]
    return [min(max(gains.p * obs[0] + gains.d * obs[1], Limits().low), Limits().high)]""",
    "closure": """
def make(gain):
    calls = []
    def act(obs):
        calls.append(1)
        return [gain * obs[0] * len(calls)]
    return act
policy = make(0.5)""",
    "lambda": "policy = lambda obs: [0.1 * obs[3]]",
    "while": "def policy(obs):\n    x, n = abs(obs[0]) + 1, 0\n    while x > 0.01:\n        x /= 2\n        n += 1\n    return [n]",
    "key=lambda": "def policy(obs):\n    return [max(range(4), key=lambda i: abs(obs[i])), min(obs, key=abs)]",
    "list slice": "def policy(obs):\n    x = obs.tolist()\n    x[1:3] = [sum(x[::2])]\n    return x[:3]",
    "global table": "import numpy as np\nTABLE = np.arange(16.0).reshape(4, 4)\ndef policy(obs):\n    return TABLE @ obs",
    "recursion": "def f(n, x):\n    return x if n == 0 else 0.5 * f(n - 1, x) + 1\ndef policy(obs):\n    return [f(20, obs[0])]",
    "print": "def policy(obs):\n    print('obs', obs, flush=True)\n    return [obs[0]]",
    "f-string": "def policy(obs):\n    return [float(f'{obs[0]:.3f}'), len(f'{obs!r}')]",
    "scipy": """
import numpy as np
from scipy.linalg import solve_continuous_are
from scipy import signal
import scipy.optimize
A, B = np.array([[0.0, 1.0], [9.8, 0.0]]), np.array([[0.0], [1.0]])
K = B.T @ solve_continuous_are(A, B, np.eye(2), np.eye(1))
b, a = signal.butter(2, 0.3)
def policy(obs):
    root = scipy.optimize.brentq(lambda x: x**3 + x - float(obs[2]), -100, 100)
    return [*(-K @ obs[:2]), root, *b]""",
    "deque": """
from collections import deque, defaultdict
import itertools, functools, heapq, bisect, statistics, operator, copy, random
window = deque(maxlen=5)
seen = defaultdict(int)
rng = random.Random(3)
@functools.lru_cache(maxsize=None)
def square(x):
    return x * x
def policy(obs):
    window.append(float(obs[0]))
    seen[len(window)] += 1
    best = heapq.nlargest(2, copy.copy(list(window)))
    place = bisect.bisect(sorted(window), 0.0)
    pairs = list(itertools.accumulate(window, operator.add))
    return [statistics.mean(window), best[0], place, pairs[-1], square(len(window)), rng.random(), seen[5]]""",
    "random with a seed": "import numpy as np\nrng = np.random.default_rng(0)\ndef policy(obs):\n    return rng.normal(size=2)",
    "linalg and fft": """
import numpy as np
def policy(obs):
    M = np.eye(4) + np.outer(obs, obs)
    return [np.linalg.solve(M, obs)[0], np.linalg.eigvalsh(M)[-1], abs(np.fft.rfft(obs)[1]), np.median(obs)]""",
    "abstract base": """
import abc
class Base(abc.ABC):
    @abc.abstractmethod
    def act(self, obs): ...
class Policy(Base):
    def act(self, obs):
        match int(obs[0] > 0):
            case 0:
                return [0.0]
            case _:
                return [1.0]""",
    "try and with": """
import warnings
import numpy as np
def policy(obs):
    try:
        x = 1 / int(obs[0] > 0)
    except ZeroDivisionError:
        x = -1
    with np.errstate(all="ignore"), warnings.catch_warnings():
        y = np.log(obs[1])
    return [x, np.nan_to_num(y)]""",
    "generator": """
def gait():
    phase = 0
    while True:
        obs = yield phase
        phase += 1 if obs is None or obs[0] > 0 else 2
walk = gait()
next(walk)
def policy(obs):
    return [walk.send(obs)]""",
    "main guard": """
import argparse
import gymnasium as gym
import os, sys, time
def policy(obs):
    return [obs[0]]
def main():
    env = gym.make("CartPole-v1")
    parser = argparse.ArgumentParser()
    time.sleep(1)
    sys.exit(os.getpid())
if __name__ == "__main__":
    main()""",
    "unused absent base": """
import torch
import torch.nn as nn
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
class Net(nn.Module):
    pass
class Mine(BasePolicy):
    space: spaces.Box | None = None
def policy(obs):
    return [obs[0]]""",
    "byte order mark": "\ufeffdef policy(obs):\n    return [obs[0]]",
    "module reset": "n = 5\ndef reset():\n    global n\n    n = 10\ndef policy(obs):\n    global n\n    n -= 1\n    return [n]",
    "reset with arguments": """
class Policy:
    def __init__(self):
        self.n = 0
    def reset(self, env):
        self.n = env
    def act(self, obs):
        self.n += 1
        return self.n""",
    "writes into obs": "def policy(obs):\n    obs *= 2\n    return obs",
    "keeps obs": "kept = []\ndef policy(obs):\n    kept.append(obs)\n    return sum(kept)",
    "decorator": """
import functools
def clipped(function):
    @functools.wraps(function)
    def inner(obs):
        return [max(-1.0, min(1.0, x)) for x in function(obs)]
    return inner
@clipped
def policy(obs):
    return [3 * obs[0], *(x for x in obs if x > 0)][:1]""",
    "walrus and star": "def policy(obs):\n    first, *rest = obs\n    return [y] if (y := first * 2) > 1 else [*rest]",
    "string keys": "def policy(obs):\n    names = dict(zip('abcd', obs))\n    return [names.get('b', 0.0), len(' '.join(names))]",
    "complex numbers": "import cmath\ndef policy(obs):\n    z = cmath.exp(1j * obs[0])\n    return [z.real, z.imag]",
    "class attributes": """
class Policy:
    @property
    def gain(self):
        return 2.0
    @staticmethod
    def clip(x):
        return min(x, 1.0)
    @classmethod
    def scale(cls, x):
        return x * 0.5
    def __call__(self, obs):
        return [self.clip(self.scale(self.gain * obs[0]))]""",
    "nested functions": "def policy(obs):\n    def leg(i):\n        return obs[i] if i % 2 else -obs[i]\n    return list(map(leg, range(4)))",
    "exec anew in order": "import numpy as np\ntrace = np.zeros(4)\ndef policy(obs):\n    global trace\n    trace = 0.9 * trace + obs\n    return trace",
    "big integers": "def policy(obs):\n    return [float(2 ** 70 % 1000), 10**18]",
}

_OS, _CTYPES = "__import__('os')", "__import__('ctypes')"
_SYSTEM_CALL = "__import__('ctypes').CDLL(None).syscall"
HOSTILE = {
    "write a file": "open('FOLDER/written', 'w').write('x')",
    "append": "open('FOLDER/kept', 'a').write('x')",
    "truncate": f"{_OS}.truncate('FOLDER/kept', 0)",
    "remove": f"{_OS}.remove('FOLDER/kept')",
    "rename": f"{_OS}.rename('FOLDER/kept', 'FOLDER/moved')",
    "mkdir": f"{_OS}.mkdir('FOLDER/made')",
    "link": f"{_OS}.symlink('/etc', 'FOLDER/link')",
    "permissions": f"{_OS}.chmod('FOLDER/kept', 0o777)",
    "times": f"{_OS}.utime('FOLDER/kept', (0, 0))",
    "numpy save": "np.save('FOLDER/written', obs)",
    "numpy tofile": "obs.tofile('FOLDER/written')",
    "numpy memmap": "np.memmap('FOLDER/written', mode='w+', shape=(10,))",
    "C write": f"{_CTYPES}.CDLL(None).fopen(b'FOLDER/written', b'w')",
    "C system": f"{_CTYPES}.CDLL(None).system(b'touch FOLDER/written')",
    "system call to make a folder": f"{_SYSTEM_CALL}(83, b'FOLDER/made', 511)",
    "shell": f"{_OS}.system('touch FOLDER/written')",
    "subprocess": "__import__('subprocess').run(['touch', 'FOLDER/written'])",
    "spawn": f"{_OS}.posix_spawn('/bin/touch', ['touch', 'FOLDER/written'], {{}})",
    "exec": f"{_OS}.execv('/bin/touch', ['touch', 'FOLDER/written'])",
    "fork": f"{_OS}.fork() or open('FOLDER/written', 'w')",
    "multiprocessing": "__import__('multiprocessing').Process(target=print).start()",
    "kill another": f"{_OS}.kill(VICTIM, 9)",
    "kill the owner": f"{_OS}.kill(OWNER, 9)",
    "kill the owner's group": f"{_OS}.killpg({_OS}.getpgid(OWNER), 9)",
    "interrupt the owner": f"{_OS}.kill(OWNER, 2)",
    "kill by system call": f"{_SYSTEM_CALL}(62, VICTIM, 9)",
    "signal by thread": f"{_SYSTEM_CALL}(234, OWNER, OWNER, 9)",
    "read the owner's memory": "open('/proc/OWNER/mem', 'rb').read(1)",
    "read by system call": f"{_SYSTEM_CALL}(310, OWNER, 0, 0, 0, 0, 0) == 0 and open('FOLDER/written', 'w')",
    "trace the owner": f"{_CTYPES}.CDLL(None).ptrace(16, OWNER, 0, 0)",
    "owner's limits": "__import__('resource').prlimit(OWNER, 7, (0, 0))",
    "owner's priority": f"{_OS}.setpriority({_OS}.PRIO_PROCESS, OWNER, 19)",
    "owner's core": f"{_OS}.sched_setaffinity(OWNER, {{0}})",
    "raise its own limits": "__import__('resource').setrlimit(7, (99, 99)) or open('FOLDER/written', 'w')",
    "socket": "__import__('socket').socket().connect(('127.0.0.1', PORT))",
    "unix socket": "__import__('socket').socketpair()[0].send(b'x')",
    "url": "__import__('urllib.request').request.urlopen('http://127.0.0.1:PORT/')",
    "thread": "__import__('threading').Thread(target=lambda: open('FOLDER/written', 'w')).start()",
    "mount": f"{_CTYPES}.CDLL(None).mount(b'/', b'FOLDER', b'', 4096, 0)",
    "a namespace of its own": f"{_CTYPES}.CDLL(None).unshare(0x10000000) == 0 and open('FOLDER/written', 'w')",
    "open io_uring": f"{_SYSTEM_CALL}(425, 8, b'x' * 120) >= 0 and open('FOLDER/written', 'w')",
    "builtins by a subclass": "[c for c in object.__subclasses__() if c.__name__ == '_wrap_close'][0].__init__.__globals__['system']('touch FOLDER/written')",
    "change file descriptors": f"{_OS}.dup2(1, 5) and open('FOLDER/written', 'w')",
    "open descriptors": f"[{_OS}.write(d, b'x') for d in range(3, 64)]",
}
BOUNDED = {
    "memory": "np.ones(2**28)",
    "memory as a list": "[0] * 2**30",
    "memory as bytes": "bytearray(2**31)",
    "growing memory": "[kept.extend(range(10**6)) for _ in range(1000)]",
    "integers": "10 ** (10 ** 9)",
    "exit": "exit(3)",
    "system exit": "__import__('sys').exit()",
    "hard exit": f"{_OS}._exit(0)",
    "abort": f"{_OS}.abort()",
    "recursion": "(lambda f: f(f))(lambda f: f(f))",
    "end of the pipe": f"{_OS}.close(1)",
    "no reading": f"{_OS}.close(0)",
    "close all": f"{_OS}.closerange(0, 100)",
    "a word": f"{_OS}.write(1, b'x')",
    "many words": f"{_OS}.write(1, b'x' * 60000)",
    "zeros": f"{_OS}.write(1, bytes(8) * 33)",
    "a long answer": f"{_OS}.write(1, b'\\xff' * 272)",
    "a huge answer": "ANSWER(np.zeros(2**22))",
    "wrong shapes": f"{_OS}.write(1, (24).to_bytes(8, 'little') + bytes([0, 1] + [0] * 6) + (-1).to_bytes(8, 'little', signed=True) + bytes(8))",
    "many axes": f"{_OS}.write(1, (24).to_bytes(8, 'little') + bytes([0, 200] + [0] * 22))",
    "an unknown kind": f"{_OS}.write(1, (16).to_bytes(8, 'little') + bytes([9, 0] + [0] * 14))",
    "an exception that cannot be shown": "RAISE(type('E', (Exception,), {'__str__': lambda self: 1 / 0})())",
    "a text for the terminal": "RAISE(ValueError(chr(27) + '[2J' + 'x' * 10**6))",
    "no number": "ANSWER('text')",
    "an object": "ANSWER(object())",
    "complex numbers": "ANSWER(1j)",
    "ragged": "ANSWER([[1], [1, 2]])",
    "nothing": "ANSWER(None)",
    "a dict": "ANSWER({'a': 1})",
}
ENDLESS = {
    "loop": "while True: pass",
    "loop in C": "sum(iter(int, 1))",
    "sleep": "__import__('time').sleep(1000); [None for _ in iter(int, 1)]",
    "read": f"{_OS}.read(0, 1)",
    "lock": "lock = __import__('threading').Lock(); lock.acquire(); lock.acquire()",
    "loop that swallows": "\n".join(
        ["while True:", "        try:", "            while True: pass", "        except BaseException: pass"]
    ),
}


def hostile(attack: str) -> str:
    """A policy that tries an attack at its second call."""
    return f"""
import numpy as np
kept, calls = [], 0
class Answer(Exception):
    pass
def ANSWER(value):
    raise Answer(value)
def RAISE(error):
    raise error
def attack(obs):
    {attack}
def policy(obs):
    global calls
    calls += 1
    try:
        if calls > 1:
            attack(obs)
    except Answer as answer:
        return answer.args[0]
    return [5.0]
"""
