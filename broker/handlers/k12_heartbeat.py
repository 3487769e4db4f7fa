"""Heartbeat (key 12). v1 throttle_time · v3 group_instance_id · v4 flexible."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from ...coordinator.commands import Heartbeat
from ...coordinator.results import HeartbeatDone
from ...protocol.errors import ErrorCode
from ..node import Node
from ..request import RequestContext
from ..request_cache import Numbers, RepeatHandler
from .reply import NO_THROTTLE


class HeartbeatReply(NamedTuple):
    error_code: ErrorCode
    throttle_time: timedelta = NO_THROTTLE


def handle(call: RequestContext, node: Node) -> RepeatHandler:
    request = call.request
    command = Heartbeat(
        request.group_id,
        request.generation_id,
        request.member_id,
        getattr(request, "group_instance_id", None),
    )
    node.groups.submit(command, _respond, call)
    return partial(_again, command)


def _again(command: Heartbeat, call: RequestContext, node: Node, _: Sequence[Numbers]) -> None:
    node.groups.submit(command, _respond, call)


def _respond(call: RequestContext, result: HeartbeatDone) -> None:
    call.reply(HeartbeatReply(result.error))
