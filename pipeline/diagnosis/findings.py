"""What complaints are made of, and what they rest on: all that is known of a group."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ...offsets.causes import Cause
from .consumers import ConsumerGroup
from .rows import (
    GroupLifecycle,
    GroupStatus,
    MemberExit,
    PartitionStatus,
    Rebalance,
    Skew,
    Storm,
)
from .story import Generation

__all__ = ["ERROR", "HOUR_MS", "KNOWN", "SLOW", "THROWN_OUT", "WARNING", "Complaint", "Findings"]

KNOWN, WARNING, ERROR = 1, 2, 3
"""Severities: to be known; watch it; act. 0 is a group that nothing is wrong with."""

HOUR_MS: Final = 3_600_000

SLOW: Final = frozenset(
    {Cause.SLOW_POLL.name, Cause.REBALANCE_TIMEOUT.name, Cause.TIMEOUT_AMBIGUOUS.name}
)
"""Exits of members that took too long."""

THROWN_OUT: Final = SLOW | {Cause.SESSION_TIMEOUT.name, Cause.SYNC_TIMEOUT.name}
"""Exits of members that would have stayed."""


class Findings(NamedTuple):
    """All that is known of a group: rows of the last day at most, in the order of the log."""

    group: str
    as_of_ms: int
    generation: Generation | None = None  # the newest record
    status: GroupStatus | None = None
    partitions: Sequence[PartitionStatus] = ()
    rebalances: Sequence[Rebalance] = ()
    exits: Sequence[MemberExit] = ()
    storms: Sequence[Storm] = ()
    skews: Sequence[Skew] = ()
    lifecycle: GroupLifecycle | None = None
    # A group that is empty was one of members of some kind, and will be one of such again.
    last_with_members: Generation | None = None
    consumer: ConsumerGroup | None = None  # it is of that protocol: no `generation` is its

    @property
    def is_empty(self) -> bool:
        """Its members are gone: it had some."""
        if self.consumer is not None:
            return not self.consumer.members
        newest = self.generation
        return newest is not None and not newest.members and bool(newest.generation)

    def is_lately(self, at_ms: int | None) -> bool:
        """Within the last hour: what is older is to be known, and no reason to get up for."""
        return at_ms is not None and at_ms > self.as_of_ms - HOUR_MS


class Complaint(NamedTuple):
    severity: int
    verdict: str
    text: str  # sentences, for the paragraph
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
