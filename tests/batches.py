"""Batches for tests of the log, made with few words."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.log.batch import BatchHeader, NewRecord, build
from kohort.log.log import Log
from kohort.log.records import records

NOW_MS = 1_700_000_000_000


def batch(base_offset: int, count: int = 1, *, text: str = "value", at_ms: int = NOW_MS) -> bytes:
    return build(
        [NewRecord(b"key %d" % n, f"{text} {n}".encode(), at_ms + n) for n in range(count)],
        base_offset=base_offset,
    )


def append(log: Log, counts: Iterable[int], *, text: str = "value") -> list[bytes]:
    """Appends one batch for each count and returns them."""
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
