"""UserError: ends a command with a message that says what the user can do."""


class UserError(Exception):
    """The user's input cannot work; the message says why, and what would."""
