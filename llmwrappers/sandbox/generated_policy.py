"""GeneratedPolicy: plays a policy that an LLM wrote, so that it can do no harm.

Four fences, each of which stands without the others:

1. The check (``check_policy``): the program is written in a small part of Python, in which nothing but numbers is in reach.
2. The bounds: integers, arrays and work have limits, tested while it runs, so that every call ends.
3. The probe (``vet_policy``): it plays first in a fresh process with limits on memory, time, files, processes and network.
4. The guard, at every call: a copy of the observation in, a finite action of the right shape out, or a fault.

With ``isolation="process"`` it never plays anywhere but in such a process. THREAT_MODEL.md, beside this file, says what each
of them stops.
"""

import json
import math
import os
import select
import struct
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llmwrappers.sandbox.language import PolicyFault, PolicyRejected
from llmwrappers.sandbox.limits import BoundedPolicy, compile_policy
from llmwrappers.sandbox.values import Layout, layout_of, numbers_of, own_copy
from llmwrappers.sandbox.worker import MESSAGE_BYTES

SECONDS_TO_START = 60.0
SECONDS_TO_COMPILE = 10.0
SECONDS_A_MESSAGE = 2.0
SLOWEST_CALL = 0.02
MOST_NUMBERS = 2**21


def check_policy(source: str) -> None:
    """Raises PolicyRejected unless a program is written in the part of Python that a policy may use; runs nothing of it.

    What passes can compute numbers from the observation, with NumPy's and math's functions, and nothing else.

    Raises:
        PolicyRejected: with the line and the reason, worded so that it can go back to whoever wrote the program
        TypeError: ``source`` is no str

    Example:
        >>> check_policy("def policy(obs):\\n    return [-0.5 * obs[1]]")
        >>> check_policy("import os\\ndef policy(obs):\\n    return os.getpid()")
        Traceback (most recent call last):
        ...
        llmwrappers.sandbox.language.PolicyRejected: line 1: import of 'os'; only numpy and math are allowed
    """
    compile_policy(source)


