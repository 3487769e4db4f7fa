"""Assignors as strategies of aiokafka's consumers (`partition_assignment_strategy`).

    AIOKafkaConsumer(…, partition_assignment_strategy=[StickyAssignor()])
    AIOKafkaConsumer(…, partition_assignment_strategy=[as_aiokafka(MyAssignor(), client_rack="a")])

Members send what Java's consumers send (version 3 of the consumer protocol), except for the
generation, which aiokafka does not expose to strategies. aiokafka decodes member metadata as v0, so
leaders see neither racks nor instance ids.
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

from .client_adapter import VERSION, ClientAdapter, by_topic, topics_of
from .model import NO_GENERATION, Assignor, Subscription
from .resolve import BUILTIN


def as_aiokafka(assignor: Assignor, client_rack: str | None = None) -> AbstractPartitionAssignor:
    """Return a strategy for one consumer; the strategy stores the consumer's assignment.
    `client_rack` is the consumer's rack, which aiokafka does not pass to strategies. Raises
    ValueError for a cooperative assignor."""
    if assignor.cooperative:
        raise ValueError(
            f"aiokafka does not support cooperative assignors such as {assignor.name}: leaders "
            "cannot read owned partitions, and members revoke everything before each join. "
            "Use sticky instead."
        )
    return _Strategy(assignor, client_rack)


class _Factory(partial[AbstractPartitionAssignor]):
    """A factory of strategies. aiokafka uses strategy objects as given, so the caller must create
    one for each consumer."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"no attribute {name}: call the strategy, as in partition_assignment_strategy="
            "[StickyAssignor()]; each consumer needs its own object"
        )


RangeAssignor = _Factory(as_aiokafka, BUILTIN["range"])
RoundRobinAssignor = _Factory(as_aiokafka, BUILTIN["roundrobin"])
StickyAssignor = _Factory(as_aiokafka, BUILTIN["sticky"])


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
    """A strategy with the state of one consumer. (aiokafka's own strategies are classes with class
    methods, whose state consumers would share.)"""

    def __init__(self, assignor: Assignor, client_rack: str | None) -> None:
        self._adapter = ClientAdapter(assignor, client_rack)

    @property
    def name(self) -> str:
        return self._adapter.assignor.name

    def metadata(  # type: ignore[override]
        self, topics: Iterable[str]
    ) -> ConsumerProtocolMemberMetadata:
        subscription = self._adapter.subscription(topics)
        return _SubscriptionV3(
            VERSION,
            list(subscription.topics),
            subscription.user_data,
            by_topic(subscription.owned_partitions),
            NO_GENERATION,
            subscription.rack_id,
        )

    def on_assignment(  # type: ignore[override]
        self, assignment: ConsumerProtocolMemberAssignment
    ) -> None:
        self._adapter.on_assignment(assignment.partitions(), NO_GENERATION)

    def assign(  # type: ignore[override]
        self, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        subscriptions = {
            member: Subscription(tuple(metadata.subscription), user_data=metadata.user_data)
            for member, metadata in members.items()
        }
        topics = topics_of(cluster, subscriptions.values(), lambda partition: partition.replicas)
        return {
            member: ConsumerProtocolMemberAssignment(VERSION, assigned, None)
            for member, assigned in self._adapter.assign(topics, subscriptions).items()
        }
