"""DescribeAcls (key 29). v1 pattern types (KIP-290) · v2 flexible · v3 resource type USER."""

from typing import Any

from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..request import Message, RequestContext

# Upstream: AclApis; the message differs from CreateAcls and DeleteAcls.
NO_AUTHORIZER = "No Authorizer is configured on the broker"
# The code of an unknown enum value, in each field of an ACL or filter.
UNKNOWN = 0


def handle(context: RequestContext, node: Node) -> None:  # noqa: ARG001
    """Respond as Kafka does without an authorizer."""
    if has_unknown(context.request):
        context.close_connection("DescribeAcls with an UNKNOWN element")
    else:
        error = ErrorCode.security_disabled
        context.respond(Message(error_code=error, error_message=NO_AUTHORIZER, resources=()))


def has_unknown(acl_filter: Any) -> bool:
    """Return True if a field has an unknown enum value; Kafka then rejects the whole request."""
    return UNKNOWN in (
        acl_filter.resource_type_filter,
        acl_filter.pattern_type_filter,
        acl_filter.operation,
        acl_filter.permission_type,
    )
