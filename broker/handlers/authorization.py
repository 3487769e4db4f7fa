"""What a client may do. Without an authorizer, clients may do everything.

Denials are logged unless `reports` is False, for example if a response only omits the resource.
Upstream: AuthHelper.
"""

from typing import Final

from ...coordinator.commands import TopicFilter
from ...log.tasks import CooperativeTask
from ...protocol.errors import ErrorCode
from ...topics.acls import (
    CLUSTER,
    SUPPORTED_OPERATIONS,
    AclOperation,
    AclResourceType,
    Resource,
)
from ...topics.alter_configs import ResourceType
from ..cluster import Node
from ..network.request import RequestContext
from .common import default_rejection

NOT_REQUESTED: Final = -(2**31)

_ALL: Final = {
    type_: sum(1 << operation for operation in operations)
    for type_, operations in SUPPORTED_OPERATIONS.items()
}


def allows(
    context: RequestContext,
    node: Node,
    operation: AclOperation,
    type_: AclResourceType,
    name: str,
    *,
    reports: bool = True,
) -> bool:
    authorizer = node.security.authorizer
    if authorizer is None:
        return True
    api, resource = context.route.api.name, Resource(type_, name)
    return authorizer.authorize(context.client, operation, resource, api, reports=reports)


def allows_topic(
    context: RequestContext,
    node: Node,
    operation: AclOperation,
    name: str,
    *,
    reports: bool = True,
) -> bool:
    return allows(context, node, operation, AclResourceType.TOPIC, name, reports=reports)


def allows_any_topic(
    context: RequestContext, node: Node, operation: AclOperation
) -> CooperativeTask[bool]:
    """Return whether the client may perform the operation on any topic, existing or not."""
    authorizer, type_ = node.security.authorizer, AclResourceType.TOPIC
    if authorizer is None:
        return True
    return (yield from authorizer.authorize_any(context.client, operation, type_))


def allows_group(
    context: RequestContext,
    node: Node,
    operation: AclOperation,
    group_id: str,
    *,
    reports: bool = True,
) -> bool:
    return allows(context, node, operation, AclResourceType.GROUP, group_id, reports=reports)


def allows_transactional_id(
    context: RequestContext, node: Node, operation: AclOperation, transactional_id: str
) -> bool:
    return allows(context, node, operation, AclResourceType.TRANSACTIONAL_ID, transactional_id)


def allows_cluster(
    context: RequestContext, node: Node, operation: AclOperation, *, reports: bool = True
) -> bool:
    return allows(context, node, operation, *CLUSTER, reports=reports)


def authorize_config(
    context: RequestContext, node: Node, operation: AclOperation, type_: int, name: str
) -> None:
    """Raise ApiError if the client may not describe or alter a resource's configuration.
    Configurations of brokers, broker loggers and client metrics require permission on the
    cluster."""
    match type_:
        case ResourceType.TOPIC:
            allowed = allows_topic(context, node, operation, name)
            error = ErrorCode.topic_authorization_failed
        case ResourceType.GROUP:
            allowed = allows_group(context, node, operation, name)
            error = ErrorCode.group_authorization_failed
        case _:
            allowed = allows_cluster(context, node, operation)
            error = ErrorCode.cluster_authorization_failed
    if not allowed:
        raise default_rejection(error)


def cluster_denial(
    context: RequestContext, node: Node, operation: AclOperation
) -> tuple[ErrorCode, str] | None:
    """Return None if the client may perform the operation on the cluster, otherwise the error and
    its message. (Kafka's message contains the request's Java object.)"""
    if allows_cluster(context, node, operation):
        return None
    message = f"Request {context.route.api.name} needs {operation.name} permission."
    return ErrorCode.cluster_authorization_failed, message


def topic_filter(context: RequestContext, node: Node) -> TopicFilter | None:
    """Return the filter by which coordinators select the topics that the client may describe, or
    None if there is no authorizer."""
    authorizer = node.security.authorizer
    if authorizer is None:
        return None
    client, api = context.client, context.route.api.name

    def describes_topic(name: str) -> bool:
        topic = Resource(AclResourceType.TOPIC, name)
        return authorizer.authorize(client, AclOperation.DESCRIBE, topic, api, reports=False)

    return describes_topic


def topic_operations(context: RequestContext, node: Node, name: str) -> int:
    """Return the bit field of the operations that the client may perform (KIP-430)."""
    return _allowed_operations(context, node, Resource(AclResourceType.TOPIC, name))


def group_operations(context: RequestContext, node: Node, group_id: str) -> int:
    return _allowed_operations(context, node, Resource(AclResourceType.GROUP, group_id))


def cluster_operations(context: RequestContext, node: Node) -> int:
    """Return the bit field of the operations, or 0 if the client may not describe the cluster."""
    if not allows_cluster(context, node, AclOperation.DESCRIBE):
        return 0
    return _allowed_operations(context, node, CLUSTER)


def _allowed_operations(context: RequestContext, node: Node, resource: Resource) -> int:
    authorizer = node.security.authorizer
    if authorizer is None:
        return _ALL[resource.type]
    operations = SUPPORTED_OPERATIONS[resource.type]
    allowed = authorizer.allowed_operations(context.client, resource, operations)
    return sum(1 << operation for operation in allowed)
