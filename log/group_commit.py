"""Group commit: appends during a flush are batched into the next flush.

A flush writes the batches of each log and then makes them durable. With durability `fsync`, all
written logs are synced in parallel, or a single sync of the write-ahead log replaces the syncs of
several logs (write_ahead.py). With `os`, only logs for which a sync was requested are synced
(a topic's flush.messages). With `none`, no log is synced. Then the callbacks of each log are
called with None or the error. There are no coroutines: the event loop's `call_soon` and a function
that syncs in threads are passed in.
"""

import logging
import sys
import time
from collections.abc import Callable, Sequence
from typing import Literal

from .batch import BatchBuilder, BatchProducer
from .errors import SYNCING, WRITING, DiskErrors, LogFailed, RecordsTooLarge
from .log import Log
from .write_ahead import SyncAll, WriteAheadLog

Durability = Literal["fsync", "os", "none"]
OnDurable = Callable[[OSError | None], None]
"""Called once, with None when all records appended so far are durable, otherwise with the error."""

# A batch is closed at this size, well below Kafka's default message.max.bytes (1,048,588), so that
# a consumer of the offsets topic with default settings can always fetch it.
BATCH_BYTES_MAX = 512 * 1024
BATCH_BYTES_UNBOUNDED = sys.maxsize
# If a sync is faster than this, a single log is synced inline, because a thread hand-off takes as
# long. Incoming requests wait in the socket buffers.
INLINE_SYNC_SECONDS_MAX = 0.001

_log = logging.getLogger("kohort.log")


class _Pending:
    """Pending appends of one log in a flush."""

    __slots__ = ("appended", "base_offset", "batches", "callbacks", "end_offset", "needs_sync")

    def __init__(self) -> None:
        self.batches = [BatchBuilder()]
        self.callbacks: list[OnDurable] = []
        self.needs_sync = False
        # The batches appended to the log, and their offsets.
        self.appended: list[bytes] = []
        self.base_offset = self.end_offset = 0


