"""SASL/PLAIN (RFC 4616): one token with user and password (upstream: PlainSaslServer)."""

import hmac
from collections.abc import Mapping

from .mechanism import AuthenticationFailed, Identity

__all__ = ["PlainExchange"]


class PlainExchange:
    def __init__(self, passwords: Mapping[str, str]) -> None:
        """`passwords` maps users to their passwords."""
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
