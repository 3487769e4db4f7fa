"""The security of a broker, shared by all nodes."""

from dataclasses import dataclass

from .authorizer import Authorizer

__all__ = ["Security"]


@dataclass(slots=True)
class Security:
    authorizer: Authorizer | None = None
    """None: every client may do everything."""
