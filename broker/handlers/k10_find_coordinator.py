"""FindCoordinator (key 10).

v1 key_type, throttle_time, error_message · v3 flexible · v4 several keys (KIP-699) ·
v5 TRANSACTION_ABORTABLE may be answered · v6 share coordinators (KIP-932).
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...topics.names import OFFSETS_TOPIC
from ..node import Node
from ..request import ERROR_MESSAGES, NO_THROTTLE, RequestContext

GROUP, TRANSACTION, SHARE = 0, 1, 2


class CoordinatorResponse(NamedTuple):
    """One key of v4 and later; the whole answer of those before."""

    key: str
    node_id: int
    host: str
    port: int
    error_code: ErrorCode
    error_message: str | None
    throttle_time: timedelta = NO_THROTTLE


class FindCoordinatorResponse(NamedTuple):
    coordinators: list[CoordinatorResponse]
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:
    key_type = getattr(context.request, "key_type", GROUP)
    if key_type == TRANSACTION:
        # Transactions are not served, but a refusal here is retried by librdkafka until its time
        # is up. InitProducerId, which the client sends next, says so in words it takes as final.
        _answer(context, lambda _key: node)
    elif key_type == GROUP:
        node.topics.ensure_offsets_topic()
        node.topics.on_durable(partial(_found, context, node))
    elif key_type == SHARE:
        # As a Kafka that coordinates no share groups.
        _answer(context, lambda _key: None, ErrorCode.invalid_request)
    else:
        message = ERROR_MESSAGES[ErrorCode.invalid_request]
        _answer(context, lambda _key: None, ErrorCode.invalid_request, message)


def _found(context: RequestContext, node: Node, error: OSError | None) -> None:
    if error is not None:
        # The offsets topic could not be made; clients look again.
        _answer(context, lambda _key: None)
        return
    cluster, partition_of = node.cluster, node.groups.partition_of
    _answer(context, lambda key: cluster.leader_of(OFFSETS_TOPIC, partition_of(key)))


def _answer(
    context: RequestContext,
    coordinator: Callable[[str], Node | None],
    missing: ErrorCode = ErrorCode.coordinator_not_available,
    message: str = "",
) -> None:
    """`missing`: for a key that has no coordinator; `message`: what is said of it since v4. Before,
    every answer has words, NONE too (upstream: FindCoordinatorResponse.prepareOldResponse)."""
    found_message = ""
    if context.version < 4:
        message, found_message = ERROR_MESSAGES[missing], "NONE"

    def reply(key: str) -> CoordinatorResponse:
        node = coordinator(key)
        if node is None:
            return CoordinatorResponse(key, -1, "", -1, missing, message)
        return CoordinatorResponse(key, node.node_id, *node.address, ErrorCode.none, found_message)

    if context.version >= 4:
        context.respond(
            FindCoordinatorResponse([reply(key) for key in context.request.coordinator_keys])
        )
    else:
        context.respond(reply(context.request.key))
