"""What the SASL mechanisms have in common."""

from typing import NamedTuple, Protocol

__all__ = ["AuthenticationFailed", "Exchange", "Identity", "InvalidCredentials"]


class AuthenticationFailed(Exception):
    """The authentication failed. The message is for the client and the log (upstream:
    SaslAuthenticationException)."""


class InvalidCredentials(Exception):
    """A failed authentication whose reason the client must not learn, for example that the user
    does not exist (upstream: SaslException)."""


class Identity(NamedTuple):
    """The user that a client has authenticated as, and when its credentials expire (milliseconds
    since 1970-01-01 UTC; None if they do not expire)."""

    user: str
    expires_ms: int | None = None


class Exchange(Protocol):
    """The server's part of one authentication (upstream: SaslServer)."""

    identity: Identity | None
    """The client's identity, once it has authenticated."""

    def evaluate(self, token: bytes) -> bytes:
        """Return the response to the client's token. Raises AuthenticationFailed and
        InvalidCredentials."""
