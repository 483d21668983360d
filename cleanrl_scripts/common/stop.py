"""How a script ends: on Ctrl-C and SIGTERM, even if the interrupted code swallows exceptions; on errors, with one sentence."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator

from llmwrappers.errors import UserError


class Stop:
    """Remembers the first SIGINT or SIGTERM, so that a loop can raise it again; the same one again ends the process at once.

    The signal raises an exception where it arrives, as Python's own handler does. Inside an environment or a compiler an
    ``except:`` may drop that exception. ``check``, called after every step of an environment, raises it again.
    """

    def __init__(self):
        self.received = 0

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Handles both signals in this context, then restores the handlers of whoever runs the script in its own process."""
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
        """Raises the signal's exception again, if a signal has come.

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
