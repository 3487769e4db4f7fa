"""Commits as the coordinator is asked for them."""

from collections.abc import Sequence

from kohort.coordinator.commands import CommitEntry, OffsetCommit
from kohort.protocol.errors import ErrorCode


def offset_commit(
    group_id: str,
    offsets: Sequence[tuple[str, int, int]],
    *,
    generation: int = -1,
    member_id: str = "",
    instance: str | None = None,
    metadata: str | None = None,
    retention_ms: int | None = None,
    unknown_group: ErrorCode = ErrorCode.illegal_generation,
) -> OffsetCommit:
    """`offsets`: (topic, partition, offset) of each."""
    return OffsetCommit(
        group_id,
        generation,
        member_id,
        instance,
        [CommitEntry(topic, partition, -1, metadata) for topic, partition, _ in offsets],
        [(offset,) for _, _, offset in offsets],
        retention_ms,
        unknown_group,
    )
