"""LeaveGroup (key 13).

v1 throttle_time · v3 several members, group_instance_id (KIP-345) · v4 flexible ·
v5 reason (KIP-800).
"""

from ...coordinator.commands import LeaveGroup, LeaveResult, LeavingMember
from ..cluster import Node
from ..request import RequestContext


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
    if context.version < 3 and not result.error_code and result.members:
        result = LeaveResult(result.members[0].error_code, ())
    context.respond(result)
