"""UserError, and how a script ends: with one sentence where the user can help, with the usual exit codes when stopped."""

import sys
from collections.abc import Callable

from cleanrl_scripts.common.stop import stop


class UserError(Exception):
    """What the user gave cannot work; the message says why and what would."""


def run_script(main: Callable[[], int | None], name: str) -> None:
    """Runs a script's main; SIGTERM ends it as Ctrl-C does, and a UserError is one sentence on stderr."""
    with stop.listening():
        try:
            sys.exit(main())
        except UserError as error:
            sys.exit(f"{name}: error: {error}")
        except KeyboardInterrupt:
            sys.exit(130)
