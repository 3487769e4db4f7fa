"""Parser for `bootstrap.servers`: `HOST:PORT[,HOST:PORT…]`."""

from typing import Final, NamedTuple

from .framing import address

__all__ = ["Address", "addresses"]

PORT: Final = 9092


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return address(*self)


def _is_host(text: str) -> bool:
    """Whether the text can be looked up as a host: for example, its labels must be 1 to 63 bytes
    long."""
    try:
        return bool(text.encode("idna"))
    except UnicodeError:
        return False


def addresses(bootstrap: str) -> list[Address]:
    """Parse `bootstrap.servers`. A missing port means 9092. Raises ValueError."""
    found = []
    for text in filter(None, map(str.strip, bootstrap.split(","))):
        host, colon, port = text.rpartition(":")
        # In `::1` and `[::1]`, the last colon is not followed by a port.
        if not colon or text.endswith("]") or (":" in host and not host.startswith("[")):
            host, port = text, str(PORT)
        host = host.removeprefix("[").removesuffix("]")
        if not _is_host(host) or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 65536:
            raise ValueError(f"invalid address {text!r}: expected HOST:PORT")
        found.append(Address(host, int(port)))
    if not found:
        raise ValueError("missing broker address: expected HOST:PORT")
    return found
