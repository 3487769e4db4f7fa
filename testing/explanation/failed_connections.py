"""Explains why clients could not connect, and which settings to change, from the failed connections
in the history."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from ...broker.config.listeners import Listener
from ...broker.config.users import parse_users
from ...broker.security.tls import TlsProblem
from ...protocol.framing import TLS_ON_PLAINTEXT
from ..history import FailedConnection
from ..lifecycle import BrokerHost

# Maximum number of different failures in an explanation: about one page.
SHOWN_MAX = 20

_TRUST: Final = "pass ssl.ca.location={ca}, or all of {config}"
_PROTOCOL: Final = "set security.protocol={protocol}, or use all of {config}"
_CERTIFICATE: Final = (
    'pass one of kafka.security.client_certificate("NAME"), or use '
    "kafka.security.client_config(…, certificate=…)"
)
_REMEDIES: Final[Mapping[str, str]] = {
    f"TLS handshake: {TlsProblem.UNTRUSTED}": _TRUST,
    # aiokafka, and other clients that send no alert.
    f"TLS handshake: {TlsProblem.DISCONNECTED}": f"if the client lacks the certificate, {_TRUST}",
    f"TLS handshake: {TlsProblem.EXPIRED}": (
        "the clock was advanced or expire_certificates() was called; kafka.reset() issues a new one"
    ),
    f"TLS handshake: {TlsProblem.NO_TLS}": _PROTOCOL,
    f"TLS handshake: {TlsProblem.NO_CERTIFICATE}": _CERTIFICATE,
    f"TLS handshake: {TlsProblem.INVALID_CERTIFICATE}": _CERTIFICATE,
    TLS_ON_PLAINTEXT: _PROTOCOL,
    "Unexpected Kafka request of type * during SASL handshake": (
        "set security.protocol={protocol}, sasl.mechanism and a user, or use all of {config}"
    ),
    "Unsupported SASL mechanism": "set sasl.mechanism to one of {mechanisms}",
    "Authentication failed": "the users of this broker: {users}; {config} contains their passwords",
    '{"status":"invalid_token"}': (
        "the broker's log says why; the times in a token are compared with kafka.clock"
    ),
}
"""What to change, by the beginning of the reason (an fnmatch pattern)."""


def failed_connections(host: BrokerHost) -> list[str]:
    """Return a sentence for each reason why connections failed, unless their client has
    authenticated since. Runs on the broker's loop."""
    authenticated_s = {
        each.client_id: each.wall_s
        for each in host.history.requests
        if each.api == "SaslAuthenticate" and each.response is not None and not each.errors
    }
    found: dict[tuple[str, str | None, str], list[FailedConnection]] = {}
    for each in host.history.failed_connections:
        if each.client_id is None or authenticated_s.get(each.client_id, 0.0) < each.wall_s:
            found.setdefault((each.listener, each.client_id, each.reason), []).append(each)
    return [_sentence(host, each[-1], len(each)) for each in list(found.values())[-SHOWN_MAX:]]


def _sentence(host: BrokerHost, failed: FailedConnection, count: int) -> str:
    connections = f"{count} connection{'' if count == 1 else 's'}"
    client = "" if failed.client_id is None else f" from {failed.client_id}"
    listener = f" to {failed.listener}" if len(host.config.listeners) > 1 else ""
    remedy = "".join(f": {each}" for each in _remedies(host, failed))
    return f"{connections}{client}{listener} failed: {failed.reason.rstrip('.')}{remedy}."


def _remedies(host: BrokerHost, failed: FailedConnection) -> Iterator[str]:
    (listener,) = [each for each in host.config.listeners if each.name == failed.listener]
    for beginning, remedy in _REMEDIES.items():
        if fnmatchcase(failed.reason, f"{beginning}*"):
            yield remedy.format_map(_values(host, listener))


def _values(host: BrokerHost, listener: Listener) -> dict[str, str]:
    config = host.config.for_listener(listener)
    users = parse_users(config.str("kohort.users"))
    tls = host.broker.tls.get(listener.name)
    return {
        "ca": str((tls and tls.ca_file) or "FILE, the certificate of your CA"),
        "config": "kafka.security.client_config(…)",
        "mechanisms": ", ".join(config.list("sasl.enabled.mechanisms")),
        "protocol": str(listener.protocol),
        "users": ", ".join(users) or "none",
    }
