"""The interface of SASL mechanisms, and the simplest mechanism, PLAIN."""

import hmac
from collections.abc import Mapping
from typing import NamedTuple, Protocol


class AuthenticationFailed(Exception):
    """The authentication failed. The message is for the client and the log (upstream:
    SaslAuthenticationException)."""


class InvalidCredentials(Exception):
    """A failed authentication whose reason must not be sent to the client, for example an unknown
    user (upstream: SaslException)."""


class Identity(NamedTuple):
    """The user that a client has authenticated as, and when its credentials expire (milliseconds
    since 1970-01-01 UTC, or None if they do not expire)."""

    user: str
    expires_ms: int | None = None


class Exchange(Protocol):
    """The server's part of one authentication (upstream: SaslServer)."""

    identity: Identity | None
    """The client's identity, once it has authenticated."""

    def evaluate(self, token: bytes) -> bytes:
        """Return the response to the client's token. Raises AuthenticationFailed and
        InvalidCredentials."""


class PlainExchange:
    """An authentication with PLAIN (RFC 4616): one token with user and password (upstream:
    PlainSaslServer). `passwords` maps users to their passwords."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.identity: Identity | None = None

    def evaluate(self, token: bytes) -> bytes:
        parts = token.decode(errors="replace").split("\0", 3)
        if len(parts) != 3:
            raise AuthenticationFailed(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            )
        authorization_id, user, password = parts
        if not user:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        # The comparison takes the same time for an unknown user.
        expected = self._passwords.get(user, "")
        is_equal = hmac.compare_digest(expected.encode(), password.encode())
        if not is_equal or user not in self._passwords:
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.identity = Identity(user)
        return b""
