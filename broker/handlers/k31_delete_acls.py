"""DeleteAcls (key 31). v1 pattern types (KIP-290) · v2 flexible · v3 resource type USER."""

from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple

from ...protocol.budgets import ACLS_PER_REQUEST_MAX, RESPONSE_ITEMS_MAX
from ...protocol.errors import ApiError, ErrorCode, ResponseTooLarge
from ...protocol.messages import too_many_to_encode
from ...topics.acls import Acl, AclFilter, AclOperation
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from .common import respond_when_durable
from .k29_describe_acls import ACLS_PER_STEP, UNKNOWN, acl_denial, filter_of, has_unknown
from .k30_create_acls import NO_AUTHORIZER

TOO_MANY: Final = (
    f"Cannot remove more than {ACLS_PER_REQUEST_MAX} acls in a single delete operation."
)


class FilterResponse(NamedTuple):
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    matching_acls: Sequence[Message] = ()


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    """Delete the ACLs that match any filter. An ACL that matches several filters is in each
    filter's response, as in Kafka."""
    filters = context.request.filters
    if any(has_unknown(each) for each in filters):
        context.close_connection("DeleteAcls with an UNKNOWN element")
        return
    if (denial := acl_denial(context, node, AclOperation.ALTER, NO_AUTHORIZER)) is not None:
        context.respond(Message(filter_results=[FilterResponse(*denial)] * len(filters)))
        return
    responses: list[FilterResponse] = []
    deleted: dict[Acl, Message] = {}
    items = len(filters)
    try:
        for acl_filter in map(filter_of, filters):
            response = yield from _response(node, acl_filter, deleted)
            responses.append(response)
            items += len(response.matching_acls)
            if items > RESPONSE_ITEMS_MAX:
                raise too_many_to_encode()
    except ApiError as rejection:
        failure = FilterResponse(rejection.error, rejection.message)
        context.respond(Message(filter_results=[failure] * len(filters)))
        return
    except ResponseTooLarge as error:
        context.close_connection(str(error))
        return
    for acl in deleted:
        node.topics.delete_acl(acl)
        yield
    respond_when_durable(context, node, "filter_results", responses, keys=0)


def _invalid(acl_filter: AclFilter) -> str | None:
    """Return Kafka's message if the filter is invalid (upstream:
    AclControlManager.validateFilter)."""
    if UNKNOWN in (acl_filter.resource_type, acl_filter.pattern_type):
        return "Unknown patternFilter."
    if UNKNOWN in (acl_filter.operation, acl_filter.permission):
        return "Unknown entryFilter."
    return None


def _response(
    node: Node, acl_filter: AclFilter, deleted: dict[Acl, Message]
) -> Generator[None, None, FilterResponse]:
    """Return the response to a filter, and add the matching ACLs to `deleted`. Raises ApiError if
    there are too many."""
    if message := _invalid(acl_filter):
        return FilterResponse(ErrorCode.invalid_request, message)
    found = []
    for count, acl in enumerate(list(node.topics.security.acls), 1):
        if acl_filter.matches(acl):
            # As in Kafka, this fails even if the ACL was already counted.
            if len(deleted) == ACLS_PER_REQUEST_MAX:
                raise ApiError(ErrorCode.invalid_request, TOO_MANY)
            if acl not in deleted:
                deleted[acl] = _matching_acl(acl)
            found.append(deleted[acl])
        if count % ACLS_PER_STEP == 0:
            yield
    return FilterResponse(matching_acls=found)


def _matching_acl(acl: Acl) -> Message:
    type_, name, pattern_type, principal, host, operation, permission = acl
    return Message(
        error_code=ErrorCode.none,
        error_message=None,
        resource_type=type_,
        resource_name=name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )
