"""DescribeAcls (key 29). v1 pattern types (KIP-290) · v2 flexible · v3 resource type USER."""

from datetime import timedelta
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ..call import Call
from ..node import Node
from .reply import NO_THROTTLE

# Upstream: AclApis, which says it in two ways.
COMPLAINT = "No Authorizer is configured on the broker"


class DescribeAclsReply(NamedTuple):
    error_code: ErrorCode = ErrorCode.security_disabled
    error_message: str | None = COMPLAINT
    resources: tuple[()] = ()
    throttle_time: timedelta = NO_THROTTLE


def handle(call: Call, node: Node) -> None:  # noqa: ARG001
    """As Kafka without an authorizer, whatever is asked for."""
    call.reply(DescribeAclsReply())
