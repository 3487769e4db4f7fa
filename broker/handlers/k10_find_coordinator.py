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
from ..call import Call
from ..node import Node
from .reply import NO_THROTTLE

GROUP, TRANSACTION = 0, 1


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


def handle(call: Call, node: Node) -> None:
    key_type = getattr(call.request, "key_type", GROUP)
    if key_type == TRANSACTION:
        # Transactions are not served, but a refusal here is retried by librdkafka until its time
        # is up. InitProducerId, which the client sends next, says so in words it takes as final.
        _answer(call, lambda _key: node)
    elif key_type == GROUP:
        node.topics.ensure_offsets_topic()
        node.topics.settled(partial(_found, call, node))
    else:
        refused = "kohort coordinates groups only, no share groups."
        _answer(call, lambda _key: None, ErrorCode.invalid_request, refused)


def _found(call: Call, node: Node, error: OSError | None) -> None:
    if error is not None:
        # The offsets topic could not be made; clients look again.
        _answer(call, lambda _key: None)
        return
    cluster, partition_of = node.cluster, node.groups.partition_of
    _answer(call, lambda key: cluster.leader_of(OFFSETS_TOPIC, partition_of(key)))


def _answer(
    call: Call,
    coordinator: Callable[[str], Node | None],
    missing: ErrorCode = ErrorCode.coordinator_not_available,
    message: str | None = None,
) -> None:
    """`missing` and `message`: for a key that has no coordinator."""
    # v1-3 say NONE in words as well (upstream: FindCoordinatorResponse.prepareOldResponse).
    found_message = "" if call.version >= 4 else "NONE"
    if message is None:
        message = "" if call.version >= 4 else "The coordinator is not available."

    def reply(key: str) -> CoordinatorReply:
        node = coordinator(key)
        if node is None:
            return CoordinatorReply(key, -1, "", -1, missing, message)
        return CoordinatorReply(key, node.node_id, *node.address, ErrorCode.none, found_message)

    if call.version >= 4:
        call.reply(FindCoordinatorReply([reply(key) for key in call.request.coordinator_keys]))
    else:
        call.reply(reply(call.request.key))
