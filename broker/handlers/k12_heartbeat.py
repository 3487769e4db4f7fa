"""Heartbeat (key 12).

v1 throttle_time · v3 group_instance_id · v4 flexible.
"""

from typing import NamedTuple

from ...coordinator.commands import Heartbeat, HeartbeatResult
from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..request import RequestContext


class HeartbeatResponse(NamedTuple):
    error_code: ErrorCode


def handle(context: RequestContext, node: Node) -> None:
    command: Heartbeat | None = context.prepared
    if command is None:
        request = context.request
        command = context.prepared = Heartbeat(
            request.group_id,
            request.generation_id,
            request.member_id,
            getattr(request, "group_instance_id", None),
        )
    node.coordinators.submit(command, _respond, context)


def _respond(context: RequestContext, result: HeartbeatResult) -> None:
    context.respond(HeartbeatResponse(result.error))
