"""What goes wrong by the user's hand: one sentence, exit code 2."""

EXIT_USER_ERROR = 2


class UserError(Exception):
    """The message is one sentence that says what is wrong and what to do."""
