"""The offsets partitions that one node leads: opened, given up, lost, read again."""

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..coordinator.commands import Command
from ..coordinator.coordinator import Coordinator, Outcome, Reply
from ..coordinator.results import refusal
from ..log.errors import CorruptBatch, LogError
from ..offsets.store import OffsetsStore
from ..protocol.errors import ErrorCode
from ..topics.delayed_fetch import DelayedFetches
from .clock import Clock
from .loading import Loader
from .offset_cleanup import DeletedTopics, OffsetCleanup
from .shard import ServedShard, ShardState
from .snapshots import Snapshots
from .timers import Timers

_log = logging.getLogger("kohort.coordinator")

# A partition whose log could not be opened is tried again by the first request after this time.
RETRY_FAILED_MS = 1_000

Respond = Callable[[Any, Any], None]
"""respond(context, result): answers with the result of a command (coordinator/results.py)."""


class LedPartitions(ABC):
    """`leads(partition)` says whether the node does. Who changes that tells `resign` and `load`.
    `waiters(partition)`: who reads the partition's records, and waits for more to be durable.

    What is asked of them is decided by the subclass (runtime.py).
    """

    def __init__(
        self,
        *,
        store: OffsetsStore,
        clock: Clock,
        timers: Timers,
        new_coordinator: Callable[[int], Coordinator],
        call_soon: Callable[[Callable[[], None]], object],
        leads: Callable[[int], bool],
        waiters: Callable[[int], DelayedFetches],
        deleted_topics: DeletedTopics,
    ) -> None:
        self._leads = leads
        self._waiters = waiters
        self._store = store
        self._clock = clock
        self._timers = timers
        self._new_coordinator = new_coordinator
        self._call_soon = call_soon
        self._shards: dict[int, ServedShard] = {}
        # By ticket: what was asked, and who is answered.
        self._waiting: dict[int, tuple[Command, Respond, Any]] = {}
        self._to_load: deque[int] = deque()
        self._deleted_topics = deleted_topics
        self._forgetter = OffsetCleanup(
            deleted=deleted_topics,
            store=store,
            timers=timers,
            carry_out=lambda shard, outcome: self._carry_out(shard, outcome, clock.now_ms()),
            done=self._has_forgotten,
            misread=self._misread,
        )
        self._loader = Loader(
            store=store,
            call_soon=call_soon,
            read=self._has_read,
            failed=self._fail,
            misread=self._misread,
            idle=self._load_next,
        )
        self._snapshots = Snapshots(store, clock, timers, self._misread)
        # For who steers a broker in a test: a partition whose log is read goes on loading until
        # `go` is called.
        self.when_read: Callable[[int, Callable[[], None]], None] = lambda _partition, go: go()
        # Told when topics that were deleted are forgotten in a partition, or nobody serves it.
        self.on_forgotten: Callable[[], None] = lambda: None

    @abstractmethod
    def _carry_out(self, shard: ServedShard, outcome: Outcome, now: int) -> None:
        """Append and apply its records, give its replies once they may be given."""

    def _deliver(self, replies: Sequence[Reply]) -> None:
        """Give these replies now. One that cannot be given is raised once the others are."""
        waiting = self._waiting
        failed: Exception | None = None
        for ticket, result in replies:
            entry = waiting.pop(ticket, None)
            if entry is not None:
                _, respond, context = entry
                try:
                    respond(context, result)
                except Exception as error:
                    failed = error
        if failed is not None:
            raise failed

    def load(self, partitions: Iterable[int]) -> None:
        """Load `partitions` in the background, so that the sessions of their members are watched;
        a request for one of them loads it at once."""
        self._to_load.extend(partitions)
        self._call_soon(self._load_next)

    def _load_next(self) -> None:
        while self._to_load:
            partition = self._to_load.popleft()
            if partition not in self._shards and self._leads(partition):
                self._open(partition, is_asked_for=False)
                if self._loader.is_idle:
                    self._call_soon(self._load_next)
                return

    @property
    def shards(self) -> Mapping[int, ServedShard]:
        """By offsets partition. To look at."""
        return self._shards

    def resign(self, partition: int) -> None:
        """Another node leads it from now on: whoever is parked is told to look for that one.

        Answers that wait for their records still come once these are durable, and the next leader
        reads the log only then.
        """
        shard = self._shards.pop(partition, None)
        if shard is not None:
            shard.state = ShardState.RESIGNED
            shard.loading = shard.forgetting = None
            shard.disarm()
            self._deliver(shard.coordinator.unload())
            self._snapshots.drop(shard)
        self.on_forgotten()

    def dismiss(self) -> None:
        """The broker stops: whoever is parked is told to look for another. Nothing is to fall due
        any more, for those who were told have not gone."""
        now = self._clock.now_ms()
        for shard in self._shards.values():
            self._deliver(shard.coordinator.dismiss(now))
            shard.disarm()

    def topics_deleted(self) -> None:
        """Tombstones for all that was committed for the newest of the deleted topics; where the
        log is still to be read, once it is and before anyone is answered from it."""
        for shard in list(self._shards.values()):
            if shard.state is ShardState.ACTIVE:
                self._forgetter.begin(shard)

    def has_forgotten(self, count: int) -> bool:
        """Whether the first so many deleted topics have left nothing that could be served."""
        return not self._is_unread() and all(
            shard.state is ShardState.FAILED or self._deleted_topics.forgotten(partition) >= count
            for partition, shard in self._shards.items()
        )

    def _has_read(self, shard: ServedShard) -> None:
        def go() -> None:
            if shard.state is ShardState.LOADING:
                self._forgetter.begin(shard)

        self.when_read(shard.partition, go)

    def _has_forgotten(self, shard: ServedShard) -> None:
        if shard.state is ShardState.LOADING:
            shard.state = ShardState.ACTIVE
            now = self._clock.now_ms()
            self._carry_out(shard, shard.coordinator.loaded(now), now)
            self._snapshots.look_at(shard)
        self.on_forgotten()

    def close(self) -> None:
        """When all is durable."""
        self._snapshots.write_all(self._shards.values())
        for shard in self._shards.values():
            shard.loading = shard.forgetting = None
            shard.disarm()
            self._snapshots.drop(shard)
        self._shards.clear()
        self._waiting.clear()
        self._to_load.clear()

    def _is_loading(self) -> bool:
        loading = any(s.state is ShardState.LOADING for s in self._shards.values())
        return loading or self._is_unread()

    def _is_unread(self) -> bool:
        return any(p not in self._shards and self._leads(p) for p in self._to_load)

    def _not_ready(self, shard: ServedShard, command: Command) -> Any | None:
        if (
            shard.state is ShardState.FAILED
            and self._clock.now_ms() >= shard.failed_ms + RETRY_FAILED_MS
        ):
            self._loader.begin(shard)
        if shard.state is ShardState.ACTIVE:
            return None
        if shard.state is ShardState.FAILED:
            return refusal(command, ErrorCode.not_coordinator)
        self._loader.prefer(shard)
        return refusal(command, ErrorCode.coordinator_load_in_progress)

    # --- losing

    def _open(self, partition: int, *, is_asked_for: bool = True) -> ServedShard:
        coordinator, waiters = self._new_coordinator(partition), self._waiters(partition)
        shard = self._shards[partition] = ServedShard(partition, coordinator, waiters)
        self._loader.begin(shard, is_asked_for=is_asked_for)
        return shard

    def _lose(self, shard: ServedShard, error: OSError) -> None:
        """What is in memory rests on bytes that are not on disk: let go and read the disk again."""
        _log.error(
            "Partition %d of the offsets topic is read again after: %s", shard.partition, error
        )
        log, lost = shard.log, shard.coordinator
        assert log is not None
        if shard.state is ShardState.RESIGNED:
            # Its next leader waits for the same bytes, and hears of it now.
            self._store.fail_pending(log, error)
            return
        self._snapshots.drop(shard)
        was_loading = shard.state is ShardState.LOADING
        shard.state = ShardState.LOADING
        shard.gathered = shard.forgetting = None
        shard.coordinator = self._new_coordinator(shard.partition)
        shard.disarm()
        self._store.fail_pending(log, error)
        if was_loading:
            # What it must forget first cannot be written: not to be tried again without an end.
            self._fail(shard, error)
        else:
            self._loader.begin(shard)
        self._deliver(lost.unload())

    def _misread(self, shard: ServedShard, error: OSError | CorruptBatch) -> None:
        """What the table has in files cannot be read, or the log where a survey said it can. The
        log has all there is, and what is decided stays decided: it is read once more, when it has
        it."""
        _log.error(
            "The snapshot of partition %d of the offsets topic is thrown away, and its log read, "
            "after: %s",
            shard.partition,
            error,
        )
        log, lost = shard.log, shard.coordinator
        assert log is not None
        self._snapshots.drop(shard)
        # The log has not failed, so it is not to be recovered under a round that is being synced
        # (there is none while it is read, which is when a bad batch is met).
        shard.gathered = shard.forgetting = shard.log = None
        shard.coordinator = self._new_coordinator(shard.partition)
        shard.disarm()
        try:
            self._store.distrust(shard.partition, log, error)
        except (OSError, LogError) as failure:
            self._fail(shard, failure)
        else:
            self._loader.begin(shard)
        self._deliver(lost.unload())

    def _fail(self, shard: ServedShard, error: Exception) -> None:
        """The partition cannot be read: it answers NOT_COORDINATOR until a later try succeeds."""
        _log.error("Partition %d of the offsets topic cannot be read: %s", shard.partition, error)
        shard.state = ShardState.FAILED
        shard.failed_ms = self._clock.now_ms()
        shard.loading = None
        self._snapshots.drop(shard)
        shard.coordinator = self._new_coordinator(shard.partition)
        self.on_forgotten()
