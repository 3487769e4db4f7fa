"""LeaveGroup (key 13).

v1 throttle_time · v3 several members, group_instance_id (KIP-345) · v4 flexible ·
v5 reason (KIP-800).
"""

from datetime import timedelta
from typing import NamedTuple

from ...coordinator.commands import LeaveGroup, LeavingMember
from ...coordinator.results import Left
from ...protocol.errors import ErrorCode
from ..node import Node
from ..request import RequestContext
from .reply import NO_THROTTLE


class MemberReply(NamedTuple):
    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode


class LeaveReply(NamedTuple):
    error_code: ErrorCode
    members: list[MemberReply]
    throttle_time: timedelta = NO_THROTTLE


def handle(call: RequestContext, node: Node) -> None:
    request = call.request
    leaving: tuple[LeavingMember, ...]
    if call.version < 3:
        leaving = (LeavingMember(request.member_id, None, None),)
    else:
        leaving = tuple(
            LeavingMember(m.member_id, m.group_instance_id, getattr(m, "reason", None))
            for m in request.members
        )
    node.groups.submit(LeaveGroup(request.group_id, leaving), _respond, call)


def _respond(call: RequestContext, result: Left) -> None:
    error = result.error
    if call.version < 3 and not error and result.members:
        error = result.members[0].error
    call.reply(LeaveReply(error, [MemberReply(*member) for member in result.members]))
