"""Makes text from clients safe to print: clients choose the names of groups, members and clients.

A line break would forge a line, an escape sequence would control the terminal, and a text direction
override would reorder the text around it. Imported by all layers; imports none.
"""

import json

__all__ = ["printable", "printable_json"]


def printable(text: str) -> str:
    """Escape characters other than letters, digits, punctuation, symbols and the space: `\\n`,
    `\\x1b`, `\\u202e`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_json(encoded: str) -> str:
    """Escape the same characters in a JSON document, except the line breaks between its values."""
    if encoded.isprintable():
        return encoded
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in encoded)
