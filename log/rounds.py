"""Group commit: all that is gathered while one round is being synced shares the next one.

A round has three steps. Gather: records wait in memory, a batch for each log. Write: each log
gets its batch in one write. Sync: under durability `fsync` every written log is synced, in
parallel; under `os` only those for which somebody asked (flush.messages of a topic), under `none`
the write is the end. Then those who waited are told, per log,
that all is well or which error there was. Nothing here awaits: the event loop's `call_soon` and a
way to sync in threads are handed in.
"""

import logging
import sys
import time
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from .batch import BatchBuilder
from .errors import RecordsTooLarge
from .log import Log

Durability = Literal["fsync", "os", "none"]
Settled = Callable[[OSError | None], None]
"""Told once: None when everything gathered before is durable, else why it is not."""

# A batch is closed at this size, well below Kafka's default message.max.bytes (1,048,588), so that
# a consumer of the offsets topic with default settings can always fetch it.
BATCH_BYTES_MAX = 512 * 1024
BATCH_BYTES_UNBOUNDED = sys.maxsize
# One log whose sync is quicker than this is synced where we stand: handing the work to a thread
# and back costs about as much, and requests that come meanwhile gather in the sockets' buffers.
INLINE_SYNC_SECONDS_MAX = 0.001

_log = logging.getLogger("kohort.log")


class SyncLogs(Protocol):
    def __call__(
        self, logs: Sequence[Log], done: Callable[[Sequence[OSError | None]], None], /
    ) -> None:
        """Sync each log in a thread; then, on the event loop, `done` with an outcome for each."""


class _Gathered:
    """What one log has in one round."""

    __slots__ = ("batches", "settled", "sync_is_asked")

    def __init__(self) -> None:
        self.batches = [BatchBuilder()]
        self.settled: list[Settled] = []
        self.sync_is_asked = False


