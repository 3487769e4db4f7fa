"""`listeners` and `advertised.listeners`: where to bind, and what clients are told.

kohort speaks plain text on one listener. Listeners of a controller are left out, as a KRaft
server.properties has them beside the one that clients use.
"""

import re
import socket
from typing import Final, NamedTuple

from .settings import Settings
from .sources import ConfigError

__all__ = ["Listener", "advertised_listener", "client_listener", "reachable"]

ENDPOINT: Final = re.compile(r"([A-Za-z0-9_.-]+)://(\[[0-9A-Fa-f:.%]*\]|[^\[\]/:]*):(\d{1,5})")
EVERYWHERE: Final = ("", "0.0.0.0", "::")  # noqa: S104 (compared with, not bound)
EXAMPLE: Final = "PLAINTEXT://127.0.0.1:9092"


class Listener(NamedTuple):
    """Port 0 is any free one; an empty host is every interface."""

    name: str
    host: str
    port: int


def client_listener(settings: Settings) -> Listener:
    """The one listener that clients use; raises ConfigError."""
    return _the_one(settings, "listeners")


def advertised_listener(settings: Settings) -> Listener:
    """What clients are told; port 0 stands for the port that was bound. Raises ConfigError.

    Without `advertised.listeners` it is the listener itself, and where that is every interface,
    the host's name, as in Kafka.
    """
    if settings.list("advertised.listeners"):
        told = _the_one(settings, "advertised.listeners")
        if told.host in EVERYWHERE:
            raise ConfigError(
                "advertised.listeners names no host that a client could connect to: write one, "
                f"as in {EXAMPLE}."
            )
        return told
    listener = client_listener(settings)
    return listener._replace(host=reachable(listener.host))


def reachable(host: str) -> str:
    """The name under which what is bound to `host` can be reached from elsewhere."""
    return socket.gethostname() if host in EVERYWHERE else host


def _the_one(settings: Settings, key: str) -> Listener:
    left_out = settings.list("controller.listener.names")
    found = [_parsed(key, item) for item in settings.list(key)]
    mine = [listener for listener in found if listener.name not in left_out]
    protocols = dict(
        item.strip().partition(":")[::2]
        for item in settings.str("listener.security.protocol.map").split(",")
    )
    for listener in mine:
        # A name that the map lacks means itself, so that a name alone can say SASL_SSL.
        if (protocol := protocols.get(listener.name, listener.name)) != "PLAINTEXT":
            raise ConfigError(
                f"{key}: {listener.name} stands for {protocol}, and kohort speaks only PLAINTEXT: "
                f"use {EXAMPLE}, or map the name in listener.security.protocol.map."
            )
    if len(mine) != 1:
        names = ", ".join(listener.name for listener in mine) or "none"
        raise ConfigError(
            f"{key} must name one listener for clients, and names {len(mine)} ({names}): "
            f"write it as {EXAMPLE}."
        )
    return mine[0]


def _parsed(key: str, text: str) -> Listener:
    match = ENDPOINT.fullmatch(text.strip())
    if match is None or int(match[3]) > 65535:
        raise ConfigError(f"{key}: {text.strip()!r} is no listener: write it as {EXAMPLE}.")
    return Listener(match[1], match[2].strip("[]"), int(match[3]))
