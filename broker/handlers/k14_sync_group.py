"""SyncGroup (key 14).

v1 throttle_time · v3 group_instance_id · v4 flexible · v5 protocol_type, protocol_name (KIP-559).
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final, NamedTuple

from ...coordinator.commands import SyncGroup
from ...coordinator.results import Synced
from ...coordinator.turn import make
from ...protocol.errors import ErrorCode
from ..node import Node
from ..request import RequestContext
from ..request_cache import Numbers, RepeatHandler
from .reply import NO_THROTTLE

CHANGES: Final = "generation_id"
PARKS: Final = True


class SyncReply(NamedTuple):
    error_code: ErrorCode
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes
    throttle_time: timedelta = NO_THROTTLE


def handle(call: RequestContext, node: Node) -> RepeatHandler | None:
    request = call.request
    protocol_type = getattr(request, "protocol_type", None)
    protocol_name = getattr(request, "protocol_name", None)
    if call.version >= 5 and (protocol_type is None or protocol_name is None):
        # Mandatory from v5 on though the schema allows null (upstream: KafkaApis, KIP-559).
        call.reply(SyncReply(ErrorCode.inconsistent_group_protocol, None, None, b""))
        return None
    command = SyncGroup(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None),
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=tuple((a.member_id, a.assignment) for a in request.assignments),
    )
    _submit(command, call, node)
    # What a leader brings is another assignment each time.
    return None if command.assignments else partial(_again, command)


def _again(
    command: SyncGroup, call: RequestContext, node: Node, requests: Sequence[Numbers]
) -> None:
    ((generation_id,),) = requests
    now: SyncGroup = make(SyncGroup, (command[0], generation_id, *command[2:]))
    _submit(now, call, node)


def _submit(command: SyncGroup, call: RequestContext, node: Node) -> None:
    ticket = node.groups.submit(command, _respond, call)
    call.hold()
    # Its member stays, as in Kafka, which does not notice; only the answer has nobody to go to.
    call.on_gone(partial(node.groups.forget, ticket))


def _respond(call: RequestContext, result: Synced) -> None:
    call.reply(make(SyncReply, (*result, NO_THROTTLE)))
