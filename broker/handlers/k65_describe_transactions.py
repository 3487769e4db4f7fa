"""DescribeTransactions (key 65, KIP-664). Always flexible.

There are no transactions (docs/not-implemented.md): every transactional id is unknown.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..request import Message, RequestContext, in_slices


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:  # noqa: ARG001
    responses = []
    for each in context.request.transactional_ids:
        responses.append(_response(each))
        yield
    context.respond(Message(transaction_states=responses))


def _response(transactional_id: str) -> Message:
    """All other fields are zero or empty, as in Kafka for an unknown id."""
    unknown, invalid = ErrorCode.transactional_id_not_found, ErrorCode.invalid_request
    return Message(
        error_code=unknown if transactional_id else invalid,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout=timedelta(0),
        transaction_start_time=datetime.fromtimestamp(0, UTC),
        producer_id=0,
        producer_epoch=0,
        topics=(),
    )
