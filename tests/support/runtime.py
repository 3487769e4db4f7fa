"""One offsets partition under a real runtime: loop, clock, timers and disk are turned by hand."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kohort.broker.build import group_config
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.context import CoordinatorCodec, CoordinatorContext
from kohort.broker.event_log import EventPublisher
from kohort.broker.offset_cleanup import DeletedTopics
from kohort.broker.runtime import CoordinatorRuntime
from kohort.broker.scheduler import Scheduler
from kohort.coordinator.commands import OffsetFetch
from kohort.coordinator.coordinator import Coordinator
from kohort.log.cache_files import SPILL, create_empty
from kohort.log.group_commit import Durability, GroupCommit
from kohort.log.log import Log, LogConfig
from kohort.offsets.store import OffsetsStore
from kohort.offsets.table import OffsetsCache, OffsetsTable
from kohort.testing.faulty_files import FaultyFiles
from kohort.topics.delayed_fetch import DelayedFetches
from support.coordinator import offset_commit
from support.log import sync_each


class HandClock:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.ms


class HandTimer:
    def __init__(self, deadline_ms: int, callback: Callable[[], None]) -> None:
        self.deadline_ms = deadline_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class HandTimers:
    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.timers: list[HandTimer] = []

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> HandTimer:
        self.timers.append(HandTimer(deadline_ms, callback))
        return self.timers[-1]

    def advance(self, ms: int) -> None:
        self.clock.ms += ms
        due = [timer for timer in self.timers if timer.deadline_ms <= self.clock.ms]
        self.timers = [timer for timer in self.timers if timer not in due]
        for timer in due:
            if timer.callback is not None:
                timer.callback()


FOLDER = Path("/data/__consumer_offsets-0")


def run_now(work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
    """In place of a thread."""
    try:
        work()
    except OSError as error:
        done(error)
    else:
        done(None)


class OnePartition:
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


class World:
    """One offsets partition under a runtime whose loop is turned by hand."""

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
        self.clock = HandClock()
        self.timers = HandTimers(self.clock)
        self.partition = OnePartition(self.files, log_config)
        self.cache = OffsetsCache(cache_offsets)
        self.scheduler = Scheduler(self.slices.append, run_now, slice_seconds=0)
        self.publisher = EventPublisher("")
        self.group_commit = GroupCommit(
            durability=durability, call_soon=self.due.append, sync_all=self.sync_all
        )
        self.delayed_fetches = DelayedFetches()
        self.deleted_topics = DeletedTopics()
        self.runtime = CoordinatorRuntime(
            store=OffsetsStore(
                partitions=1, partition=self.one, group_commit=self.group_commit, files=self.files
            ),
            cache=self.cache,
            clock=self.clock,
            timers=self.timers,  # type: ignore[arg-type]
            scheduler=self.scheduler,
            new_context=lambda partition: CoordinatorContext(
                partition, *self.new_coordinator(partition), self.publisher, self.delayed_fetches
            ),
            new_coordinator=self.new_coordinator,
            leads=lambda _partition: True,
            deleted_topics=self.deleted_topics,
            retention_check_interval_ms=600_000,
        )
        self.ids = 0
        self.answers: dict[str, Any] = {}

    def one(self, index: int) -> OnePartition:
        assert index == 0
        return self.partition

    def new_coordinator(self, _partition: int) -> tuple[Coordinator, OffsetsTable]:
        offsets = self.cache.new_table(lambda: create_empty(FOLDER / SPILL, self.files))
        config = group_config(BrokerConfig({"group.initial.rebalance.delay.ms": "0"}))
        return Coordinator(config, self.new_id, CoordinatorCodec(), offsets), offsets

    def new_id(self) -> str:
        self.ids += 1
        return str(self.ids)

    def sync_all(
        self, logs: Sequence[Log], done: Callable[[Sequence[OSError | None]], None]
    ) -> None:
        def sync() -> None:
            done(sync_each(logs))

        self.due.append(sync)

    def turn(self) -> None:
        """Until nothing is due any more."""
        while self.due or self.slices:
            due, self.due[:] = list(self.due), []
            for callback in due:
                callback()
            self.next_slice()

    def next_slice(self) -> None:
        """Let one cooperative task run for a step, if there is one."""
        if self.slices:
            self.slices.pop(0)()

    def ask(self, name: str, command: Any) -> int:
        return self.runtime.submit(command, self._answer, name)

    def _answer(self, name: str, result: Any) -> None:
        assert name not in self.answers, f"{name} was answered twice"
        self.answers[name] = result

    def commit(self, name: str, offset: int, *, group_id: str = "g") -> None:
        self.ask(name, offset_commit(group_id, [("t", 0, offset)]))

    def topic_deleted(self, topic: str = "t") -> None:
        self.deleted_topics.add(topic)
        self.runtime.topics_deleted()

    def fetched(self, group_id: str = "g") -> int:
        self.answers.pop("fetch", None)
        self.ask("fetch", OffsetFetch(group_id, (("t", (0,)),), False, None, -1))
        self.turn()
        return int(self.answers["fetch"].topics[0][1][0].offset)
