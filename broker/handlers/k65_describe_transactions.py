"""DescribeTransactions (key 65, KIP-664). Always flexible.

There are no transactions (docs/not-implemented.md): every transactional id is unknown.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..request import Message, RequestContext, in_slices
from .authorization import allows_transactional_id


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    responses = []
    for each in context.request.transactional_ids:
        error = ErrorCode.transactional_id_authorization_failed
        if allows_transactional_id(context, node, AclOperation.DESCRIBE, each):
            error = ErrorCode.transactional_id_not_found if each else ErrorCode.invalid_request
        responses.append(_response(each, error))
        yield
    context.respond(Message(transaction_states=responses))


def _response(transactional_id: str, error: ErrorCode) -> Message:
    """All other fields are zero or empty, as in Kafka for an unknown id."""
    return Message(
        error_code=error,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout=timedelta(0),
        transaction_start_time=datetime.fromtimestamp(0, UTC),
        producer_id=0,
        producer_epoch=0,
        topics=(),
    )
