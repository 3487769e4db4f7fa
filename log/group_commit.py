"""Group commit: all that is gathered while one round is being synced shares the next one.

A round has three steps. Gather: records wait in memory, a batch for each log. Write: each log
gets its batch in one write. Sync: under durability `fsync` every written log is synced, in
parallel, or, where all before it is durable, by one sync of what was written ahead for several
(write_ahead.py); under `os` only those for which somebody asked (flush.messages of a topic), under
`none` the write is the end. Then those who waited are told, per log, that all is well or which
error there was. Nothing here awaits: the event loop's `call_soon` and a way to sync in threads are
handed in.
"""

import logging
import sys
import time
from collections.abc import Callable, Sequence
from typing import Literal

from .batch import BatchBuilder
from .errors import RecordsTooLarge
from .log import Log
from .write_ahead import Durable, SyncAll, WriteAhead

Durability = Literal["fsync", "os", "none"]
OnDurable = Callable[[OSError | None], None]
"""Told once: None when everything gathered before is durable, else why it is not."""

# A batch is closed at this size, well below Kafka's default message.max.bytes (1,048,588), so that
# a consumer of the offsets topic with default settings can always fetch it.
BATCH_BYTES_MAX = 512 * 1024
BATCH_BYTES_UNBOUNDED = sys.maxsize
# One log whose sync is quicker than this is synced where we stand: handing the work to a thread
# and back costs about as much, and requests that come meanwhile gather in the sockets' buffers.
INLINE_SYNC_SECONDS_MAX = 0.001

_log = logging.getLogger("kohort.log")


class _Gathered:
    """What one log has in one round."""

    __slots__ = ("base_offset", "batches", "end_offset", "settled", "sync_is_asked", "written")

    def __init__(self) -> None:
        self.batches = [BatchBuilder()]
        self.settled: list[OnDurable] = []
        self.sync_is_asked = False
        # What of it is in the log, and where.
        self.written: list[bytes] = []
        self.base_offset = self.end_offset = 0


