"""What a node's runtime keeps of each offsets partition that it leads."""

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Final

from ..coordinator.coordinator import Coordinator, Outcome, Reply
from ..log.log import Log
from ..offsets.records import ReplayedRecord
from ..offsets.snapshot import SnapshotWriter
from ..topics.delayed_fetch import DelayedFetches
from .timers import Timer, Timers


class ShardState(Enum):
    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()
    RESIGNED = auto()


# As a plain name: looking one up in its enum costs as much as ten calls, and each command asks.
ACTIVE: Final = ShardState.ACTIVE


class ServedShard:
    """One partition of the offsets topic, as this node serves it: its log, its coordinator."""

    __slots__ = (
        "coordinator",
        "failed_ms",
        "forgetting",
        "gathered",
        "loading",
        "log",
        "partition",
        "round",
        "snapshot",
        "snapshot_end",
        "snapshot_ms",
        "snapshot_timer",
        "state",
        "timer",
        "waiters",
    )

    def __init__(self, partition: int, coordinator: Coordinator, waiters: DelayedFetches) -> None:
        self.partition = partition
        self.waiters = waiters
        self.coordinator = coordinator
        self.state = ShardState.FAILED
        self.log: Log | None = None
        self.loading: Iterator[list[ReplayedRecord]] | None = None
        # What is left of forgetting topics that were deleted, while that goes on.
        self.forgetting: Iterator[Outcome] | None = None
        self.failed_ms = 0
        self.timer: Timer | None = None
        # Replies whose records are in the newest round: the one that gathers, or, while none
        # does, the one that is being synced.
        self.gathered: list[Reply] | None = None
        self.round: object = None
        # The one that is being written; where the log ended when the newest was begun, and when
        # that was; what waits for the next.
        self.snapshot: SnapshotWriter | None = None
        self.snapshot_end = self.snapshot_ms = 0
        self.snapshot_timer: Timer | None = None

    def arm(self, timers: Timers, deadline_ms: int, tick: Callable[[], None]) -> None:
        """Call `tick` at this time and no other. The slices of a sweep take turns with those of
        other partitions and with whoever has a request."""
        self.disarm()
        if self.coordinator.is_expiring:
            self.timer = timers.in_turn(tick)
        else:
            self.timer = timers.call_at(deadline_ms, tick)

    def disarm(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
