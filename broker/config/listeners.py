"""`listeners` and `advertised.listeners`: where to listen, and the address that clients receive.

kohort supports one PLAINTEXT listener; controller listeners in a KRaft server.properties are
ignored.
"""

import re
import socket
from collections.abc import Sequence
from typing import Final, NamedTuple

from .sources import ConfigError

__all__ = ["EXAMPLE", "Listener", "parse_listener", "reachable"]

ENDPOINT: Final = re.compile(r"([A-Za-z0-9_.-]+)://(\[[0-9A-Fa-f:.%]*\]|[^\[\]/:]*):(\d{1,5})")
ALL_INTERFACES: Final = ("", "0.0.0.0", "::")  # noqa: S104 (compared with, not bound)
EXAMPLE: Final = "PLAINTEXT://127.0.0.1:9092"


class Listener(NamedTuple):
    """Port 0: any free port; empty host: all interfaces."""

    name: str
    host: str
    port: int

    @property
    def is_on_all_interfaces(self) -> bool:
        return self.host in ALL_INTERFACES


def reachable(host: str) -> str:
    """The host name under which other machines can reach a socket bound to `host`."""
    return socket.gethostname() if host in ALL_INTERFACES else host


def parse_listener(
    endpoints: Sequence[str], ignored: Sequence[str], protocol_map: str, where: str
) -> Listener:
    """Parse the single client listener. `ignored`: names of controller listeners; `where`: key and
    origin of the endpoints. Raises ConfigError."""
    parsed = [_parse_endpoint(endpoint.strip(), where) for endpoint in endpoints]
    listeners = [listener for listener in parsed if listener.name not in ignored]
    protocols = dict(item.strip().partition(":")[::2] for item in protocol_map.split(","))
    for listener in listeners:
        # As in Kafka, a name that is not in the map is itself a protocol.
        protocol = protocols.get(listener.name, listener.name)
        if protocol != "PLAINTEXT":
            raise ConfigError(
                f"unsupported protocol {protocol} of listener {listener.name} in {where}: "
                f"use {EXAMPLE}, or map the name to PLAINTEXT in listener.security.protocol.map."
            )
    if len(listeners) != 1:
        names = ", ".join(listener.name for listener in listeners) or "none"
        raise ConfigError(
            f"{len(listeners)} listeners for clients ({names}) in {where}: "
            f"expected one, for example {EXAMPLE}."
        )
    return listeners[0]


def _parse_endpoint(endpoint: str, where: str) -> Listener:
    match = ENDPOINT.fullmatch(endpoint)
    if match is None or int(match[3]) > 65535:
        raise ConfigError(
            f"invalid listener '{endpoint}' in {where}: "
            f"expected NAME://HOST:PORT, for example {EXAMPLE}."
        )
    return Listener(match[1], match[2].strip("[]"), int(match[3]))
