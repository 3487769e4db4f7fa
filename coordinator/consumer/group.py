"""A consumer group (KIP-848) and its members.

A group's state is durable, except for a few derived values. Only `apply` changes this state, with
the records of a decision or of the log that is being loaded. Decisions create new Member objects,
and create records from these objects. Upstream: ModernGroup, ConsumerGroup, ConsumerGroupMember.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, TypeVar, cast

from ...assignors.server.model import Target, TopicId
from ...offsets.records import (
    ConsumerGroupMetadata,
    ConsumerGroupRecord,
    ConsumerMemberMetadata,
    ConsumerPartitionMetadata,
    ConsumerRecordType,
    CurrentAssignment,
    OwnedPartitions,
    ResolvedRegularExpression,
    TargetAssignment,
    TargetAssignmentMetadata,
    TopicPartitions,
)
from ...protocol.errors import ApiError, ErrorCode

# Special values of epochs and of a rebalance timeout, in requests and records.
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2  # a static member that is expected to return
UNCHANGED: Final = -1  # the rebalance timeout

FREE: Final = -1
"""The epoch of a partition without an owner."""

Partitions: TypeAlias = Mapping[TopicId, Collection[int]]
Owned: TypeAlias = Mapping[TopicId, Mapping[int, int]]
"""The member epoch at which each partition was assigned (KIP-1251), by topic id and partition."""

NOTHING_OWNED: Final[Owned] = MappingProxyType({})
NO_TARGET: Final[Target] = MappingProxyType({})

K = TypeVar("K")


class GroupState(StrEnum):
    """A state, with its name on the wire (ConsumerGroupDescribe, ListGroups)."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class MemberState(IntEnum):
    """The state of a member, with its number in records.

    STABLE                 owns its target assignment, or has not begun to reconcile with a new one
    UNREVOKED_PARTITIONS   has to revoke partitions and has not confirmed the revocation
    UNRELEASED_PARTITIONS  waits for partitions that other members have not released
    UNKNOWN                fenced by a test, or written by a newer Kafka version: must rejoin
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class Member(NamedTuple):
    """A member at one point in time. The defaults describe a new member."""

    member_id: str
    metadata: ConsumerMemberMetadata = ConsumerMemberMetadata()
    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Owned = NOTHING_OWNED
    pending_revocation: Owned = NOTHING_OWNED

    @property
    def group_instance_id(self) -> str | None:
        return self.metadata.instance_id

    @property
    def client_id(self) -> str:
        return self.metadata.client_id

    @property
    def client_host(self) -> str:
        return self.metadata.client_host

    @property
    def client_software(self) -> None:
        """Always None, because the records do not contain it."""

    @property
    def regex(self) -> str | None:
        return self.metadata.subscribed_topic_regex or None

    @property
    def uses_classic_protocol(self) -> bool:
        return self.metadata.classic_member_metadata is not None

    @property
    def has_left_temporarily(self) -> bool:
        """Whether the member is a static member that has left temporarily."""
        return self.epoch == LEAVE_STATIC_EPOCH

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def assignment_epoch(self, topic_id: TopicId, partition: int) -> int | None:
        """Return the epoch at which the partition was assigned, or None if the member neither owns
        nor is revoking it."""
        for owned in (self.assigned, self.pending_revocation):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None


class Subscriptions(NamedTuple):
    """The subscriptions of a group's members, each with its number of members."""

    names: Mapping[str, int]
    regexes: Mapping[str, int]
    resolved: Mapping[str, ResolvedRegularExpression]

    @property
    def topics(self) -> set[str]:
        return set().union(self.names, *(each.topics for each in self.resolved.values()))

    def are_homogeneous(self, members: int) -> bool:
        """Whether all members have the same subscription."""
        resolved = [topic for each in self.resolved.values() for topic in each.topics]
        if not self.regexes:
            # Usually, the first count already differs; a group may have a hundred thousand names.
            has_all = all(count == members for count in self.names.values())
            return has_all and self.names.keys() >= set(resolved)
        is_shared = set(self.regexes.values()) == {members}
        return is_shared and not self.names and len(resolved) == len(set(resolved))


