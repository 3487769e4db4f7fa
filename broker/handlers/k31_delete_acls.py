"""DeleteAcls (key 31). v1 pattern types (KIP-290) · v2 flexible · v3 resource type USER."""

from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..request import RequestContext
from .k29_describe_acls import has_unknown
from .k30_create_acls import NO_AUTHORIZER


class FilterResponse(NamedTuple):
    error_code: ErrorCode = ErrorCode.security_disabled
    error_message: str | None = NO_AUTHORIZER
    matching_acls: tuple[()] = ()


class DeleteAclsResponse(NamedTuple):
    filter_results: list[FilterResponse]


def handle(context: RequestContext, node: Node) -> None:  # noqa: ARG001
    """As Kafka without an authorizer: every filter is rejected."""
    filters = context.request.filters
    if any(has_unknown(each) for each in filters):
        context.close_connection("DeleteAcls with an UNKNOWN element")
    else:
        context.respond(DeleteAclsResponse([FilterResponse() for _ in filters]))
