"""LeaveGroup (key 13).

v1 throttle_time · v3 several members, group_instance_id (KIP-345) · v4 flexible ·
v5 reason (KIP-800).
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from ...coordinator.commands import LeaveGroup, LeaveResult, LeavingMember
from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..gather import Gather
from ..request import RequestContext, in_slices

# Members that leave in one decision, which takes about 0.5 ms.
LEAVING_MAX: Final = 100


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    request = context.request
    if context.version < 3:
        member = LeavingMember(request.member_id, None, None)
        command = LeaveGroup(request.group_id, (member,))
        node.coordinators.submit(command, _respond_to_one, context)
        return
    starts = range(0, len(request.members), LEAVING_MAX) or (0,)
    results = Gather(len(starts), partial(_respond, context))
    for place, start in enumerate(starts):
        members = tuple(
            LeavingMember(m.member_id, m.group_instance_id, getattr(m, "reason", None))
            for m in request.members[start : start + LEAVING_MAX]
        )
        command = LeaveGroup(request.group_id, members)
        node.coordinators.submit(command, results.put, place)
        yield


def _respond_to_one(context: RequestContext, result: LeaveResult) -> None:
    error = result.members[0].error_code if result.members else result.error_code
    context.respond(LeaveResult(error, ()))


def _respond(context: RequestContext, results: list[LeaveResult]) -> None:
    for each in results:
        if each.error_code is not ErrorCode.none:
            context.respond(LeaveResult(each.error_code, ()))
            return
    members = tuple(member for each in results for member in each.members)
    context.respond(LeaveResult(ErrorCode.none, members))
