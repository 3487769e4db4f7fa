"""CreateAcls (key 30). v1 pattern types (KIP-290) · v2 flexible · v3 resource type USER."""

from datetime import timedelta
from typing import Any, NamedTuple

from ...protocol.errors import ErrorCode
from ..node import Node
from ..request import NO_THROTTLE, RequestContext
from .k29_describe_acls import UNKNOWN

# Upstream: AclApis, in another sentence than DescribeAcls.
COMPLAINT = "No Authorizer is configured."


class CreationResponse(NamedTuple):
    error_code: ErrorCode = ErrorCode.security_disabled
    error_message: str | None = COMPLAINT


class CreateAclsResponse(NamedTuple):
    results: list[CreationResponse]
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:  # noqa: ARG001
    """As Kafka without an authorizer: each is refused."""
    creations = context.request.creations
    if any(_is_unknown(each) for each in creations):
        context.close_connection("CreateAcls with an UNKNOWN element")
    else:
        context.respond(CreateAclsResponse([CreationResponse() for _ in creations]))


def _is_unknown(creation: Any) -> bool:
    return UNKNOWN in (
        creation.resource_type,
        creation.resource_pattern_type,
        creation.operation,
        creation.permission_type,
    )
