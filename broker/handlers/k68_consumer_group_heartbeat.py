"""ConsumerGroupHeartbeat (key 68, KIP-848).

v1 subscribed_topic_regex, member ids chosen by clients (KIP-1082).
"""

from collections.abc import Generator, Iterable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

from ...coordinator.commands import (
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatResult,
    consumer_heartbeat_error,
)
from ...coordinator.consumer.heartbeat import validate_heartbeat
from ...offsets.records import TargetAssignment, TopicPartitions
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..gather import Gather
from ..network.request import EncodedResponse, Message, RequestContext, in_slices, milliseconds
from .authorization import allows_group, allows_topic, topic_filter


def handle(context: RequestContext, node: Node) -> None:
    keep_alive: KeepAlive | None = context.prepared
    if keep_alive is not None:
        keep_alive.submit(context, node)
    else:
        _handle(context, node)


@in_slices
def _handle(context: RequestContext, node: Node) -> Iterator[None]:
    if not node.group_config.serves_consumer_groups:
        _respond(context, consumer_heartbeat_error(ErrorCode.unsupported_version))
        return
    denied = yield from _denied(context, node)
    if denied is not None:
        _respond(context, consumer_heartbeat_error(denied))
        return
    command = _command(context, node)
    invalid = validate_heartbeat(command, node.group_config.consumer_group_assignors)
    if invalid is not None:
        _respond(context, invalid)
        return
    if command.keeps_alive:
        keep_alive = context.prepared = KeepAlive(command)
        keep_alive.submit(context, node)
        return
    node.coordinators.submit(command, _respond, context)


def _denied(context: RequestContext, node: Node) -> Generator[None, None, ErrorCode | None]:
    request = context.request
    if not allows_group(context, node, AclOperation.READ, request.group_id):
        return ErrorCode.group_authorization_failed
    if node.security.authorizer is None:
        return None
    denied = None
    for name in dict.fromkeys(request.subscribed_topic_names or ()):
        if not allows_topic(context, node, AclOperation.DESCRIBE, name):
            denied = ErrorCode.topic_authorization_failed
        yield
    return denied


def _command(context: RequestContext, node: Node) -> ConsumerGroupHeartbeat:
    request = context.request
    names = request.subscribed_topic_names
    owned = request.topic_partitions
    return ConsumerGroupHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        subscribed_topic_names=None if names is None else tuple(names),
        subscribed_topic_regex=getattr(request, "subscribed_topic_regex", None),
        server_assignor=request.server_assignor,
        owned=None if owned is None else _owned(owned),
        client_id=context.client_id,
        client_host=context.client_host,
        client_software=context.client.software,
        requires_member_id=context.version >= 1,
        describes_topic=topic_filter(context, node),
    )


def _owned(topics: Iterable[Any]) -> tuple[TopicPartitions, ...]:
    """Return the owned partitions. Several items of the request may belong to the same topic."""
    owned: dict[Any, list[int]] = {}
    for topic in topics:
        owned.setdefault(topic.topic_id, []).extend(topic.partitions)
    return tuple(TopicPartitions(topic_id, tuple(each)) for topic_id, each in owned.items())


class KeepAlive:
    """A heartbeat without changes, which members repeat. Contains the command and the encoded
    response, which is rebuilt only when the result differs."""

    __slots__ = ("_command", "_encoded", "_result")

    def __init__(self, command: ConsumerGroupHeartbeat) -> None:
        self._command = command
        self._result: ConsumerHeartbeatResult | None = None
        self._encoded: EncodedResponse | None = None

    def submit(self, context: RequestContext, node: Node) -> None:
        count = len(context.correlation_ids)
        if count == 1:
            node.coordinators.submit(self._command, self._respond, context)
            return
        # Pipelined heartbeats are decided one by one, because the first may change the member.
        results = Gather(count, partial(_respond_each, context))
        for index in range(count):
            node.coordinators.submit(self._command, results.put, index)

    def _respond(self, context: RequestContext, result: ConsumerHeartbeatResult) -> None:
        if result.error_code is not ErrorCode.none or result.assignment is not None:
            _respond(context, result)  # also handles a message that is too long
            return
        if self._encoded is None or result != self._result:
            self._result, self._encoded = result, context.encode(_response(result))
        context.respond_encoded(self._encoded)


def _respond(context: RequestContext, result: ConsumerHeartbeatResult) -> None:
    context.respond(_response(result))


def _respond_each(context: RequestContext, results: Iterable[ConsumerHeartbeatResult]) -> None:
    context.respond_each([_response(result) for result in results])


def _response(result: ConsumerHeartbeatResult) -> Message:
    assignment = None if result.assignment is None else TargetAssignment(result.assignment)
    return Message(
        error_code=result.error_code,
        error_message=result.error_message,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval=timedelta(milliseconds=result.heartbeat_interval_ms),
        assignment=assignment,
    )
