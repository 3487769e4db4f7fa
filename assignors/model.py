"""Subscriptions, topics, assignments, and the interface of an assignor.

The names are taken from Kafka's ConsumerPartitionAssignor.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

NO_GENERATION: Final = -1

TopicPartition: TypeAlias = tuple[str, int]
Assignment: TypeAlias = dict[str, list[TopicPartition]]
"""The sorted partitions of each member id, including members without partitions."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's subscription (ConsumerProtocolSubscription) and its instance id."""

    topics: tuple[str, ...]
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int | None = None
    """The generation of `owned_partitions`; None if the member does not send it (before v2)."""
    rack_id: str | None = None
    user_data: bytes | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Topics:
    """The leader's metadata: partition counts and the racks of replicas."""

    partitions: Mapping[str, int]
    replica_racks: Mapping[str, Sequence[Sequence[str | None]]] = field(default_factory=dict)
    """By topic and partition, the rack of each replica; None for a replica without a rack."""


class Assignor(Protocol):
    """An assignment strategy. It is stateless, because the subscriptions contain the history."""

    @property
    def name(self) -> str:
        """The protocol name in JoinGroup, for which members vote."""

    @property
    def cooperative(self) -> bool:
        """Whether members keep their partitions during a rebalance (KIP-429)."""

    def subscription_user_data(
        self,
        topics: Sequence[str],  # noqa: ARG002
        owned_partitions: Sequence[TopicPartition],  # noqa: ARG002
        generation_id: int | None,  # noqa: ARG002
    ) -> bytes | None:
        """Return the user data that a member adds to its subscription; None by default.
        `generation_id` is None before the member's first assignment."""
        return None

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """Return the assignment of all members by id. Topics without partitions are skipped."""
