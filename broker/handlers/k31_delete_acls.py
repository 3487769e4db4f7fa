"""DeleteAcls (key 31). v1 pattern types (KIP-290) · v2 flexible · v3 resource type USER."""

from datetime import timedelta
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ..node import Node
from ..request import RequestContext
from .k29_describe_acls import is_unknown
from .k30_create_acls import COMPLAINT
from .reply import NO_THROTTLE


class FilterReply(NamedTuple):
    error_code: ErrorCode = ErrorCode.security_disabled
    error_message: str | None = COMPLAINT
    matching_acls: tuple[()] = ()


class DeleteAclsReply(NamedTuple):
    filter_results: list[FilterReply]
    throttle_time: timedelta = NO_THROTTLE


def handle(call: RequestContext, node: Node) -> None:  # noqa: ARG001
    """As Kafka without an authorizer: each is refused."""
    filters = call.request.filters
    if any(is_unknown(each) for each in filters):
        call.no_reply_but_the_end("DeleteAcls with an UNKNOWN element")
    else:
        call.reply(DeleteAclsReply([FilterReply() for _ in filters]))
