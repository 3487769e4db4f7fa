"""CreateAcls (key 30). v1 pattern types (KIP-290) · v2 flexible · v3 resource type USER."""

from datetime import timedelta
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ..call import Call
from ..node import Node
from .reply import NO_THROTTLE

# Upstream: AclApis, in another sentence than DescribeAcls.
COMPLAINT = "No Authorizer is configured."


class CreationReply(NamedTuple):
    error_code: ErrorCode = ErrorCode.security_disabled
    error_message: str | None = COMPLAINT


class CreateAclsReply(NamedTuple):
    results: list[CreationReply]
    throttle_time: timedelta = NO_THROTTLE


def handle(call: Call, node: Node) -> None:  # noqa: ARG001
    """As Kafka without an authorizer: each is refused."""
    call.reply(CreateAclsReply([CreationReply() for _ in call.request.creations]))
