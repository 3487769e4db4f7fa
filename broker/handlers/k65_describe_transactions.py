"""DescribeTransactions (key 65, KIP-664). Always flexible."""

from datetime import UTC, datetime, timedelta
from functools import partial

from ...coordinator.transactions.commands import DescribeTransaction, TransactionDescription
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..gather import Gather
from ..request import Message, RequestContext
from .authorization import allows_topic, allows_transactional_id
from .transactions import submit


def handle(context: RequestContext, node: Node) -> None:
    ids = context.request.transactional_ids

    def respond(descriptions: list[TransactionDescription]) -> None:
        states = [_response(context, node, each) for each in descriptions]
        context.respond(Message(transaction_states=states))

    results = Gather(len(ids), respond)
    for place, each in enumerate(ids):
        if allows_transactional_id(context, node, AclOperation.DESCRIBE, each):
            submit(node, DescribeTransaction(each), partial(_put, results), place)
        else:
            error = ErrorCode.transactional_id_authorization_failed
            results.put(place, TransactionDescription(error, each))


def _put(results: Gather, place: int, description: TransactionDescription) -> None:
    results.put(place, description)


def _response(context: RequestContext, node: Node, description: TransactionDescription) -> Message:
    """Fields are zero or empty if there is an error, as in Kafka. Topics that the client may not
    describe are omitted."""
    error, transactional_id, state, timeout_ms, start_ms, *_ = description
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(description.partitions):
        topics.setdefault(topic, []).append(index)
    return Message(
        error_code=error,
        transactional_id=transactional_id,
        transaction_state=state.text if error is ErrorCode.none else "",
        transaction_timeout=timedelta(milliseconds=timeout_ms),
        # A transaction that has not begun has the start time -1.
        transaction_start_time=datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=start_ms),
        producer_id=description.producer_id,
        producer_epoch=description.producer_epoch,
        topics=[
            Message(topic=topic, partitions=indexes)
            for topic, indexes in topics.items()
            if allows_topic(context, node, AclOperation.DESCRIBE, topic, reports=False)
        ],
    )
