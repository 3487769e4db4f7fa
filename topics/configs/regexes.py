"""Clients' regular expressions, which RE2 matches in linear time."""

from typing import Any, Final

import re2

from ...protocol.budgets import REGEX_BYTES_MAX

# The maximum memory of one compiled expression (RE2's default is 8 MiB).
COMPILED_BYTES_MAX: Final = 1 << 20


def compile_regex(regex: str) -> Any:
    """Return the compiled expression, which re2 caches. Raises re2.error."""
    if len(regex.encode()) > REGEX_BYTES_MAX:
        raise re2.error(b"pattern too large")
    return re2.compile(regex, regex_options(COMPILED_BYTES_MAX))


def regex_options(bytes_max: int) -> Any:
    """Return options for expressions that may need up to `bytes_max` bytes of memory."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = bytes_max
    return options
