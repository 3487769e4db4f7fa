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
from ..request import RequestContext
from .reply import MESSAGES, NO_THROTTLE

GROUP, TRANSACTION, SHARE = 0, 1, 2


class CoordinatorReply(NamedTuple):
    """One key of v4 and later; the whole answer of those before."""

    key: str
    node_id: int
    host: str
    port: int
    error_code: ErrorCode
    error_message: str | None
    throttle_time: timedelta = NO_THROTTLE


class FindCoordinatorReply(NamedTuple):
    coordinators: list[CoordinatorReply]
    throttle_time: timedelta = NO_THROTTLE


def handle(call: RequestContext, node: Node) -> None:
    key_type = getattr(call.request, "key_type", GROUP)
    if key_type == TRANSACTION:
        # Transactions are not served, but a refusal here is retried by librdkafka until its time
        # is up. InitProducerId, which the client sends next, says so in words it takes as final.
        _answer(call, lambda _key: node)
    elif key_type == GROUP:
        node.topics.ensure_offsets_topic()
        node.topics.on_durable(partial(_found, call, node))
    elif key_type == SHARE:
        # As a Kafka that coordinates no share groups.
        _answer(call, lambda _key: None, ErrorCode.invalid_request)
    else:
        message = MESSAGES[ErrorCode.invalid_request]
        _answer(call, lambda _key: None, ErrorCode.invalid_request, message)


def _found(call: RequestContext, node: Node, error: OSError | None) -> None:
    if error is not None:
        # The offsets topic could not be made; clients look again.
        _answer(call, lambda _key: None)
        return
    cluster, partition_of = node.cluster, node.groups.partition_of
    _answer(call, lambda key: cluster.leader_of(OFFSETS_TOPIC, partition_of(key)))


def _answer(
    call: RequestContext,
    coordinator: Callable[[str], Node | None],
    missing: ErrorCode = ErrorCode.coordinator_not_available,
    message: str = "",
) -> None:
    """`missing`: for a key that has no coordinator; `message`: what is said of it since v4. Before,
    every answer has words, NONE too (upstream: FindCoordinatorResponse.prepareOldResponse)."""
    found_message = ""
    if call.version < 4:
        message, found_message = MESSAGES[missing], "NONE"

    def reply(key: str) -> CoordinatorReply:
        node = coordinator(key)
        if node is None:
            return CoordinatorReply(key, -1, "", -1, missing, message)
        return CoordinatorReply(key, node.node_id, *node.address, ErrorCode.none, found_message)

    if call.version >= 4:
        call.reply(FindCoordinatorReply([reply(key) for key in call.request.coordinator_keys]))
    else:
        call.reply(reply(call.request.key))
