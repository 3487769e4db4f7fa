"""Assignors as strategies of aiokafka's consumers (`partition_assignment_strategy`).

    AIOKafkaConsumer(…, partition_assignment_strategy=[Sticky()])
    AIOKafkaConsumer(…, partition_assignment_strategy=[as_aiokafka(MyAssignor(), client_rack="a")])

What a member tells its leader is on the wire what Java's consumers write (version 3 of the consumer
protocol), but for the generation, which aiokafka keeps from its strategies. What members tell
aiokafka it reads as version 0: a leader sees their topics and user data, neither racks nor instance
ids.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NoReturn

from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from aiokafka.protocol.types import Array, Bytes, Int16, Int32, Schema, String

from .builtin import BUILTIN
from .model import Assignor, Subscription
from .plugged import NO_GENERATION, VERSION, Plugged, by_topic, topics_of


def as_aiokafka(assignor: Assignor, client_rack: str | None = None) -> AbstractPartitionAssignor:
    """A strategy for one consumer: it remembers what that consumer was given.

    `client_rack`: the consumer's own, which aiokafka does not tell its strategies.
    ValueError for a cooperative assignor.
    """
    if assignor.cooperative:
        raise ValueError(
            f"{assignor.name} is cooperative, and aiokafka is not: its leader cannot read what "
            "members own, and its members give up all they have before each join. "
            "Use sticky instead."
        )
    return _Strategy(assignor, client_rack)


class _ToBeCalled(partial[AbstractPartitionAssignor]):
    """aiokafka uses what it is given as it is, where its own strategies are classes: so each
    consumer gets one of its own, `[Sticky()]`."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"no {name}: the strategy has to be called, as in partition_assignment_strategy="
            "[Sticky()], since each consumer needs one of its own"
        )


Range = _ToBeCalled(as_aiokafka, BUILTIN["range"])
RoundRobin = _ToBeCalled(as_aiokafka, BUILTIN["roundrobin"])
Sticky = _ToBeCalled(as_aiokafka, BUILTIN["sticky"])


class _SubscriptionV3(ConsumerProtocolMemberMetadata):
    SCHEMA = Schema(
        ("version", Int16),
        ("subscription", Array(String("utf-8"))),
        ("user_data", Bytes),
        ("owned", Array(("topic", String("utf-8")), ("partitions", Array(Int32)))),
        ("generation", Int32),
        ("rack", String("utf-8")),
    )


class _Strategy(AbstractPartitionAssignor):
    """Its methods are of an instance, where aiokafka's own keep what they remember in the class,
    which all consumers of a process share."""

    def __init__(self, assignor: Assignor, client_rack: str | None) -> None:
        self._plugged = Plugged(assignor, client_rack)

    @property
    def name(self) -> str:
        return self._plugged.assignor.name

    def metadata(  # type: ignore[override]
        self, topics: Iterable[str]
    ) -> ConsumerProtocolMemberMetadata:
        told = self._plugged.subscription(topics)
        return _SubscriptionV3(
            VERSION,
            list(told.topics),
            told.user_data,
            by_topic(told.owned),
            NO_GENERATION,
            told.rack,
        )

    def on_assignment(  # type: ignore[override]
        self, assignment: ConsumerProtocolMemberAssignment
    ) -> None:
        self._plugged.remember(assignment.partitions(), NO_GENERATION)

    def assign(  # type: ignore[override]
        self, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        told = {
            member: Subscription(tuple(metadata.subscription), user_data=metadata.user_data)
            for member, metadata in members.items()
        }
        topics = topics_of(cluster, told.values(), lambda partition: partition.replicas)
        return {
            member: ConsumerProtocolMemberAssignment(VERSION, share, None)
            for member, share in self._plugged.share(topics, told).items()
        }
