"""JoinGroup (key 11).

v1 rebalance_timeout · v2 throttle_time · v4 two-step join (KIP-394) · v5 group_instance_id ·
v6 flexible · v7 protocol_type, nullable protocol_name · v8 reason (KIP-800) · v9 skip_assignment.
"""

from functools import partial
from typing import Final

from ...coordinator.commands import JoinGroup, JoinResult, join_error
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..network.request import RequestContext, milliseconds
from .authorization import allows_group, topic_filter

MUTES_CHANNEL: Final = True


def handle(context: RequestContext, node: Node) -> None:
    command: JoinGroup | None = context.prepared
    if command is None:
        if not allows_group(context, node, AclOperation.READ, context.request.group_id):
            _respond(context, join_error(ErrorCode.group_authorization_failed))
            return
        command = _command(context, node)
        config = node.group_config
        min_ms, max_ms = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if command.group_id and not min_ms <= command.session_timeout_ms <= max_ms:
            # Validated on every node, whether or not it coordinates the group
            # (GroupCoordinatorService.joinGroup).
            _respond(context, join_error(ErrorCode.invalid_session_timeout, command.member_id))
            return
        if command.member_id:  # each join without a member id creates a new member
            context.prepared = command
    elif command.client_software != context.client.software:
        command = command._replace(client_software=context.client.software)
    ticket = node.coordinators.submit(command, _respond, context)
    context.mute_channel()
    # As in Kafka, the member stays in the group although its response cannot be delivered.
    context.on_disconnect(partial(node.coordinators.forget, ticket))


def _command(context: RequestContext, node: Node) -> JoinGroup:
    request, version = context.request, context.version
    session_timeout_ms = milliseconds(request.session_timeout)
    return JoinGroup(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None),
        client_id=context.client_id,
        client_host=context.client_host,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=(
            milliseconds(request.rebalance_timeout) if version >= 1 else session_timeout_ms
        ),
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        requires_known_member_id=version >= 4,
        supports_skip_assignment=version >= 9,
        reason=getattr(request, "reason", None),
        client_software=context.client.software,
        describes_topic=topic_filter(context, node),
    )


def _respond(context: RequestContext, result: JoinResult) -> None:
    if not result.protocol_name:
        # Null since v7, empty before (upstream: JoinGroupResponse).
        result = result._replace(protocol_name=None if context.version >= 7 else "")
    context.respond(result)
