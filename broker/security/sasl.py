"""SASL: the authentication of a connection, and a listener's SASL settings.

    INITIAL      ApiVersions, once, then SaslHandshake with a mechanism name
    EXCHANGE     SaslAuthenticate, or tokens without headers after SaslHandshake v0
    COMPLETE     every request until the session expires; SaslHandshake re-authenticates (KIP-368)

Any other request closes the connection; ApiVersions and SaslHandshake in an EXCHANGE first get the
error ILLEGAL_SASL_STATE, unless the client re-authenticates with another mechanism. Upstream:
SaslServerAuthenticator, which uses the same messages.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ...printable import shortened
from ...protocol.apis import API_VERSIONS, BY_KEY, SASL_AUTHENTICATE, SASL_HANDSHAKE
from ...protocol.errors import ProtocolError
from ..event_loop.timers import Clock
from .mechanism import AuthenticationFailed, Exchange, Identity, InvalidCredentials
from .principal import Principal, user

_log: Final = logging.getLogger("kohort.security")

# Upstream: KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS.
REAUTHENTICATION_INTERVAL_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A listener's mechanism. `new_exchange` gets a function that returns the time of the system
    clock. `max_reauth_ms` is the maximum session lifetime; 0 means no limit."""

    new_exchange: Callable[[Callable[[], int]], Exchange]
    max_reauth_ms: int


@dataclass(frozen=True, slots=True)
class SaslListener:
    """How clients of one listener authenticate. `mechanisms` is keyed by name, in the order in
    which clients receive the names."""

    mechanisms: Mapping[str, Mechanism]
    receive_bytes_max: int
    failure_delay_ms: int


class AuthenticationError(ProtocolError):
    """A failed authentication without a response. The connection is closed after a delay, so that
    passwords cannot be guessed quickly."""

    def __init__(self, reason: str, close_delay_ms: int) -> None:
        super().__init__(reason)
        self.close_delay_ms = close_delay_ms


class State(Enum):
    INITIAL = auto()
    EXCHANGE = auto()
    COMPLETE = auto()


class SaslAuthenticator:
    """The authentication of one connection. Times are in milliseconds, by the broker's clock."""

    def __init__(self, listener: SaslListener, clock: Clock) -> None:
        self.listener = listener
        self._clock = clock
        self._state = State.INITIAL
        self._has_versions = False
        self._mechanism = ""
        self._exchange: Exchange | None = None
        # The previous mechanism, if the client re-authenticates with a different one.
        self._other_mechanism = ""
        self._expires_ms: int | None = None
        self._reauthenticated_ms: int | None = None
        self.principal: Principal | None = None
        """The client's identity, once it has authenticated."""
        self.expects_bare_token = False
        """Whether the next frame is a token without a header."""
        self.has_failed = False

    @property
    def is_exchanging(self) -> bool:
        return self._state is State.EXCHANGE

    @property
    def is_complete(self) -> bool:
        return self._state is State.COMPLETE

    @property
    def session_expires(self) -> bool:
        return self._expires_ms is not None

    @property
    def what(self) -> str:
        return "authentication" if self.principal is None else "re-authentication"

    def admit(self, key: int) -> None:
        """Check that the client may now send a request of this API, or SaslAuthenticate for a token
        without a header. Raises ProtocolError."""
        if self._state is State.INITIAL:
            if key not in (API_VERSIONS, SASL_HANDSHAKE):
                raise ProtocolError(f"{_request_of(key)} during SASL handshake.")
            if key == API_VERSIONS and self._has_versions:
                raise ProtocolError(
                    "Unexpected ApiVersions request received during SASL authentication state "
                    "HANDSHAKE_REQUEST"
                )
        elif self._state is State.EXCHANGE:
            if self._other_mechanism:
                raise self.failure(
                    f"SASL mechanism '{self._mechanism}' requested by client is not supported for "
                    f"re-authentication of mechanism '{self._other_mechanism}'"
                )
            if key not in (SASL_AUTHENTICATE, API_VERSIONS, SASL_HANDSHAKE):
                raise self.failure(unexpected(key))
        elif key == SASL_HANDSHAKE and self._may_reauthenticate():
            self._state = State.INITIAL
            self._reauthenticated_ms = self._clock.now_ms()
        elif self._expires_ms is not None and self._clock.now_ms() > self._expires_ms:
            raise ProtocolError("the SASL session has expired")

    def failure(self, reason: str) -> AuthenticationError:
        """Return the error that closes the connection."""
        self.has_failed = True
        return AuthenticationError(reason, self.listener.failure_delay_ms)

    def _may_reauthenticate(self) -> bool:
        last_ms = self._reauthenticated_ms
        if not self.session_expires or last_ms is None:
            return self.session_expires
        return self._clock.now_ms() - last_ms >= REAUTHENTICATION_INTERVAL_MS

    def versions_sent(self) -> None:
        """Called when the response to ApiVersions is sent."""
        self._has_versions = True

    def begin(self, mechanism: str, *, bare_tokens: bool) -> None:
        """Begin an exchange. Raises AuthenticationFailed."""
        found = self.listener.mechanisms.get(mechanism)
        if found is None:
            raise AuthenticationFailed(f"Unsupported SASL mechanism {mechanism}")
        if self.principal is not None and mechanism != self._mechanism:
            self._other_mechanism = self._mechanism
        self._state = State.EXCHANGE
        self._mechanism = mechanism
        self._exchange = found.new_exchange(self._clock.wall_ms)
        self.expects_bare_token = bare_tokens

    def authenticate(self, token: bytes) -> tuple[bytes, int]:
        """Return the response to a token, and the session's lifetime in milliseconds, which is 0 if
        the session has no limit, has not begun or has already expired. Raises
        AuthenticationFailed."""
        assert self._exchange is not None
        try:
            response = self._exchange.evaluate(token)
        except InvalidCredentials as error:
            _log.debug("Failed %s: %s", self.what, shortened(str(error)))
            raise AuthenticationFailed(
                f"Authentication failed during {self.what} due to invalid credentials with SASL "
                f"mechanism {self._mechanism}"
            ) from error
        identity = self._exchange.identity
        return response, 0 if identity is None else self._complete(identity)

    def _complete(self, identity: Identity) -> int:
        principal, before = user(identity.user), self.principal
        if before is not None and principal != before:
            raise AuthenticationFailed(
                f"Cannot change principals during re-authentication from {before.type}."
                f"{before.name}: {principal.type}.{principal.name}"
            )
        self.principal = principal
        self._state, self._exchange, self.expects_bare_token = State.COMPLETE, None, False
        max_ms = self.listener.mechanisms[self._mechanism].max_reauth_ms
        limits = [max_ms] if max_ms > 0 else []
        if identity.expires_ms is not None:
            limits.append(max(identity.expires_ms - self._clock.wall_ms(), 0))
        if not limits:
            return 0
        lifetime_ms = min(limits)
        self._expires_ms = self._clock.now_ms() + lifetime_ms
        return lifetime_ms


def unexpected(key: int) -> str:
    """Return the reason for rejecting a request during an EXCHANGE."""
    return f"{_request_of(key)} during SASL authentication."


def _request_of(key: int) -> str:
    return f"Unexpected Kafka request of type {BY_KEY[key].schema.upper()}"