class GroupCommit:
    def __init__(
        self,
        *,
        durability: Durability,
        call_soon: Callable[[Callable[[], None]], object],
        sync_all: SyncAll,
        write_ahead: WriteAhead | None = None,
        on_flush_end: Callable[[], None] = lambda: None,
        seconds: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`on_flush_end` is called when all who waited for a round have been told; `seconds` is the
        clock by which syncs are measured."""
        self.durability = durability
        self._call_soon = call_soon
        self._sync_all = sync_all
        self.write_ahead = write_ahead
        self._on_flush_end = on_flush_end
        self._seconds = seconds
        self._gathering: dict[Log, _Gathered] = {}
        self._syncing: dict[Log, _Gathered] = {}
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

    def sync(self, log: Log, settled: OnDurable) -> None:
        """Tell when bytes that were appended to `log` directly are durable: synced, unless the
        durability is `none`."""
        gathered = self._gathering.get(log) or self._gather(log)
        gathered.settled.append(settled)
        gathered.sync_is_asked = True

    def on_durable(self, log: Log, settled: OnDurable) -> None:
        """Tell when all that has been gathered for `log` so far is durable; at once if it is."""
        gathered = self._gathering.get(log)
        if gathered is not None:
            gathered.settled.append(settled)
        elif log in self._syncing:
            self._syncing[log].settled.append(settled)
        else:
            settled(None)

    def is_pending(self, log: Log) -> bool:
        """Whether something gathered for `log` is not durable yet."""
        return log in self._gathering or log in self._syncing

    @property
    def is_idle(self) -> bool:
        return not self._gathering and not self._syncing

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once nothing is gathered and nothing is being synced; at once if so."""
        if self.is_idle:
            callback()
        else:
            self._on_idle.append(callback)

    def fail_pending(self, log: Log, error: OSError) -> None:
        """Drop what is gathered for `log`: it rests on bytes that were lost."""
        gathered = self._gathering.pop(log, None)
        if gathered is not None:
            _tell(gathered.settled, error)

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
        to_sync: dict[Log, _Gathered] = {}
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
                    to_sync[log] = gathered
                else:
                    written.append(gathered)
        if to_sync:
            self._sync(to_sync)
        for gathered in written:
            _tell(gathered.settled, None)
        for gathered, refusal in failed:
            _tell(gathered.settled, refusal)
        self._on_flush_end()
        self._tell_idle()

    def _write_one(self, log: Log, gathered: _Gathered) -> None:
        gathered.base_offset = end_offset = log.end_offset
        try:
            for batch in gathered.batches:
                if batch.count:
                    gathered.written.append(log.append_built(batch))
            gathered.end_offset = log.end_offset
        except OSError:
            # All who wait for this round are refused, so none of its batches may stay.
            log.truncate_to(end_offset)
            raise

    def _sync(self, round_: dict[Log, _Gathered]) -> None:
        self._syncing = round_
        written = self._written_ahead(round_)
        what: list[Durable] = [log for log in round_ if log not in written]
        if written:
            assert self.write_ahead is not None
            what.append(self.write_ahead)
        if len(what) == 1 and self._sync_seconds < INLINE_SYNC_SECONDS_MAX:
            self._synced(what, [self._sync_here(what[0])], written)
            return
        started = self._seconds()

        def done(outcomes: Sequence[OSError | None]) -> None:
            self._sync_seconds = (self._seconds() - started) / len(what)
            self._synced(what, outcomes, written)

        self._sync_all(what, done)

    def _written_ahead(self, round_: dict[Log, _Gathered]) -> dict[Log, _Gathered]:
        """Those that need not sync their own files: what several were given is written ahead, where
        all before it is durable."""
        ahead = self.write_ahead
        if ahead is None or not ahead.is_usable or len(round_) == 1:
            return {}
        chosen = {
            log: gathered
            for log, gathered in round_.items()
            if gathered.written
            and log.write_ahead is ahead
            and log.synced_offset == gathered.base_offset
        }
        if len(chosen) < 2:
            return {}
        try:
            ahead.write((log, batch) for log, each in chosen.items() for batch in each.written)
        except OSError as error:
            ahead.fail(error)
            return {}
        return chosen

    def _sync_here(self, what: Durable) -> OSError | None:
        started = self._seconds()
        try:
            what.sync()
        except OSError as error:
            return error
        finally:
            self._sync_seconds = self._seconds() - started
        return None

    def _synced(
        self,
        what: Sequence[Durable],
        outcomes: Sequence[OSError | None],
        written_ahead: dict[Log, _Gathered],
    ) -> None:
        settling, self._syncing = self._syncing, {}
        told = dict(zip(what, outcomes, strict=True))
        error = None
        if self.write_ahead is not None:
            error = told.get(self.write_ahead)
            self._settle_ahead(self.write_ahead, error, written_ahead)
        for log, gathered in settling.items():
            outcome = error if log in written_ahead else told[log]
            if outcome is not None:
                _log.error("Syncing %s failed: %s", log.folder, outcome)
            _tell(gathered.settled, outcome)
        if self._gathering and not self._write_is_due:
            self._write_is_due = True
            self._call_soon(self._write)
        self._on_flush_end()
        self._tell_idle()

    def _settle_ahead(
        self, ahead: WriteAhead, error: OSError | None, written: dict[Log, _Gathered]
    ) -> None:
        for log, gathered in written.items():
            if error is None:
                log.written_ahead(gathered.end_offset)
            else:
                log.refuse(gathered.base_offset, error)
        if error is not None:
            ahead.fail(error)
        ahead.make_room(self._sync_all)

    def _tell_idle(self) -> None:
        if self._on_idle and self.is_idle:
            waiting, self._on_idle = self._on_idle, []
            for callback in waiting:
                callback()


def _tell(settled: Sequence[OnDurable], outcome: OSError | None) -> None:
    """One who cannot hear it must not keep it from the others, nor hold up what comes next."""
    for told in settled:
        try:
            told(outcome)
        except Exception:
            _log.exception("Who waited for a round failed when told %s", outcome or "all is well")
