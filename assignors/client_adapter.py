"""What the strategies for kafka-python and aiokafka share: an assignor, as used by one member.

A strategy calls subscription() before each join, on_assignment() after it, and assign() on the
leader. This module imports neither library.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias

from .model import NO_GENERATION, Assignment, Assignor, Subscription, TopicPartition, Topics

VERSION: Final = 3
"""The highest version of ConsumerProtocolSubscription and ConsumerProtocolAssignment."""

ByTopic: TypeAlias = list[tuple[str, list[int]]]


class ClientAdapter:
    """An assignor, and the state that Java's assignors keep between the joins of a member."""

    def __init__(self, assignor: Assignor, client_rack: str | None) -> None:
        self.assignor = assignor
        self._rack_id = client_rack or None
        self._assigned: tuple[TopicPartition, ...] = ()
        self._assigned_in: int | None = None

    def on_assignment(self, assigned: Iterable[tuple[str, int]], generation_id: int) -> None:
        self._assigned = tuple(sorted((topic, partition) for topic, partition in assigned))
        self._assigned_in = generation_id

    def subscription(
        self,
        topics: Iterable[str],
        owned_partitions: Iterable[tuple[str, int]] = (),
        generation_id: int = NO_GENERATION,
    ) -> Subscription:
        """Return the member's subscription, with topics and partitions in Java's order.
        `owned_partitions` are the partitions that the member keeps during the rebalance; empty with
        eager assignors."""
        subscribed = tuple(sorted(topics))
        return Subscription(
            topics=subscribed,
            owned_partitions=tuple(sorted((topic, number) for topic, number in owned_partitions)),
            generation_id=None if generation_id < 0 else generation_id,
            rack_id=self._rack_id,
            user_data=self.assignor.subscription_user_data(
                subscribed, self._assigned, self._assigned_in
            ),
        )

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> dict[str, ByTopic]:
        """Return the partitions of each member by topic. Raises KeyError if the assignor omits a
        member, and ValueError if the result is invalid for a cooperative assignor."""
        assignment = self.assignor.assign(topics, members)
        if self.assignor.cooperative:
            _validate(self.assignor.name, assignment, members)
        return {member: by_topic(assignment[member]) for member in members}


def _validate(name: str, assignment: Assignment, members: Mapping[str, Subscription]) -> None:
    """Validate a cooperative assignment like ConsumerCoordinator.validateCooperativeAssignment, but
    ignore stale claims (claims from older generations)."""
    newest = max((member.generation_id or 0 for member in members.values()), default=0)
    owned = {
        name: set(member.owned_partitions)
        for name, member in members.items()
        if member.generation_id == newest
    }
    revoked = {p for member, claim in owned.items() for p in claim - set(assignment[member])}
    for member, partitions in assignment.items():
        if early := revoked.intersection(partitions) - owned.get(member, set()):
            raise ValueError(
                f"cooperative assignor {name} assigned partitions that another member still owns "
                f"to {member}: {sorted(early)}. Leave them unassigned: their owner revokes them "
                "and rejoins, and the next rebalance may assign them."
            )


def by_topic(partitions: Iterable[TopicPartition]) -> ByTopic:
    """Group partitions by topic, in the order in which Java writes owned partitions."""
    grouped = groupby(sorted(partitions), key=itemgetter(0))
    return [(topic, [number for _, number in of_topic]) for topic, of_topic in grouped]


def topics_of(
    cluster: Any, members: Iterable[Subscription], replicas: Callable[[Any], Sequence[int]]
) -> Topics:
    """Return the metadata of the topics that `members` subscribe to. `cluster` is the
    ClusterMetadata of either library, and `replicas` returns the node ids of a partition's
    metadata. Racks are omitted if no node has one, because they then have no effect."""
    # No public attribute contains replicas. The libraries replace this dict, but never modify it.
    known = cluster._partitions
    topics = sorted({topic for member in members for topic in member.topics} & known.keys())
    has_racks = any(node.rack for node in cluster.brokers())

    def rack(node_id: int) -> str | None:
        node = cluster.broker_metadata(node_id)
        return node.rack or None if node else None

    return Topics(
        partitions={topic: len(known[topic]) for topic in topics},
        replica_racks={
            topic: [
                [rack(node_id) for node_id in replicas(known[topic][partition])]
                for partition in sorted(known[topic])
            ]
            for topic in topics
            if has_racks
        },
    )