class SubscriptionOrder(NamedTuple):
    """The topics of a subscription in the order of Kafka's sets, for the assignors."""

    names: Sequence[str]
    matched: tuple[str, ...]
    topics: tuple[str, ...]
    unknown: int
    """The number of names whose topics do not exist."""


class ConsumerGroup:
    """A consumer group. Counters and owners are updated instead of recomputed, because a group may
    have a thousand members, and every heartbeat during a rebalance needs them."""

    protocol_type: Final = "consumer"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp_ms = 0
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Target] = {}  # by member id
        self.regexes: dict[str, ResolvedRegularExpression] = {}
        # Written only by Kafka before 4.1.
        self.partition_metadata: ConsumerPartitionMetadata | None = None
        # --- derived from the members
        self.static_members: dict[str, str] = {}  # member ids by instance id
        self.assignor_counts: dict[str, int] = {}
        self.classic_protocol_counts: dict[str, int] = {}
        self.classic_members = 0
        self.regex_counts: dict[str, int] = {}  # number of subscribers by regular expression
        self._name_counts: dict[str, int] = {}
        self._stable_counts: dict[int, int] = {}  # members in MemberState.STABLE, by epoch
        # The owner's epoch for each partition. A partition that is being revoked still has its
        # owner.
        self._owner_epochs: dict[TopicId, dict[int, int]] = {}
        # --- not durable
        # The largest number of members since the group was loaded, which determines the order of
        # Kafka's hash tables.
        self.members_max = 0
        # Whether all members have the same subscription. As in Kafka, the topics of a regular
        # expression count only after the next record of a member.
        self.is_homogeneous = True
        self._has_new_subscriptions = False
        # The topics version whose metadata hash was last compared with the group's, and the group
        # epoch after the comparison. If the group epoch is lower, its record was not stored.
        self.checked: tuple[int, int] | None = None
        # The group epoch in which a regular expression was replaced by an unresolved expression,
        # and the metadata hash of the remaining topics. The group keeps its own hash until the next
        # epoch.
        self.unresolved: tuple[int, int] | None = None
        # The subscription orders of the last assignment. The key is the id() of the subscribed
        # names and of the matched topics, because hashing thousands of names for each member would
        # take seconds. The value keeps both objects alive.
        self.orders: dict[tuple[int, int], SubscriptionOrder] = {}
        self.orders_version = 0
        """The version of the topics for which `orders` was computed."""
        self._last_names: tuple[str, ...] = ()

    # --- queries

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        # Equivalent to is_reconciled_to(self.assignment_epoch) of every member.
        if self._stable_counts.get(self.assignment_epoch) == len(self.members):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def static_member(self, instance_id: str | None) -> Member | None:
        """Return the static member with this instance id, or None. Raises ApiError if the id still
        maps to a member that changed its instance id and was removed, as in Kafka."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        if member_id is not None and member_id not in self.members:
            raise unknown_member(self.group_id, member_id)
        return None if member_id is None else self.members[member_id]

    def target(self, member_id: str, instance_id: str | None) -> Target:
        """Return the target assignment of a member, or of the static member that it replaces."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, "")
        return self.targets.get(member_id, NO_TARGET)

    def topics_of(self, regex: str | None) -> tuple[str, ...]:
        """Return the topics that match, if the regular expression has been resolved."""
        resolved = None if regex is None else self.regexes.get(regex)
        return () if resolved is None else resolved.topics

    def owner_epoch(self, topic_id: TopicId, partition: int) -> int:
        """Return the epoch of the member that owns or is revoking the partition, or FREE."""
        return self._owner_epochs.get(topic_id, {}).get(partition, FREE)

    def subscriptions(
        self, removed: Iterable[Member] = (), added: Member | None = None
    ) -> Subscriptions:
        """Return the subscriptions of the members, without `removed` and with `added`."""
        names, regexes = dict(self._name_counts), dict(self.regex_counts)
        for member in removed:
            _count(names, member.metadata.subscribed_topic_names, -1)
            _count(regexes, _optional(member.regex), -1)
        if added is not None:
            _count(names, added.metadata.subscribed_topic_names, 1)
            _count(regexes, _optional(added.regex), 1)
        resolved = {regex: each for regex, each in self.regexes.items() if regex in regexes}
        return Subscriptions(names, regexes, resolved)

    def has_checked(self, topics_version: int) -> bool:
        """Whether the metadata hash was computed from this version of the topics."""
        if self.checked is None:
            return False
        version, epoch = self.checked
        return version == topics_version and self.epoch >= epoch

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self._name_counts or any(
            topic in each.topics for each in self.regexes.values()
        )

    def supports_classic_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether all classic members list one of these protocols, so that a client may join."""
        counts, members = self.classic_protocol_counts, self.classic_members
        return protocol_type == self.protocol_type and any(
            counts.get(name, 0) == members for name in names
        )

    def records(self) -> Iterator[ConsumerGroupRecord]:
        """Yield the records that describe the group, in Kafka's order for a new group."""
        type_, group_id = ConsumerRecordType, self.group_id
        members = self.members.values()
        for member in members:
            yield ConsumerGroupRecord(
                type_.MEMBER_METADATA, group_id, member.member_id, member.metadata
            )
        for regex, resolved in self.regexes.items():
            yield ConsumerGroupRecord(type_.REGULAR_EXPRESSION, group_id, regex, resolved)
        if self.partition_metadata is not None:
            yield ConsumerGroupRecord(
                type_.PARTITION_METADATA, group_id, "", self.partition_metadata
            )
        metadata = ConsumerGroupMetadata(self.epoch, self.metadata_hash)
        yield ConsumerGroupRecord(type_.GROUP_METADATA, group_id, "", metadata)
        for member_id, target in self.targets.items():
            yield target_record(group_id, member_id, target)
        assignment = TargetAssignmentMetadata(self.assignment_epoch, self.assignment_timestamp_ms)
        yield ConsumerGroupRecord(type_.TARGET_ASSIGNMENT_METADATA, group_id, "", assignment)
        for member in members:
            yield current_assignment_record(group_id, member)

    def tombstones(self) -> Iterator[ConsumerGroupRecord]:
        """Yield the tombstones of the group, in Kafka's order. As in Kafka, they always include a
        tombstone of the partition metadata, which older versions wrote."""
        type_ = ConsumerRecordType
        for record_type, names in (
            (type_.CURRENT_MEMBER_ASSIGNMENT, self.members),
            (type_.TARGET_ASSIGNMENT_MEMBER, self.members),
            (type_.TARGET_ASSIGNMENT_METADATA, ("",)),
            (type_.MEMBER_METADATA, self.members),
            (type_.REGULAR_EXPRESSION, self.regexes),
            (type_.PARTITION_METADATA, ("",)),
            (type_.GROUP_METADATA, ("",)),
        ):
            for name in names:
                yield ConsumerGroupRecord(record_type, self.group_id, name, None)

    # --- changes

    def add(self, member: Member, target: Target) -> None:
        """Add a member while the group is being created from a classic group."""
        self._put(member)
        self.targets[member.member_id] = target

    def apply(self, record: ConsumerGroupRecord) -> None:
        """Apply a record other than the tombstone of the group."""
        type_, _, name, value = record
        match value:
            case ConsumerMemberMetadata():
                member = self.members.get(name) or Member(name)
                self._put(member._replace(metadata=self._with_shared_names(value)))
            case CurrentAssignment():
                self._put(_with_assignment(self.members.get(name) or Member(name), value))
            case TargetAssignment():
                self.targets[name] = dict(value.topic_partitions)
            case TargetAssignmentMetadata():
                self.assignment_epoch, self.assignment_timestamp_ms = value
            case ConsumerGroupMetadata():
                self.epoch, self.metadata_hash = value
            case ResolvedRegularExpression():
                self.regexes[name] = value
                self._has_new_subscriptions = True
            case ConsumerPartitionMetadata():
                self.partition_metadata = value
            case None:
                self._apply_tombstone(type_, name)

    def _with_shared_names(self, metadata: ConsumerMemberMetadata) -> ConsumerMemberMetadata:
        """Share equal topic names between members. Most members of a group have the same
        subscription, which is then stored only once."""
        names = metadata.subscribed_topic_names
        if names == self._last_names:
            return metadata._replace(subscribed_topic_names=self._last_names)
        self._last_names = names
        return metadata

    def _apply_tombstone(self, type_: ConsumerRecordType, name: str) -> None:
        if type_ is ConsumerRecordType.MEMBER_METADATA:
            self._remove(name)
        elif type_ is ConsumerRecordType.CURRENT_MEMBER_ASSIGNMENT:
            if name in self.members:
                self._put(Member(name, self.members[name].metadata, LEAVE_EPOCH))
        elif type_ is ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER:
            self.targets.pop(name, None)
        elif type_ is ConsumerRecordType.TARGET_ASSIGNMENT_METADATA:
            self.assignment_epoch, self.assignment_timestamp_ms = -1, 0
        elif type_ is ConsumerRecordType.REGULAR_EXPRESSION:
            self.regexes.pop(name, None)
            self._has_new_subscriptions = True
        else:
            assert type_ is ConsumerRecordType.PARTITION_METADATA, "the caller removes the group"
            self.partition_metadata = None

    def _put(self, member: Member) -> None:
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self.members_max = max(self.members_max, len(self.members))
        if old is not None:
            self._set_owner(old, None)
            self._count_stable(old, -1)
        self._set_owner(member, member.epoch)
        self._count_stable(member, 1)
        if old is None or old.metadata != member.metadata:
            if old is not None:
                self._count_metadata(old, -1)
            self._count_metadata(member, 1)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self._update_homogeneity()

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._set_owner(member, None)
        self._count_stable(member, -1)
        self._count_metadata(member, -1)
        instance_id = member.group_instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        self._update_homogeneity()

    def _update_homogeneity(self) -> None:
        if self._has_new_subscriptions:
            subscriptions = Subscriptions(self._name_counts, self.regex_counts, self.regexes)
            self.is_homogeneous = subscriptions.are_homogeneous(len(self.members))
            self._has_new_subscriptions = False

    def _count_stable(self, member: Member, by: int) -> None:
        if member.state is MemberState.STABLE:
            _count(self._stable_counts, (member.epoch,), by)

    def _count_metadata(self, member: Member, by: int) -> None:
        self._has_new_subscriptions = True
        metadata = member.metadata
        _count(self._name_counts, metadata.subscribed_topic_names, by)
        _count(self.regex_counts, _optional(member.regex), by)
        _count(self.assignor_counts, _optional(metadata.server_assignor), by)
        classic = metadata.classic_member_metadata
        if classic is not None:
            self.classic_members += by
            _count(self.classic_protocol_counts, (p.name for p in classic.supported_protocols), by)

    def _set_owner(self, member: Member, epoch: int | None) -> None:
        """Set the owner epoch of the member's partitions. None removes the epoch, except from
        partitions that another member has acquired since."""
        for owned in (member.assigned, member.pending_revocation):
            for topic_id, partitions in owned.items():
                epochs = self._owner_epochs.setdefault(topic_id, {})
                if epoch is not None:
                    epochs.update(dict.fromkeys(partitions, epoch))
                    continue
                for partition in partitions:
                    if epochs.get(partition) == member.epoch:
                        del epochs[partition]
                if not epochs:
                    del self._owner_epochs[topic_id]


