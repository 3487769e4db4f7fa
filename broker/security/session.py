"""What the broker knows about a connection's client."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from ..config.listeners import Listener
from .principal import ANONYMOUS, Principal
from .sasl import SaslAuthenticator

OnFailed: TypeAlias = Callable[["ClientSession", str], None]
"""on_failed(client, reason): called when the broker ends a connection because of what the client
has sent, or when the TLS handshake fails."""


@dataclass(slots=True)
class ClientSession:
    listener: Listener
    """The listener that the client is connected to."""
    host: str = "/unknown"
    """The client's address as Kafka prints it, with a leading slash."""
    principal: Principal = ANONYMOUS
    port: int | None = None
    """The client's port, or None for a client inside the process."""
    software: str | None = None
    """The client's library and version (ApiVersions since v3, KIP-511): "name/version"."""
    sasl: SaslAuthenticator | None = None
    """Set while the client must authenticate with SASL, now or when its session expires."""
    client_id: str | None = None
    """The client id of the last request before the client authenticated with SASL."""
    telemetry_instance: UUID | None = None
    """The last client instance that was created by a request of this connection (KIP-714)."""
    on_failed: OnFailed = lambda _client, _reason: None
