"""FindCoordinator (key 10).

v1 key_type, throttle_time, error_message · v3 flexible · v4 several keys (KIP-699) ·
v5 TRANSACTION_ABORTABLE may be answered · v6 share coordinators (KIP-932).
"""

from datetime import timedelta
from functools import partial
from typing import NamedTuple

from ...protocol.errors import ErrorCode
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
        _found(call, node, None)
    elif key_type == GROUP:
        node.topics.ensure_offsets_topic()
        node.topics.settled(partial(_found, call, node))
    else:
        refused = "kohort coordinates groups only, no share groups."
        _answer(call, ("", -1), -1, ErrorCode.invalid_request, refused)


def _found(call: Call, node: Node, error: OSError | None) -> None:
    if error is not None:
        # The offsets topic could not be made; clients look again.
        message = "The coordinator is not available."
        _answer(call, ("", -1), -1, ErrorCode.coordinator_not_available, message)
        return
    # v1-3 say NONE in words as well (upstream: FindCoordinatorResponse.prepareOldResponse).
    message = "" if call.version >= 4 else "NONE"
    _answer(call, node.address, node.node_id, ErrorCode.none, message)


def _answer(
    call: Call, address: tuple[str, int], node_id: int, error: ErrorCode, message: str
) -> None:
    host, port = address
    if call.version >= 4:
        keys = call.request.coordinator_keys
        found = [CoordinatorReply(key, node_id, host, port, error, message) for key in keys]
        call.reply(FindCoordinatorReply(found))
    else:
        call.reply(CoordinatorReply(call.request.key, node_id, host, port, error, message))
