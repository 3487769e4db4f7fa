"""What the adapters to client libraries share: one member's side of an assignor.

A library asks its strategy for the member's subscription before each join, tells it what the member
was given, and has it share out the group's partitions where the member leads. Neither library is
imported here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

from .model import Assignment, Assignor, Subscription, TopicPartition, Topics

VERSION = 3
"""Of ConsumerProtocolSubscription and -Assignment, which Java writes: the highest that there is."""
NO_GENERATION = -1

ByTopic: TypeAlias = list[tuple[str, list[int]]]


class Plugged:
    """An assignor, and what Java's strategies remember between two joins of their member."""

    def __init__(self, assignor: Assignor, client_rack: str | None) -> None:
        self.assignor = assignor
        self._rack = client_rack or None
        self._given: tuple[TopicPartition, ...] = ()
        self._given_in: int | None = None

    def remember(self, given: Iterable[tuple[str, int]], generation: int) -> None:
        self._given = tuple(sorted((topic, partition) for topic, partition in given))
        self._given_in = generation

    def subscription(
        self,
        topics: Iterable[str],
        owned: Iterable[tuple[str, int]] = (),
        generation: int = NO_GENERATION,
    ) -> Subscription:
        """What the member tells its leader, in Java's order. `owned` is what it keeps while the
        group rebalances, so nothing in eager rebalances, whose strategies remember in user data."""
        wanted = tuple(sorted(topics))
        return Subscription(
            topics=wanted,
            owned=tuple(sorted((topic, partition) for topic, partition in owned)),
            generation=None if generation < 0 else generation,
            rack=self._rack,
            user_data=self.assignor.user_data(wanted, self._given, self._given_in),
        )

    def share(self, topics: Topics, members: Mapping[str, Subscription]) -> dict[str, ByTopic]:
        """ValueError, KeyError: an assignor that may not do what it did, or forgot a member."""
        shares = self.assignor.assign(topics, members)
        if self.assignor.cooperative:
            _refuse_what_is_not_given_back(self.assignor.name, shares, members)
        return {member: by_topic(shares[member]) for member in members}


def _refuse_what_is_not_given_back(
    name: str, shares: Assignment, members: Mapping[str, Subscription]
) -> None:
    """As Java's leader does (ConsumerCoordinator.validateCooperativeAssignment), but that only who
    was there in the newest generation owns what it claims.
    """
    newest = max((told.generation or 0 for told in members.values()), default=0)
    owned = {member: set(t.owned) for member, t in members.items() if t.generation == newest}
    taken = {place for member, claim in owned.items() for place in claim - set(shares[member])}
    for member, share in shares.items():
        if early := taken.intersection(share) - owned.get(member, set()):
            raise ValueError(
                f"{name} is cooperative and gave {member} what another member still owns: "
                f"{sorted(early)}. Give it to nobody in this round: its owner gives it back and "
                "joins again, and the next round may give it to anybody."
            )


def by_topic(partitions: Iterable[TopicPartition]) -> ByTopic:
    """Both in order, as Java writes what a member owns."""
    grouped = groupby(sorted(partitions), key=itemgetter(0))
    return [(topic, [partition for _, partition in places]) for topic, places in grouped]


def topics_of(
    cluster: Any, members: Iterable[Subscription], replicas: Callable[[Any], Sequence[int]]
) -> Topics:
    """What the leader's library knows of the topics that `members` want.

    `cluster` is the ClusterMetadata of either library, and `replicas` says which nodes a partition
    of its metadata is on. Racks are left out where no node tells one: they cannot matter then.
    """
    known = cluster._partitions  # replaced as a whole, never changed; nothing public has replicas
    topics = sorted({topic for member in members for topic in member.topics} & known.keys())
    tell_racks = any(node.rack for node in cluster.brokers())

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
            if tell_racks
        },
    )
