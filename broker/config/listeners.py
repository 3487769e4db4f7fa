"""`listeners` and `advertised.listeners`: the addresses and security protocols of listeners, and
the addresses that clients receive.

Controller listeners in a KRaft server.properties are ignored.
"""

import re
import socket
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import combinations
from typing import Final, NamedTuple

from .sources import ConfigError

ENDPOINT: Final = re.compile(r"([A-Za-z0-9_.-]+)://(\[[0-9A-Fa-f:.%]*\]|[^\[\]/:]*):(\d{1,5})")
ALL_INTERFACES: Final = ("", "0.0.0.0", "::")  # noqa: S104 (only compared, not bound)
EXAMPLE: Final = "PLAINTEXT://127.0.0.1:9092"


class SecurityProtocol(StrEnum):
    """How the clients of a listener connect (upstream: SecurityProtocol)."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def uses_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class Listener(NamedTuple):
    """A listener of the broker. Port 0 means any free port; an empty host means all interfaces."""

    name: str
    host: str
    port: int
    protocol: SecurityProtocol

    @property
    def is_on_all_interfaces(self) -> bool:
        return self.host in ALL_INTERFACES

    @property
    def prefix(self) -> str:
        """Prefix of keys that apply only to this listener (KIP-103): `listener.name.client.`"""
        return f"listener.name.{self.name.lower()}."


def reachable(host: str) -> str:
    """Return `host` or, if it stands for all interfaces, the name of this machine."""
    return socket.gethostname() if host in ALL_INTERFACES else host


def parse_listeners(
    endpoints: Sequence[str], ignored: Sequence[str], protocol_map: str, nodes: int, where: str
) -> tuple[Listener, ...]:
    """Parse the client listeners, of which there must be at least one. `ignored` contains the names
    of controller listeners. `nodes` is the number of nodes, which listen on consecutive ports, or 0
    if the addresses are only advertised. `where` names the key and its origin in errors. Names are
    in upper case, as in Kafka. Raises ConfigError."""
    protocols = _parse_protocols(protocol_map)
    parsed = [
        _parse_endpoint(endpoint.strip(), protocols, ignored, where) for endpoint in endpoints
    ]
    listeners = tuple(listener for listener in parsed if listener is not None)
    if not listeners:
        raise ConfigError(
            f"no listeners for clients in {where}: expected one, for example {EXAMPLE}."
        )
    names = Counter(listener.name for listener in listeners)
    for name, count in names.items():
        if count > 1:
            raise ConfigError(f"{count} listeners have the name {name} in {where}: expected one.")
    _check_ports(listeners, nodes, where)
    return listeners


def _check_ports(listeners: Iterable[Listener], nodes: int, where: str) -> None:
    fixed = [each for each in listeners if each.port]
    for one, other in combinations(fixed, 2):
        distance = abs(one.port - other.port)
        hosts = {one.host, other.host}
        if distance and len(hosts) > 1 and hosts.isdisjoint(ALL_INTERFACES):
            continue  # as in Kafka, different hosts may use adjacent ports
        if distance < nodes and (":" in one.host) == (":" in other.host):
            of = " (of different nodes)" if distance else ""
            raise ConfigError(
                f"listeners {one.name} and {other.name} have the same port "
                f"{max(one.port, other.port)}{of} in {where}: choose another for one of them."
            )


def _parse_protocols(protocol_map: str) -> dict[str, SecurityProtocol]:
    """Parse `listener.security.protocol.map`. Raises ConfigError."""
    protocols = {}
    for item in protocol_map.split(","):
        name, _, protocol = item.strip().partition(":")
        try:
            protocols[name.strip().upper()] = SecurityProtocol(protocol.strip().upper())
        except ValueError:
            raise ConfigError(
                f"invalid item '{item.strip()}' in listener.security.protocol.map: expected "
                f"NAME:PROTOCOL, with one of the protocols {', '.join(SecurityProtocol)}."
            ) from None
    return protocols


def _parse_endpoint(
    endpoint: str, protocols: Mapping[str, SecurityProtocol], ignored: Sequence[str], where: str
) -> Listener | None:
    """Return the listener, or None if it is for controllers. Raises ConfigError."""
    match = ENDPOINT.fullmatch(endpoint)
    if match is None or int(match[3]) > 65535:
        raise ConfigError(
            f"invalid listener '{endpoint}' in {where}: "
            f"expected NAME://HOST:PORT, for example {EXAMPLE}."
        )
    name = match[1].upper()
    if name in map(str.upper, ignored):
        return None
    if name not in protocols:
        raise ConfigError(
            f"no security protocol for listener {name} in {where}: add {name}:PROTOCOL to "
            f"listener.security.protocol.map, with one of {', '.join(SecurityProtocol)}."
        )
    return Listener(name, match[2].strip("[]"), int(match[3]), protocols[name])
