"""JoinGroup (key 11).

v1 rebalance_timeout · v2 throttle_time · v4 two-step join (KIP-394) · v5 group_instance_id ·
v6 flexible · v7 protocol_type, nullable protocol_name · v8 reason (KIP-800) · v9 skip_assignment.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final, NamedTuple

from ...coordinator.commands import JoinGroup
from ...coordinator.results import Joined, JoinedMember, join_refused
from ...coordinator.turn import make
from ...protocol.errors import ErrorCode
from ..node import Node
from ..request import RequestContext
from ..request_cache import Numbers, RepeatHandler
from .reply import NO_THROTTLE, milliseconds

PARKS: Final = True


class JoinReply(NamedTuple):
    error_code: ErrorCode
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    skip_assignment: bool
    member_id: str
    members: Sequence[JoinedMember]
    throttle_time: timedelta = NO_THROTTLE


def handle(call: RequestContext, node: Node) -> RepeatHandler | None:
    request = call.request
    session_timeout_ms = milliseconds(request.session_timeout)
    rebalance_timeout = getattr(request, "rebalance_timeout", None)
    command = JoinGroup(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None),
        client_id=call.client_id,
        client_host=call.client_host,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=(
            session_timeout_ms if rebalance_timeout is None else milliseconds(rebalance_timeout)
        ),
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        requires_known_member_id=call.version >= 4,
        supports_skip_assignment=call.version >= 9,
        reason=getattr(request, "reason", None),
        client_software=call.client_software,
    )
    config = node.config
    shortest = config.int("group.min.session.timeout.ms")
    longest = config.int("group.max.session.timeout.ms")
    if command.group_id and not shortest <= command.session_timeout_ms <= longest:
        # Whoever coordinates the group (upstream: GroupCoordinatorService.joinGroup).
        _respond(call, join_refused(ErrorCode.invalid_session_timeout, command.member_id))
        return None
    _submit(command, call, node)
    # Who has no id yet is never the same twice.
    return partial(_again, command) if command.member_id else None


def _again(command: JoinGroup, call: RequestContext, node: Node, _: Sequence[Numbers]) -> None:
    if command.client_software != call.client_software:
        command = command._replace(client_software=call.client_software)
    _submit(command, call, node)


def _submit(command: JoinGroup, call: RequestContext, node: Node) -> None:
    ticket = node.groups.submit(command, _respond, call)
    call.hold()
    # Its member stays, as in Kafka, which does not notice; only the answer has nobody to go to.
    call.on_gone(partial(node.groups.forget, ticket))


def _respond(call: RequestContext, result: Joined) -> None:
    name = result.protocol_name
    call.reply(
        make(
            JoinReply,
            (
                result.error,
                result.generation_id,
                result.protocol_type,
                (name or None) if call.version >= 7 else (name or ""),
                result.leader,
                result.skip_assignment,
                result.member_id,
                result.members,
                NO_THROTTLE,
            ),
        )
    )
