"""TLS of one listener, with PEM certificates or a certificate from the broker's own authority."""

import contextlib
import socket
import ssl
from collections.abc import Callable, Collection
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ..config.broker_config import BrokerConfig
from ..config.listeners import Listener
from ..config.sources import ConfigError
from .certificates import CA_FILE, VALID_FOR, CertificateAuthority
from .distinguished_name import distinguished_name
from .principal import ANONYMOUS, Principal, PrincipalMapper, user

HANDSHAKE_SECONDS_MAX: Final = 30.0
"""Seconds after which a client with a slow handshake is disconnected. Kafka waits for
connections.max.idle.ms, ten minutes, which would allow clients to hold many half-open
connections."""

_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class TlsProblem(StrEnum):
    """Why a handshake fails."""

    DISCONNECTED = "the client has disconnected"
    EXPIRED = "the broker's certificate has expired"
    HTTP = "the client uses HTTP"
    INVALID_CERTIFICATE = "the client's certificate is not valid for this listener"
    NO_CERTIFICATE = "the client has no certificate, which ssl.client.auth requires"
    NO_TLS = "the client does not use TLS"
    UNTRUSTED = "the client does not trust the broker's certificate"
    VERSION = "the client supports none of the versions in ssl.enabled.protocols"


_PROBLEMS: Final = {
    "CERTIFICATE_VERIFY_FAILED": TlsProblem.INVALID_CERTIFICATE,
    "HTTP_REQUEST": TlsProblem.HTTP,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": TlsProblem.NO_CERTIFICATE,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": TlsProblem.EXPIRED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": TlsProblem.UNTRUSTED,
    "TLSV1_ALERT_UNKNOWN_CA": TlsProblem.UNTRUSTED,
    "UNSUPPORTED_PROTOCOL": TlsProblem.VERSION,
    "WRONG_VERSION_NUMBER": TlsProblem.NO_TLS,
}
"""Problems by the reason that OpenSSL reports."""

MISSING: Final = (
    "a certificate for listener {} needs trustme: run pip install './kohort[security]' in the "
    "folder that contains the clone, or set ssl.keystore.location to a PEM file."
)


handshaking_client: Final[ContextVar[socket.socket]] = ContextVar("handshaking_client")
"""The socket of the connection that is being opened. The connection's task and the callbacks of its
transport inherit the value."""


class _Handshake(ssl.SSLObject):
    """Sends the TLS alert with the reason why a client's handshake failed, as Kafka does. The
    transports of asyncio and uvloop close the connection without an alert."""

    client: socket.socket | None = None
    outgoing: ssl.MemoryBIO | None = None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if self.client is not None and self.outgoing is not None:
                with contextlib.suppress(OSError):  # the client may have disconnected
                    self.client.send(self.outgoing.read())
            raise
        self.client = self.outgoing = None


class _Context(ssl.SSLContext):
    sslobject_class = _Handshake

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **kwargs: Any
    ) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, *args, **kwargs)
        assert isinstance(made, _Handshake)
        made.client, made.outgoing = handshaking_client.get(), outgoing
        return made


