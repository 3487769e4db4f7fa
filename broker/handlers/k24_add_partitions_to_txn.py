"""AddPartitionsToTxn (key 24), sent by clients up to v3 and by brokers since v4.

v2 PRODUCER_FENCED · v3 flexible · v4 several transactions, verify_only (KIP-890) ·
v5 TRANSACTION_ABORTABLE.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from ...coordinator.transactions.commands import AddPartitions, PartitionsResult
from ...coordinator.transactions.states import EPOCH_BUMP_VERSION, TopicPartition
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ...topics.names import is_internal
from ..cluster import Node
from ..gather import Gather
from ..network.request import Message, RequestContext, in_slices
from .authorization import allows_cluster, allows_topic, allows_transactional_id
from .transactions import submit

# Since this version, only brokers send the request.
BROKERS_SINCE = 4


Done: TypeAlias = Callable[["TransactionResponse"], None]


class PartitionResponse(NamedTuple):
    partition_index: int
    partition_error_code: ErrorCode


class TopicResponse(NamedTuple):
    name: str
    results_by_partition: Sequence[PartitionResponse]


class TransactionResponse(NamedTuple):
    transactional_id: str
    topic_results: Sequence[TopicResponse]


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    request = context.request
    if context.version < BROKERS_SINCE:
        transaction = Message(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
            verify_only=False,
        )

        def respond_to_client(response: TransactionResponse) -> None:
            context.respond(Message(results_by_topic_v3_and_below=response.topic_results))

        yield from _add(context, node, transaction, respond_to_client)
        return
    if not allows_cluster(context, node, AclOperation.CLUSTER_ACTION):
        error = ErrorCode.cluster_authorization_failed
        context.respond(Message(error_code=error, results_by_transaction=()))
        return
    transactions = request.transactions

    def respond(results: list[TransactionResponse]) -> None:
        context.respond(Message(error_code=ErrorCode.none, results_by_transaction=results))

    results = Gather(len(transactions), respond)
    for place, each in enumerate(transactions):
        yield from _add(context, node, each, partial(results.put, place))


def _add(context: RequestContext, node: Node, transaction: Any, done: Done) -> Iterator[None]:
    transactional_id = transaction.transactional_id
    if context.version < BROKERS_SINCE and not allows_transactional_id(
        context, node, AclOperation.WRITE, transactional_id
    ):
        error = ErrorCode.transactional_id_authorization_failed
        errors = {(t.name, index): error for t in transaction.topics for index in t.partitions}
        done(_response(transaction, errors))
        return
    errors = yield from _check_partitions(context, node, transaction)
    if any(errors.values()):
        # One invalid partition makes all partitions fail.
        not_attempted = ErrorCode.operation_not_attempted
        attempted = {p: error or not_attempted for p, error in errors.items()}
        done(_response_by_partition(transactional_id, attempted))
        return
    command = AddPartitions(
        transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        errors.keys(),
        client_version=EPOCH_BUMP_VERSION if context.version >= BROKERS_SINCE else 0,
        verify_only=transaction.verify_only,
    )

    def respond(_request: Any, result: PartitionsResult) -> None:
        error = result.error
        if error is ErrorCode.producer_fenced and context.version < 2:
            error = ErrorCode.invalid_producer_epoch
        decided = dict.fromkeys(errors, error)
        decided.update(dict.fromkeys(result.missing, ErrorCode.transaction_abortable))
        if transaction.verify_only:
            done(_response_by_partition(transactional_id, decided))
        else:
            done(_response(transaction, decided))

    submit(node, command, respond, None)


def _check_partitions(
    context: RequestContext, node: Node, transaction: Any
) -> Generator[None, None, dict[TopicPartition, ErrorCode]]:
    """Return the error of each partition. Clients may not add internal topics."""
    errors: dict[TopicPartition, ErrorCode] = {}
    for topic in transaction.topics:
        yield
        is_allowed = context.version >= BROKERS_SINCE or (
            not is_internal(topic.name)
            and allows_topic(context, node, AclOperation.WRITE, topic.name)
        )
        for index in topic.partitions:
            yield
            error = ErrorCode.none
            if not is_allowed:
                error = ErrorCode.topic_authorization_failed
            elif node.topics.partition(topic.name, index) is None:
                error = ErrorCode.unknown_topic_or_partition
            errors[topic.name, index] = error
    return errors


def _response(transaction: Any, errors: Mapping[TopicPartition, ErrorCode]) -> TransactionResponse:
    """Return the response, with all topics and partitions of the request, even repeated ones."""
    responses = [
        TopicResponse(
            topic.name,
            [PartitionResponse(index, errors[topic.name, index]) for index in topic.partitions],
        )
        for topic in transaction.topics
    ]
    return TransactionResponse(transaction.transactional_id, responses)


def _response_by_partition(
    transactional_id: str, errors: Mapping[TopicPartition, ErrorCode]
) -> TransactionResponse:
    """Return a response with each partition once, and without empty topics. Upstream:
    AddPartitionsToTxnResponse.resultForTransaction, which is used if partitions are invalid or are
    only verified."""
    topics: dict[str, list[PartitionResponse]] = {}
    for (name, index), error in errors.items():
        topics.setdefault(name, []).append(PartitionResponse(index, error))
    return TransactionResponse(transactional_id, [TopicResponse(*each) for each in topics.items()])
