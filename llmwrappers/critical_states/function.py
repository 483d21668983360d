"""CriticalFunction: critical states as code that an LLM wrote (ULTRA)."""

import ast
import copy
import re
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import TransformAction

from llmwrappers.containment.errors import PolicyRejected
from llmwrappers.containment.lint import bound_names, syntax_tree
from llmwrappers.containment.policy import ContainedPolicy
from llmwrappers.containment.program import Program
from llmwrappers.faults import Faults
from llmwrappers.priors.contract import fault_text
from llmwrappers.priors.probe import vet_policy

# Turns critical(obs) into a policy that returns numbers alone: is critical (0 or 1), the action, the reward, the entry. For a
# state that is not critical the rest does not matter: LLMs write None, 0.0 or some action there. The entry is that of the last
# return that ran, so that an answer that a decorator repeats has the entry that it came from.
SUFFIX = """

import numpy as _answered_numpy

_answered_entry = 0

def policy(_answered_observation):
    _answered = critical(_answered_observation)
    if _answered is None or isinstance(_answered, (bool, _answered_numpy.bool_)) and not _answered:
        return _answered_numpy.zeros({size})
    try:
        _answered_critical, _answered_action, _answered_reward = _answered
    except (TypeError, ValueError):
        raise ValueError("critical must return (is_critical, action, reward) or None, got " + repr(_answered)) from None
    if not _answered_critical:
        return _answered_numpy.zeros({size})
    assert _answered_critical == _answered_critical, "is_critical is NaN"
    assert _answered_action is not None, "the action of a critical state must not be None"
    assert _answered_reward is not None, "the reward of a critical state must not be None; 0.0 is none"
    _answered_action = _answered_numpy.ravel(_answered_action)
    assert _answered_action.size == {size} - 3, "the action must have {action_size} numbers"
    {also}
    assert -1 <= _answered_reward <= 1, "the reward must lie in [-1, 1]"
    _answered_reward = _answered_numpy.ravel(_answered_reward)
    return _answered_numpy.concatenate([_answered_numpy.ones(1), _answered_action, _answered_reward, [_answered_entry]])
"""
ALSO_DISCRETE = """\
assert _answered_action[0] == _answered_numpy.rint(_answered_action[0]) and {low} <= _answered_action[0] <= {high}, \
"the action must be an integer from {low} to {high}"
"""


class CriticalFunction:
    """Plays a critical function that an LLM wrote: which states are critical, and the action and reward there.

    The code defines ``critical(obs) -> (is_critical, action, reward)``; None or False is a state that is not critical. On a
    Box the action is a list, an array or (for one component) a number; on a Discrete space it is an int. The code runs in a
    locked process (see ContainedPolicy), or in this one if it is trusted. It may keep state for an episode, which ``reset()``
    begins.

    Each ``return`` in ``critical`` is an entry, which EntryWorth tests. Entries are numbered from 0 in the order of the text;
    ``lines`` has the line of each. An object that is assigned to ``critical`` is one entry.

    An action on a Box is clipped into it. Code that raises, takes too long, or returns another shape, NaN, Inf, a reward
    outside [-1, 1] or an action outside a Discrete space makes a fault: that observation is not critical, ``faults`` counts
    the fault, and the first one gives a warning. After 10 in a row, with a second warning, the code is not called any more.

    Args:
        source: Python code that defines ``critical(obs)``
        action_space: Box or Discrete
        is_trusted: whether the code runs in this process, with your rights
        filename: the name of the file in error messages, if it is trusted

    Raises:
        PolicyRejected: the source is no Python, defines no ``critical``, or needs a module that is not installed
        TypeError: an action space that is neither Box nor Discrete

    Example:
        >>> source = "def critical(obs):\\n    return obs[0] < 0.2, [1.5 * obs[1]], -0.5"
        >>> guidance = CriticalFunction(source, Box(-1, 1, (1,)))
        >>> guidance(np.array([0.1, 0.5])), guidance(np.array([0.9, 0.5]))
        ((array([0.75], dtype=float32), -0.5), None)

    Reference:
        Tan, Yan and Yang, "LLM-Guided Reinforcement Learning: Addressing Training Bottlenecks through Policy Modulation",
        arXiv 2505.20671.

    Change log:
        * v0.1.0 - added
    """

    def __init__(self, source: str, action_space: gym.Space, is_trusted: bool = False, filename: str = "<policy>"):
        program, self._size, self.lines = _as_policy(source, action_space)
        try:
            self._policy = Program(program, filename) if is_trusted else ContainedPolicy(program)
        except PolicyRejected as rejected:
            raise _in_own_lines(rejected, source) from None
        self.source, self.action_space, self.is_trusted, self.filename = source, action_space, is_trusted, filename
        self.faults = Faults(
            "CriticalFunction: the code",
            "nothing is critical at that observation. Further faults are only counted.",
            "it is not called any more",
        )

    def __call__(self, observation: Any) -> tuple[Any, float] | None:
        """Returns the suggested action (a new array, or an int) and reward at an observation; None if not critical."""
        return self.consult(observation)[1]

    def __len__(self) -> int:
        return len(self.lines)

    def consult(self, observation: Any) -> tuple[int, tuple[Any, float] | None]:
        """Returns the entry at an observation, and its action and reward; -1 and None if not critical."""
        if self.faults.is_too_many:
            return -1, None
        try:
            # A copy, because the code may write into what it is given.
            answer = np.asarray(self._policy(copy.deepcopy(observation)))
            if answer.shape != (self._size,) or not np.isfinite(answer).all():
                raise ValueError(f"it answered {answer}")
        except Exception as error:
            self.faults.add(_own_words(fault_text(error, self._policy), self.source), stacklevel=2)
            return -1, None
        is_critical, *action, reward, entry = answer.tolist()
        self.faults.end_row()
        if not is_critical:
            return -1, None
        space = self.action_space
        if isinstance(space, Box):
            array = np.clip(np.reshape(action, space.shape), space.low, space.high)
            return int(entry), (np.asarray(array, dtype=space.dtype), reward)
        return int(entry), (int(action[0]), reward)

    def reset(self) -> None:
        """Begins an episode; code that raises in its own ``reset`` makes a fault."""
        if self.faults.is_too_many:
            return
        try:
            self._policy.reset()
        except Exception as error:
            self.faults.add(f"{type(error).__name__} in its reset: {error}", stacklevel=2)

    def close(self) -> None:
        """Ends the worker process, if there is one; a later call starts a new one."""
        if isinstance(self._policy, ContainedPolicy):
            self._policy.close()

    def __reduce__(self):
        parts = self.source, self.action_space, self.is_trusted, self.filename
        return CriticalFunction, parts, {"faults": self.faults}