class Rounds:
    def __init__(
        self,
        *,
        durability: Durability,
        call_soon: Callable[[Callable[[], None]], object],
        sync_logs: SyncLogs,
        round_over: Callable[[], None] = lambda: None,
        seconds: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`round_over` is called when all who waited for a round have been told; `seconds` is the
        clock by which syncs are measured."""
        self.durability = durability
        self._call_soon = call_soon
        self._sync_logs = sync_logs
        self._round_over = round_over
        self._seconds = seconds
        self._gathering: dict[Log, _Gathered] = {}
        self._syncing: dict[Log, list[Settled]] = {}
        self._write_is_due = False
        self._on_idle: list[Callable[[], None]] = []
        # Pessimistic until the first sync has been measured.
        self._sync_seconds = INLINE_SYNC_SECONDS_MAX

    def append(
        self,
        log: Log,
        records: Sequence[tuple[bytes, bytes | None]],
        timestamp_ms: int,
        max_bytes: int = BATCH_BYTES_UNBOUNDED,
    ) -> object:
        """Gather `records` (key, value) for `log`. They go into one batch, all or none. What is
        returned is the same object for all that shares their round.

        Raises RecordsTooLarge, and gathers nothing, where they make a batch above `max_bytes` on
        their own."""
        gathered = self._gathering.get(log)
        if gathered is None:
            gathered = self._gather(log)
        batch = gathered.batches[-1]
        if batch.size >= BATCH_BYTES_MAX:
            batch = BatchBuilder()
            gathered.batches.append(batch)
        count, size, max_timestamp = batch.count, batch.size, batch.max_timestamp
        batch.add_all(records, timestamp_ms)
        if batch.size > max_bytes:
            batch.cut(count, size, max_timestamp)
            own = BatchBuilder()
            own.add_all(records, timestamp_ms)
            if own.size > max_bytes:
                raise RecordsTooLarge(f"a batch of {own.size} bytes, allowed are {max_bytes}")
            gathered.batches.append(own)
        return gathered

    def sync(self, log: Log, settled: Settled) -> None:
        """Tell when bytes that were appended to `log` directly are durable: synced, unless the
        durability is `none`."""
        gathered = self._gathering.get(log) or self._gather(log)
        gathered.settled.append(settled)
        gathered.sync_is_asked = True

    def then(self, log: Log, settled: Settled) -> None:
        """Tell when all that has been gathered for `log` so far is durable; at once if it is."""
        gathered = self._gathering.get(log)
        if gathered is not None:
            gathered.settled.append(settled)
        elif log in self._syncing:
            self._syncing[log].append(settled)
        else:
            settled(None)

    def is_pending(self, log: Log) -> bool:
        """Whether something gathered for `log` is not durable yet."""
        return log in self._gathering or log in self._syncing

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once nothing is gathered and nothing is being synced; at once if so."""
        if self._gathering or self._syncing:
            self._on_idle.append(callback)
        else:
            callback()

    def abandon(self, log: Log, error: OSError) -> None:
        """Drop what is gathered for `log`: it rests on bytes that were lost."""
        gathered = self._gathering.pop(log, None)
        if gathered is not None:
            for settled in gathered.settled:
                settled(error)

    def _gather(self, log: Log) -> _Gathered:
        gathered = self._gathering[log] = _Gathered()
        # While a round is being synced its end starts the next write.
        if not self._write_is_due and not self._syncing:
            self._write_is_due = True
            self._call_soon(self._write)
        return gathered

    def _write(self) -> None:
        self._write_is_due = False
        round_, self._gathering = self._gathering, {}
        to_sync: dict[Log, list[Settled]] = {}
        written: list[_Gathered] = []
        failed: list[tuple[_Gathered, OSError]] = []
        durability = self.durability
        for log, gathered in round_.items():
            try:
                self._write_one(log, gathered)
            except OSError as error:
                _log.error("Writing to %s failed: %s", log.folder, error)
                failed.append((gathered, error))
            else:
                if durability == "fsync" or (gathered.sync_is_asked and durability == "os"):
                    to_sync[log] = gathered.settled
                else:
                    written.append(gathered)
        if to_sync:
            self._sync(to_sync)
        for gathered in written:
            for settled in gathered.settled:
                settled(None)
        for gathered, refusal in failed:
            for settled in gathered.settled:
                settled(refusal)
        self._round_over()
        self._tell_idle()

    def _write_one(self, log: Log, gathered: _Gathered) -> None:
        end_offset = log.end_offset
        try:
            for batch in gathered.batches:
                if batch.count:
                    log.append(batch.finish(log.end_offset, log.config.leader_epoch))
        except OSError:
            # All who wait for this round are refused, so none of its batches may stay.
            log.truncate_to(end_offset)
            raise

    def _sync(self, written: dict[Log, list[Settled]]) -> None:
        self._syncing = written
        logs = list(written)
        if len(logs) == 1 and self._sync_seconds < INLINE_SYNC_SECONDS_MAX:
            self._synced(logs, [self._sync_here(logs[0])])
        else:
            started = self._seconds()

            def done(outcomes: Sequence[OSError | None]) -> None:
                self._sync_seconds = (self._seconds() - started) / len(logs)
                self._synced(logs, outcomes)

            self._sync_logs(logs, done)

    def _sync_here(self, log: Log) -> OSError | None:
        started = self._seconds()
        try:
            log.sync()
        except OSError as error:
            return error
        finally:
            self._sync_seconds = self._seconds() - started
        return None

    def _synced(self, logs: Sequence[Log], outcomes: Sequence[OSError | None]) -> None:
        settling, self._syncing = self._syncing, {}
        for log, outcome in zip(logs, outcomes, strict=True):
            if outcome is not None:
                _log.error("Syncing %s failed: %s", log.folder, outcome)
            for settled in settling[log]:
                settled(outcome)
        if self._gathering and not self._write_is_due:
            self._write_is_due = True
            self._call_soon(self._write)
        self._round_over()
        self._tell_idle()

    def _tell_idle(self) -> None:
        if self._on_idle and not self._gathering and not self._syncing:
            waiting, self._on_idle = self._on_idle, []
            for callback in waiting:
                callback()
