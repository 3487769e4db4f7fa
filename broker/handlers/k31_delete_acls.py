"""DeleteAcls (key 31). v1 pattern types (KIP-290) · v2 flexible · v3 resource type USER."""

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...topics.acls import Acl, AclFilter, AclOperation
from ..cluster import Node
from ..request import Message, RequestContext, in_slices
from .authorization import allows_cluster, cluster_denial
from .common import fail_unless_durable
from .k29_describe_acls import ACLS_PER_STEP, UNKNOWN, filter_of, has_unknown
from .k30_create_acls import NO_AUTHORIZER


class FilterResponse(NamedTuple):
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    matching_acls: Sequence[Message] = ()


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    """Delete the ACLs that match any filter. One that matches several is in the response of each,
    as in Kafka."""
    filters = context.request.filters
    if any(has_unknown(each) for each in filters):
        context.close_connection("DeleteAcls with an UNKNOWN element")
        return
    if (failure := _failure(context, node)) is not None:
        context.respond(Message(filter_results=[failure] * len(filters)))
        return
    responses = []
    deleted: dict[Acl, None] = {}
    for acl_filter in map(filter_of, filters):
        if message := _invalid(acl_filter):
            responses.append(FilterResponse(ErrorCode.invalid_request, message))
            continue
        found = yield from _matching(node, acl_filter)
        deleted.update(dict.fromkeys(found))
        responses.append(FilterResponse(matching_acls=[_matching_acl(acl) for acl in found]))
    for acl in deleted:
        node.topics.delete_acl(acl)
        yield
    node.topics.on_durable(partial(_respond, context, responses))


def _failure(context: RequestContext, node: Node) -> FilterResponse | None:
    """The response if the request fails as a whole."""
    if not allows_cluster(context, node, AclOperation.ALTER):
        return FilterResponse(*cluster_denial(context, AclOperation.ALTER))
    if node.security.authorizer is None:
        return FilterResponse(ErrorCode.security_disabled, NO_AUTHORIZER)
    return None


def _invalid(acl_filter: AclFilter) -> str | None:
    """Upstream: AclControlManager.validateFilter."""
    if UNKNOWN in (acl_filter.resource_type, acl_filter.pattern_type):
        return "Unknown patternFilter."
    if UNKNOWN in (acl_filter.operation, acl_filter.permission):
        return "Unknown entryFilter."
    return None


def _matching(node: Node, acl_filter: AclFilter) -> Generator[None, None, list[Acl]]:
    found = []
    for count, acl in enumerate(list(node.topics.security.acls), 1):
        if acl_filter.matches(acl):
            found.append(acl)
        if count % ACLS_PER_STEP == 0:
            yield
    return found


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


def _respond(
    context: RequestContext, responses: list[FilterResponse], error: OSError | None
) -> None:
    context.respond(Message(filter_results=fail_unless_durable(responses, error, keys=0)))
