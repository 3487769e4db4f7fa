"""What all decisions share: PartitionState (the groups, offsets and deadlines of a partition),
Decision, and the interfaces that the coordinator needs."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from ..assignors.server.model import TopicId
from ..offsets.causes import Cause
from ..offsets.pending import PendingOffsets
from ..offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    GroupTombstone,
    OffsetAndMetadata,
    OffsetCommitRecord,
    OffsetsRecord,
    OffsetTombstone,
)
from ..protocol.errors import ErrorCode
from .classic.group import Group, Member, to_metadata
from .classic.states import State
from .commands import ConsumerGroupHeartbeat, JoinGroup, Result, TopicFilter
from .consumer.group import ConsumerGroup, Partitions
from .consumer.group import Member as Consumer
from .deadlines import DeadlineKey, Deadlines
from .other_groups import OtherGroups
from .outcome import (
    INFO,
    NO_DETAIL,
    NOTHING,
    Event,
    EventType,
    GroupEvent,
    LogLine,
    Outcome,
    RegexMatcher,
    RegexQuery,
    Reply,
    make,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Kafka's group settings (GroupCoordinatorConfig), with defaults in broker/config/keys.py."""

    group_initial_rebalance_delay_ms: int
    group_max_size: int
    group_max_session_timeout_ms: int
    group_min_session_timeout_ms: int
    # In UTF-16 code units (Java's String.length), although the key's name says bytes.
    offset_metadata_max_bytes: int
    offsets_retention_ms: int  # offsets.retention.minutes
    # Whether each accepted commit produces an event (kohort.events=all).
    reports_commits: bool
    # Settings of consumer groups (KIP-848).
    serves_consumer_groups: bool  # group.coordinator.rebalance.protocols
    group_consumer_max_size: int
    consumer_group_assignors: tuple[str, ...]  # the first one is the default
    consumer_migration_policy: str  # bidirectional, upgrade, downgrade or disabled
    regex_refresh_interval_ms: int
    # The deadline of a new member, which cannot send heartbeats before the response to its first
    # JoinGroup. Upstream, this is the constant CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS.
    new_member_join_timeout_ms: int = 300_000


class ConsumerGroupConfig(Protocol):
    """The settings of one consumer group, which may differ from the broker's."""

    @property
    def session_timeout_ms(self) -> int: ...
    @property
    def heartbeat_interval_ms(self) -> int: ...
    @property
    def assignment_interval_ms(self) -> int: ...


class SubscriptionInfo(NamedTuple):
    """The subscription fields that the coordinator uses."""

    topics: tuple[str, ...]  # in the order in which they were sent
    owned_partitions: Set[tuple[str, int]]
    rack_id: str | None


class AssignmentInfo(NamedTuple):
    """The assignment of a classic member."""

    partitions: Mapping[str, Iterable[int]]
    has_user_data: bool


class Codec(Protocol):
    """Encodes and decodes data for the coordinator, which does not handle bytes itself."""

    def offset_commit(
        self,
        group_id: str,
        topic: str,
        partition: int,
        offsets: Sequence[int],
        leader_epoch: int,
        metadata: str | None,
        commit_timestamp_ms: int,
        expire_timestamp_ms: int | None,
        topic_id: bytes | None,
    ) -> OffsetCommitRecord:
        """Return the commit record of the last offset. The preceding offsets, which pipelined
        requests have committed, become `earlier`."""

    def committed(self, record: OffsetCommitRecord) -> OffsetAndMetadata:
        """Decode the value of a commit record."""

    def subscription(self, metadata: bytes) -> SubscriptionInfo | None:
        """Decode a ConsumerProtocol subscription. Return None if it is malformed."""

    def subscribed_topics(self, metadata: bytes) -> Iterable[str]:
        """Decode only the topics of a subscription. Raises DecodeError."""

    def assignment(self, assignment: bytes) -> AssignmentInfo | None:
        """Decode a ConsumerProtocol assignment (no partitions if it is empty). Return None if it is
        malformed."""

    def encode_assignment(
        self, partitions: Mapping[str, Iterable[int]], subscription: bytes
    ) -> bytes:
        """Encode an assignment in the version of a member's subscription. Raises DecodeError, with
        Kafka's message, if the subscription has no valid version."""


class TopicMetadata(Protocol):
    """The topics of the cluster, in memory."""

    @property
    def version(self) -> int:
        """Increases with each change."""

    @property
    def created_version(self) -> int:
        """The version at which a topic was last created."""

    def id_of(self, topic: str) -> TopicId | None: ...
    def name_of(self, topic_id: TopicId) -> str | None: ...
    def partition_count(self, topic_id: TopicId) -> int: ...

    def metadata_hash(self, topics: Iterable[str]) -> int:
        """Return Kafka's hash of the topics that exist (KIP-1101), or 0 if none exists."""

    def regex_problem(self, regex: str) -> str | None:
        """Return what is wrong with a regular expression in RE2 syntax, or None if it is valid."""

    def matcher(
        self, regexes: Collection[str], describes_topic: TopicFilter | None
    ) -> RegexMatcher:
        """Return a matcher of the expressions for this version of the topics, limited to the topics
        that the client may describe."""