def vet_critical_function(source: str, env: gym.Env) -> CriticalFunction:
    """Returns a critical function, after a probe in its locked process.

    The probe is that of ``vet_policy``: made-up observations, twice each, and real ones of a reset (seed 0) and of the first
    50 steps with random actions. The code may fail at half of the made-up ones, but at none of the real ones.

    Args:
        source: Python code that defines ``critical(obs)``
        env: the environment of the agent; the probe resets and steps it

    Raises:
        PolicyRejected: with the line, if there is one, and the reason
        TypeError: the space is not supported

    Example:
        >>> env = gym.make("Pendulum-v1")
        >>> vet_critical_function("def critical(obs):\\n    return obs[0] < 0, [2.0], 0.5", env)(np.array([-1.0, 0.0, 0.0]))
        (array([2.], dtype=float32), 0.5)
        >>> vet_critical_function("def critical(obs):\\n    return obs[0] < 9, [2.0], 5", env)
        Traceback (most recent call last):
        ...
        llmwrappers.containment.errors.PolicyRejected: it fails in the probe: AssertionError: the reward must lie in [-1, 1]
    """
    program, size, _ = _as_policy(source, env.action_space)
    answers, played = Box(-np.inf, np.inf, (size,)), copy.deepcopy(env.action_space)
    played.seed(0)
    try:
        vet_policy(program, env.observation_space, answers, env=TransformAction(env, lambda _: played.sample(), answers))
    except PolicyRejected as rejected:
        raise _in_own_lines(rejected, source) from None
    return CriticalFunction(source, env.action_space)


def _as_policy(source: str, space: gym.Space) -> tuple[str, int, list[int]]:
    """Returns a program whose ``policy`` answers for ``critical``, how many numbers it returns, and the entries' lines."""
    if isinstance(space, Discrete):
        action_size = 1
        also = ALSO_DISCRETE.format(low=int(space.start), high=int(space.start + space.n - 1))
    elif isinstance(space, Box):
        action_size, also = int(np.prod(space.shape)), ""
    else:
        raise TypeError(f"a critical function serves Box and Discrete action spaces, got {space}")
    tree = syntax_tree(source)  # parsed alone first: an open string or bracket would swallow what is added
    source = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")  # as Python reads it
    lines = {name: statement.lineno for statement in tree.body for name in bound_names(statement)}
    if "policy" in lines:
        raise PolicyRejected(lines["policy"], "policy is not what is asked for; define critical(obs) alone")
    if "critical" not in lines:
        raise PolicyRejected(None, "there is no function critical(obs)")
    answers = _answers(tree)
    size = action_size + 3
    suffix = SUFFIX.format(size=size, action_size=action_size, also=also.rstrip())
    # What is no function here, such as an object, is one entry.
    return _with_entries(source, answers) + suffix, size, [answer.lineno for answer in answers] or [lines["critical"]]


def _answers(tree: ast.Module) -> list[ast.expr]:
    """The values that ``critical`` returns, a function, method or lambda, in the order of the text."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name="critical"):
                inside = list(ast.iter_child_nodes(node))
                for part in inside:
                    if isinstance(part, ast.Return) and part.value:
                        found.append(part.value)
                    elif not isinstance(part, ast.FunctionDef | ast.Lambda):
                        inside += ast.iter_child_nodes(part)
            case ast.Assign(targets=[ast.Name(id="critical")], value=ast.Lambda(body=value)):
                found.append(value)
    return sorted(found, key=lambda value: (value.lineno, value.col_offset))


def _with_entries(source: str, answers: list[ast.expr]) -> str:
    """The same program; its i-th returned value also sets ``_answered_entry`` to i. Lines keep their numbers."""
    lines = [line.encode() for line in re.split(r"(?<=\n)", source)]  # Python counts columns in bytes
    for entry, answer in reversed(list(enumerate(answers))):
        for line, column, text in (
            (answer.end_lineno, answer.end_col_offset, f"), globals().update(_answered_entry={entry})][0]"),
            (answer.lineno, answer.col_offset, "[("),
        ):
            assert line is not None
            assert column is not None
            lines[line - 1] = lines[line - 1][:column] + text.encode() + lines[line - 1][column:]
    return b"".join(lines).decode()


def _in_own_lines(rejected: PolicyRejected, source: str) -> PolicyRejected:
    own = rejected.line is None or rejected.line <= _line_count(source)
    return PolicyRejected(rejected.line if own else None, _own_words(rejected.reason, source))


def _own_words(reason: Any, source: str) -> str:
    """The reason, without line numbers that are not in the source."""
    return re.sub(r"line (\d+): ", lambda found: found[0] if int(found[1]) <= _line_count(source) else "", str(reason))


def _line_count(source: str) -> int:
    return source.count("\n") + 1
