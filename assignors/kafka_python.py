"""Assignors as strategies of kafka-python's consumers (`partition_assignment_strategy`).

    KafkaConsumer(…, partition_assignment_strategy=[CooperativeSticky])
    KafkaConsumer(…, partition_assignment_strategy=[as_kafka_python(MyAssignor(), client_rack="a")])

On the wire they are what Java's consumers write: version 3 of the consumer protocol.
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
    complaint = "these strategies are for kafka-python 3: pip install 'kafka-python>=3'"
    raise ImportError(complaint) from error

from .builtin import BUILTIN
from .model import Assignor, Subscription
from .plugged import NO_GENERATION, VERSION, Plugged, by_topic, topics_of


def as_kafka_python(
    assignor: Assignor, client_rack: str | None = None
) -> AbstractPartitionAssignor:
    """A strategy for one consumer: it remembers what that consumer was given.

    `client_rack`: the consumer's own, which kafka-python does not tell its strategies.
    """
    return _Strategy(assignor, client_rack)


# A consumer calls what is no strategy yet, so each makes one of its own of these.
Range = partial(as_kafka_python, BUILTIN["range"])
RoundRobin = partial(as_kafka_python, BUILTIN["roundrobin"])
Sticky = partial(as_kafka_python, BUILTIN["sticky"])
CooperativeSticky = partial(as_kafka_python, BUILTIN["cooperative-sticky"])


class _Strategy(AbstractPartitionAssignor):
    def __init__(self, assignor: Assignor, client_rack: str | None) -> None:
        self._plugged = Plugged(assignor, client_rack)

    @property
    def name(self) -> str:
        return self._plugged.assignor.name

    def supported_protocols(self) -> list[RebalanceProtocol]:
        if self._plugged.assignor.cooperative:
            # Both, as Java's: beside an eager strategy in one list it rebalances eagerly, which is
            # how a group goes over from one to the other (KIP-429).
            return [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]
        return [RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolSubscription:
        # kafka-python tells a strategy what its member is given, but not that the member has lost
        # it (expelled, unsubscribed). What is claimed and not owned is withheld from others, for
        # ever if nobody gives it back: so as in Java the claim is what the consumer says it owns,
        # and only the coordinator that asks us here knows that.
        coordinator = sys._getframe(1).f_locals["self"]
        cooperative = coordinator._rebalance_protocol is RebalanceProtocol.COOPERATIVE
        owned = coordinator._subscription.assigned_partitions() if cooperative else ()
        generation = coordinator._generation.generation_id
        return _encoded(self._plugged.subscription(topics, owned, generation))

    def on_assignment(self, assignment: Any, generation: int) -> None:
        self._plugged.remember(assignment.partitions(), generation)

    def assign(
        self, cluster: ClusterMetadata, members: Sequence[Any]
    ) -> dict[str, ConsumerProtocolAssignment]:
        told = {
            member.member_id: _decoded(member.metadata, member.group_instance_id)
            for member in members
        }
        topics = topics_of(cluster, told.values(), lambda partition: partition.replica_nodes)
        place = ConsumerProtocolAssignment.TopicPartition
        return {
            member: ConsumerProtocolAssignment(
                version=VERSION,
                assigned_partitions=[
                    place(version=VERSION, topic=t, partitions=ps) for t, ps in share
                ],
                user_data=None,
            )
            for member, share in self._plugged.share(topics, told).items()
        }


def _encoded(subscription: Subscription) -> ConsumerProtocolSubscription:
    place = ConsumerProtocolSubscription.TopicPartition
    generation = subscription.generation
    return ConsumerProtocolSubscription(
        version=VERSION,
        topics=list(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            place(version=VERSION, topic=t, partitions=ps) for t, ps in by_topic(subscription.owned)
        ],
        generation_id=NO_GENERATION if generation is None else generation,
        rack_id=subscription.rack,
    )


def _decoded(metadata: Any, group_instance_id: str | None) -> Subscription:
    """Of whatever version: what a member does not tell has kafka-python's default."""
    return Subscription(
        topics=tuple(metadata.topics),
        owned=tuple(
            (topic, partition)
            for topic, partitions in metadata.owned_partitions or ()
            for partition in partitions
        ),
        generation=None if metadata.generation_id < 0 else metadata.generation_id,
        rack=metadata.rack_id or None,
        user_data=metadata.user_data,
        group_instance_id=group_instance_id,
    )