class CommittedOffsets(Protocol):
    """The committed offsets of a partition. A group's offsets may be spilled to disk; the caller
    must load them before submitting a command for the group."""

    def put(self, record: OffsetCommitRecord) -> None: ...
    def remove(self, record: OffsetTombstone) -> None: ...
    def get(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None: ...

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, OffsetAndMetadata]]:
        """Return the offsets of a group, by topic and partition."""

    def records(self, group_id: str) -> Iterator[OffsetCommitRecord]:
        """Yield the newest commit of each partition. Do not modify the table while iterating."""

    def is_loaded(self, group_id: str) -> bool:
        """Whether all offsets of the group, if any, are in memory."""

    def count(self, group_id: str) -> int: ...
    def has_group(self, group_id: str) -> bool: ...
    def groups(self) -> Iterator[str]: ...

    @property
    def topics(self) -> Set[str]:
        """All topics for which a group has ever committed an offset."""


@dataclass(eq=False, repr=False)
class PartitionState:
    """All state of one offsets partition's coordinator."""

    config: GroupConfig
    new_member_id: Callable[[], str]
    """Returns the random part of a classic member id (upstream: a UUID)."""
    codec: Codec
    offsets: CommittedOffsets  # initially empty
    topics: TopicMetadata
    consumer_config: Callable[[str], ConsumerGroupConfig]
    """Returns the settings of a group."""
    new_consumer_member_id: Callable[[], str]
    """Returns a complete member id (a UUID in Kafka's form)."""
    deadlines: Deadlines[DeadlineKey] = field(default_factory=Deadlines)
    other_groups: OtherGroups = field(default_factory=OtherGroups)
    pending_offsets: PendingOffsets = field(default_factory=PendingOffsets)
    # Groups that have only offsets (often 100,000) have no entry until find() creates one.
    groups: dict[str, Group] = field(default_factory=dict)
    consumer_groups: dict[str, ConsumerGroup] = field(default_factory=dict)
    # Consumer groups whose regular expressions are being matched. Not durable.
    matching: set[str] = field(default_factory=set)
    # The filter of each group's next match, by group id: the topics that the client that scheduled
    # the match may describe. Not durable.
    topic_filters: dict[str, TopicFilter] = field(default_factory=dict)
    # Consumer groups whose target assignment a test holds back. Not durable.
    held_assignments: set[str] = field(default_factory=set)

    def exists(self, group_id: str) -> bool:
        """Whether a group of any type exists, including a group that has only offsets."""
        return self.has_metadata(group_id) or self.offsets.has_group(group_id)

    def has_metadata(self, group_id: str) -> bool:
        """Whether a group of any type exists, not counting groups that have only offsets."""
        return (
            group_id in self.groups
            or group_id in self.consumer_groups
            or group_id in self.other_groups.groups
        )

    def by_topic_name(self, assigned: Partitions) -> dict[str, list[int]]:
        """Return the partitions by topic name, without topics that do not exist."""
        named = ((self.topics.name_of(topic_id), each) for topic_id, each in assigned.items())
        return {name: sorted(partitions) for name, partitions in named if name is not None}

    def find(self, group_id: str, now: int) -> Group | None:
        """Return the classic group, or None. Create the object of a group that has only offsets."""
        group = self.groups.get(group_id)
        if group is None and self.offsets.has_group(group_id):
            group = self.new_group(group_id, now)
        return group

    def new_group(self, group_id: str, now: int) -> Group:
        group = self.groups[group_id] = Group(group_id, now)
        return group


Client: TypeAlias = Member | JoinGroup | Consumer | ConsumerGroupHeartbeat
"""The source of a client's identity in events."""


