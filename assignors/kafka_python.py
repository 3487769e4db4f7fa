"""Assignors as strategies of kafka-python's consumers (`partition_assignment_strategy`).

    KafkaConsumer(…, partition_assignment_strategy=[CooperativeStickyAssignor])
    KafkaConsumer(…, partition_assignment_strategy=[as_kafka_python(MyAssignor(), client_rack="a")])

Members send what Java's consumers send: version 3 of the consumer protocol.
"""

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

try:
    from kafka.cluster import ClusterMetadata
    from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
    from kafka.protocol.consumer.metadata import (
        ConsumerProtocolAssignment,
        ConsumerProtocolSubscription,
    )
except ImportError as error:
    raise ImportError("requires kafka-python 3: pip install 'kafka-python>=3'") from error

from .client_adapter import VERSION, ClientAdapter, by_topic, topics_of
from .model import Assignor, Subscription
from .resolve import BUILTIN


def as_kafka_python(
    assignor: Assignor, client_rack: str | None = None
) -> AbstractPartitionAssignor:
    """Return a strategy for one consumer; the strategy stores the consumer's assignment.
    `client_rack` is the consumer's rack, which kafka-python does not pass to strategies."""
    return _Strategy(assignor, client_rack)


# kafka-python calls these factories, as it would call a class, once for each consumer.
RangeAssignor = partial(as_kafka_python, BUILTIN["range"])
RoundRobinAssignor = partial(as_kafka_python, BUILTIN["roundrobin"])
StickyAssignor = partial(as_kafka_python, BUILTIN["sticky"])
CooperativeStickyAssignor = partial(as_kafka_python, BUILTIN["cooperative-sticky"])


class _Strategy(AbstractPartitionAssignor):
    def __init__(self, assignor: Assignor, client_rack: str | None) -> None:
        self._adapter = ClientAdapter(assignor, client_rack)

    @property
    def name(self) -> str:
        return self._adapter.assignor.name

    def supported_protocols(self) -> list[RebalanceProtocol]:
        if self._adapter.assignor.cooperative:
            # Both protocols, as in Java. In a group with an eager strategy, the member rebalances
            # eagerly, which is how a group migrates from one protocol to the other (KIP-429).
            return [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]
        return [RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolSubscription:
        # kafka-python reports new assignments to a strategy, but not the loss of an assignment
        # (removal from the group, unsubscribing). A partition that is claimed but not owned would
        # never be reassigned. So, as in Java, members claim what their consumer owns. Only the
        # caller of this method, kafka-python's coordinator, holds that state.
        coordinator = sys._getframe(1).f_locals["self"]
        cooperative = coordinator._rebalance_protocol is RebalanceProtocol.COOPERATIVE
        owned = coordinator._subscription.assigned_partitions() if cooperative else ()
        generation_id = coordinator._generation.generation_id
        subscription = self._adapter.subscription(topics, owned, generation_id)
        topic_partition = ConsumerProtocolSubscription.TopicPartition
        return ConsumerProtocolSubscription(
            version=VERSION,
            topics=list(subscription.topics),
            user_data=subscription.user_data,
            owned_partitions=[
                topic_partition(version=VERSION, topic=topic, partitions=partitions)
                for topic, partitions in by_topic(subscription.owned_partitions)
            ],
            generation_id=generation_id,
            rack_id=subscription.rack_id,
        )

    def on_assignment(self, assignment: Any, generation: int) -> None:
        self._adapter.on_assignment(assignment.partitions(), generation)

    def assign(
        self, cluster: ClusterMetadata, members: Sequence[Any]
    ) -> dict[str, ConsumerProtocolAssignment]:
        subscriptions = {m.member_id: _decode(m.metadata, m.group_instance_id) for m in members}
        topics = topics_of(cluster, subscriptions.values(), lambda each: each.replica_nodes)
        topic_partition = ConsumerProtocolAssignment.TopicPartition
        return {
            member: ConsumerProtocolAssignment(
                version=VERSION,
                assigned_partitions=[
                    topic_partition(version=VERSION, topic=topic, partitions=partitions)
                    for topic, partitions in assigned
                ],
                user_data=None,
            )
            for member, assigned in self._adapter.assign(topics, subscriptions).items()
        }


def _decode(metadata: Any, group_instance_id: str | None) -> Subscription:
    """Decode metadata of any version. Missing fields get kafka-python's defaults."""
    return Subscription(
        topics=tuple(metadata.topics),
        owned_partitions=tuple(
            (topic, partition)
            for topic, partitions in metadata.owned_partitions or ()
            for partition in partitions
        ),
        generation_id=None if metadata.generation_id < 0 else metadata.generation_id,
        rack_id=metadata.rack_id or None,
        user_data=metadata.user_data,
        group_instance_id=group_instance_id,
    )
