"""PolicyRejected: why a program cannot be a policy; PolicyFault: what a policy did wrong in one call."""


class PolicyRejected(ValueError):
    """Reports why a program is refused as a policy, and in which line.

    Example:
        >>> str(PolicyRejected(3, "SyntaxError: invalid syntax"))
        'line 3: SyntaxError: invalid syntax'
    """

    def __init__(self, line: int | None, reason: str):
        super().__init__(line, reason)
        self.line, self.reason = line, reason

    def __str__(self) -> str:
        return self.reason if self.line is None else f"line {self.line}: {self.reason}"

    def in_file(self, path: object, is_trusted: bool = False) -> "PolicyRejected":
        """Returns the same error with the file's name, and with the way out if it is a line that trust would play."""
        # What has no line is of the whole file: there is no policy, or no lock, which says itself what trust does.
        trust = "" if is_trusted or self.line is None else f"; 'trusted:{path}' plays code of your own with your rights"
        return PolicyRejected(self.line, f"{self.reason} (in {str(path)!r}{trust})")


class PolicyFault(RuntimeError):
    """Reports what a policy did wrong in one call.

    Example:
        >>> raise PolicyFault("line 2: ZeroDivisionError: division by zero")
        Traceback (most recent call last):
        ...
        llmwrappers.containment.errors.PolicyFault: line 2: ZeroDivisionError: division by zero
    """
