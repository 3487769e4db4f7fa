"""CreateAcls (key 30). v1 pattern types (KIP-290) · v2 flexible · v3 resource type USER."""

from datetime import timedelta
from typing import Any, NamedTuple

from ...protocol.errors import ErrorCode
from ..node import Node
from ..request import RequestContext
from .k29_describe_acls import UNKNOWN
from .reply import NO_THROTTLE

# Upstream: AclApis, in another sentence than DescribeAcls.
COMPLAINT = "No Authorizer is configured."


class CreationReply(NamedTuple):
    error_code: ErrorCode = ErrorCode.security_disabled
    error_message: str | None = COMPLAINT


class CreateAclsReply(NamedTuple):
    results: list[CreationReply]
    throttle_time: timedelta = NO_THROTTLE


def handle(call: RequestContext, node: Node) -> None:  # noqa: ARG001
    """As Kafka without an authorizer: each is refused."""
    creations = call.request.creations
    if any(_is_unknown(each) for each in creations):
        call.no_reply_but_the_end("CreateAcls with an UNKNOWN element")
    else:
        call.reply(CreateAclsReply([CreationReply() for _ in creations]))


def _is_unknown(creation: Any) -> bool:
    return UNKNOWN in (
        creation.resource_type,
        creation.resource_pattern_type,
        creation.operation,
        creation.permission_type,
    )
