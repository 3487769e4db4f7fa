"""The coordinator runtime without an event loop: the test runs callbacks, timers and slices, and
the disk is in memory."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kohort.broker.build import group_config
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.event_log import EventPublisher
from kohort.broker.event_loop.scheduler import Scheduler
from kohort.broker.runtime.context import CoordinatorContext
from kohort.broker.runtime.deleted_topics import DeletedTopics
from kohort.broker.runtime.runtime import CoordinatorRuntime
from kohort.coordinator.commands import OffsetFetch
from kohort.coordinator.coordinator import Coordinator
from kohort.log.cache_files import SPILL, create_empty
from kohort.log.group_commit import Durability, GroupCommit
from kohort.log.log import Log, LogConfig
from kohort.offsets.store import OffsetsStore
from kohort.offsets.table import OffsetsCache, OffsetsTable
from kohort.protocol.errors import ErrorCode
from kohort.testing.faults.files import FaultyFiles
from kohort.topics.delayed_fetch import DelayedFetches
from support.coordinator import new_coordinator as build_coordinator
from support.coordinator import offset_commit
from support.log import sync_each

DATA = Path("/data")
FOLDER = DATA / "__consumer_offsets-0"
NOW_MS = 1_700_000_000_000
SWEEP_INTERVAL_MS = 600_000


class ManualClock:
    def __init__(self) -> None:
        self.ms = NOW_MS
        self.correction_ms = 0
        """How much the system clock has been corrected."""

    def now_ms(self) -> int:
        return self.ms

    def wall_ms(self) -> int:
        return self.ms + self.correction_ms


class ManualTimer:
    def __init__(self, deadline_ms: int, callback: Callable[[], None]) -> None:
        self.deadline_ms = deadline_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualTimers:
    """Timers that fire when `advance` moves their clock."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.timers: list[ManualTimer] = []

    def now_ms(self) -> int:
        return self.clock.ms

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> ManualTimer:
        self.timers.append(ManualTimer(deadline_ms, callback))
        return self.timers[-1]

    @property
    def pending(self) -> list[ManualTimer]:
        return [timer for timer in self.timers if timer.callback is not None]

    def advance(self, ms: int) -> None:
        self.clock.ms += ms
        due = [timer for timer in self.timers if timer.deadline_ms <= self.clock.ms]
        self.timers = [timer for timer in self.timers if timer not in due]
        for timer in due:
            if timer.callback is not None:
                timer.callback()


def no_time() -> float:
    """The clock of a scheduler whose slices do not depend on the speed of the machine."""
    return 0.0


