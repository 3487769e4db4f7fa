"""The coordinator runtime's state for one offsets partition, and the coordinators' codec."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, TypeAlias

from ...coordinator.coordinator import Coordinator
from ...coordinator.decision import AssignmentInfo, SubscriptionInfo
from ...coordinator.outcome import Reply
from ...log.log import Log
from ...offsets.record_codec import decode_commit_value, offset_commit
from ...offsets.records import (
    OffsetAndMetadata,
    OffsetCommitRecord,
    OffsetsRecord,
    OffsetTombstone,
    TransactionEnd,
)
from ...offsets.snapshot import SnapshotWriter
from ...offsets.table import OffsetsTable
from ...protocol.consumer_protocol import (
    ASSIGNMENT,
    Assignment,
    TopicPartitions,
    decode_assignment,
    decode_subscribed_topics,
    decode_subscription,
    encode_assignment,
)
from ...protocol.errors import DecodeError
from ...protocol.primitives import INT16
from ...topics.delayed_fetch import DelayedFetches
from ..event_log import EventPublisher
from ..event_loop.timers import Timer


class CoordinatorState(Enum):
    """The state of a partition's coordinator (upstream: CoordinatorRuntime.CoordinatorState)."""

    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()
    CLOSED = auto()


# A module constant, because looking up an enum member for every command is slow.
ACTIVE: Final = CoordinatorState.ACTIVE

# Minimum time between attempts to load a partition, after a failed attempt.
RETRY_FAILED_MS: Final = 1_000

Respond: TypeAlias = Callable[[Any, Any], None]
"""respond(request, result): sends the result of a command."""


class CoordinatorCodec:
    """The encodings that the coordinator uses (coordinator/decision.py: Codec)."""

    offset_commit = staticmethod(offset_commit)

    def committed(self, record: OffsetCommitRecord) -> OffsetAndMetadata:
        return decode_commit_value(record.value)

    def subscription(self, metadata: bytes) -> SubscriptionInfo | None:
        try:
            subscription = decode_subscription(metadata)
        except DecodeError:
            return None
        owned = {
            (topic, index) for topic, indexes in subscription.owned_partitions for index in indexes
        }
        return SubscriptionInfo(subscription.topics, owned, subscription.rack_id)

    def subscribed_topics(self, metadata: bytes) -> Iterable[str]:
        return decode_subscribed_topics(metadata)

    def assignment(self, assignment: bytes) -> AssignmentInfo | None:
        if not assignment:
            return AssignmentInfo({}, has_user_data=False)
        try:
            decoded = decode_assignment(assignment)
        except DecodeError:
            return None
        return AssignmentInfo(dict(decoded.assigned_partitions), bool(decoded.user_data))

    def encode_assignment(
        self, partitions: Mapping[str, Iterable[int]], subscription: bytes
    ) -> bytes:
        if len(subscription) < INT16.size:
            raise DecodeError("Buffer underflow while parsing consumer protocol's header")
        version = INT16.unpack_from(subscription)[0]
        if version < 0:
            raise DecodeError(f"Unsupported assignment version: {version}")
        listed = (TopicPartitions(topic, tuple(each)) for topic, each in partitions.items())
        return encode_assignment(Assignment(tuple(listed)), min(version, ASSIGNMENT.max_version))


@dataclass(eq=False, slots=True)
class CoordinatorContext:
    """State of one offsets partition: its log, its coordinator and the operations in progress."""

    partition: int
    coordinator: Coordinator
    offsets: OffsetsTable
    publisher: EventPublisher
    fetches: DelayedFetches
    state: CoordinatorState = CoordinatorState.FAILED
    log: Log | None = None
    failed_ms: int = 0
    replay: Iterator[list[OffsetsRecord]] | None = None
    """The records still to be replayed while the partition is loading, by batch."""
    cleanup: object | None = None
    """Identifies the running cleanup of deleted topics' offsets; None if no cleanup is running."""
    timer: Timer | None = None
    """The timer for the coordinator's next deadline."""
    retention_timer: Timer | None = None
    """The timer for deleting expired offsets."""
    replies: list[Reply] | None = None
    """Replies that wait for `flush`, the latest flush, which is pending or in progress."""
    flush: object | None = None
    snapshot: SnapshotWriter | None = None
    """The snapshot being written."""
    snapshot_end: int = 0
    """The offset from which the log is replayed after the latest complete snapshot."""
    snapshot_ms: int = 0
    """The time of the latest attempt to write a snapshot."""
    snapshot_timer: Timer | None = None
    """The timer for the next attempt."""

    def load_offsets(self, record: OffsetsRecord) -> None:
        """Load the offsets that applying `record` needs. Raises OSError."""
        if isinstance(record, OffsetCommitRecord | OffsetTombstone):
            self.offsets.load(record.group_id)
        elif isinstance(record, TransactionEnd):
            for group_id in self.coordinator.pending_offsets.groups_of(record.producer_id):
                self.offsets.load(group_id)

    def cancel_timers(self) -> None:
        for timer in (self.timer, self.retention_timer):
            if timer is not None:
                timer.cancel()
        self.timer = self.retention_timer = None
