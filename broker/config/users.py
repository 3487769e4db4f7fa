"""Users and their passwords as text: the key `kohort.users`.

Errors do not contain passwords.
"""

import re
from collections.abc import Mapping
from typing import Final

# An item of `kohort.users`. Commas and backslashes, and colons in the name, are escaped with a
# backslash.
USER: Final = re.compile(r"\s*+((?:[^\\:,]|\\.)++):((?:[^\\,]|\\.)++)(?:,|\Z)", re.DOTALL)
ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
SPECIAL: Final = re.compile(r"[\\:,]|\A\s|\s\Z")


def parse_users(text: str) -> dict[str, str]:
    """Parse `alice:alice-secret,bob:bob-secret`. Commas and backslashes, and colons in a name, are
    escaped with a backslash. Raises ValueError."""
    users: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = USER.match(text, position)
        if match is None:
            raise ValueError(f"expected NAME:PASSWORD for user {len(users) + 1}")
        name, password = (ESCAPE.sub(r"\1", each) for each in match.groups())
        if name in users:
            raise ValueError(f"user {name} is listed twice")
        users[name] = password
        position = match.end()
    return users


def format_users(users: Mapping[str, str]) -> str:
    """Return the text that `parse_users` parses to these users."""
    pairs = ([SPECIAL.sub(r"\\\g<0>", each) for each in item] for item in users.items())
    return ",".join(map(":".join, pairs))
