"""lint: what it refuses, in words that help whoever wrote the program, and what it lets pass."""

import importlib.util

import numpy as np
import pytest
from programs import BOUNDED, ENDLESS, HONEST, HOSTILE, hostile

from llmwrappers import ContainedPolicy, PolicyRejected
from llmwrappers.containment.lint import lint

P = "def policy(obs):\n    return "


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        ("def policy(obs)\n    return 0", 1, "SyntaxError: expected ':'"),
        (P + "0\nreturn 3", 3, "SyntaxError: 'return' outside function"),
        ("def act(obs):\n    return 0", None, r"defines neither policy\(obs\) nor a class Policy at its top level"),
        ("if True:\n    x = 1", None, "defines neither policy"),
        ("if __name__ == '__main__':\n    policy = 3", None, "defines neither policy"),
        ("import os\n" + P + "os.getpid()", 1, "import of os, which a policy cannot use; it may import numpy, math, scipy"),
        ("\nfrom os import getpid as g\n" + P + "g()", 2, "import of os"),
        ("import torch.nn as nn\nnet = nn.Linear(3, 1)\n" + P + "net(obs)", 1, "import of torch.nn"),
        ("import os\ndef helper():\n    return os.getpid()\n" + P + "helper()", 1, "import of os"),
        ("import os\nclass Policy:\n    def act(self, obs):\n        return os.getpid()", 1, "import of os"),
        (P.replace("return ", "import socket\n    return ") + "socket.AF_INET", 2, "import of socket"),
        ("from . import gains\n" + P + "gains", 1, "import of ."),
        ("from my_controllers import policy", 1, "import of my_controllers"),
        ("try:\n    from mine import Walker as Policy\nexcept ImportError:\n    pass", 2, "import of mine"),
    ],
)
def test_refused(source, line, reason):
    with pytest.raises(PolicyRejected, match=reason) as caught:
        lint(source)
    assert caught.value.line == line


@pytest.mark.parametrize(
    "source",
    [
        "import os\n" + P + "0",
        "import os, sys\n" + P + "0\ndef main():\n    sys.exit(os.getpid())\nif __name__ == '__main__':\n    main()",
        "policy = lambda obs: 0",
        "policy: object = lambda obs: 0",
        "try:\n    import torch\nexcept ImportError:\n    torch = None\n" + P + "0",
        "if True:\n    def policy(obs):\n        return 0",
        "for name in 'ab':\n    policy = len",
    ],
)
def test_passed(source):
    lint(source)


def test_a_part_of_scipy_may_be_imported_by_its_name():
    policy = ContainedPolicy("from scipy import constants\ndef policy(obs):\n    return [constants.g]\n")
    assert policy(np.ones(1)) == [9.80665]
    policy.close()


@pytest.mark.parametrize(
    ("module", "answer"), [("numpy", "sin(obs[0] + 1), random.rand()"), ("scipy", "linalg.norm(obs + 1), constants.g")]
)
def test_everything_of_a_package_may_be_imported(module, answer):
    policy = ContainedPolicy(f"from {module} import *\ndef policy(obs):\n    return [{answer}]\n")
    assert np.isfinite(policy(np.zeros(1))).all()
    policy.close()


def test_a_module_that_is_not_installed_is_not_called_forbidden(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "scipy" else find_spec(name))
    with pytest.raises(PolicyRejected, match=r"line 1: import of scipy.linalg, which is not installed: pip install scipy$"):
        lint("from scipy.linalg import expm\ndef policy(obs):\n    return expm(obs)")


def test_what_is_imported():
    source = (
        "import numpy as np\nfrom scipy import signal\nimport gym\nfrom collections.abc import Callable\n"
        + P
        + "np.random.rand()"
    )
    loaded, absent, failing = lint(source)
    assert {"numpy", "scipy", "collections.abc", "numpy.random", "scipy.signal"} <= set(loaded)
    assert (absent, failing) == (["gym"], [])


OPTIONAL = {
    "a name that is None": """
try:
    import torch
except ImportError:
    torch = None
def policy(obs):
    return [1.0] if torch is None else [torch.ones(1).item()]
""",
    "a function of its own": """
try:
    from numba import njit
except (ImportError, OSError):
    def njit(function): return function
@njit
def policy(obs):
    return [1.0]
""",
    "a flag": """
try:
    import casadi.tools as casadi
    HAS_CASADI = True
except Exception:
    HAS_CASADI = False
def policy(obs):
    if HAS_CASADI:
        casadi.vertcat(1)
    return [1.0]
""",
    "a part of it, too, which is not used": """
try:
    import torch
    import torch.nn as nn
except ImportError:
    torch = None
def train():
    import torch.optim as optim
def policy(obs):
    return [1.0] if torch is None else [torch.ones(1).item()]
""",
    "a part of what is imported, but not used": """
import torch
try:
    from torch.nn import functional
except ImportError:
    functional = None
def policy(obs):
    return [1.0] if functional is None else [functional.relu(1.0)]
""",
    "a flag that the policy alone reads": """
FAST = False
try:
    import numba
    FAST = True
except ImportError:
    pass
def policy(obs):
    return [9.0] if FAST else [1.0]
""",
    "one of two policies": """
try:
    import torch
    def policy(obs):
        return [9.0]
except (ImportError, OSError):
    def policy(obs):
        return [1.0]
""",
    "what stands without it": """
njit = lambda function: function
try:
    from numba import njit
except ImportError:
    pass
@njit
def policy(obs):
    return [1.0]
""",
    "another module, within the function": """
def policy(obs):
    try:
        import cupy as xp
    except:
        import numpy as xp
    return xp.ones(1)
""",
}


