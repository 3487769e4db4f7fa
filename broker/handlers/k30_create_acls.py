"""CreateAcls (key 30). v1 pattern types (KIP-290) · v2 flexible · v3 resource type USER."""

from typing import Any

from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..request import Message, RequestContext
from .k29_describe_acls import UNKNOWN

NO_AUTHORIZER = "No Authorizer is configured."


def handle(context: RequestContext, node: Node) -> None:  # noqa: ARG001
    """Reject every ACL, as Kafka does without an authorizer."""
    creations = context.request.creations
    if any(_has_unknown(each) for each in creations):
        context.close_connection("CreateAcls with an UNKNOWN element")
    else:
        rejected = Message(error_code=ErrorCode.security_disabled, error_message=NO_AUTHORIZER)
        context.respond(Message(results=[rejected] * len(creations)))


def _has_unknown(acl: Any) -> bool:
    return UNKNOWN in (
        acl.resource_type,
        acl.resource_pattern_type,
        acl.operation,
        acl.permission_type,
    )
