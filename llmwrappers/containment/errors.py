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


class PolicyFault(RuntimeError):
    """Reports what a policy did wrong in one call.

    Example:
        >>> raise PolicyFault("line 2: ZeroDivisionError: division by zero")
        Traceback (most recent call last):
        ...
        llmwrappers.containment.errors.PolicyFault: line 2: ZeroDivisionError: division by zero
    """
