"""ListConfigResources (key 74, KIP-1142): the resources that have configurations.

v0 was ListClientMetricsResources (KIP-714) · v1 resource_types; an empty list requests all.
"""

from collections.abc import Iterable

from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ...topics.alter_configs import ResourceType
from ..cluster import Node
from ..network.request import Message, RequestContext
from .authorization import allows_cluster

RESOURCE_TYPES = tuple(ResourceType)
ONLY_METRICS = (ResourceType.CLIENT_METRICS,)


def handle(context: RequestContext, node: Node) -> None:
    if not allows_cluster(context, node, AclOperation.DESCRIBE_CONFIGS):
        error = ErrorCode.cluster_authorization_failed
        context.respond(Message(error_code=error, config_resources=[]))
        return
    requested = getattr(context.request, "resource_types", ONLY_METRICS) or RESOURCE_TYPES
    if not set(requested) <= set(RESOURCE_TYPES):
        context.respond(Message(error_code=ErrorCode.unsupported_version, config_resources=[]))
        return
    brokers = [str(each.node_id) for each in node.cluster.up]
    names: dict[ResourceType, Iterable[str]] = {
        ResourceType.BROKER: brokers,
        ResourceType.BROKER_LOGGER: brokers,
        ResourceType.TOPIC: [topic.name for topic in node.topics],
        ResourceType.GROUP: node.configs.groups,
        ResourceType.CLIENT_METRICS: node.configs.client_metrics,
    }
    found = [
        Message(resource_name=name, resource_type=type_)
        for type_ in names
        if type_ in requested
        for name in names[type_]
    ]
    context.respond(Message(error_code=ErrorCode.none, config_resources=found))
