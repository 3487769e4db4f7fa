"""DescribeGroups (key 15).

v1 throttle_time · v3 authorized_operations (KIP-430) · v4 group_instance_id (KIP-345) ·
v5 flexible · v6 GROUP_ID_NOT_FOUND with error_message (KIP-1043).
"""

from datetime import timedelta
from functools import partial
from typing import NamedTuple

from ...coordinator.commands import DescribeGroup
from ...coordinator.results import Described
from ...protocol.apis import STRING_BYTES_MAX
from ...protocol.errors import ErrorCode
from ..gather import Gather
from ..node import Node
from ..request import NO_THROTTLE, RequestContext
from .k03_metadata import NOT_ASKED

# READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: what makes sense for a group. Without an
# authorizer everyone may do everything (upstream: AclEntry.supportedOperations).
GROUP_OPERATIONS = 0b1101_0100_1000


class MemberResponse(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class GroupResponse(NamedTuple):
    error_code: ErrorCode
    error_message: str | None
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: list[MemberResponse]
    authorized_operations: int


class DescribeGroupsResponse(NamedTuple):
    groups: list[GroupResponse]
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:
    """As often as a group is named, so often it is described."""
    groups = context.request.groups
    described = Gather(len(groups), partial(_respond, context))
    for place, group_id in enumerate(groups):
        node.groups.submit(DescribeGroup(group_id), described.put, place)


def _respond(context: RequestContext, described: list[Described]) -> None:
    asked = zip(context.request.groups, described, strict=True)
    groups = [_group(context, group_id, result) for group_id, result in asked]
    if any(len((g.error_message or "").encode()) > STRING_BYTES_MAX for g in groups):
        # Upstream fails at writing the answer, and so refuses the whole request.
        groups = [_failed(group.group_id) for group in groups]
    context.respond(DescribeGroupsResponse(groups))


def _failed(group_id: str) -> GroupResponse:
    return GroupResponse(ErrorCode.unknown_server_error, "", group_id, "", "", "", [], NOT_ASKED)


def _group(context: RequestContext, group_id: str, result: Described) -> GroupResponse:
    error, state, protocol_type, protocol_name, members = result
    message = None
    if error is ErrorCode.group_id_not_found:
        if context.version >= 6:
            message = f"Group {group_id} not found."
        else:
            error = ErrorCode.none  # a group that does not exist was a Dead one
    asked = getattr(context.request, "include_authorized_operations", False)
    return GroupResponse(
        error,
        message,
        group_id,
        state,
        protocol_type,
        protocol_name,
        [MemberResponse(*member) for member in members],
        GROUP_OPERATIONS if asked and not error else NOT_ASKED,
    )
