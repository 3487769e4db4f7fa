"""GetTelemetrySubscriptions (key 71, KIP-714): returns which metrics the client should push.

ApiVersions does not list this API, because there is no metrics receiver.
"""

from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from ...protocol.errors import ApiError, ErrorCode
from ..client_telemetry import ClientInstance
from ..cluster import Node
from ..network.request import RequestContext

# zstd, lz4, gzip and snappy, in Kafka's order of preference.
ACCEPTED_COMPRESSION_TYPES = (4, 3, 1, 2)
UNKNOWN_SOFTWARE = "unknown/unknown"


class GetTelemetrySubscriptionsResponse(NamedTuple):
    error_code: ErrorCode
    client_instance_id: UUID | None = None
    subscription_id: int = 0
    accepted_compression_types: tuple[int, ...] = ()
    push_interval: timedelta = timedelta(0)
    telemetry_max_bytes: int = 0
    delta_temporality: bool = False
    requested_metrics: tuple[str, ...] = ()


def handle(context: RequestContext, node: Node) -> None:
    instance = instance_of(context, node)
    try:
        instance.get(node.clock.now_ms())
    except ApiError as rejection:
        context.respond(GetTelemetrySubscriptionsResponse(rejection.error))
        return
    response = GetTelemetrySubscriptionsResponse(
        ErrorCode.none,
        instance.id,
        instance.subscription_id,
        ACCEPTED_COMPRESSION_TYPES,
        timedelta(milliseconds=instance.push_interval_ms),
        node.config.int("telemetry.max.bytes"),
        delta_temporality=True,
        requested_metrics=instance.metrics,
    )
    context.respond(response)


def instance_of(context: RequestContext, node: Node) -> ClientInstance:
    """Return the client instance for the request. When a connection is closed, the last instance
    that it created is removed."""
    client = context.client
    software, _, version = (client.software or UNKNOWN_SOFTWARE).partition("/")
    attributes = {
        "client_id": context.client_id or "",
        "client_software_name": software,
        "client_software_version": version,
        "client_source_address": client.host.removeprefix("/"),
    }
    if client.port is not None:
        attributes["client_source_port"] = str(client.port)
    instance, is_new = node.telemetry.instance(context.request.client_instance_id, attributes)
    if is_new:
        client.telemetry_instance = instance.id
    return instance
