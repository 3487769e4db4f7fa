"""Background maintenance of logs: compaction of the dirtiest log, and retention.

Runs as a cooperative task (scheduler.py). If the maintenance of a log fails, it is retried after
five minutes. Logs that have not been opened since startup are skipped. Upstream: LogCleaner,
LogManager.
"""

import logging
from functools import partial
from typing import Final

from ..log.cleaner import CleanerConfig, clean
from ..log.cleanup import CleanableRange, CompactionPolicy, cleanable_range, retention_offset
from ..log.errors import CleaningStopped, LogError
from ..log.log import Log
from ..log.segment_swap import remove_files
from ..log.tasks import CooperativeTask
from ..topics.topic import Partition
from .cluster import Node
from .event_loop.scheduler import SLICE_SECONDS, ScheduledTask, Scheduler
from .event_loop.timers import Timer

# Length of a slice while several logs are due. With shorter slices, compaction could not keep up
# with writes.
LATE_SLICE_SECONDS: Final = 2 * SLICE_SECONDS
# How long a log is skipped if its disk failed, a batch is corrupted, or a transaction blocks it.
RETRY_FAILED_MS: Final = 300_000

_log = logging.getLogger("kohort.cleaner")


class Maintenance:
    """Maintains all logs until stopped, with the configuration of `node`."""

    def __init__(self, node: Node, scheduler: Scheduler) -> None:
        config, clock = node.config, node.clock
        self._topics = node.topics
        self._clock = clock
        self._timers = node.timers
        self._scheduler = scheduler
        self._compacts = config.bool("log.cleaner.enable")
        # Called in each pass, because the configuration may change.
        self._number = node.configs.broker_number
        self._retention_interval_ms = config.int("log.retention.check.interval.ms")
        self._retention_due_ms = clock.now_ms() + self._retention_interval_ms
        # The time until which a partition is skipped.
        self._retry_ms: dict[Partition, int] = {}
        self._timer: Timer | None = None
        self._task: ScheduledTask | None = None
        self._schedule(self._number("log.cleaner.backoff.ms"))

    def stop(self) -> None:
        """Start no more passes. The scheduler cancels a running pass."""
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self, delay_ms: int) -> None:
        deadline_ms = self._retention_due_ms
        if self._compacts:
            deadline_ms = min(deadline_ms, self._clock.now_ms() + delay_ms)
        self._timer = self._timers.call_at(deadline_ms, self._begin)

    def _begin(self) -> None:
        self._task = self._scheduler.spawn(self._run())

    def _run(self) -> CooperativeTask[None]:
        try:
            compacted = yield from self._pass()
        except Exception:
            # Only a bug raises an exception here.
            self._schedule(RETRY_FAILED_MS)
            raise
        # As in Kafka, there is no pause while a log needs compaction.
        self._schedule(0 if compacted else self._number("log.cleaner.backoff.ms"))

    def _pass(self) -> CooperativeTask[bool]:
        """Maintain logs. Return whether a log was due for compaction; others may be due too."""
        now_ms = self._clock.now_ms()
        self._retry_ms = {each: ms for each, ms in self._retry_ms.items() if now_ms < ms}
        if now_ms >= self._retention_due_ms:
            # Set first, so that a bug in retention is not repeated without a pause.
            self._retention_due_ms = now_ms + self._retention_interval_ms
            yield from self._retain_all()
        if not self._compacts:
            return False
        dirtiest = yield from self._dirtiest()
        if dirtiest is None:
            return False
        partition, cleanable = dirtiest
        log = partition.opened_log
        if log is not None:
            yield from self._guarded(partition, log, self._compact(partition, log, cleanable))
        return True

    def _dirtiest(self) -> CooperativeTask[tuple[Partition, CleanableRange] | None]:
        found: tuple[Partition, CleanableRange] | None = None
        due = 0
        for partition in self._partitions():
            yield None
            log, settings = partition.opened_log, partition.settings
            if not settings.compacted or log is None or not self._is_ready(partition, log):
                continue
            policy = CompactionPolicy(
                settings.min_cleanable_dirty_ratio,
                settings.min_compaction_lag_ms,
                settings.max_compaction_lag_ms,
            )
            cleanable = cleanable_range(
                log,
                self._topics.checkpoints.cleaned_offsets.get(partition.name),
                partition.high_watermark,
                policy,
                self._clock.now_ms(),
            )
            due += cleanable.is_cleanable
            if cleanable.is_cleanable and (found is None or cleanable.ratio > found[1].ratio):
                found = partition, cleanable
        if due > 1 and self._task is not None:
            self._task.slice_seconds = LATE_SLICE_SECONDS
        return found

    def _partitions(self) -> list[Partition]:
        return [partition for topic in self._topics for partition in topic.partitions]

    def _is_ready(self, partition: Partition, log: Log) -> bool:
        """Whether the log may be maintained now. Compaction waits for active readers, which might
        otherwise read a deleted record but not its tombstone."""
        is_skipped = partition in self._retry_ms
        return not is_skipped and log.failed is None and not log.is_being_iterated

    def _guarded(
        self, partition: Partition, log: Log, task: CooperativeTask[None]
    ) -> CooperativeTask[None]:
        try:
            yield from task
        except CleaningStopped as stopped:
            _log.debug("%s", stopped)
        except (OSError, LogError) as error:
            if not log.closed:
                self._retry_ms[partition] = self._clock.now_ms() + RETRY_FAILED_MS
                _log.error(
                    "Maintenance of %s failed and will be retried in %d s: %s",
                    partition.name,
                    RETRY_FAILED_MS // 1000,
                    error,
                )

    def _compact(
        self, partition: Partition, log: Log, cleanable: CleanableRange
    ) -> CooperativeTask[None]:
        settings = partition.settings
        config = CleanerConfig(
            now_ms=self._clock.now_ms(),
            delete_retention_ms=settings.delete_retention_ms,
            segment_bytes=settings.segment_bytes,
            dedupe_buffer_bytes=self._number("log.cleaner.dedupe.buffer.size"),
            producer_expiration_ms=self._number("producer.id.expiration.ms"),
        )
        first_dirty, end = cleanable.first_dirty, cleanable.first_uncleanable
        done = yield from clean(log, first_dirty, end, config)
        if log.closed:
            return
        if done.end_offset == first_dirty:
            # An open transaction blocks compaction, so another pass would also end here.
            self._retry_ms[partition] = self._clock.now_ms() + RETRY_FAILED_MS
            return
        cleaned = self._topics.checkpoints.cleaned_offsets
        yield partial(cleaned.set, partition.name, done.end_offset, lambda _name: log.closed)
        _log.debug(
            "Compacted %s up to offset %d: kept %d of %d records, %d of %d bytes",
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
            if partition.settings.deletes and log is not None and self._is_ready(partition, log):
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
        yield partial(start_offsets.advance, {partition.name: offset}, lambda _name: log.closed)
        while not log.closed:
            names = log.detach_before(offset)
            if names is not None:
                _log.info(
                    "Incremented log start offset of %s to %d due to retention",
                    partition.name,
                    offset,
                )
                yield partial(remove_files, log.files, log.folder, names)
                return
            yield None