def unknown_member(group_id: str, member_id: str) -> ApiError:
    message = f"Member {member_id} is not a member of group {group_id}."
    return ApiError(ErrorCode.unknown_member_id, message)


def merge(one: Owned, other: Owned) -> Owned:
    """Return the union of two assignments."""
    merged = dict(one)
    for topic_id, partitions in other.items():
        merged[topic_id] = {**merged.get(topic_id, {}), **partitions}
    return merged


# --- records


def current_assignment_record(group_id: str, member: Member) -> ConsumerGroupRecord:
    value = CurrentAssignment(
        member.epoch,
        member.previous_epoch,
        member.state,
        _owned_partitions(member.assigned),
        _owned_partitions(member.pending_revocation),
    )
    type_ = ConsumerRecordType.CURRENT_MEMBER_ASSIGNMENT
    return ConsumerGroupRecord(type_, group_id, member.member_id, value)


def target_record(group_id: str, member_id: str, target: Target) -> ConsumerGroupRecord:
    """Return the record of a target assignment. The order of topics and partitions is preserved,
    because it breaks ties in the next assignment."""
    listed = (TopicPartitions(topic_id, tuple(each)) for topic_id, each in target.items())
    value = TargetAssignment(tuple(listed))
    type_ = ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER
    return ConsumerGroupRecord(type_, group_id, member_id, value)


