"""DescribeTransactions (key 65, KIP-664). Always flexible.

There are no transactions (docs/not-implemented.md): every transactional id is unknown.
"""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..request import RequestContext


class TransactionResponse(NamedTuple):
    """Everything but the error is zero or empty, as from Kafka for an unknown id."""

    error_code: ErrorCode
    transactional_id: str
    transaction_state: str = ""
    transaction_timeout: timedelta = timedelta(0)
    transaction_start_time: datetime = datetime.fromtimestamp(0, UTC)
    producer_id: int = 0
    producer_epoch: int = 0
    topics: tuple[()] = ()


class DescribeTransactionsResponse(NamedTuple):
    transaction_states: list[TransactionResponse]


def handle(context: RequestContext, node: Node) -> None:  # noqa: ARG001
    unknown, invalid = ErrorCode.transactional_id_not_found, ErrorCode.invalid_request
    responses = [
        TransactionResponse(unknown if transactional_id else invalid, transactional_id)
        for transactional_id in context.request.transactional_ids
    ]
    context.respond(DescribeTransactionsResponse(responses))
