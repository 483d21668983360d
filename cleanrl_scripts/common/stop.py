"""How a script ends: by Ctrl-C and SIGTERM also where the code that they interrupt swallows exceptions; with one sentence."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator

from llmwrappers.errors import UserError


class Stop:
    """Remembers the first SIGINT or SIGTERM, so that a loop can raise it again; a second of its kind ends the process at once.

    The signal raises where it arrives, as Python's own handler does. That may be inside an environment, or a compiler, whose
    ``except:`` drops it. ``check``, called after every step of an environment, raises it again.
    """

    def __init__(self):
        self.received = 0

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Is the handler of both signals meanwhile; who runs a script in a process of their own gets theirs back."""
        handlers = {number: signal.signal(number, self.receive) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self.received = 0

    def receive(self, number: int, _frame: object) -> None:
        if self.received == number:
            os._exit(128 + number)
        if not self.received:
            self.received = number
            self.check()

    def check(self) -> None:
        """Raises what the signal raised, if one has come.

        Raises:
            KeyboardInterrupt: after SIGINT
            SystemExit: after SIGTERM, with the code 143
        """
        if self.received == signal.SIGINT:
            raise KeyboardInterrupt
        if self.received:
            sys.exit(128 + self.received)


stop = Stop()


def run_script(main: Callable[[], int | None], name: str) -> None:
    """Runs a script's main; SIGTERM ends it as Ctrl-C does, and a UserError is one sentence on stderr."""
    with stop.listening():
        try:
            sys.exit(main())
        except UserError as error:
            sys.exit(f"{name}: error: {error}")
        except KeyboardInterrupt:
            sys.exit(130)
