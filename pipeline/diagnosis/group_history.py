"""The known history of one group: the input of every rule.

The layers collect a `GroupHistory` from the lake; the rules turn it into rows (rows.py). Times are
milliseconds since the epoch by the broker's clock; None means unknown. Records are in log order,
the only reliable order, because clocks may be set back.
"""

from typing import Final, NamedTuple

TopicPartition = tuple[str, int]

OFFSETS_RETENTION_MS: Final = 7 * 24 * 3_600_000
"""Kafka's default of offsets.retention.minutes."""

CONSUMER_PROTOCOL: Final = "consumer"
"""Kafka's name for the KIP-848 protocol (`group.protocol`, GroupType). It is the `protocol` of the
groups that use it; the `protocol` of a classic group is the name of its assignor."""

FIRST_EPOCH: Final = 2
"""The first epoch in the log of a new consumer group: the first member increases it from 1 to 2."""

_UNRESOLVED: Final = "id:"


def unresolved(topic_id: str) -> str:
    """Return a placeholder for the unknown name of a topic. It contains a colon, so it cannot be
    the name of a topic."""
    return _UNRESOLVED + topic_id


def is_unresolved(topic: str) -> bool:
    return topic.startswith(_UNRESOLVED)


class Member(NamedTuple):
    """A member of a stored generation: an element of `silver_generation.member_list`."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    # max.poll.interval.ms of Java, librdkafka and kafka-python, the session timeout of aiokafka
    rebalance_timeout_ms: int
    session_timeout_ms: int
    topics: tuple[str, ...] | None = None  # None: the subscription cannot be decoded
    # ownedPartitions of its JoinGroup; in the consumer protocol, `assigned` and the partitions that
    # it has not revoked yet
    owned: tuple[TopicPartition, ...] | None = None
    assigned: tuple[TopicPartition, ...] | None = None  # None: the assignment cannot be decoded
    regex: str | None = None  # the regular expression whose matches are in `topics`

    @property
    def is_revoking(self) -> bool:
        """Whether a member of the consumer protocol has to revoke partitions."""
        return len(self.owned or ()) > len(self.assigned or ())

    @property
    def label(self) -> str:
        """Return `billing-2 on 10.0.0.5`, with the instance id of a static member."""
        static = f" (instance {self.instance_id})" if self.instance_id is not None else ""
        return f"{self.client_id}{static} on {self.client_host.removeprefix('/')}"

    @property
    def identity(self) -> str:
        """Identity across restarts, since the member id changes with the process."""
        return self.instance_id or f"{self.client_id} {self.client_host}"


class Generation(NamedTuple):
    """A row of `silver_generation`: a GroupMetadata record, or the state of a consumer group
    (KIP-848) after a request, with the group epoch as `generation`."""

    log_offset: int
    tombstone: bool = False
    generation: int | None = None  # None only for a tombstone
    protocol: str | None = None
    leader: str | None = None
    # currentStateTimestamp: the end of the join phase, or when the group became Empty.
    state_ms: int | None = None
    append_ms: int | None = None  # the record's timestamp: the leader's SyncGroup
    members: tuple[Member, ...] = ()
    # False: compaction has removed records between the group's previous record and this one.
    history_complete: bool = True
    # Where the last gap of the offsets partition ends: the log offset of the record after the gap,
    # which may be this record.
    last_gap: int | None = None
    metadata_hash: int | None = None  # hash of the topics to which a consumer group is subscribed

    @property
    def time_ms(self) -> int | None:
        return self.append_ms if self.state_ms is None else self.state_ms

    @property
    def sync_ms(self) -> int | None:
        """Time from the end of the join phase to the leader's SyncGroup."""
        if self.state_ms is None or self.append_ms is None:
            return None
        return max(self.append_ms - self.state_ms, 0)

    @property
    def is_consumer_group(self) -> bool:
        """Whether the group uses the consumer protocol (KIP-848). A classic group with members has
        a leader."""
        return self.protocol == CONSUMER_PROTOCOL and self.leader is None

    @property
    def is_cooperative(self) -> bool:
        """Whether rebalancing is cooperative, judged by the protocol's name, or by partitions that
        members own when they join (never the case with an eager protocol, KIP-429)."""
        if self.is_consumer_group:
            return True
        return "cooperative" in (self.protocol or "") or any(m.owned for m in self.members)

    @property
    def assigned(self) -> set[TopicPartition]:
        return {tp for member in self.members for tp in member.assigned or ()}

    @property
    def owners(self) -> dict[TopicPartition, str]:
        return {tp: member.member_id for member in self.members for tp in member.assigned or ()}

    @property
    def unresolved_topics(self) -> list[str]:
        """The assigned topics whose names are unknown."""
        return sorted({topic for topic, _ in self.assigned if is_unresolved(topic)})

    def is_complete_since(self, log_offset: int) -> bool:
        """Whether the log has no gap between `log_offset` and this record."""
        return self.last_gap is None or self.last_gap <= log_offset


class Activity(NamedTuple):
    """Commits of one partition in one generation: rows of `silver_activity`, summed."""

    topic: str
    partition: int
    generation_log_offset: int | None  # of the generation at the time; None: no generation yet
    commits: int
    # Commits that repeat the previous offset, excluding the first known commit of a partition.
    repeats: int
    first_commit_ms: int
    last_commit_ms: int
    last_advance_ms: int | None = None
    last_offset: int | None = None
    last_log_offset: int = -1  # log offset of the last commit
    median_gap_ms: int | None = None
    history_complete: bool = True


class Removal(NamedTuple):
    """A tombstone of a commit: a row of `silver_commit` of kind TOMBSTONE."""

    topic: str
    partition: int
    log_offset: int
    append_ms: int


class LogEnd(NamedTuple):
    """A sample of a log's bounds: a row of `bronze_log_end`."""

    topic: str
    partition: int
    log_start: int | None
    log_end: int
    sampled_ms: int


class Commit(NamedTuple):
    offset: int
    commit_ms: int
    lag: int | None = None  # relative to the last earlier sample of the log end


class PartitionWindow(NamedTuple):
    """The current state of a partition: its last commits and the last samples of its log."""

    topic: str
    partition: int
    commits: tuple[Commit, ...]  # in log order
    log_ends: tuple[LogEnd, ...] = ()  # in chronological order
    owner: Member | None = None  # in the newest generation


class Event(NamedTuple):
    """A line of the coordinator's event log (docs/events.md): a row of `bronze_event`."""

    ts_ms: int
    seq: int
    type: str
    member_id: str | None = None
    generation: int | None = None
    error_code: int | None = None
    reason: str | None = None
    duration_ms: int | None = None
    detail: dict[str, str] = {}  # noqa: RUF012 (read-only: a NamedTuple's default)


class GroupHistory(NamedTuple):
    """The known history of a group at `as_of_ms`. `removals` are in log order; the other parts are
    sorted when they are indexed. If `log_ends` or `events` is empty, results have gaps or a lower
    confidence."""

    cluster: str
    group: str
    as_of_ms: int
    generations: tuple[Generation, ...] = ()
    activities: tuple[Activity, ...] = ()
    removals: tuple[Removal, ...] = ()
    log_ends: tuple[LogEnd, ...] = ()
    events: tuple[Event, ...] = ()
    offsets_retention_ms: int = OFFSETS_RETENTION_MS
