"""Exit codes, and the exception that becomes one line on standard error."""

import signal
from typing import Final

EXIT_NEGATIVE: Final = 1
EXIT_USER_ERROR: Final = 2
EXIT_INTERRUPTED: Final = 128 + signal.SIGINT
"""The exit code that shells report for a program ended by Ctrl-C."""


class UserError(Exception):
    """An error that the user can fix, with the problem, the value and the remedy as its message."""

    exit_code = EXIT_USER_ERROR


class Unreachable(UserError):
    """No broker of a cluster responded; the message contains the address."""

    exit_code = EXIT_NEGATIVE
