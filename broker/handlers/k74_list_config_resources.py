"""ListConfigResources (key 74): whose configurations can be described (KIP-1142).

v0 was ListClientMetricsResources (KIP-714) · v1 resource_types, of which none asks for all.
"""

from datetime import timedelta
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...topics.alter import Resource
from ..node import Node
from ..request import NO_THROTTLE, RequestContext

BROKER_LOGGER, CLIENT_METRICS, GROUP = 8, 16, 32
KNOWN = (Resource.TOPIC, Resource.BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


class ResourceResponse(NamedTuple):
    resource_name: str
    resource_type: int


class ListConfigResourcesResponse(NamedTuple):
    error_code: ErrorCode
    config_resources: list[ResourceResponse]
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:
    """Loggers, client metrics and groups have no configurations here, so none is listed."""
    wanted = getattr(context.request, "resource_types", (CLIENT_METRICS,)) or KNOWN
    if not set(wanted) <= set(KNOWN):
        context.respond(ListConfigResourcesResponse(ErrorCode.unsupported_version, []))
        return
    found = []
    if Resource.BROKER in wanted:
        found += [ResourceResponse(str(each.node_id), Resource.BROKER) for each in node.cluster.up]
    if Resource.TOPIC in wanted:
        found += [ResourceResponse(topic.name, Resource.TOPIC) for topic in node.topics]
    context.respond(ListConfigResourcesResponse(ErrorCode.none, found))
