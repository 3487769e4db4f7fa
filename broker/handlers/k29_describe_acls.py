"""DescribeAcls (key 29). v1 pattern types (KIP-290) · v2 flexible · v3 resource type USER."""

from collections.abc import Iterator
from typing import Any, Final

from ...protocol.errors import ErrorCode
from ...topics.acls import (
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    Resource,
)
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from .authorization import cluster_denial

# Upstream: AclApis; the message differs from that of CreateAcls and DeleteAcls.
NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"
# The code of UNKNOWN in each field of an ACL or filter.
UNKNOWN: Final = 0
# Number of ACLs that are compared with a filter in one step, which takes about 0.1 ms.
ACLS_PER_STEP: Final = 100


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    if has_unknown(context.request):
        context.close_connection("DescribeAcls with an UNKNOWN element")
        return
    if (denial := acl_denial(context, node, AclOperation.DESCRIBE, NO_AUTHORIZER)) is not None:
        error, message = denial
        context.respond(Message(error_code=error, error_message=message, resources=()))
        return
    acl_filter = filter_of(context.request)
    resources: dict[tuple[Resource, PatternType], list[Message]] = {}
    for count, acl in enumerate(list(node.topics.security.acls), 1):
        if acl_filter.matches(acl):
            pattern = Resource(acl.resource_type, acl.resource_name), acl.pattern_type
            entry = Message(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            resources.setdefault(pattern, []).append(entry)
        if count % ACLS_PER_STEP == 0:
            yield
    described = []
    for count, ((resource, pattern_type), acls) in enumerate(resources.items(), 1):
        described.append(
            Message(
                resource_type=resource.type,
                resource_name=resource.name,
                pattern_type=pattern_type,
                acls=acls,
            )
        )
        if count % ACLS_PER_STEP == 0:
            yield
    # Kafka's message is empty, not null.
    context.respond(Message(error_code=ErrorCode.none, error_message="", resources=described))


def acl_denial(
    context: RequestContext, node: Node, operation: AclOperation, no_authorizer: str
) -> tuple[ErrorCode, str] | None:
    """Return the error and its message if the client may not read or change ACLs, or if the broker
    has no authorizer."""
    denial = cluster_denial(context, node, operation)
    if denial is None and node.security.authorizer is None:
        return ErrorCode.security_disabled, no_authorizer
    return denial


def has_unknown(acl_filter: Any) -> bool:
    """Return whether a field has the code of UNKNOWN, which Kafka rejects, unlike codes that it
    does not know."""
    return UNKNOWN in (
        acl_filter.resource_type_filter,
        acl_filter.pattern_type_filter,
        acl_filter.operation,
        acl_filter.permission_type,
    )


def filter_of(requested: Any) -> AclFilter:
    """Return the filter of a request. Codes that Kafka does not know become UNKNOWN."""
    return AclFilter(
        AclResourceType(requested.resource_type_filter),
        requested.resource_name_filter,
        PatternType(requested.pattern_type_filter),
        requested.principal_filter,
        requested.host_filter,
        AclOperation(requested.operation),
        AclPermission(requested.permission_type),
    )
