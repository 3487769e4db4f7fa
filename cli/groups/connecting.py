"""kafka-python's admin client, extended to report why it cannot connect. Without this extension, it
retries until a timeout, even after an error that no retry can fix."""

import contextlib
import logging
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from .errors import CommandError, NotConnected

# The timeout of acls and transactions for a connection and for each response.
TIMEOUT_MS: Final = 30_000
PORT_MAX: Final = 65535
ERRORS: Final = "org.apache.kafka.common.errors"

# kafka-python's classes and functions have no type annotations.
error_class: Any = kafka_errors.for_code
_ADMIN: Any = KafkaAdminClient
_CLIENT: Any = KafkaNetClient
_SELECTOR: Any = NetworkSelector

_DISCONNECTED: Final = (kafka_errors.KafkaConnectionError, kafka_errors.KafkaProtocolError)


@contextlib.contextmanager
def admin_client(bootstrap: str, timeout_ms: int, arguments: Mapping[str, Any]) -> Iterator[Any]:
    """Connect to the cluster at HOST:PORT[,HOST:PORT]. Raises CommandError."""
    # kafka-python logs every failed attempt; the command reports the final error.
    logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
    servers = bootstrap.split(",")
    if not all(re.fullmatch(r".*:[0-9]+", address) for address in servers):
        raise CommandError(f"Invalid url in bootstrap.servers: {bootstrap}")
    if any(int(address.rpartition(":")[2][:6]) > PORT_MAX for address in servers):
        raise CommandError(f"Invalid port in bootstrap.servers: {bootstrap}")
    timeouts = dict.fromkeys(("bootstrap_timeout_ms", "request_timeout_ms"), timeout_ms)
    managers: list[_Manager] = []
    failed = contextlib.ExitStack()

    def new_client(**config: Any) -> Any:
        net = _SELECTOR(**config)
        managers.append(_Manager(net, **config))
        client = _CLIENT(net, managers[0], **config)
        failed.callback(client.close)  # kafka-python does not close a client that cannot connect
        return client

    try:
        admin = _ADMIN(bootstrap_servers=servers, kafka_client=new_client, **timeouts, **arguments)
    except (kafka_errors.KafkaError, ValueError, OSError) as error:
        failed.close()
        for manager in managers:
            manager.raise_refusal()
        if isinstance(error, kafka_errors.KafkaTimeoutError | kafka_errors.KafkaConnectionError):
            raise timed_out(bootstrap, timeout_ms, managers[0].reason) from error
        raise CommandError(str(error)) from error
    with contextlib.closing(admin):
        yield admin


def timed_out(bootstrap: str, timeout_ms: int, reason: str = "") -> NotConnected:
    return NotConnected(
        f"{ERRORS}.TimeoutException: No broker of {bootstrap} responded within {timeout_ms} ms"
        f"{reason and f': {reason}'}."
    )


class _Manager(KafkaConnectionManager):
    """The connections of a client. Remembers why a connection was rejected."""

    def __init__(self, net: Any, **config: Any) -> None:
        super().__init__(net, **config)  # type: ignore[no-untyped-call]
        self.reason = ""
        """Why the broker disconnected, for the last failed connection that did not time out. Empty
        if the broker did not disconnect, for example because nothing listened at the address."""
        self._refusal: NotConnected | None = None

    def raise_refusal(self) -> None:
        """Raise NotConnected if the broker or the client has rejected a connection."""
        if self._refusal is not None:
            raise self._refusal

    def get_connection(self, *args: Any, **options: Any) -> Any:
        if self._refusal is not None:
            raise kafka_errors.KafkaConfigurationError(str(self._refusal))
        connection = super().get_connection(*args, **options)  # type: ignore[no-untyped-call]
        connection.close_future.add_errback(partial(self._failed, connection))
        return connection

    async def _build_transport(self, *args: Any, **options: Any) -> Any:
        transport = await super()._build_transport(*args, **options)  # type: ignore[no-untyped-call]
        transport._sock_recv = _data_before_error(transport._sock_recv)
        return transport

    def _failed(self, connection: Any, error: Exception) -> None:
        refusal = _refusal(error, self.config)
        if refusal:
            self._refusal = NotConnected(f"{ERRORS}.{refusal}.")
        elif not _has_timed_out(error):
            self.reason = _reason(connection, error)


def _data_before_error(receive: Callable[[], Any]) -> Callable[[], Any]:
    """Wrap `receive` so that it returns data before an error. Otherwise kafka-python would lose the
    response to a wrong password, after which the broker disconnects."""

    def receive_data_first() -> Any:
        data, error = receive()
        return data, None if data else error

    return receive_data_first


def _refusal(error: Exception, config: Mapping[str, Any]) -> str:
    """Describe an error that no retry can fix. Return "" for other errors."""
    mechanism = config["sasl_mechanism"]
    if isinstance(error, kafka_errors.SaslAuthenticationFailedError):
        # Remove kafka-python's name for the error.
        message = str(error.args[0] if error.args else error).partition(": ")[2]
        return f"SaslAuthenticationException: {message or error}".rstrip(".")
    if isinstance(error, kafka_errors.UnsupportedSaslMechanismError):
        return (
            f"UnsupportedSaslMechanismException: Client SASL mechanism '{mechanism}' not enabled "
            "in the server: change sasl.mechanism"
        )
    if isinstance(error, kafka_errors.IllegalSaslStateError):
        return (
            f"IllegalSaslStateException: the listener does not use SASL: change security.protocol "
            f"({config['security_protocol']})"
        )
    cause = _ssl_error(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"SslAuthenticationException: SSL handshake failed: {cause.verify_message}: "
            "ssl.truststore.location must contain the issuer of the broker's certificate"
        )
    if cause is not None and "ALERT_CERTIFICATE" in (cause.reason or ""):
        return (
            f"SslAuthenticationException: SSL handshake failed: the broker does not accept the "
            f"certificate of the client ({cause.reason}): change ssl.keystore.location"
        )
    return ""


def _ssl_error(error: Exception) -> ssl.SSLError | None:
    """Return the TLS error that kafka-python reports as a KafkaConnectionError, or None."""
    for each in (*error.args, error.__context__):
        if isinstance(each, ssl.SSLError):
            return each
    return None


def _has_timed_out(error: Exception) -> bool:
    timeouts = kafka_errors.KafkaTimeoutError, kafka_errors.RequestTimedOutError
    # kafka-python reports the timeout of a connect as a KafkaConnectionError with this text.
    return isinstance(error, timeouts) or "Connection timed out" in str(error)


def _reason(connection: Any, error: Exception) -> str:
    """Describe why the broker disconnected. Return "" if it did not, or if no broker listened."""
    protocol = connection.config["security_protocol"]
    change = f"change security.protocol ({protocol}; --command-config)"
    _, is_handshake, problem = str(error).partition("Handshake failed: ")
    if is_handshake:
        return f"the TLS handshake failed ({problem}), as on a listener without TLS: {change}"
    has_disconnected = isinstance(error, _DISCONNECTED) and connection.parser is not None
    if not has_disconnected:
        return ""
    is_kafka = connection.broker_version_data is not None  # it has responded to ApiVersions
    if not is_kafka and not protocol.endswith("SSL"):
        return f"the broker disconnected, as a listener with TLS does: {change}"
    if not protocol.startswith("SASL"):
        return f"the broker disconnected, as a listener with SASL does: {change}"
    return "the broker disconnected during SASL authentication"
