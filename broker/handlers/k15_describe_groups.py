"""DescribeGroups (key 15).

v1 throttle_time · v3 authorized_operations (KIP-430) · v4 group_instance_id (KIP-345) ·
v5 flexible · v6 GROUP_ID_NOT_FOUND with error_message (KIP-1043).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...coordinator.commands import DescribedMember, DescribeGroup, DescribeResult, describe_error
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..gather import Gather
from ..network.request import Message, RequestContext, in_slices, run_in_slices
from .authorization import NOT_REQUESTED, allows_group, group_operations
from .common import fits


class GroupResponse(NamedTuple):
    error_code: ErrorCode
    error_message: str | None
    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: Sequence[DescribedMember] = ()
    authorized_operations: int = NOT_REQUESTED


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    """Describe groups. Duplicate group ids are described once, and their responses are copies."""
    groups = list(dict.fromkeys(context.request.groups))
    results = Gather(
        len(groups), lambda done: run_in_slices(context, node, _respond(context, node, done))
    )
    for index, group_id in enumerate(groups):
        if allows_group(context, node, AclOperation.DESCRIBE, group_id):
            node.coordinators.submit(DescribeGroup(group_id), results.put, index)
        else:
            results.put(index, describe_error(ErrorCode.group_authorization_failed))
        yield


def _respond(context: RequestContext, node: Node, results: list[DescribeResult]) -> Iterator[None]:
    responses = {}
    for group_id, result in zip(dict.fromkeys(context.request.groups), results, strict=True):
        responses[group_id] = _response(context, node, group_id, result)
        yield
    groups = [responses[group_id] for group_id in context.request.groups]
    if not all(fits(group.error_message) for group in groups):
        error = ErrorCode.unknown_server_error
        groups = [GroupResponse(error, None, group.group_id) for group in groups]
    context.respond(Message(groups=groups))


def _response(
    context: RequestContext, node: Node, group_id: str, result: DescribeResult
) -> GroupResponse:
    error, state, protocol_type, protocol_name, members, message = result
    if error is ErrorCode.group_id_not_found and context.version < 6:
        error, message = ErrorCode.none, None  # before v6, a group that does not exist is Dead
    requested = getattr(context.request, "include_authorized_operations", False)
    return GroupResponse(
        error,
        message,
        group_id,
        state,
        protocol_type,
        protocol_name,
        members,
        group_operations(context, node, group_id) if requested and not error else NOT_REQUESTED,
    )
