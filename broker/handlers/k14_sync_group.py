"""SyncGroup (key 14).

v1 throttle_time · v3 group_instance_id · v4 flexible · v5 protocol_type, protocol_name (KIP-559).
"""

from functools import partial
from typing import Any, Final

from ...coordinator.commands import SyncGroup, sync_error
from ...coordinator.outcome import make
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..network.request import RequestContext
from .authorization import allows_group

VARYING_FIELD: Final = "generation_id"
MUTES_CHANNEL: Final = True


def handle(context: RequestContext, node: Node) -> None:
    command: SyncGroup | None = context.prepared
    if command is not None:
        ((generation_id,),) = context.numbers
        command = make(SyncGroup, (command[0], generation_id, *command[2:]))
    elif context.version >= 5 and not _has_protocol(context.request):
        context.respond(sync_error(ErrorCode.inconsistent_group_protocol))
        return
    elif not allows_group(context, node, AclOperation.READ, context.request.group_id):
        context.respond(sync_error(ErrorCode.group_authorization_failed))
        return
    else:
        command = _command(context.request)
        if not command.assignments:  # not cached, because a leader's assignments differ each time
            context.prepared = command
    ticket = node.coordinators.submit(command, RequestContext.respond, context)
    context.mute_channel()
    # As in Kafka, the member stays in the group, and only its response is dropped.
    context.on_disconnect(partial(node.coordinators.forget, ticket))


def _has_protocol(request: Any) -> bool:
    """Whether protocol type and name are set, which is mandatory since v5, although the schema
    allows null (upstream: KafkaApis, KIP-559)."""
    return request.protocol_type is not None and request.protocol_name is not None


def _command(request: Any) -> SyncGroup:
    return SyncGroup(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None),
        protocol_type=getattr(request, "protocol_type", None),
        protocol_name=getattr(request, "protocol_name", None),
        assignments=tuple((a.member_id, a.assignment) for a in request.assignments),
    )
