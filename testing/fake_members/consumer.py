"""A consumer's side of the group protocol: what it wants, what it owns, and how it leads."""

from collections.abc import Iterable, Sequence
from typing import Final

from ...assignors.client_adapter import ClientAdapter, by_topic
from ...assignors.model import Assignor, Subscription, TopicPartition, Topics
from ...protocol import consumer_protocol as wire
from ...topics.registry import Topics as Registry
from .role import Round


class Consumer:
    """`assignors`: the preferred one first."""

    protocol_type: Final = "consumer"
    reason: Final = "need to revoke partitions and re-join"  # Java's ConsumerCoordinator

    def __init__(self, assignors: Sequence[Assignor], topics: Iterable[str]) -> None:
        self._adapters = {each.name: ClientAdapter(each, None) for each in assignors}
        self.topics = tuple(topics)
        self.owned: tuple[TopicPartition, ...] = ()
        self._owned_in = -1

    @property
    def keeps(self) -> bool:
        """Whether it keeps what it owns while the group rebalances: only if all of its assignors
        do, as in Java (ConsumerCoordinator, KIP-429)."""
        return all(adapter.assignor.cooperative for adapter in self._adapters.values())

    def give_up(self) -> None:
        self.owned = ()

    def protocols(self) -> list[tuple[str, bytes]]:
        return [
            (name, self._metadata(adapter.subscription(self.topics, self.owned, self._owned_in)))
            for name, adapter in self._adapters.items()
        ]

    def lead(self, round_: Round, topics: Registry) -> dict[str, bytes]:
        """Everybody's assignment, by member id."""
        members = {
            each.member_id: _subscription(each.metadata, each.group_instance_id)
            for each in round_.members
        }
        wanted = sorted({topic for member in members.values() for topic in member.topics})
        found = ((name, topics.get(name)) for name in wanted)
        counts = {name: len(topic.partitions) for name, topic in found if topic is not None}
        shares = self._adapters[round_.protocol].assign(Topics(counts), members)
        return {
            member_id: wire.encode_assignment(wire.Assignment(_written(share)))
            for member_id, share in shares.items()
        }

    def take(self, round_: Round, assignment: bytes) -> int | None:
        """Own what it is given. Returns after how many milliseconds it joins again, having given
        something back; None: not by itself."""
        read = wire.decode_assignment(assignment).assigned_partitions if assignment else ()
        given = tuple(sorted((topic, index) for topic, indexes in read for index in indexes))
        gives_back = self.keeps and not set(self.owned) <= set(given)
        self.owned, self._owned_in = given, round_.generation
        for adapter in self._adapters.values():
            adapter.on_assignment(given, round_.generation)
        return 0 if gives_back else None

    def _metadata(self, told: Subscription) -> bytes:
        return wire.encode_subscription(
            wire.Subscription(
                told.topics,
                told.user_data,
                _written(by_topic(told.owned_partitions)),
                -1 if told.generation_id is None else told.generation_id,
            )
        )


def _written(share: Iterable[tuple[str, list[int]]]) -> tuple[wire.TopicPartitions, ...]:
    return tuple(wire.TopicPartitions(topic, tuple(indexes)) for topic, indexes in share)


def _subscription(metadata: bytes, instance_id: str | None) -> Subscription:
    told = wire.decode_subscription(metadata)
    return Subscription(
        topics=told.topics,
        owned_partitions=tuple(
            (topic, i) for topic, indexes in told.owned_partitions for i in indexes
        ),
        generation_id=None if told.generation_id < 0 else told.generation_id,
        rack_id=told.rack_id,
        user_data=told.user_data,
        group_instance_id=instance_id,
    )