def member_tombstones(group_id: str, member_id: str) -> tuple[ConsumerGroupRecord, ...]:
    """Return the tombstones of a member, in Kafka's order."""
    types = (
        ConsumerRecordType.CURRENT_MEMBER_ASSIGNMENT,
        ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER,
        ConsumerRecordType.MEMBER_METADATA,
    )
    return tuple(ConsumerGroupRecord(type_, group_id, member_id, None) for type_ in types)


def topic_partitions(assigned: Partitions) -> tuple[TopicPartitions, ...]:
    """Return the topics with their partitions in ascending order."""
    return tuple(
        TopicPartitions(topic_id, tuple(sorted(partitions)))
        for topic_id, partitions in assigned.items()
    )


def _owned_partitions(owned: Owned) -> tuple[OwnedPartitions, ...]:
    return tuple(
        OwnedPartitions(topic_id, partitions, tuple(map(owned[topic_id].__getitem__, partitions)))
        for topic_id, partitions in topic_partitions(owned)
    )


def _with_assignment(member: Member, value: CurrentAssignment) -> Member:
    epoch = value.member_epoch
    is_known = value.state in MemberState._value2member_map_
    return Member(
        member.member_id,
        member.metadata,
        epoch,
        value.previous_member_epoch,
        MemberState(value.state) if is_known else MemberState.UNKNOWN,
        _owned(value.assigned_partitions, epoch),
        _owned(value.partitions_pending_revocation, epoch),
    )


def _owned(listed: Iterable[OwnedPartitions], member_epoch: int) -> Owned:
    """Return the partitions with their assignment epochs. Records written by Kafka before 4.3 do
    not contain the epochs, so the member's epoch is used."""
    owned: dict[TopicId, Mapping[int, int]] = {}
    for topic_id, partitions, epochs in listed:
        if epochs is None or len(epochs) != len(partitions):
            owned[topic_id] = dict.fromkeys(partitions, max(member_epoch, 0))
        else:
            owned[topic_id] = dict(zip(partitions, epochs, strict=True))
    return owned


# --- counters


def _count(counts: dict[K, int], keys: Iterable[K], by: int) -> None:
    for key in keys:
        count = counts.get(key, 0) + by
        if count:
            counts[key] = count
        else:
            counts.pop(key, None)


def _optional(value: str | None) -> tuple[str, ...]:
    return () if value is None else cast("tuple[str, ...]", (value,))
