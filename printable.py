"""Makes text from clients safe to print: clients choose the names of groups, members and clients.

A line break would forge a line, an escape sequence would control the terminal, and a text direction
override would reorder the text around it. All layers import this module; it imports none.
"""

import json
from typing import Final

__all__ = ["printable", "printable_json", "shortened"]

# Enough for Kafka's longest messages with two names of usual length. A client may send names of 32
# KiB, and a user name of 512 KiB.
LOGGED_CHARS_MAX: Final = 512


def printable(text: str) -> str:
    """Escape all characters except letters, digits, punctuation, symbols and the space, as in
    `\\n`, `\\x1b`, `\\u202e`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, chars_max: int = LOGGED_CHARS_MAX) -> str:
    """Make text printable and at most `chars_max` long. The middle is cut out, because ids differ
    at both ends, and messages quote names in the middle."""
    half = chars_max // 2
    if len(text) > 2 * chars_max:  # escaping makes nothing shorter
        text = text[:chars_max] + text[-chars_max:]
    text = printable(text)
    return text if len(text) <= chars_max else f"{text[: half - 1]}…{text[-half:]}"


def printable_json(encoded: str) -> str:
    """Escape the same characters in a JSON document, except the line breaks between its values."""
    if encoded.isprintable():
        return encoded
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in encoded)