class ServerTls:
    """The TLS configuration of a listener. `folder` contains the broker's own authority; `now_ms`
    is the broker's clock. If a test sets the clock past the expiry of the broker's own certificate,
    clients get a certificate that has also expired by the system clock."""

    def __init__(
        self,
        config: BrokerConfig,
        listener: Listener,
        names: Collection[str],
        folder: Path,
        now_ms: Callable[[], int],
    ) -> None:
        """`config` contains the keys of this listener. Raises ConfigError."""
        self._config, self._listener, self._names = config, listener, names
        self._folder, self._now_ms = folder, now_ms
        try:
            self._mapper = PrincipalMapper(config.str("ssl.principal.mapping.rules"))
        except ValueError as error:
            raise ConfigError(f"invalid ssl.principal.mapping.rules: {error}.") from error
        self.handshakes_to_drop = 0
        """For the test harness: the number of clients that are disconnected instead of completing a
        handshake."""
        self._is_own = False
        self._expires_ms: int | None = None
        self._context = self._new_context()

    @property
    def ca_file(self) -> Path | None:
        """The certificate of the broker's own authority, or None if the listener's certificate is
        configured."""
        return self._folder / CA_FILE if self._is_own else None

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for the next connection."""
        if self._expires_ms is not None and self._now_ms() >= self._expires_ms:
            self.expire()
        return self._context

    def expire(self) -> None:
        """From now on, use a certificate that expired yesterday. Raises ConfigError if the listener
        has a configured certificate."""
        if not self._is_own:
            raise ConfigError(
                f"the certificate of listener {self._listener.name} is configured: remove the "
                "ssl.keystore keys, so that the broker uses its own certificate."
            )
        self._expires_ms = None
        until = datetime.now(UTC) - timedelta(days=1)
        _load(self._context, self._issue(until), None, "the broker's own authority")

    def principal(self, connection: ssl.SSLObject) -> Principal:
        """Return the principal of a client according to its verified certificate. Raises ValueError
        if no mapping rule applies to its name."""
        certificate = connection.getpeercert(binary_form=True)
        if certificate is None:
            return ANONYMOUS
        return user(self._mapper.name(distinguished_name(certificate)))

    def _new_context(self) -> ssl.SSLContext:
        config = self._config
        context = _Context(ssl.PROTOCOL_TLS_SERVER)
        versions = [_VERSIONS[each] for each in config.list("ssl.enabled.protocols")]
        context.minimum_version, context.maximum_version = min(versions), max(versions)
        # A client must not be able to repeat the expensive part of a handshake.
        context.options |= ssl.OP_NO_RENEGOTIATION
        password = config.str("ssl.key.password") or None
        chain, key = config.str("ssl.keystore.certificate.chain"), config.str("ssl.keystore.key")
        if location := self._location("ssl.keystore.location", "ssl.keystore.type"):
            _load(context, location, password, f"ssl.keystore.location={location}")
        elif chain or key:
            with TemporaryDirectory() as folder:
                inline = Path(folder, "keystore.pem")
                inline.touch(0o600)
                inline.write_text(f"{key}\n{chain}\n")
                _load(context, inline, password, "ssl.keystore.certificate.chain and .key")
        else:
            _load(context, self._issue(), None, "the broker's own authority")
            self._is_own = True
            self._expires_ms = self._now_ms() + VALID_FOR // timedelta(milliseconds=1)
        self._trust(context)
        return context

    def _trust(self, context: ssl.SSLContext) -> None:
        config = self._config
        context.verify_mode = _VERIFY[config.str("ssl.client.auth")]
        if context.verify_mode is ssl.CERT_NONE:
            return
        try:
            if location := self._location("ssl.truststore.location", "ssl.truststore.type"):
                context.load_verify_locations(location)
            elif certificates := config.str("ssl.truststore.certificates"):
                context.load_verify_locations(cadata=certificates)
            else:
                context.load_verify_locations(self._authority().ca_file)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise ConfigError(
                f"cannot load the certificates of ssl.truststore: {error}."
            ) from error

    def _location(self, location_key: str, type_key: str) -> Path | None:
        """Return the file of a keystore or truststore, if one is configured."""
        location = self._config.str(location_key)
        if not location:
            return None
        if (type_ := self._config.str(type_key).upper()) != "PEM":
            raise ConfigError(
                f"{type_key} {type_} is not supported: convert {location} to PEM, and set "
                f"{type_key}=PEM."
            )
        return Path(location)

    def _issue(self, until: datetime | None = None) -> Path:
        file = f"listener-{self._listener.name.lower()}.pem"
        return self._authority().issue(file, self._names, until=until)

    def _authority(self) -> CertificateAuthority:
        """Return the broker's own authority (certificates.py). Raises ConfigError and OSError."""
        try:
            return CertificateAuthority(self._folder)
        except ImportError as error:
            raise ConfigError(MISSING.format(self._listener.name)) from error
        except ValueError as error:
            raise ConfigError(
                f"{self._folder} contains no valid certificate authority ({error}): remove the "
                "folder, and make clients trust the new authority."
            ) from error


def handshake_problem(error: BaseException) -> str:
    """Describe why a handshake with a client failed."""
    reason = getattr(error, "reason", None)
    if isinstance(error, ssl.SSLError) and reason in _PROBLEMS:
        return f"{_PROBLEMS[reason]} ({getattr(error, 'verify_message', None) or reason})"
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return TlsProblem.DISCONNECTED
    return str(error) or TlsProblem.DISCONNECTED


def _load(context: ssl.SSLContext, file: Path, password: str | None, what: str) -> None:
    try:
        # Without this function, OpenSSL would prompt for a missing password on the terminal.
        context.load_cert_chain(file, password=lambda: password or "")
    except (OSError, ssl.SSLError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ConfigError(
            f"cannot load the key and the certificate of {what}: {reason}."
        ) from error
