"""ListConfigResources (key 74, KIP-1142): the resources that have configurations.

v0 was ListClientMetricsResources (KIP-714) · v1 resource_types; an empty list requests all.
"""

from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...topics.alter_configs import ResourceType
from ..cluster import Node
from ..request import RequestContext

BROKER_LOGGER, CLIENT_METRICS, GROUP = 8, 16, 32
RESOURCE_TYPES = (ResourceType.TOPIC, ResourceType.BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


class ResourceResponse(NamedTuple):
    resource_name: str
    resource_type: int


class ListConfigResourcesResponse(NamedTuple):
    error_code: ErrorCode
    config_resources: list[ResourceResponse]


def handle(context: RequestContext, node: Node) -> None:
    """Broker loggers, client metrics and groups have no configurations here."""
    requested = getattr(context.request, "resource_types", (CLIENT_METRICS,)) or RESOURCE_TYPES
    if not set(requested) <= set(RESOURCE_TYPES):
        context.respond(ListConfigResourcesResponse(ErrorCode.unsupported_version, []))
        return
    found = []
    if ResourceType.BROKER in requested:
        found += [
            ResourceResponse(str(each.node_id), ResourceType.BROKER) for each in node.cluster.up
        ]
    if ResourceType.TOPIC in requested:
        found += [ResourceResponse(topic.name, ResourceType.TOPIC) for topic in node.topics]
    context.respond(ListConfigResourcesResponse(ErrorCode.none, found))
