"""ListConfigResources (key 74, KIP-1142): the resources that have configurations.

v0 was ListClientMetricsResources (KIP-714) · v1 resource_types; an empty list requests all.
"""

from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ...topics.alter_configs import BROKER_LOGGER, CLIENT_METRICS, ResourceType
from ..cluster import Node
from ..network.request import Message, RequestContext
from .authorization import allows_cluster

RESOURCE_TYPES = (*ResourceType, BROKER_LOGGER, CLIENT_METRICS)


def handle(context: RequestContext, node: Node) -> None:
    """In kohort, broker loggers and client metrics have no configurations."""
    if not allows_cluster(context, node, AclOperation.DESCRIBE_CONFIGS):
        error = ErrorCode.cluster_authorization_failed
        context.respond(Message(error_code=error, config_resources=[]))
        return
    requested = getattr(context.request, "resource_types", (CLIENT_METRICS,)) or RESOURCE_TYPES
    if not set(requested) <= set(RESOURCE_TYPES):
        context.respond(Message(error_code=ErrorCode.unsupported_version, config_resources=[]))
        return
    found = []
    if ResourceType.BROKER in requested:
        found += [
            Message(resource_name=str(each.node_id), resource_type=ResourceType.BROKER)
            for each in node.cluster.up
        ]
    if ResourceType.TOPIC in requested:
        found += [
            Message(resource_name=topic.name, resource_type=ResourceType.TOPIC)
            for topic in node.topics
        ]
    if ResourceType.GROUP in requested:
        found += [
            Message(resource_name=group_id, resource_type=ResourceType.GROUP)
            for group_id in node.configs.groups
        ]
    context.respond(Message(error_code=ErrorCode.none, config_resources=found))
