"""ContainedPolicy: plays a policy that a language model wrote as ordinary Python, in a locked process and nowhere else."""

import threading
import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from llmwrappers.containment.errors import PolicyFault, PolicyRejected
from llmwrappers.containment.layouts import bytes_of, layout_of, size_of
from llmwrappers.containment.lint import lint
from llmwrappers.containment.lock import can_lock
from llmwrappers.containment.process import MOST_BYTES, NO_LOCK, SECONDS_A_MESSAGE, LockedProcess, process_of
from llmwrappers.containment.worker import ASK, BEGIN, HEADER

SECONDS_TO_BEGIN = 10.0
SLOWEST_CALL = 0.02


class ContainedPolicy:
    """Plays a policy that a language model wrote, in a locked process: it can compute and answer, and do nothing else.

    All policies of the same source share one worker process, in which each has a state of its own. A worker that dies, or does
    not answer in time, is killed, counted in ``restarts`` and started anew at the next call, where every state begins anew.
    Entries of a dict that are text, such as MiniGrid's mission, are left out of what it sees, with a warning.

    Args:
        source: Python code that defines ``policy(obs)``, or a class ``Policy`` with ``__call__`` or ``act``
        called: the names under which the policy is looked for

    Raises:
        PolicyRejected: it is no Python, there is no policy, it needs a module that is not there, or the system has no lock

    Example:
        >>> policy = ContainedPolicy("def policy(obs):\\n    return [-0.5 * obs[1]]")
        >>> policy(np.array([0.0, 1.0, 0.0])).tolist()
        [-0.5]
        >>> policy(np.zeros(0))
        Traceback (most recent call last):
        ...
        llmwrappers.containment.errors.PolicyFault: line 2: IndexError: index 1 is out of bounds for axis 0 with size 0
    """

    def __init__(self, source: str, called: tuple[str, ...] = ("policy", "Policy")):
        if not can_lock():
            raise PolicyRejected(None, NO_LOCK)
        self.source, self.called = source, tuple(called)
        self.restarts = 0
        self._imports = lint(source, self.called)
        self._worker: LockedProcess | None = None
        self._begins, self._lock = True, threading.Lock()
        # Of the last observation, if it was an array; and what begins the frame of a call with another like it.
        self._shape, self._dtype, self._head = None, None, b""

    def __call__(self, observation: Any) -> Any:
        """Returns what the policy says at an observation: an array of float64, or a set.

        Raises:
            PolicyFault: it raised, took too long, or returned no numbers; or the top level of its code fails
        """
        # What most calls are: an array as the last one was, in an episode that goes on. Every line counts.
        if type(observation) is np.ndarray and observation.shape == self._shape and observation.dtype is self._dtype:
            worker = self._worker
            if worker.is_alive:  # pyright: ignore[reportOptionalMemberAccess]
                try:
                    answer = worker.ask(self._head + observation.tobytes())  # pyright: ignore[reportOptionalMemberAccess]
                except PolicyFault:
                    self._died()
                    raise
                if type(answer) is PolicyFault:
                    raise answer
                return answer
        (answer,) = self.batch([observation])
        if isinstance(answer, PolicyFault):
            raise answer
        return answer

    def batch(self, observations: Sequence[Any]) -> list[Any]:
        """Returns what the policy says at observations that are all alike, asked in one message; a fault as an exception."""
        with self._lock:
            return self._batch(observations)

    def reset(self) -> None:
        """Begins an episode: the next call finds the policy in its first state."""
        self._begins, self._shape = True, None

    def close(self) -> None:
        """Ends the state, and with the last one of this source the worker; a later call begins anew."""
        self.reset()
        if self._worker is not None:
            self._leave()
            self._worker = None

    def __reduce__(self):
        return ContainedPolicy, (self.source, self.called)

    def __repr__(self) -> str:
        return f"<a policy of {len(self.source.splitlines())} lines, plays in a locked process>"

    def _batch(self, observations: Sequence[Any]) -> list[Any]:
        if not len(observations):
            return []
        if texts := _texts(observations[0]):
            if self._worker is None:
                what = "a policy in a locked process does not see text; left out"
                warnings.warn(f"{what}: {', '.join(map(str, texts))}", stacklevel=4)
            observations = [{key: part for key, part in row.items() if key not in texts} for row in observations]
        layout = layout_of(observations[0])
        size = size_of(layout)
        rows = [bytes_of(observation) for observation in observations]
        if any(len(row) != size for row in rows):
            raise PolicyFault("the observations of a batch are not all alike")
        answers, most = [], max(1, MOST_BYTES // max(size, 1))
        for start in range(0, len(rows), most):
            part = rows[start : start + most]
            if self._worker is None or not self._worker.is_alive:
                self._enter()
            worker, seconds = self._worker, SECONDS_A_MESSAGE + len(part) * SLOWEST_CALL + self._begins * SECONDS_TO_BEGIN
            assert worker is not None
            try:
                number = worker.number_of(layout)
                head = HEADER.pack(BEGIN if self._begins else ASK, self._state, number, len(part))
                answers += worker.exchange(head + b"".join(part), len(part), seconds)
            except PolicyFault:
                self._died()
                raise
            self._begins = False
            if layout[0] not in ("dict", "tuple") and not layout[2]:
                self._dtype, self._shape = np.dtype(layout[0]), layout[1]
                self._head = HEADER.pack(ASK, self._state, number, 1)
        return answers

    def _enter(self) -> None:
        """Finds, or starts, the worker that plays this source, for a state of its own there."""
        self.close()
        self._worker = worker = process_of(self.source, self.called, self._imports)
        self._state = next(worker.states)
        self._leave = weakref.finalize(self, worker.left.append, self._state)

    def _died(self) -> None:
        self.restarts += 1
        self.reset()


def _texts(observation: Any) -> list[Any]:
    """The keys of a dict's entries that are text; none where nothing else is in it, which is refused."""
    if not isinstance(observation, dict):
        return []
    texts = [key for key, part in observation.items() if isinstance(part, str)]
    return texts if len(texts) < len(observation) else []
