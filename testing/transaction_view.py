"""Transactions as seen by their coordinators and partitions. Runs on the broker's loop."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..broker.broker import Broker
from ..broker.cluster import Node
from ..broker.runtime.context import CoordinatorState
from ..coordinator.transactions.states import ONGOING, PREPARED
from ..coordinator.transactions.states import Transaction as CoordinatedTransaction
from ..topics.names import TRANSACTION_TOPIC
from .lifecycle import BrokerHost
from .recorded_request import TopicPartition


@dataclass(frozen=True, slots=True)
class Transaction:
    """The current or last transaction of a transactional id."""

    transactional_id: str
    state: str
    """Kafka's name for the state: `Empty`, `Ongoing`, `PrepareCommit`, `PrepareAbort`,
    `CompleteCommit` or `CompleteAbort`."""
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    """The partitions of a transaction that has not ended, including partitions of
    `__consumer_offsets` if the transaction commits offsets."""
    age_ms: int | None
    """The time since the current transaction began, by the broker's clock; None if there is
    none."""
    timeout_ms: int
    """The producer's transaction.timeout.ms."""
    updated_ms: int
    """When the state last changed, by the broker's clock."""
    node_id: int
    """The node of the coordinator."""


def transaction_node(broker: Broker, transactional_id: str) -> Node:
    """Return the node that coordinates the transactional id; the first node if the partition of
    `__transaction_state` does not exist yet or has no leader."""
    partition = broker.node.transactions.partition_of(transactional_id)
    return broker.cluster.leader_of(TRANSACTION_TOPIC, partition) or broker.node


def transactions_of(host: BrokerHost) -> dict[str, Transaction]:
    """Return all transactions by transactional id, sorted."""
    now_ms = host.clock.now_ms()
    found = {
        transactional_id: _view(transaction, node.node_id, now_ms)
        for node in host.broker.cluster.nodes.values()
        for context in node.transactions.contexts.values()
        if context.state is CoordinatorState.ACTIVE
        for transactional_id, transaction in context.coordinator.transactions.items()
    }
    return dict(sorted(found.items()))


def _view(transaction: CoordinatedTransaction, node_id: int, now_ms: int) -> Transaction:
    metadata, state = transaction.metadata, transaction.state
    has_begun = state is ONGOING or state in PREPARED
    return Transaction(
        transaction.transactional_id,
        state.text,
        metadata.producer_id,
        metadata.producer_epoch,
        tuple(sorted(transaction.partitions)),
        now_ms - metadata.start_ms if has_begun else None,
        metadata.timeout_ms,
        metadata.last_update_ms,
        node_id,
    )


def open_producers(broker: Broker, partition: TopicPartition) -> Iterator[tuple[int, int]]:
    """Yield (producer id, first offset) of each open transaction in a partition, in offset
    order."""
    found = broker.node.topics.partition(*partition)
    if found is not None:
        yield from sorted(found.log.producers.open_transactions, key=lambda each: each[1])
