"""ListConfigResources (key 74): whose configurations can be described (KIP-1142).

v0 was ListClientMetricsResources (KIP-714) · v1 resource_types, of which none asks for all.
"""

from datetime import timedelta
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...topics.alter import Resource
from ..node import Node
from ..request import RequestContext
from .reply import NO_THROTTLE

BROKER_LOGGER, CLIENT_METRICS, GROUP = 8, 16, 32
KNOWN = (Resource.TOPIC, Resource.BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


class ResourceReply(NamedTuple):
    resource_name: str
    resource_type: int


class ListConfigResourcesReply(NamedTuple):
    error_code: ErrorCode
    config_resources: list[ResourceReply]
    throttle_time: timedelta = NO_THROTTLE


def handle(call: RequestContext, node: Node) -> None:
    """Loggers, client metrics and groups have no configurations here, so none is listed."""
    wanted = getattr(call.request, "resource_types", (CLIENT_METRICS,)) or KNOWN
    if not set(wanted) <= set(KNOWN):
        call.reply(ListConfigResourcesReply(ErrorCode.unsupported_version, []))
        return
    found = []
    if Resource.BROKER in wanted:
        found += [ResourceReply(str(each.node_id), Resource.BROKER) for each in node.cluster.up]
    if Resource.TOPIC in wanted:
        found += [ResourceReply(topic.name, Resource.TOPIC) for topic in node.topics]
    call.reply(ListConfigResourcesReply(ErrorCode.none, found))
