"""What a node's runtime keeps of each offsets partition that it leads."""

from collections.abc import Iterator
from enum import Enum, auto

from ..log.log import Log
from ..offsets.records import OffsetsRecord
from .groups.coordinator import Coordinator, Reply
from .timers import Timer


class ShardState(Enum):
    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()
    RESIGNED = auto()


class ServedShard:
    """One partition of the offsets topic, as this node serves it: its log, its coordinator."""

    __slots__ = (
        "coordinator",
        "failed_ms",
        "gathered",
        "loading",
        "log",
        "partition",
        "state",
        "timer",
    )

    def __init__(self, partition: int, coordinator: Coordinator) -> None:
        self.partition = partition
        self.coordinator = coordinator
        self.state = ShardState.FAILED
        self.log: Log | None = None
        self.loading: Iterator[list[OffsetsRecord]] | None = None
        self.failed_ms = 0
        self.timer: Timer | None = None
        # Replies whose records are in the newest round: the one that gathers, or, while none
        # does, the one that is being synced.
        self.gathered: list[Reply] | None = None
