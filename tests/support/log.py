"""Logs for tests: builders of batches, compaction, and syncing without threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kohort.conformance.records import NewRecord, build
from kohort.log.batch import CONTROL, TRANSACTIONAL, BatchHeader
from kohort.log.cleaner import CleanerConfig, CleaningResult, clean
from kohort.log.errors import CleaningStopped
from kohort.log.log import Log
from kohort.log.producer_state import EndMarker, encode_marker
from kohort.log.records import records
from kohort.log.tasks import CooperativeTask, run_synchronously
from kohort.protocol.budgets import ConcurrencyLimit

NOW_MS = 1_700_000_000_000


def batch(base_offset: int, count: int = 1, *, text: str = "value", at_ms: int = NOW_MS) -> bytes:
    return build(
        [NewRecord(b"key %d" % n, f"{text} {n}".encode(), at_ms + n) for n in range(count)],
        base_offset=base_offset,
    )


def append(log: Log, counts: Iterable[int], *, text: str = "value") -> list[bytes]:
    """Append a batch for each count, and return the batches."""
    made = []
    for count in counts:
        made.append(batch(log.end_offset, count, text=text, at_ms=NOW_MS + log.end_offset))
        log.append(made[-1])
    return made


def stored(log: Log) -> list[bytes]:
    return [whole for _, whole in log.batches()]


def headers(log: Log) -> list[BatchHeader]:
    return [header for header, _ in log.batches()]


def values(log: Log) -> list[bytes | None]:
    return [record.value for _, whole in log.batches() for record in records(whole)]


def offset_for_timestamp(log: Log, timestamp: int) -> tuple[int, int] | None:
    return run_synchronously(log.offset_for_timestamp(timestamp, ConcurrencyLimit(1)))


def max_timestamp(log: Log) -> tuple[int, int] | None:
    return run_synchronously(log.max_timestamp(ConcurrencyLimit(1)))


DAY_MS = 24 * 3600 * 1000
TERMS = CleanerConfig(
    now_ms=NOW_MS,
    delete_retention_ms=DAY_MS,
    segment_bytes=1024 * 1024,
    dedupe_buffer_bytes=1024 * 1024,
    producer_expiration_ms=DAY_MS,
)

Pair = tuple[str | None, str | None]


def put(log: Log, pairs: Iterable[Pair], at_ms: int = NOW_MS, **options: int) -> int:
    """Append a batch of (key, value) pairs, and return its base offset."""
    return log.append(
        build(
            [
                NewRecord(
                    None if key is None else key.encode(),
                    None if value is None else value.encode(),
                    at_ms,
                )
                for key, value in pairs
            ],
            base_offset=log.end_offset,
            **options,
        )
    )


def marker(kind: int, producer_id: int, *, base_offset: int = 0, epoch: int = 0) -> bytes:
    """Return the batch that ends a transaction. `kind`: COMMIT or ABORT."""
    return build(
        [NewRecord(*encode_marker(EndMarker(kind, 0)), NOW_MS)],
        base_offset=base_offset,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def put_marker(log: Log, producer_id: int, kind: int, epoch: int = 0) -> int:
    return log.append(marker(kind, producer_id, base_offset=log.end_offset, epoch=epoch))


def compact(log: Log, first_dirty: int = 0, terms: CleanerConfig = TERMS) -> CleaningResult:
    """Compact all closed segments; the log is clean up to `first_dirty`."""
    return run_synchronously(clean(log, first_dirty, log.segments[-1].base_offset, terms))


def content(log: Log) -> list[tuple[int, str | None, str | None]]:
    """(offset, key, value) of every record."""
    return [
        (
            record.offset,
            None if record.key is None else record.key.decode(),
            None if record.value is None else record.value.decode(),
        )
        for header, whole in log.batches()
        if not header.is_control
        for record in records(whole)
    ]


def newest(log: Log) -> dict[str | None, tuple[int, str | None]]:
    """The last offset and value of each key, without tombstones."""
    last = {key: (offset, value) for offset, key, value in content(log)}
    return {key: at for key, at in last.items() if at[1] is not None}


class Compaction:
    """Compactions of one log, run step by step."""

    def __init__(self, terms: CleanerConfig, *, durable_reads_only: bool) -> None:
        self._terms = terms
        self._durable_reads_only = durable_reads_only
        self._cleaned_offset = 0
        self._work: CooperativeTask[CleaningResult] | None = None

    def go_on(self, log: Log, steps: int, now_ms: int) -> None:
        """Run some steps of the current compaction; a disk error ends it."""
        if self._work is None:
            self._work = self._new(log, now_ms)
        try:
            for _ in range(steps if self._work is not None else 0):
                self._one_step(self._work)
        except StopIteration as done:
            self._cleaned_offset = done.value.end_offset
            self._work = None
        except (CleaningStopped, OSError):
            self._work = None

    def give_up(self) -> None:
        """Drop the current compaction, as after a crash."""
        self._work = None

    def _new(self, log: Log, now_ms: int) -> CooperativeTask[CleaningResult] | None:
        if log.failed is not None or log.is_being_iterated or len(log.segments) < 2:
            return None
        durable = log.synced_offset if self._durable_reads_only else log.end_offset
        end_offset = min(durable, log.segments[-1].base_offset)
        first_dirty = max(self._cleaned_offset, log.start_offset)
        if first_dirty >= end_offset:
            first_dirty = log.start_offset
        if first_dirty >= end_offset:
            return None
        return clean(log, first_dirty, end_offset, self._terms._replace(now_ms=now_ms))

    def _one_step(self, work: CooperativeTask[CleaningResult]) -> None:
        step = next(work)
        while step is not None:
            try:
                step()
            except OSError as error:
                step = work.throw(error)
            else:
                return


def sync_each(syncs: Sequence[Callable[[], None]]) -> list[OSError | None]:
    """Sync one file after another; return the error of each."""
    outcomes: list[OSError | None] = []
    for sync in syncs:
        try:
            sync()
        except OSError as error:
            outcomes.append(error)
        else:
            outcomes.append(None)
    return outcomes


def open_below(folder: Path) -> list[str]:
    found = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            path = link.readlink()
        except FileNotFoundError:
            continue  # the file descriptor of the listing
        if path.is_relative_to(folder):
            found.append(path.name)
    return sorted(found)
