"""ContainedPolicy: plays a language model's policy as ordinary Python, only in a locked process."""

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
    """Plays a language model's policy in a locked process, where it can compute and answer, and do nothing else.

    All policies of the same source share one worker process; each has its own state there. If the worker dies or does not
    answer in time, it is killed and counted in ``restarts``; the next call starts a new worker, with new states. The policy
    does not see the text entries of a dict, such as MiniGrid's mission; a warning names them.

    Args:
        source: Python code that defines ``policy(obs)``, or a class ``Policy`` with ``__call__`` or ``act``

    Raises:
        PolicyRejected: the source is not valid Python, has no policy or needs an unavailable module; or the system has no lock

    Example:
        >>> policy = ContainedPolicy("def policy(obs):\\n    return [-0.5 * obs[1]]")
        >>> policy(np.array([0.0, 1.0, 0.0])).tolist()
        [-0.5]
        >>> policy(np.zeros(0))
        Traceback (most recent call last):
        ...
        llmwrappers.containment.errors.PolicyFault: line 2: IndexError: index 1 is out of bounds for axis 0 with size 0
    """

    def __init__(self, source: str):
        if not can_lock():
            raise PolicyRejected(None, NO_LOCK)
        self.source, self.restarts = source, 0
        self._imports = lint(source)
        self._worker: LockedProcess | None = None
        self._begins, self._lock = True, threading.Lock()
        # Shape and dtype of the last observation, if it was an array; and the header of a call with another one like it.
        self._shape, self._dtype, self._head = None, None, b""

    def __call__(self, observation: Any) -> Any:
        """Returns the policy's answer to an observation: an array of float64, or a set.

        Raises:
            PolicyFault: the policy raised, took too long or did not return numbers, or the top level of its code failed
        """
        # The usual call: an array like the last one, within an episode. Every line here costs time.
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
        """Returns the policy's answers to observations of one layout, sent together; an answer may be a PolicyFault."""
        with self._lock:
            return self._batch(observations)

    def reset(self) -> None:
        """Begins an episode: at the next call the policy is in its initial state."""
        self._begins, self._shape = True, None

    def cpu_seconds(self) -> float:
        """Returns the processor time that the worker has used for all policies of this source; 0 before the first call."""
        return self._worker.cpu_seconds() if self._worker is not None and self._worker.is_alive else 0.0

    def close(self) -> None:
        """Drops this policy's state, and ends the worker if it was the last of this source; a later call starts anew."""
        self.reset()
        if self._worker is not None:
            self._leave()
            self._worker = None

    def __reduce__(self):
        return ContainedPolicy, (self.source,)

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
        """Finds or starts the worker of this source, and takes a new state in it."""
        self.close()
        self._worker = worker = process_of(self.source, self._imports)
        self._state = next(worker.states)
        self._leave = weakref.finalize(self, worker.left.append, self._state)

    def _died(self) -> None:
        self.restarts += 1
        self.reset()


def _texts(observation: Any) -> list[Any]:
    """Returns the keys of a dict's text entries; none if all entries are text, which ``layout_of`` refuses."""
    if not isinstance(observation, dict):
        return []
    texts = [key for key, part in observation.items() if isinstance(part, str)]
    return texts if len(texts) < len(observation) else []
