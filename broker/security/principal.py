"""The identity of a client (upstream: KafkaPrincipal)."""

from typing import Final, NamedTuple

__all__ = ["ANONYMOUS", "INTERNAL", "Principal", "user"]


class Principal(NamedTuple):
    """Written as in ACLs: `User:alice`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


def user(name: str) -> Principal:
    return Principal("User", name)


ANONYMOUS: Final = user("ANONYMOUS")
"""A client that did not authenticate."""

INTERNAL: Final = Principal("Internal", "kohort")
"""A client inside this process, such as a fake member of a test: it may do everything. No client
can authenticate as this type."""
