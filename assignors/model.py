"""What an assignor is asked and answers, in the words of Kafka's ConsumerPartitionAssignor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

TopicPartition: TypeAlias = tuple[str, int]
Assignment: TypeAlias = dict[str, list[TopicPartition]]
"""Each member's partitions, sorted; a member that gets none has an empty list."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member tells its leader (ConsumerProtocolSubscription), its instance id with it."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int | None = None
    """Of the assignment that `owned` is from; None where the member does not tell (before v2)."""
    rack: str | None = None
    user_data: bytes | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Topics:
    """What the leader's metadata says: how many partitions, and where their replicas are."""

    partitions: Mapping[str, int]
    replica_racks: Mapping[str, Sequence[Sequence[str | None]]] = field(default_factory=dict)
    """By topic, for each partition the racks of all its replicas; None for one without a rack."""


class Assignor(Protocol):
    """One strategy. It remembers nothing: what a member had comes in with its subscription."""

    @property
    def name(self) -> str:
        """By which members vote for it, and which their JoinGroup carries."""

    @property
    def cooperative(self) -> bool:
        """Whether members keep what they own while they rebalance (KIP-429)."""

    def user_data(
        self,
        topics: Sequence[str],  # noqa: ARG002
        owned: Sequence[TopicPartition],  # noqa: ARG002
        generation: int | None,  # noqa: ARG002
    ) -> bytes | None:
        """What a member adds to its subscription: nothing, unless the strategy has a use for it.

        `generation` is None before the member's first one.
        """
        return None

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """By member id, all members of the group. Topics without partitions are skipped."""
