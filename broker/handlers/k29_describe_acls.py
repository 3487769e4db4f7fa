"""DescribeAcls (key 29). v1 pattern types (KIP-290) · v2 flexible · v3 resource type USER."""

from datetime import timedelta
from typing import Any, NamedTuple

from ...protocol.errors import ErrorCode
from ..node import Node
from ..request import NO_THROTTLE, RequestContext

# Upstream: AclApis, which says it in two ways.
COMPLAINT = "No Authorizer is configured on the broker"
# The code of what a client does not know itself, in each of the fields that are one.
UNKNOWN = 0


class DescribeAclsResponse(NamedTuple):
    error_code: ErrorCode = ErrorCode.security_disabled
    error_message: str | None = COMPLAINT
    resources: tuple[()] = ()
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:  # noqa: ARG001
    """As Kafka without an authorizer, whatever is asked for."""
    if is_unknown(context.request):
        context.close_connection("DescribeAcls with an UNKNOWN element")
    else:
        context.respond(DescribeAclsResponse())


def is_unknown(asked: Any) -> bool:
    """Whether a filter has an UNKNOWN element: to Kafka the whole request is malformed then."""
    return UNKNOWN in (
        asked.resource_type_filter,
        asked.pattern_type_filter,
        asked.operation,
        asked.permission_type,
    )
