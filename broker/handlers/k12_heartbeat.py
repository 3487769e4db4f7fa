"""Heartbeat (key 12).

v1 throttle_time · v3 group_instance_id · v4 flexible.
"""

from ...coordinator.commands import Heartbeat, HeartbeatResult
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..network.request import RequestContext
from .authorization import allows_group


def handle(context: RequestContext, node: Node) -> None:
    command: Heartbeat | None = context.prepared
    if command is None:
        request = context.request
        if not allows_group(context, node, AclOperation.READ, request.group_id):
            context.respond(HeartbeatResult(ErrorCode.group_authorization_failed))
            return
        command = context.prepared = Heartbeat(
            request.group_id,
            request.generation_id,
            request.member_id,
            getattr(request, "group_instance_id", None),
        )
    node.coordinators.submit(command, RequestContext.respond, context)
