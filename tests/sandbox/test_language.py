"""The check: refuses what a policy may not be, names the line and a reason that can go back to a model, and runs nothing."""

import ast
import gc
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from policy_corpus import HOSTILE, LEGITIMATE, OUTCOMES

from llmwrappers.sandbox.check import parse_policy
from llmwrappers.sandbox.generated_policy import GeneratedPolicy, check_policy
from llmwrappers.sandbox.language import BUILTINS, FUNCTIONS, METHODS, PolicyRejected

REFUSED = [name for name, (expected, _) in HOSTILE.items() if expected == "refused"]
BOUNDED = [name for name, (expected, _) in HOSTILE.items() if expected == "bounded"]


def rejection(source: str) -> PolicyRejected:
    with pytest.raises(PolicyRejected) as caught:
        check_policy(source)
    return caught.value


# ------------------------------------------------------------------------------------------------------------- the corpus


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_policy_is_refused_at_every_level_and_nothing_of_it_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = HOSTILE[name][1]
    OUTCOMES[name] = "escaped"
    reason = rejection(source).reason
    assert len(reason) > 10
    assert "\n" not in reason
    for isolation in ("inprocess", "process"):
        with pytest.raises(PolicyRejected):
            GeneratedPolicy(source, 1, isolation)
    assert list(tmp_path.iterdir()) == []
    OUTCOMES[name] = "refused"


@pytest.mark.parametrize("name", BOUNDED)
def test_the_check_of_what_the_bounds_must_stop_ends_too(name):
    check_policy(HOSTILE[name][1])


@pytest.mark.parametrize("name", LEGITIMATE)
def test_a_legitimate_policy_passes(name):
    check_policy(LEGITIMATE[name][2])


# ------------------------------------------------------------------------------------------------------------ the reasons

REASONS = [
    ("import os\ndef policy(obs):\n    return [0.0]", 1, "import of 'os'; only numpy and math are allowed"),
    ("def policy(obs):\n    x = 1\n    while x:\n        pass\n    return [0.0]", 3, "use a for loop over range"),
    ("def policy(obs):\n    return [eval('1')]", 2, "'eval'"),
    ("def policy(obs):\n    y = obs.tofile('f')\n    return [y]", 2, ".tofile()"),
    ("import numpy as np\n\n\ndef policy(obs):\n    return np.fft.fft(obs)", 5, "np.fft.fft"),
    (
        "def policy(obs):\n    try:\n        return obs\n    except ValueError:\n        return obs",
        2,
        "test for the bad case with if",
    ),
    ("def policy(obs):\n    s = f'{obs}'\n    return obs", 2, "f-strings"),
    ("N = 0\ndef policy(obs):\n    global N\n    return [N]", 3, "no state between calls"),
    ("def f():\n    max = 1\n    return max\ndef policy(obs):\n    return [max(obs)]", 5, "'max' is also a variable"),
    ("def policy(obs):\n    return [gain]", 2, "'gain' is not defined"),
    ("def policy(obs)\n    return obs", 1, "SyntaxError"),
    ("def helper(x):\n    return x\ndef policy(obs, dt):\n    return obs", 3, "one argument"),
    ("def policy(obs):\n    return helper(obs)\ndef helper(x):\n    return helper(x)", 3, "recursion"),
    ("def policy(obs):\n    return [x for x in\n            {1, 2}]", 3, "use a list"),
    ("def policy(obs):\n    a = 1 << 3\n    return [a]", 2, "<< is not allowed"),
    ("def policy(obs):\n    a = 1\n    a >>= 3\n    return [a]", 3, ">> is not allowed"),
    ("import numpy as np\ndef policy(obs):\n    return np.zeros(3, dtype=object)", 3, "dtype must be one of"),
    ("import numpy as np\ndef policy(obs):\n    np = 3\n    return [np]", 3, "'np'"),
    ("def policy(obs):\n    return sorted(obs, key=lambda x: -x)", 2, "lambda"),
    ("def len(x):\n    return 3\ndef policy(obs):\n    return [len(obs)]", 1, "'len'"),
]


@pytest.mark.parametrize(("source", "line", "reason"), REASONS, ids=[reason for *_, reason in REASONS])
def test_a_refusal_names_the_line_and_the_reason(source, line, reason):
    error = rejection(source)
    assert (error.line, reason in error.reason) == (line, True), error
    assert str(error) == f"line {line}: {error.reason}"


def test_most_refusals_of_the_corpus_name_a_line():
    without = [name for name in REFUSED if rejection(HOSTILE[name][1]).line is None]
    # There is none where there is no policy, or where the whole cannot be read.
    assert len(without) < 20, without


def test_the_source_is_a_string():
    with pytest.raises(TypeError, match="source must be a str"):
        check_policy(None)


# ------------------------------------------------------------------------------------------------------- what is in reach


def test_what_runs_names_nothing_but_what_is_listed_here():
    """After the check no attribute is left but those of values, and no Name that is neither the program's own nor listed."""
    for _, _, source in LEGITIMATE.values():
        tree = parse_policy(source)
        own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        for node in ast.walk(tree):
            assert not isinstance(node, ast.Import | ast.ImportFrom | ast.Lambda)
            if isinstance(node, ast.Name):
                assert node.id in own | set(FUNCTIONS) | set(BUILTINS) or node.id.startswith("dtype "), node.id
            if isinstance(node, ast.Attribute):
                assert node.attr in METHODS | {"T", "shape", "size", "ndim", "real"}


def test_nothing_in_reach_has_to_do_with_files_processes_or_modules():
    suspicious = (
        "load",
        "save",
        "file",
        "open",
        "read",
        "write",
        "mem",
        "ctypes",
        "pickle",
        "exec",
        "eval",
        "import",
        "attr",
        "apply",
    )
    for name in [*FUNCTIONS, *BUILTINS, *METHODS]:
        assert not any(word in name for word in suspicious), name
        assert not name.split(".")[-1].startswith("_")
    assert not {"vectorize", "frompyfunc", "fromiter", "frombuffer", "format", "view", "type", "id", "hash", "vars"} & {
        name.split(".")[-1] for name in [*FUNCTIONS, *BUILTINS, *METHODS]
    }


@pytest.mark.parametrize(
    "where", ["def policy(obs):\n    {} = 1.0\n    return [{}]", "def policy(obs, {}=1.0):\n    return [{}]"]
)
@pytest.mark.parametrize("name", ["tested", "witness", "_x", "dtype", "own", "np_sin"])
def test_no_identifier_meets_the_names_of_what_the_check_puts_in(where, name):
    assert GeneratedPolicy(where.replace("{}", name), 1)([0.0]).tolist() == [1.0]


def test_functions_and_variables_may_not_be_confused():
    with pytest.raises(PolicyRejected, match="is also a variable"):
        check_policy("def policy(obs):\n    max = 3\n    return [max(obs)]")
    with pytest.raises(PolicyRejected, match="may only be called"):
        check_policy("def policy(obs):\n    f = max\n    return [f]")


def test_a_docstring_with_latex_is_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_policy('def policy(obs):\n    """Drives $\\dot x$ to zero."""\n    return [-obs[1]]')


def test_threads_can_check_at_the_same_time():
    """A callback of the collector lets other threads run while a tree is made."""

    def let_others_run(*_):
        time.sleep(0)

    source = "def policy(obs):\n    return [" + "obs[0] * (1.0 + " * 20 + "1.0" + ")" * 20 + "]\n"
    threshold = gc.get_threshold()
    gc.callbacks.append(let_others_run)
    gc.set_threshold(20)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(check_policy, [source] * 100)) == [None] * 100
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(let_others_run)
