"""What is done to logs in the background: the dirtiest is compacted, what is too old or too much
goes.

All of it is one row of short steps between which clients are served; what waits for the disk or
for a codec runs in a thread. A log that fails is left as it is and tried again later. Logs that
nobody has used since the start are not opened for it. Upstream: LogCleaner, LogManager.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from ..log.cleaner import CleanerConfig, clean
from ..log.cleanup import CleanableRange, CompactionPolicy, cleanable_range, retention_offset
from ..log.errors import CleaningStopped, LogError
from ..log.log import Log
from ..log.segment_swap import remove_files
from ..log.tasks import CooperativeTask, Step
from ..topics.partition import Partition
from .node import Node
from .timers import Timer

# One slice of steps; then whoever has a request comes first. A commit's round takes about as long.
SLICE_SECONDS: Final = 0.002
# While more than one log is due, or commits that come as fast as they can would outrun it.
HURRIED_SLICE_SECONDS: Final = 0.004
# A log whose disk failed, or that has a damaged batch, is left alone for this long.
RETRY_FAILED_MS: Final = 300_000

RunOutside = Callable[[Callable[[], object], Callable[[BaseException | None], None]], None]
"""run_outside(work, done): call `work` in a thread, then `done(error)` on the event loop."""

_log = logging.getLogger("kohort.cleaner")


class Maintenance:
    """Begins at once, with the settings of this node."""

    def __init__(
        self, node: Node, run_outside: RunOutside, seconds: Callable[[], float] = time.perf_counter
    ) -> None:
        config, clock = node.config, node.clock
        self._topics = node.topics
        self._clock = clock
        self._timers = node.timers
        self._run_outside = run_outside
        self._seconds = seconds
        self._compacts = config.bool("log.cleaner.enable")
        # Of what may be changed while it runs; the next look and the next run follow it.
        self._number = node.configs.broker_number
        self._retention_interval_ms = config.int("log.retention.check.interval.ms")
        self._retention_due_ms = clock.now_ms() + self._retention_interval_ms
        # Partitions that are left alone until then.
        self._later_ms: dict[str, int] = {}
        self._timer: Timer | None = None
        self._work: CooperativeTask[bool] | None = None
        self._outside: asyncio.Event | None = None
        self._stopped = False
        self._is_late = False
        self._wait(self._backoff_ms)

    @property
    def _backoff_ms(self) -> int:
        return self._number("log.cleaner.backoff.ms")

    async def stop(self) -> None:
        """What has been begun and not swapped in is given up."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._outside is not None:
            await self._outside.wait()
        if self._work is not None:
            self._work.close()

    # --- one step after the other

    def _wait(self, delay_ms: int) -> None:
        deadline_ms = self._retention_due_ms
        if self._compacts:
            deadline_ms = min(deadline_ms, self._clock.now_ms() + delay_ms)
        self._timer = self._timers.call_at(deadline_ms, self._begin)

    def _begin(self) -> None:
        self._work = self._round()
        self._go_on()

    def _go_on(self, error: BaseException | None = None) -> None:
        work = self._work
        if self._stopped or work is None:
            return
        end = self._seconds() + (HURRIED_SLICE_SECONDS if self._is_late else SLICE_SECONDS)
        try:
            step = next(work) if error is None else work.throw(error)
            while step is None and self._seconds() < end:
                step = next(work)
        except StopIteration as over:
            self._work = None
            # As Kafka: while there is something to compact, nobody waits.
            self._wait(0 if over.value else self._backoff_ms)
        except Exception:
            # A fault of ours, which the loop tells of: the logs are as they were.
            self._work = None
            self._wait(RETRY_FAILED_MS)
            raise
        else:
            self._next(step)

    def _next(self, step: Step) -> None:
        if step is None:
            self._timer = self._timers.in_turn(self._go_on)
            return
        outside = self._outside = asyncio.Event()

        def done(error: BaseException | None) -> None:
            self._outside = None
            outside.set()
            self._go_on(error)

        self._run_outside(step, done)

    # --- what is done

    def _round(self) -> CooperativeTask[bool]:
        """Whether a log was compacted, and so the next one may be due."""
        if self._clock.now_ms() >= self._retention_due_ms:
            yield from self._retain_all()
            self._retention_due_ms = self._clock.now_ms() + self._retention_interval_ms
        if not self._compacts:
            return False
        dirtiest = yield from self._dirtiest()
        if dirtiest is None:
            return False
        partition, dirtiness = dirtiest
        log = partition.opened_log
        if log is not None:
            yield from self._guarded(partition, log, self._compact(partition, log, dirtiness))
        return True

    def _dirtiest(self) -> CooperativeTask[tuple[Partition, CleanableRange] | None]:
        found: tuple[Partition, CleanableRange] | None = None
        due = 0
        for partition in self._partitions():
            yield None
            log, settings = partition.opened_log, partition.settings
            if not settings.compacted or log is None or not self._is_fit(partition, log):
                continue
            policy = CompactionPolicy(
                settings.min_cleanable_dirty_ratio,
                settings.min_compaction_lag_ms,
                settings.max_compaction_lag_ms,
            )
            dirtiness = cleanable_range(
                log,
                self._topics.checkpoints.cleaned_offsets.get(partition.name),
                partition.high_watermark,
                policy,
                self._clock.now_ms(),
            )
            due += dirtiness.is_cleanable
            if dirtiness.is_cleanable and (found is None or dirtiness.ratio > found[1].ratio):
                found = partition, dirtiness
        self._is_late = due > 1
        return found

    def _partitions(self) -> list[Partition]:
        return [partition for topic in self._topics for partition in topic.partitions]

    def _is_fit(self, partition: Partition, log: Log) -> bool:
        """A walk that began before a run might meet a record that was deleted, and then miss the
        tombstone: it goes first."""
        if self._clock.now_ms() < self._later_ms.get(partition.name, 0):
            return False
        return log.failed is None and not log.is_being_iterated

    def _guarded(
        self, partition: Partition, log: Log, work: CooperativeTask[None]
    ) -> CooperativeTask[None]:
        try:
            yield from work
        except CleaningStopped as stopped:
            _log.debug("%s", stopped)
        except (OSError, LogError) as error:
            if not log.closed:
                self._later_ms[partition.name] = self._clock.now_ms() + RETRY_FAILED_MS
                _log.error(
                    "The upkeep of %s failed, and is tried again in %d s: %s",
                    partition.name,
                    RETRY_FAILED_MS // 1000,
                    error,
                )

    def _compact(
        self, partition: Partition, log: Log, dirtiness: CleanableRange
    ) -> CooperativeTask[None]:
        settings = partition.settings
        terms = CleanerConfig(
            now_ms=self._clock.now_ms(),
            delete_retention_ms=settings.delete_retention_ms,
            segment_bytes=settings.segment_bytes,
            dedupe_buffer_bytes=self._number("log.cleaner.dedupe.buffer.size"),
            producer_expiration_ms=self._number("producer.id.expiration.ms"),
        )
        first_dirty, end = dirtiness.first_dirty, dirtiness.first_uncleanable
        done = yield from clean(log, first_dirty, end, terms)
        if log.closed:
            return
        if done.end_offset == first_dirty:
            # An open transaction is in the way; until it ends another run would end here too.
            self._later_ms[partition.name] = self._clock.now_ms() + RETRY_FAILED_MS
            return
        cleaned = self._topics.checkpoints.cleaned_offsets
        yield partial(cleaned.set, partition.name, done.end_offset, lambda: log.closed)
        _log.debug(
            "Compacted %s up to offset %d: %d of %d records are left, %d of %d bytes",
            partition.name,
            done.end_offset,
            done.records_after,
            done.records_before,
            done.bytes_after,
            done.bytes_before,
        )

    def _retain_all(self) -> CooperativeTask[None]:
        for partition in self._partitions():
            yield None
            log = partition.opened_log
            if partition.settings.deletes and log is not None and self._is_fit(partition, log):
                yield from self._guarded(partition, log, self._retain(partition, log))

    def _retain(self, partition: Partition, log: Log) -> CooperativeTask[None]:
        offset = retention_offset(
            log,
            retention_ms=partition.settings.retention_ms,
            retention_bytes=partition.settings.retention_bytes,
            durable_offset=partition.high_watermark,
            now_ms=self._clock.now_ms(),
        )
        if offset <= log.start_offset:
            return
        if offset == log.end_offset:
            log.roll()
        start_offsets = self._topics.checkpoints.start_offsets
        yield partial(start_offsets.advance, {partition.name: offset}, lambda: log.closed)
        while not log.closed:
            names = log.detach_before(offset)
            if names is not None:
                _log.info("%s begins at offset %d now: retention", partition.name, offset)
                yield partial(remove_files, log.files, log.folder, names)
                return
            yield None
