"""Program: executes a module that holds a policy, and finds the policy in it."""

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

from llmwrappers.containment.errors import PolicyRejected

MODULE = "llmwrappers_policy"
NAMES = ("policy", "Policy")  # of the policy; the first one that is defined counts
PAIR = "; if your policy returns an (action, state) pair, return only the action"


class Program:
    """Plays a module's ``policy(obs)``, or its class ``Policy`` with ``act`` or ``__call__``, in this process.

    State lasts for an episode: ``reset()`` calls the policy's own ``reset()``, or its module's; if there is none, it executes
    the module anew.

    Args:
        source: Python code
        filename: the name of the file in error messages

    Raises:
        PolicyRejected: the module cannot be executed, or holds no policy

    Example:
        >>> count = Program("n = 0\\ndef policy(obs):\\n    global n\\n    n += 1\\n    return [n]")
        >>> count(None), count(None), count.reset(), count(None)
        ([1], [2], None, [1])
    """

    def __init__(self, source: str | bytes, filename: str = "<policy>"):
        self.source, self.filename = source, filename
        text = source.removeprefix("\ufeff") if isinstance(source, str) else source
        try:
            # dont_inherit: this module's __future__ imports must never change what a program means.
            self._code = compile(text, filename, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise PolicyRejected(getattr(error, "lineno", None), f"{type(error).__name__}: {error}") from None
        self._execute()

    def __call__(self, observation: Any) -> Any:
        """Returns the policy's answer."""
        return self.policy(observation)

    def reset(self) -> None:
        """Begins an episode."""
        if self._reset is None:
            self._execute()
        else:
            self._reset()

    def __repr__(self) -> str:
        return f"<the policy in {self.filename!r}, plays in this process>"

    def __reduce__(self):
        return Program, (self.source, self.filename)

    def _execute(self) -> None:
        module = types.ModuleType(MODULE)
        module.__file__ = self.filename
        sys.modules[MODULE] = module  # dataclasses looks up annotations there
        arguments, sys.argv = sys.argv, [self.filename]  # a script of the module's own must not read the training's
        try:
            exec(self._code, module.__dict__)
            self.policy, self._reset = controller(module.__dict__)
            if self._reset is not None:
                self._reset()
        except PolicyRejected:
            raise
        except (Exception, SystemExit) as error:
            reason = f"its top level fails: {describe(error, self.filename, with_line=False)}"
            if isinstance(error, SystemExit):
                reason += '; what only a script does belongs under if __name__ == "__main__":'
            raise PolicyRejected(line_of(error, self.filename), reason) from error
        finally:
            sys.argv = arguments


def controller(namespace: dict[str, Any]) -> tuple[Callable, Callable | None]:
    """Returns the function that acts and the one that begins an episode, if there is one."""
    found = next((namespace[name] for name in NAMES if name in namespace), None)
    owner, act = acting(found)
    if not callable(act):
        what = f"found {found!r}" if found is not None else "found neither"
        raise PolicyRejected(None, f"it must define policy(obs), or a class Policy with act or __call__; {what}")
    reset = getattr(owner, "reset", None) or namespace.get("reset")
    return act, reset if begins_an_episode(reset) else None


def acting(found: Any) -> tuple[Any, Any]:
    """Returns an object (a new one of a class) and what acts: its ``act``, else the object if it is callable, else None.

    In this order because every torch module can be called, also one whose actions only ``act`` gives.
    """
    owner = found() if makes_objects(found) else found
    act = getattr(owner, "act", None)
    return owner, act if callable(act) else owner if callable(owner) else None


def makes_objects(found: Any) -> bool:
    """Returns whether this is a class, maybe with some of its arguments (functools.partial)."""
    return inspect.isclass(found.func if isinstance(found, functools.partial) else found)


def is_pair(answer: Any) -> bool:
    """Returns whether a policy answered with two things, as libraries do that return an action and a state."""
    return isinstance(answer, tuple) and len(answer) == 2


def begins_an_episode(reset: Any) -> bool:
    """Returns whether a policy's ``reset`` can be called; one that needs arguments has another purpose."""
    if not callable(reset):
        return False
    try:
        parameters = inspect.signature(reset).parameters.values()
    except ValueError:  # compiled code may not tell
        return True
    return all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)


def describe(error: BaseException, filename: str = "<policy>", with_line: bool = True) -> str:
    """Returns in one line what a program raised, and at which line of the program."""
    try:
        text = str(error)
    except Exception:  # a program may raise anything
        text = "?"
    # Replaces characters that steer a terminal or fit no encoding.
    text = "".join(character if character.isprintable() else "?" for character in text.split("\n")[0][:200])
    line = line_of(error, filename) if with_line else None
    return f"{'' if line is None else f'line {line}: '}{type(error).__name__}: {text}"


def line_of(error: BaseException, filename: str) -> int | None:
    """Returns the line of a program at which an error was raised."""
    line, traceback = None, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == filename:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line
