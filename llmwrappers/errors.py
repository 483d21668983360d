"""UserError, which every command ends with where its user can help."""


class UserError(Exception):
    """What the user gave cannot work; the message says why and what would."""