class Decision:
    """Collects the records, replies and events while one command or deadline is handled."""

    def __init__(self, partition: PartitionState, now: int, ticket: int = 0) -> None:
        self.partition = partition
        self.config = partition.config
        self.deadlines = partition.deadlines
        self.now = now
        self.ticket = ticket  # of the command being decided
        self._records: list[OffsetsRecord] = []
        self._replies: list[Reply] = []
        self._events: list[Event] = []
        self._queries: tuple[RegexQuery, ...] = ()

    def reply(self, ticket: int, result: Result) -> None:
        self._replies.append((ticket, result))

    def append(self, record: OffsetsRecord) -> None:
        self._records.append(record)

    def query(self, query: RegexQuery) -> None:
        self._queries = (query,)

    def discard(self) -> None:
        """Discard a rejected request's records and events, except log lines and JOIN_RECEIVED."""
        self._records.clear()
        self._events = [
            event
            for event in self._events
            if isinstance(event, LogLine) or event.type is EventType.JOIN_RECEIVED
        ]

    def write(self, group: Group, assignments: dict[str, bytes] | None = None) -> None:
        """Write the group's record, with the current assignments unless `assignments` replaces
        them."""
        group.proposed = to_metadata(group, assignments)
        self._records.append(GroupMetadataRecord(group.group_id, group.proposed))

    def write_empty(self, group: Group) -> None:
        """Write an empty group record, ignoring any rebalance in progress."""
        group.proposed = GroupMetadata("", 0, None, None, group.state_timestamp_ms, ())
        self._records.append(GroupMetadataRecord(group.group_id, group.proposed))

    def transition(self, group: Group, state: State) -> None:
        before = group.state
        group.transition(state, self.now)
        self.report(EventType.STATE_CHANGE, group, state_from=before, state_to=state)

    def schedule(self, timer: DeadlineKey, delay_ms: int) -> None:
        self.deadlines.set(timer, self.now + delay_ms)

    def log(self, message: str, *arguments: object, level: int = INFO) -> None:
        """Add a line to the broker's log, in Kafka's wording."""
        self._events.append(make(LogLine, (level, message, arguments)))

    def report(
        self,
        type_: EventType,
        group: Group | ConsumerGroup | str,
        client: Client | None = None,
        **fields: Any,
    ) -> None:
        """Add an event; see `group_event`."""
        self._events.append(group_event(type_, group, client, **fields))

    def report_rejected_join(
        self,
        group: Group | ConsumerGroup | str,
        client: Client,
        error: ErrorCode,
        detail: Mapping[str, str] = NO_DETAIL,
    ) -> None:
        cause = Cause.GROUP_FULL if error is ErrorCode.group_max_size_reached else None
        self.report(EventType.JOIN_REJECTED, group, client, error=error, cause=cause, detail=detail)

    def add(self, events: Iterable[Event]) -> None:
        self._events.extend(events)

    def outcome(self) -> Outcome:
        if not (self._records or self._replies or self._events or self._queries):
            return NOTHING
        records, replies = tuple(self._records), tuple(self._replies)
        return Outcome(records, replies, tuple(self._events), self._queries)


def group_event(
    type_: EventType,
    group: Group | ConsumerGroup | str,
    client: Client | None = None,
    *,
    member_id: str | None = None,
    instance_id: str | None = None,
    generation: int | None = None,
    state_from: str | None = None,
    state_to: str | None = None,
    error: ErrorCode | None = None,
    reason: str | None = None,
    duration_ms: int | None = None,
    cause: Any = None,
    detail: Mapping[str, str] = NO_DETAIL,
) -> GroupEvent:
    """Return an event of a group (a group object, or only the id). The member id, the instance id
    and the generation are taken from `client` and `group` unless they are passed."""
    group_id, own_generation = group, None
    if isinstance(group, Group):
        group_id, own_generation = group.group_id, group.generation
    elif isinstance(group, ConsumerGroup):
        group_id, own_generation = group.group_id, group.epoch
    client_fields: tuple[str | None, ...] = (None, None, None)
    if client is not None:
        member_id = member_id or client.member_id or None
        instance_id = instance_id or client.group_instance_id
        client_fields = (client.client_id, client.client_host, client.client_software)
    head = (type_, group_id, member_id, instance_id, *client_fields)
    states = (own_generation if generation is None else generation, state_from, state_to)
    tail = (error, reason, duration_ms, cause, detail)
    event: GroupEvent = make(GroupEvent, (*head, *states, *tail))
    return event


def group_deleted(group: Group | ConsumerGroup | str, offsets: int | None = None) -> GroupEvent:
    """Return the event of a group that was deleted, with the number of its offsets, or that has
    expired (`offsets` is None)."""
    is_expired = offsets is None
    return group_event(
        EventType.GROUP_DELETED,
        group,
        state_from=State.EMPTY,
        state_to=State.DEAD,
        cause=Cause.GROUP_EXPIRED if is_expired else Cause.GROUP_DELETED,
        detail=NO_DETAIL if is_expired else {"offsets": str(offsets)},
    )


def group_tombstones(partition: PartitionState, group_id: str) -> list[OffsetsRecord]:
    """Return the tombstones of a group of any type without members, except for its offsets."""
    consumer_group = partition.consumer_groups.get(group_id)
    if consumer_group is not None:
        return list(consumer_group.tombstones())
    other = partition.other_groups.groups.get(group_id)
    return [GroupTombstone(group_id)] if other is None else list(other.tombstones())


def fencing_events(
    error: ErrorCode, group: Group | None, member_id: str, instance_id: str | None, operation: str
) -> tuple[Event, ...]:
    """Return the events of a request that failed with `error`. Only fenced requests produce
    events."""
    if error is not ErrorCode.fenced_instance_id:
        return ()
    assert group is not None
    assert instance_id is not None
    holder = group.static_members[instance_id]
    return (
        LogLine(
            INFO,
            "Request memberId=%s for static member with groupInstanceId=%s is fenced by existing "
            "memberId=%s during operation %s",
            (member_id, instance_id, holder, operation),
        ),
        group_event(
            EventType.MEMBER_FENCED,
            group,
            member_id=member_id,
            instance_id=instance_id,
            error=ErrorCode.fenced_instance_id,
            detail={"holder": holder, "operation": operation},
        ),
    )
