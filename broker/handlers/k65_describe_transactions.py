"""DescribeTransactions (key 65, KIP-664). Always flexible."""

from collections.abc import Iterator
from datetime import timedelta

from ...coordinator.transactions.commands import DescribeTransaction, TransactionDescription
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..gather import Gather
from ..network.request import Message, RequestContext, in_slices, run_in_slices
from .authorization import allows_topic, allows_transactional_id
from .transactions import submit


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    """Describe transactions. Duplicate ids are described once, and their responses are copies."""
    ids = list(dict.fromkeys(context.request.transactional_ids))

    def respond(descriptions: list[TransactionDescription]) -> Iterator[None]:
        states = {}
        for transactional_id, each in zip(ids, descriptions, strict=True):
            states[transactional_id] = _response(context, node, each)
            yield
        requested = context.request.transactional_ids
        context.respond(Message(transaction_states=[states[each] for each in requested]))

    results = Gather(len(ids), lambda found: run_in_slices(context, node, respond(found)))
    for place, each in enumerate(ids):
        yield
        if allows_transactional_id(context, node, AclOperation.DESCRIBE, each):
            submit(node, DescribeTransaction(each), results.put, place)
        else:
            error = ErrorCode.transactional_id_authorization_failed
            results.put(place, TransactionDescription(error, each))


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
        transaction_start_time=start_ms,  # -1 before the first transaction
        producer_id=description.producer_id,
        producer_epoch=description.producer_epoch,
        topics=[
            Message(topic=topic, partitions=indexes)
            for topic, indexes in topics.items()
            if allows_topic(context, node, AclOperation.DESCRIBE, topic, reports=False)
        ],
    )
