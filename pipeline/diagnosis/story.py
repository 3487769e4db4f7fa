"""What is known of one group, gathered: all that the rules of this folder ever look at.

Whoever reads a lake, or a decoded log, makes a `Story`; the rules make rows of it (rows.py). Times
are milliseconds since 1970 by the broker's clock, spans too; None is "not known". Records stand in
the order of the log, which is the only order there is: clocks may go back, offsets do not.
"""

from typing import Final, NamedTuple

__all__ = [
    "OFFSETS_RETENTION_MS",
    "Activity",
    "Commit",
    "Event",
    "Generation",
    "LogEnd",
    "Member",
    "Removal",
    "Story",
    "TopicPartition",
    "Window",
]

TopicPartition = tuple[str, int]

OFFSETS_RETENTION_MS: Final = 7 * 24 * 3_600_000
"""Kafka's default of offsets.retention.minutes."""


class Member(NamedTuple):
    """A member of a stored generation: an element of `silver_generation.member_list`."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    # Java, librdkafka and kafka-python put max.poll.interval.ms here, aiokafka its session timeout.
    rebalance_timeout_ms: int
    session_timeout_ms: int
    topics: tuple[str, ...] | None = None  # None: a subscription that cannot be read
    owned: tuple[TopicPartition, ...] | None = None  # what it said it had when it joined
    assigned: tuple[TopicPartition, ...] | None = None  # None: an assignment that cannot be read


class Generation(NamedTuple):
    """A record of the group's metadata: a row of `silver_generation` (or of `bronze_group`)."""

    log_offset: int
    offsets_partition: int = 0
    tombstone: bool = False
    # A tombstone, and the group goes on: it is of the consumer protocol (KIP-848) from there on.
    converted: bool = False
    generation: int | None = None  # None of a tombstone only
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    # `joined_at`, currentStateTimestamp: the end of the join phase, or since when it is Empty.
    state_ms: int | None = None
    append_ms: int | None = None  # `synced_at`: when the record was written
    members: tuple[Member, ...] = ()
    # False: compaction has taken records between the group's record before and this one.
    history_complete: bool = True
    # The last record of its offsets partition, up to this one, before which some are missing.
    last_gap: int | None = None

    def shows_all_since(self, log_offset: int) -> bool:
        """Nothing is missing from the log between there and this record."""
        return self.last_gap is None or self.last_gap <= log_offset


class Activity(NamedTuple):
    """Commits of one partition under one generation: `silver_activity`, or a batch's share of it.

    Shares of the same generation may be handed in one by one; they are added up.
    """

    topic: str
    partition: int
    generation_log_offset: int | None  # `Generation.log_offset` in force; None: before any
    commits: int
    # How many of them repeat the offset before. The first one that is known of a partition repeats
    # nothing, though nobody knows whether it went ahead.
    repeats: int
    first_commit_ms: int
    last_commit_ms: int
    last_advance_ms: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    last_log_offset: int = -1  # where its last commit stands
    median_gap_ms: int | None = None
    history_complete: bool = True
    share: int = 0  # its place among shares, in the order of the log


class Removal(NamedTuple):
    """A tombstone of a commit: a row of `silver_commit` with the kind TOMBSTONE."""

    topic: str
    partition: int
    log_offset: int
    append_ms: int


class LogEnd(NamedTuple):
    """A sample of a partition's log: `bronze_log_end`, of partitions that the group commits."""

    topic: str
    partition: int
    log_start: int | None
    log_end: int
    sampled_ms: int


class Commit(NamedTuple):
    """A commit of a partition's window."""

    offset: int
    commit_ms: int
    lag: int | None = None  # against the newest sample of the log's end that was older


class Window(NamedTuple):
    """A partition of a group now: its last commits and the last samples of its log."""

    topic: str
    partition: int
    commits: tuple[Commit, ...]  # in the order of the log
    log_ends: tuple[LogEnd, ...] = ()  # by time, those of the last minutes
    owner: Member | None = None  # who is assigned it in the newest generation


class Event(NamedTuple):
    """A line of the coordinator's event log: `bronze_event`; docs/events.md says what each is."""

    ts_ms: int
    seq: int
    type: str
    member_id: str | None = None
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    generation: int | None = None
    state_from: str | None = None
    state_to: str | None = None
    error_code: int | None = None
    reason: str | None = None
    duration_ms: int | None = None
    detail: dict[str, str] = {}  # noqa: RUF012  (read only: a NamedTuple's default)
    node: int = 0


class Story(NamedTuple):
    """All that is known of a group up to `as_of_ms`; each part in the order of the log, or of seq.

    `log_ends` and `events` may be empty: what rests on them is then not known, or less sure.
    """

    cluster: str
    group: str
    as_of_ms: int
    generations: tuple[Generation, ...] = ()
    activities: tuple[Activity, ...] = ()
    removals: tuple[Removal, ...] = ()
    log_ends: tuple[LogEnd, ...] = ()
    events: tuple[Event, ...] = ()
    offsets_retention_ms: int = OFFSETS_RETENTION_MS