class GeneratedPolicy:
    """Plays a policy that an LLM wrote: checked on construction, bounded while it runs, guarded at every call.

    It gets a copy of the observation in float64, an array or a dict of arrays, sorted by key. ``isolation="process"`` (POSIX
    only) plays it in a worker process with limits on memory, files, processes and network: one message a call, or one for a
    whole batch; a worker that hangs or dies is killed, counted in ``restarts`` and started anew at the next call.

    Args:
        source: Python code that defines ``policy(obs)``
        action_dim: how many numbers an action has, or its shape; for a Discrete action space n, a truth value for each
            action; None does not test it (in process only)
        isolation: "inprocess" (microseconds a call) or "process" (tens of microseconds)

    Raises:
        PolicyRejected: the code is not written in the language of policies, or its top level fails (in a process, which runs
            it, at the first call)
        ValueError: an unknown ``isolation``, or "process" without ``action_dim``

    Example:
        >>> policy = GeneratedPolicy("def policy(obs):\\n    return [-0.5 * obs[1]]", action_dim=1)
        >>> policy(np.array([0.0, 1.0, 0.0])).tolist()
        [-0.5]
        >>> policy(np.array([0.0, np.inf, 0.0]))
        Traceback (most recent call last):
        ...
        llmwrappers.sandbox.language.PolicyFault: the policy returned [-inf]
    """

    def __init__(self, source: str, action_dim: int | tuple[int, ...] | None, isolation: str = "inprocess"):
        if isolation not in ("inprocess", "process"):
            raise ValueError(f"isolation must be 'inprocess' or 'process', got {isolation!r}")
        if isolation == "process" and action_dim is None:
            raise ValueError("isolation='process' needs action_dim, the number of numbers in an action; got None")
        self.source, self.action_dim, self.isolation = source, action_dim, isolation
        self.action_shape = (int(action_dim),) if isinstance(action_dim, int | np.integer) else action_dim
        self.restarts = 0
        self._worker: _Worker | None = None
        if isolation == "inprocess":
            self._bounded = BoundedPolicy(source, self.action_shape)
        else:
            check_policy(source)

    def __call__(self, observation: Any) -> NDArray[np.float64]:
        """Returns the action at an observation.

        Raises:
            PolicyFault: the policy raised, ran too long, or returned something else than a finite action of the right shape
        """
        if self.isolation == "inprocess":
            try:
                return self._bounded(own_copy(observation))
            except PolicyFault as fault:
                if not isinstance(fault.__cause__, RuntimeWarning | FloatingPointError):
                    raise
            # Where that is an error: that NumPy divided by zero, say, is the policy's to deal with.
            with np.errstate(all="ignore"):
                return self._bounded(own_copy(observation))
        actions, faults, reason = self._ask([own_copy(observation)])
        if faults[0]:
            raise PolicyFault(reason)
        return actions[0]

    def batch(self, observations: Any) -> NDArray[np.float64]:
        """Returns the actions (n, ...) at n observations, in one message to a worker; the row of a fault is NaN.

        Args:
            observations: an array (n, ...), or a sequence of n arrays or dicts that are all alike
        """
        observations = [own_copy(observation) for observation in observations]
        if self.isolation == "process":
            actions, faults, _ = self._ask(observations)
            actions[faults] = np.nan
            return actions
        if self.action_shape is None:
            raise ValueError("batch needs action_dim, got None")
        actions = np.full((len(observations), *self.action_shape), np.nan)
        for row, observation in enumerate(observations):
            try:
                actions[row] = self(observation)
            except PolicyFault:
                continue
        return actions

    def close(self) -> None:
        """Ends the worker process, if there is one; a later call starts another."""
        if self._worker is not None:
            self._worker.end()
            self._worker = None

    def __reduce__(self):
        return GeneratedPolicy, (self.source, self.action_dim, self.isolation)

    def _ask(self, observations: list[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_], str]:
        """Asks at own copies of observations that are all alike: the actions, which are faults, and the reason of the first."""
        assert self.action_shape is not None
        if not observations:
            return np.zeros((0, *self.action_shape)), np.zeros(0, bool), ""
        layout = layout_of(observations[0])
        rows = np.array([numbers_of(observation) for observation in observations])
        try:
            worker = self._worker
            if worker is None or worker.owner != os.getpid() or worker.layout != layout:
                self.close()
                worker = self._worker = _Worker(self.source, layout, self.action_shape)
            most = max(1, MOST_NUMBERS // max(1, rows.shape[1]))  # in one message: images are large
            answers = [worker.ask(rows[start : start + most]) for start in range(0, len(rows), most)]
            actions, faults, reasons = zip(*answers, strict=True)
            faults = np.concatenate(faults)
            return np.concatenate(actions), faults, next((reason for reason in reasons if reason), "")
        except BaseException as error:  # an interrupt, too, may leave half an answer in the pipe
            self.restarts += isinstance(error, PolicyFault)
            self.close()
            raise


class _Worker:
    """A process that plays one policy (see worker)."""

    def __init__(self, source: str, layout: Layout, action_shape: tuple[int, ...]):
        self.layout, self.action_shape, self.owner = layout, action_shape, os.getpid()
        # Nothing of the environment, which may hold keys, but what Python needs to start, and what makes NumPy round as here.
        kept = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SYSTEMROOT")
        kept += ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "NPY_DISABLE_CPU_FEATURES")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("worker.py"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, bufsize=0,
        )  # fmt: skip
        self.end = weakref.finalize(self, _end, self.process, self.owner)
        code, shapes = source.encode(), json.dumps([layout, action_shape]).encode()
        header = struct.pack("<2I", len(code), len(shapes)) + shapes
        try:
            self._read_message(SECONDS_TO_START)
            self._write(header + code)
            if problem := self._read_message(SECONDS_TO_COMPILE):
                raise PolicyRejected(None, problem)
        except BaseException:
            self.end()
            raise

    def ask(self, observations: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_], str]:
        """Returns the actions, which of them are faults, and the reason of the first."""
        rows, size = len(observations), math.prod(self.action_shape)
        self._write(struct.pack("<I", rows) + observations.tobytes())
        frame = self._read(8 * rows * (1 + size) + MESSAGE_BYTES, SECONDS_A_MESSAGE + rows * SLOWEST_CALL)
        answers = np.frombuffer(frame[:-MESSAGE_BYTES]).reshape(rows, 1 + size)
        actions, faults = answers[:, 1:].reshape(rows, *self.action_shape).copy(), answers[:, 0] != 0
        # The worker is not to be trusted with this either.
        faults |= ~np.isfinite(answers).all(axis=1)
        reason = _text(frame[-MESSAGE_BYTES:]) or "the policy returned no finite action"
        return actions, faults, reason if faults.any() else ""

    def _write(self, frame: bytes) -> None:
        assert self.process.stdin is not None
        try:
            view = memoryview(frame)
            while view:
                view = view[self.process.stdin.write(view) or 0 :]
        except OSError:
            raise PolicyFault("the worker process of the policy died") from None

    def _read_message(self, seconds: float) -> str:
        return _text(self._read(MESSAGE_BYTES, seconds))

    def _read(self, count: int, seconds: float) -> bytes:
        assert self.process.stdout is not None
        descriptor, parts, deadline = self.process.stdout.fileno(), [], time.monotonic() + seconds
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while count:
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise PolicyFault(f"no answer from the policy's process within {seconds:.1f} seconds; it was killed")
            part = os.read(descriptor, count)
            if not part:
                raise PolicyFault("the worker process of the policy died")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def _text(message: bytes) -> str:
    return message.rstrip(b"\0").decode("utf-8", "replace")


def _end(process: subprocess.Popen, owner: int) -> None:
    """Kills a worker; but in a fork of its owner only lets go of it."""
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        pipe.close()
    if os.getpid() == owner:
        process.kill()
        process.wait()
