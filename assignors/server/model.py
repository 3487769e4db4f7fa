"""Members and topics of a group of the consumer protocol, and target assignments.

The names are taken from Kafka's GroupSpec and MemberSubscription. Racks are omitted, because the
assignors of Kafka 4.3 ignore them.
"""

import builtins
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias


class TopicId(Protocol):
    """A uuid.UUID, which the coordinator must not import."""

    @property
    def int(self) -> builtins.int: ...

    def __hash__(self) -> builtins.int: ...


Target: TypeAlias = Mapping[TopicId, Sequence[int]]
"""A member's partitions by topic, in the order of its ConsumerGroupTargetAssignmentMember record.
The order must be kept, because it breaks ties in the next assignment. Topics without partitions do
not occur."""


@dataclass(frozen=True, slots=True)
class Topic:
    id: TopicId
    partitions: int


@dataclass(frozen=True, slots=True)
class Member:
    topics: tuple[str, ...]
    """The topics in the member's subscription, from `hashing.subscription_order`."""
    target: Target = field(default_factory=dict)
    """The previous target assignment of the member, or of the static member that it replaces."""
    group_instance_id: str | None = None
    unknown: int = 0
    """The number of topics in the subscription that do not exist. They affect the sizes of
    Kafka's hash tables, and therefore the order of topics."""


Members: TypeAlias = Mapping[str, Member]
"""The members by id, in the order of `hashing.group_spec_order`."""
Topics: TypeAlias = Mapping[str, Topic]
"""The existing topics by name. Subscriptions may contain other topics as well."""
ServerAssignor: TypeAlias = Callable[[Members, Topics, bool], dict[str, Target]]
"""Takes the members, the topics, and whether all members have the same subscription (including the
topics of regular expressions). Returns the targets of all members, in the order of Kafka's records.
Kafka writes a record if the target is new or has other partitions (see
`targets.have_same_partitions`). May raise UnknownPartition."""


class UnknownPartition(Exception):
    """A member's target contains a partition that its topic lacks, because the leader of a
    classic group assigned it before the upgrade. Kafka's `uniform` assignor fails too, with an
    IndexOutOfBoundsException."""


def check_partitions(partitions: Collection[int], count: int) -> None:
    """Raise UnknownPartition if a topic with `count` partitions lacks one of `partitions`."""
    if partitions and not (min(partitions) >= 0 and max(partitions) < count):
        wrong = f"not all of {sorted(partitions)} exist"
        raise UnknownPartition(f"{wrong}: the topic has {count} partitions")