class GroupCommit:
    def __init__(
        self,
        *,
        durability: Durability,
        call_soon: Callable[[Callable[[], None]], object],
        sync_all: SyncAll,
        write_ahead: WriteAheadLog | None = None,
        on_flush_end: Callable[[], None] = lambda: None,
        seconds: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`on_flush_end` is called when the logs of a flush have been written, and again when they
        have been synced, each time after the callbacks that are due. `seconds` is a clock."""
        self.durability = durability
        self._call_soon = call_soon
        self._sync_all = sync_all
        self.write_ahead = write_ahead
        self.errors = DiskErrors()
        self._on_flush_end = on_flush_end
        self._seconds = seconds
        self._pending: dict[Log, _Pending] = {}
        self._syncing: dict[Log, _Pending] = {}
        self._flush_is_scheduled = False
        self._on_idle: list[Callable[[], None]] = []
        # Assume slow syncs until a sync has been measured.
        self._sync_seconds = INLINE_SYNC_SECONDS_MAX

    def append(
        self,
        log: Log,
        records: Sequence[tuple[bytes, bytes | None]],
        timestamp_ms: int,
        max_bytes: int = BATCH_BYTES_UNBOUNDED,
        producer: BatchProducer | None = None,
    ) -> object:
        """Append `records` (key, value) to the next flush of `log`, in one batch. `producer` is the
        producer of their transaction. Return a token, which is the same for all appends to this log
        in a flush. Raises RecordsTooLarge, and appends nothing, if a batch with only these records
        exceeds `max_bytes`."""
        pending = self._pending.get(log)
        if pending is None:
            pending = self._begin(log)
        batch = pending.batches[-1]
        if batch.size >= BATCH_BYTES_MAX or not _fits(batch, producer):
            batch = BatchBuilder(producer)
            pending.batches.append(batch)
        count, size, max_timestamp = batch.count, batch.size, batch.max_timestamp
        batch.add_all(records, timestamp_ms)
        if (needed := batch.size) > max_bytes:
            batch.truncate(count, size, max_timestamp)
            own = BatchBuilder(producer)
            if count:
                own.add_all(records, timestamp_ms)
                needed = own.size
            if needed > max_bytes:
                raise RecordsTooLarge(f"a batch of {needed} bytes exceeds {max_bytes} bytes")
            pending.batches.append(own)
        return pending

    def sync(self, log: Log, callback: OnDurable) -> None:
        """Call `callback` once bytes appended directly to `log` are synced; with durability `none`,
        call it after the next flush."""
        pending = self._pending.get(log) or self._begin(log)
        pending.callbacks.append(callback)
        pending.needs_sync = True

    def on_durable(self, log: Log, callback: OnDurable) -> None:
        """Call `callback` once all appends so far are durable, which may be immediately."""
        pending = self._pending.get(log)
        if pending is not None:
            pending.callbacks.append(callback)
        elif log in self._syncing:
            self._syncing[log].callbacks.append(callback)
        else:
            callback(None)

    def is_pending(self, log: Log) -> bool:
        """Whether records appended to `log` are not durable yet."""
        return log in self._pending or log in self._syncing

    @property
    def is_idle(self) -> bool:
        return not self._pending and not self._syncing

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call `callback` once no flush is pending or in progress, which may be immediately."""
        if self.is_idle:
            callback()
        else:
            self._on_idle.append(callback)

    def fail_pending(self, log: Log, error: OSError) -> None:
        """Fail the next flush of `log`, because its records depend on bytes that were lost."""
        pending = self._pending.pop(log, None)
        if pending is not None:
            _call(pending.callbacks, error)

    def _begin(self, log: Log) -> _Pending:
        pending = self._pending[log] = _Pending()
        # A running sync schedules the next flush when it completes.
        if not self._flush_is_scheduled and not self._syncing:
            self._flush_is_scheduled = True
            self._call_soon(self._flush)
        return pending

    def _flush(self) -> None:
        self._flush_is_scheduled = False
        flush, self._pending = self._pending, {}
        to_sync: dict[Log, _Pending] = {}
        without_sync: dict[Log, _Pending] = {}
        failed: list[tuple[_Pending, OSError]] = []
        durability = self.durability
        for log, pending in flush.items():
            try:
                self._write(log, pending)
            except OSError as error:
                self.errors.failed(WRITING, log.folder, error)
                failed.append((pending, error))
            else:
                if self.errors.current:
                    self.errors.succeeded(WRITING, log.folder)
                if durability == "fsync" or (pending.needs_sync and durability == "os"):
                    to_sync[log] = pending
                else:
                    without_sync[log] = pending
        self._syncing = to_sync
        # Report failures first, because a callback that undoes a topic's creation may close other
        # logs of this flush.
        for pending, failure in failed:
            _call(pending.callbacks, failure)
        if to_sync:
            self._sync(to_sync)
        for log, pending in without_sync.items():
            _call(pending.callbacks, _error_if_closed(log))
        self._on_flush_end()
        self._call_if_idle()

    def _write(self, log: Log, pending: _Pending) -> None:
        pending.base_offset = end_offset = log.end_offset
        try:
            for batch in pending.batches:
                if batch.count:
                    pending.appended.append(log.append_built(batch))
            pending.end_offset = log.end_offset
        except OSError:
            # All callbacks of this log get the error, so remove all of its batches.
            log.truncate_to(end_offset)
            raise

    def _sync(self, flush: dict[Log, _Pending]) -> None:
        self._syncing = flush
        written_ahead = self._write_ahead(flush)
        targets: list[Log | WriteAheadLog] = [log for log in flush if log not in written_ahead]
        if written_ahead:
            assert self.write_ahead is not None
            targets.append(self.write_ahead)
        if len(targets) == 1 and self._sync_seconds < INLINE_SYNC_SECONDS_MAX:
            self._on_synced(targets, [self._sync_inline(targets[0])], written_ahead)
            return
        started = self._seconds()

        def done(results: Sequence[OSError | None]) -> None:
            self._sync_seconds = (self._seconds() - started) / len(targets)
            self._on_synced(targets, results, written_ahead)

        self._sync_all([target.sync for target in targets], done)

    def _write_ahead(self, flush: dict[Log, _Pending]) -> dict[Log, _Pending]:
        """Write batches to the write-ahead log. Return the logs whose own files need no sync."""
        ahead = self.write_ahead
        if ahead is None or not ahead.is_usable or len(flush) == 1:
            return {}
        chosen = {
            log: pending
            for log, pending in flush.items()
            if pending.appended
            and log.write_ahead is ahead
            and log.synced_offset == pending.base_offset
        }
        if len(chosen) < 2:
            return {}
        try:
            ahead.write((log, batch) for log, each in chosen.items() for batch in each.appended)
        except OSError as error:
            ahead.fail(error)
            return {}
        return chosen

    def _sync_inline(self, target: Log | WriteAheadLog) -> OSError | None:
        started = self._seconds()
        try:
            target.sync()
        except OSError as error:
            return error
        finally:
            self._sync_seconds = self._seconds() - started
        return None

    def _on_synced(
        self,
        targets: Sequence[Log | WriteAheadLog],
        results: Sequence[OSError | None],
        written_ahead: dict[Log, _Pending],
    ) -> None:
        flush, self._syncing = self._syncing, {}
        errors = dict(zip(targets, results, strict=True))
        ahead_error = None
        ahead = self.write_ahead
        # An unusable write-ahead log becomes usable when it has been rotated.
        if ahead is not None and (written_ahead or not ahead.is_usable):
            ahead_error = errors.get(ahead)
            self._on_written_ahead(ahead, ahead_error, written_ahead)
        for log, pending in flush.items():
            error = ahead_error if log in written_ahead else errors[log]
            if error is not None:
                self.errors.failed(SYNCING, log.folder, error)
            elif self.errors.current:
                self.errors.succeeded(SYNCING, log.folder)
            _call(pending.callbacks, error or _error_if_closed(log))
        if self._pending and not self._flush_is_scheduled:
            self._flush_is_scheduled = True
            self._call_soon(self._flush)
        self._on_flush_end()
        self._call_if_idle()

    def _on_written_ahead(
        self, ahead: WriteAheadLog, error: OSError | None, written_ahead: dict[Log, _Pending]
    ) -> None:
        for log, pending in written_ahead.items():
            if error is None:
                log.set_written_ahead(pending.end_offset)
            else:
                log.mark_failed_from(pending.base_offset, error)
        if error is not None:
            ahead.fail(error)
        ahead.rotate(self._sync_all)

    def _call_if_idle(self) -> None:
        if self._on_idle and self.is_idle:
            callbacks, self._on_idle = self._on_idle, []
            for callback in callbacks:
                callback()


def _fits(batch: BatchBuilder, producer: BatchProducer | None) -> bool:
    """Whether records of `producer` may be added to the batch. A control batch contains one
    record."""
    if producer is None:
        return batch.producer is None
    return batch.producer == producer and not producer.is_control


def _error_if_closed(log: Log) -> OSError | None:
    return LogFailed(f"{log.folder} was closed during a flush") if log.closed else None


def _call(callbacks: Sequence[OnDurable], error: OSError | None) -> None:
    """Invoke all callbacks, and log exceptions."""
    for callback in callbacks:
        try:
            callback(error)
        except Exception:
            _log.exception("A flush callback raised (flush: %s)", error or "successful")