@pytest.mark.parametrize("name", OPTIONAL)
def test_an_import_that_the_program_does_without_fails(name):
    assert lint(OPTIONAL[name]).failing
    policy = ContainedPolicy(OPTIONAL[name])
    assert policy(np.zeros(1)).tolist() == [1.0]
    policy.close()


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ndef policy(obs: torch.Tensor) -> torch.Tensor: return [1.0]",
        "from __future__ import annotations\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n"
        "def policy(obs: torch.Tensor):\n    out: torch.Tensor = [1.0]\n    return out",
        "import gymnasium as gym\nclass Policy:\n    def __init__(self, env: gym.Env | None = None): self.env = env\n"
        "    def act(self, obs): return [1.0]",
        "import time\ndef gait(time): return time + 1.0\ndef policy(obs): return [gait(0.0)]\n"
        "if __name__ == '__main__':\n    print(time.time())",
        "import time\ndef policy(obs):\n    for time in [1.0]: pass\n    return [(lambda time: time)(time)]",
    ],
)
def test_annotations_and_own_names_need_no_module(source):
    assert lint(source).failing == []
    policy = ContainedPolicy(source)
    assert policy(np.zeros(1)).tolist() == [1.0]
    policy.close()


@pytest.mark.parametrize(
    "source",
    [
        "import time\ndef gait(time): return time\ndef policy(obs): return [gait(time.time())]",
        "import time\ndef policy(obs, now=time.time()): return [now]",
        "import time\n@time.time\ndef policy(obs): return [1.0]",
        "import time\ndef policy(obs):\n    global time\n    time = time.time()\n    return [1.0]",
        "def policy(obs):\n    import time\n    return [time.time()]",
        "import time\ndef policy(obs):\n    def inner():\n        time = 1.0\n    return [time.time()]",
    ],
)
def test_a_module_that_is_read_is_needed(source):
    with pytest.raises(PolicyRejected, match="import of time"):
        lint(source)


LATE = {
    "COBYLA": "minimize(lambda u: (u[0] - 1.0) ** 2, [0.0], method='COBYLA').x",
    "COBYQA": "minimize(lambda u: (u[0] - 1.0) ** 2, [0.0], method='COBYQA').x",
    "fmin_cobyla": "fmin_cobyla(lambda u: (u[0] - 1.0) ** 2, [0.0], [], rhoend=1e-6)",
    "differential_evolution": "differential_evolution(lambda u: (u[0] - 1.0) ** 2, [(-2, 2)], seed=1).x",
    "brute": "brute(lambda u: (u[0] - 1.0) ** 2, [(-2, 2)], Ns=5)",
    "shgo": "shgo(lambda u: (u[0] - 1.0) ** 2, [(-2, 3)], n=32, sampling_method='sobol').x",
    "quad_vec": "[quad_vec(lambda t: 2 * t, 0, 1)[0]]",
    "logm": "[logm(np.eye(2) * np.e)[0, 0]]",
    "fractional_matrix_power": "[fractional_matrix_power(np.eye(2), 0.5)[0, 0]]",
}


@pytest.mark.parametrize("name", LATE)
def test_functions_of_scipy_that_import_when_they_are_called_work(name):
    part = {"quad_vec": "integrate", "logm": "linalg", "fractional_matrix_power": "linalg"}.get(name, "optimize")
    imported = f"import numpy as np\nfrom scipy.{part} import {'minimize' if name.isupper() else name}\n"
    policy = ContainedPolicy(imported + P + LATE[name])
    np.testing.assert_allclose(policy(np.zeros(1)), [1.0], atol=1e-3)
    policy.close()


@pytest.mark.parametrize("end", ["raise", "exit()"])
def test_an_import_that_the_program_cannot_do_without_does_not_fail_if_the_policy_can(end):
    source = f"try:\n    import pygame\nexcept ImportError:\n    {end}\n"
    assert lint(source + P + "[1.0]").absent == ["pygame"]
    policy = ContainedPolicy(source + P + "[1.0]")
    assert policy(np.zeros(1)).tolist() == [1.0]
    policy.close()
    with pytest.raises(PolicyRejected, match="line 2: import of pygame"):
        lint(source + P + "[pygame.time.get_ticks()]")


@pytest.mark.parametrize(
    "answer",
    [
        "scipy.constants.g",
        "scipy.sparse.linalg.norm(scipy.sparse.eye(1))",
        "scipy.fftpack.fft(obs)[0].real + 9.8",
        "np.char.str_len('ab')",
    ],
)
def test_parts_that_numpy_and_scipy_load_at_first_use(answer):
    policy = ContainedPolicy(f"import numpy as np, scipy, scipy.sparse\n{P}[{answer}]")
    assert np.isfinite(policy(np.zeros(1))).all()
    policy.close()


@pytest.mark.parametrize("name", HONEST)
def test_honest_code_passes(name):
    lint(HONEST[name])


@pytest.mark.parametrize("name", {**HOSTILE, **BOUNDED, **ENDLESS})
def test_it_is_no_fence(name):
    lint(hostile({**HOSTILE, **BOUNDED, **ENDLESS}[name]))


def test_only_text_is_read():
    with pytest.raises(TypeError, match="source must be a str"):
        lint(b"x")
