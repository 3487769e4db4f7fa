"""LeaveGroup (key 13).

v1 throttle_time · v3 several members, group_instance_id (KIP-345) · v4 flexible ·
v5 reason (KIP-800).
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from ...coordinator.commands import LeaveGroup, LeaveResult, LeavingMember
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..gather import Gather
from ..network.request import RequestContext, in_slices
from .authorization import allows_group

# Number of members that are validated in one decision, which takes about 0.5 ms.
LEAVING_MAX: Final = 100


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    request = context.request
    if not allows_group(context, node, AclOperation.READ, request.group_id):
        context.respond(LeaveResult(ErrorCode.group_authorization_failed, ()))
        return
    if context.version < 3:
        member = LeavingMember(request.member_id, None, None)
        command = LeaveGroup(request.group_id, (member,))
        node.coordinators.submit(command, _respond_to_one, context)
        return
    starts = range(0, len(request.members), LEAVING_MAX) or (0,)
    is_part = len(starts) > 1
    done = partial(_confirm, context, node) if is_part else partial(_respond, context)
    results = Gather(len(starts), done)
    for place, start in enumerate(starts):
        members = tuple(map(_leaving, request.members[start : start + LEAVING_MAX]))
        command = LeaveGroup(request.group_id, members, is_part)
        node.coordinators.submit(command, results.put, place)
        yield


def _respond_to_one(context: RequestContext, result: LeaveResult) -> None:
    error = result.members[0].error_code if result.members else result.error_code
    context.respond(LeaveResult(error, ()))


def _leaving(member: Any, validated_id: str = "") -> LeavingMember:
    reason = getattr(member, "reason", None)
    return LeavingMember(member.member_id, member.group_instance_id, reason, validated_id)


def _confirm(context: RequestContext, node: Node, results: list[LeaveResult]) -> None:
    """Submit the last step of a large request, with the members that were validated but not yet
    removed (see LeaveGroup). The step takes 20 ms for 1,000 members of a consumer group."""
    if any(each.error_code is not ErrorCode.none for each in results):
        _respond(context, results)
        return
    request = context.request
    members = (member for each in results for member in each.members)
    confirmed = tuple(
        _leaving(member, result.validated_id)
        for member, result in zip(request.members, members, strict=True)
        if result.validated_id
    )
    command = LeaveGroup(request.group_id, confirmed, is_confirmed=True)
    node.coordinators.submit(command, partial(_respond_confirmed, results), context)


def _respond_confirmed(
    parts: list[LeaveResult], context: RequestContext, result: LeaveResult
) -> None:
    is_failed = result.error_code is not ErrorCode.none
    _respond(context, [result] if is_failed else parts)


def _respond(context: RequestContext, results: list[LeaveResult]) -> None:
    for each in results:
        if each.error_code is not ErrorCode.none:
            context.respond(LeaveResult(each.error_code, ()))
            return
    members = tuple(member for each in results for member in each.members)
    context.respond(LeaveResult(ErrorCode.none, members))
