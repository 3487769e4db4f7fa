"""DeleteAcls (key 31). v1 pattern types (KIP-290) · v2 flexible · v3 resource type USER."""

from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..request import Message, RequestContext
from .k29_describe_acls import has_unknown
from .k30_create_acls import NO_AUTHORIZER


def handle(context: RequestContext, node: Node) -> None:  # noqa: ARG001
    """Reject every filter, as Kafka does without an authorizer."""
    filters = context.request.filters
    if any(has_unknown(each) for each in filters):
        context.close_connection("DeleteAcls with an UNKNOWN element")
    else:
        error = ErrorCode.security_disabled
        rejected = Message(error_code=error, error_message=NO_AUTHORIZER, matching_acls=())
        context.respond(Message(filter_results=[rejected] * len(filters)))
