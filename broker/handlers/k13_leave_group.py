"""LeaveGroup (key 13).

v1 throttle_time · v3 several members, group_instance_id (KIP-345) · v4 flexible ·
v5 reason (KIP-800).
"""

from typing import NamedTuple

from ...coordinator.commands import LeaveGroup, LeaveResult, LeavingMember
from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..request import Message, RequestContext


class MemberResponse(NamedTuple):
    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode


def handle(context: RequestContext, node: Node) -> None:
    request = context.request
    members: tuple[LeavingMember, ...]
    if context.version < 3:
        members = (LeavingMember(request.member_id, None, None),)
    else:
        members = tuple(
            LeavingMember(m.member_id, m.group_instance_id, getattr(m, "reason", None))
            for m in request.members
        )
    node.coordinators.submit(LeaveGroup(request.group_id, members), _respond, context)


def _respond(context: RequestContext, result: LeaveResult) -> None:
    error = result.error
    if context.version < 3 and not error and result.members:
        error = result.members[0].error
    members = [MemberResponse(*member) for member in result.members]
    context.respond(Message(error_code=error, members=members))