def run_now(work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
    """Run a scheduler's work here instead of in a thread."""
    try:
        work()
    except Exception as error:
        done(error)
    else:
        done(None)


def new_coordinator(
    offsets: OffsetsTable, new_id: Callable[[], str]
) -> tuple[Coordinator, OffsetsTable]:
    config = group_config(BrokerConfig({"group.initial.rebalance.delay.ms": "0"}))
    return build_coordinator(config, new_id, offsets), offsets


def new_runtime(
    *,
    partitions: int,
    partition: Callable[[int], Any],
    group_commit: GroupCommit,
    timers: Any,
    scheduler: Scheduler,
    cache: OffsetsCache,
    coordinator: Callable[[int], tuple[Coordinator, OffsetsTable]],
    delayed_fetches: Callable[[int], DelayedFetches],
    deleted_topics: DeletedTopics,
    publisher: Callable[[int], Any] = lambda _index: EventPublisher(""),
    leads: Callable[[int], bool] = lambda _index: True,
    check_interval_ms: int = SWEEP_INTERVAL_MS,
) -> CoordinatorRuntime:
    """By default it coordinates all partitions and publishes no events."""
    return CoordinatorRuntime(
        store=OffsetsStore(partitions=partitions, partition=partition, group_commit=group_commit),
        cache=cache,
        clock=timers.clock,
        timers=timers,
        scheduler=scheduler,
        new_context=lambda index: CoordinatorContext(
            index, *coordinator(index), publisher(index), delayed_fetches(index)
        ),
        new_coordinator=coordinator,
        leads=leads,
        deleted_topics=deleted_topics,
        retention_check_interval_ms=check_interval_ms,
    )


class OffsetsPartition:
    """The only partition of the offsets topic."""

    def __init__(self, files: FaultyFiles, config: LogConfig | None) -> None:
        self._files = files
        self._config = config
        self._log: Log | None = None

    @property
    def log(self) -> Log:
        if self._log is None:
            self._log = Log.open(FOLDER, self._files, self._config)
        return self._log

    def reopen(self, end_offset: int | None = None) -> Log:
        if self._log is not None:
            self._log.close()
        self._log = None
        if end_offset is not None:
            self.log.truncate_to(min(end_offset, self.log.end_offset))
        return self.log


class RuntimeHarness:
    """A runtime with one offsets partition. `results` has the response to each named request."""

    def __init__(
        self,
        durability: Durability = "fsync",
        files: FaultyFiles | None = None,
        *,
        log_config: LogConfig | None = None,
        cache_offsets: int = 0,
    ) -> None:
        self.files = files or FaultyFiles()
        self.due: list[Callable[[], None]] = []
        self.slices: list[Callable[[], None]] = []
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.partition = OffsetsPartition(self.files, log_config)
        self.cache = OffsetsCache(cache_offsets)
        self.scheduler = Scheduler(self.slices.append, run_now, seconds=no_time, slice_seconds=0)
        self.group_commit = GroupCommit(
            durability=durability, call_soon=self.due.append, sync_all=self._sync_all
        )
        delayed_fetches = DelayedFetches()
        self.deleted_topics = DeletedTopics()
        self.runtime = new_runtime(
            partitions=1,
            partition=lambda _index: self.partition,
            group_commit=self.group_commit,
            timers=self.timers,
            scheduler=self.scheduler,
            cache=self.cache,
            coordinator=lambda _index: self._new_coordinator(),
            delayed_fetches=lambda _index: delayed_fetches,
            deleted_topics=self.deleted_topics,
        )
        self._ids = 0
        self.results: dict[str, Any] = {}

    def _new_coordinator(self) -> tuple[Coordinator, OffsetsTable]:
        offsets = self.cache.new_table(lambda: create_empty(FOLDER / SPILL, self.files))
        return new_coordinator(offsets, self._new_id)

    def _new_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    def _sync_all(
        self, syncs: Sequence[Callable[[], None]], done: Callable[[Sequence[OSError | None]], None]
    ) -> None:
        self.due.append(lambda: done(sync_each(syncs)))

    @property
    def context(self) -> Any:
        """Return the loaded partition."""
        return self.runtime.contexts[0]

    def run_loop(self) -> None:
        """Run callbacks and slices until there are none."""
        while self.due or self.slices:
            due, self.due[:] = list(self.due), []
            for callback in due:
                callback()
            self.run_slice()

    def run_slice(self) -> None:
        """Run one step of a cooperative task, if there is one."""
        if self.slices:
            self.slices.pop(0)()

    def submit(self, name: str, command: Any) -> int:
        return self.runtime.submit(command, self._set_result, name)

    def _set_result(self, name: str, result: Any) -> None:
        assert name not in self.results, f"{name} has two responses"
        self.results[name] = result

    def commit(self, name: str, offset: int, *, group_id: str = "g") -> None:
        self.submit(name, offset_commit(group_id, [("t", 0, offset)]))

    def commit_and_run(self, offset: int, *, group_id: str = "g") -> ErrorCode:
        """Commit an offset, run the loop, and return the error."""
        self.results.pop("commit", None)
        self.commit("commit", offset, group_id=group_id)
        self.run_loop()
        (error,) = self.results["commit"].errors
        return ErrorCode(error)

    def topic_deleted(self, topic: str = "t") -> None:
        self.deleted_topics.add(topic)
        self.runtime.topics_deleted()

    def fetch(self, name: str, group_id: str = "g") -> None:
        self.submit(name, OffsetFetch(group_id, (("t", (0,)),), False, None, -1))

    def committed_offset(self, group_id: str = "g") -> int | ErrorCode:
        """Return the committed offset, or the error."""
        self.results.pop("fetch", None)
        self.fetch("fetch", group_id)
        self.run_loop()
        result = self.results["fetch"]
        return result.error_code or result.topics[0][1][0].committed_offset
