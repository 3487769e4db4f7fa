"""`kohort log stats`: how much lies in a log, how much of it still counts, and from when it is."""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...log.batch import HEADER_BYTES
from ...log.checkpoint import CLEANED_OFFSETS_FILE, OffsetCheckpoint
from ...log.codecs import decompress
from ...log.errors import InvalidRecord
from ...log.files import DiskFiles
from ...log.records import raw_records
from ...log.recovery import Corruption, ValidBatch
from ...protocol.primitives import INT16
from .. import output
from ..errors import UserError
from .cursor import Cursor
from .sources import Source, size_of, sources
from .text import say, time_text

# What lies before a record's offset: its length, attributes and timestamp, of one byte each mostly.
RECORD_HEAD_BYTES: Final = 3
# The kinds of __consumer_offsets that are commits.
COMMITS: Final = (b"\x00\x00", b"\x00\x01")


class Row(NamedTuple):
    """One partition, or all of them. docs/log.md tells what each column means; None: does not
    apply."""

    partition: str
    segments: int
    bytes: int
    records: int
    live_records: int
    live_bytes: int
    dead_records: int
    dead_bytes: int
    tombstones: int
    groups: int | None
    offsets: int | None
    oldest_timestamp: int | None
    newest_timestamp: int | None
    dirty_ratio: float | None


def run(args: argparse.Namespace) -> int:
    """0. Raises UserError."""
    found = sources(args.path)
    rows: list[Row] = []
    # Where the next compaction begins, as the last one has noted it.
    cleaned = OffsetCheckpoint(found[0].folder.parent / CLEANED_OFFSETS_FILE, DiskFiles())
    tallies = []
    with output.progress("stats", size_of(found)) as done:
        for source in found:
            tally = Tally(source)
            tally.read(done)
            tallies.append((tally.batches, tally.flawed))
            rows.append(tally.row(cleaned.get(source.name)))
    if any(flawed for _, flawed in tallies) and not any(batches for batches, _ in tallies):
        raise UserError(f"{args.path} is no log: there is no sound record batch in it.")
    SHAPES[args.format](rows, total_of(rows))
    return 0


class Tally:
    """Counts one partition. `batches`: how many are sound; `flawed`: whether anything is not."""

    def __init__(self, source: Source) -> None:
        self.batches = 0
        self.flawed = False
        self._source = source
        self._records = self._keyless_records = self._dead_records = 0
        self._keyless_bytes = self._dead_bytes = 0.0
        # By key the bytes of its newest record; below zero for a tombstone.
        self._newest: dict[bytes, float] = {}
        self._bytes: Counter[Path] = Counter()
        self._oldest: int | None = None
        self._latest: int | None = None

    def read(self, done: Callable[[int], None]) -> None:
        for path, _, item in Cursor(self._source, DiskFiles(), say).read():
            if isinstance(item, ValidBatch):
                self._note(path, item)
                done(len(item.batch))
                continue
            self.flawed = True
            if isinstance(item, Corruption):
                say(f"{path}: {item.size} bad bytes are not counted; see `kohort log verify`")

    def _note(self, path: Path, sound: ValidBatch) -> None:
        self.batches += 1
        self._bytes[path] += len(sound.batch)
        header = sound.header
        self._records += header.count
        first = header.max_timestamp if header.timestamp_type else header.base_timestamp
        if header.delete_horizon_ms is not None:
            first = header.max_timestamp  # the base was given up for the horizon
        if header.count and header.max_timestamp >= 0:
            self._oldest = first if self._oldest is None else min(first, self._oldest)
            self._latest = max(header.max_timestamp, self._latest or 0)
        if header.is_control:
            return
        try:
            self._note_records(sound)
        except InvalidRecord as error:
            say(f"{path}: the batch at byte {sound.position} cannot be read: {error}")

    def _note_records(self, sound: ValidBatch) -> None:
        """A batch's bytes are shared out by the sizes of its records: a compressed one has no
        others."""
        header, data = sound.header, sound.batch[HEADER_BYTES:]
        if header.codec:
            data = decompress(header.codec, memoryview(data))
        each = len(sound.batch) / len(data) if data else 0.0
        newest = self._newest
        for record in raw_records(data, header.count):
            key = record.key
            taken = (record.end - record.start + RECORD_HEAD_BYTES) * each
            if key is None:
                self._keyless_records += 1
                self._keyless_bytes += taken
                continue
            before = newest.get(key)
            if before is not None:
                self._dead_records += 1
                self._dead_bytes += abs(before)
            newest[key] = taken if record.has_value else -taken

    def row(self, first_dirty: int) -> Row:
        sizes = {base: self._bytes[path] for base, path in self._source.segments().items()}
        live = [taken for taken in self._newest.values() if taken > 0]
        groups, offsets = self._groups() if self._source.is_offsets else (None, None)
        return Row(
            self._source.name,
            len(sizes),
            sum(sizes.values()),
            self._records,
            len(live) + self._keyless_records,
            round(sum(live) + self._keyless_bytes),
            self._dead_records,
            round(self._dead_bytes),
            len(self._newest) - len(live),
            groups,
            offsets,
            self._oldest,
            self._latest,
            dirty_ratio(sizes, first_dirty),
        )

    def _groups(self) -> tuple[int, int]:
        """How many groups something live is stored for, and how many commits are live."""
        groups: set[bytes] = set()
        offsets = 0
        for key, taken in self._newest.items():
            if taken > 0:
                (length,) = INT16.unpack(key[2:4].rjust(2, b"\0"))
                groups.add(key[4 : 4 + length])
                offsets += key[:2] in COMMITS
        return len(groups), offsets


def dirty_ratio(sizes: dict[int, int], first_dirty: int) -> float:
    """Of the bytes of closed segments, how many no compaction has seen (upstream: LogToClean)."""
    closed = list(sizes.items())[:-1]
    ends = list(sizes)[1:]
    dirty = sum(size for (_, size), end in zip(closed, ends, strict=True) if end > first_dirty)
    total = sum(size for _, size in closed)
    return dirty / total if total else 0.0


def total_of(rows: Sequence[Row]) -> Row:
    def add(column: str) -> Any:
        return sum(getattr(row, column) or 0 for row in rows)

    of_offsets = any(row.groups is not None for row in rows)
    oldest = [row.oldest_timestamp for row in rows if row.oldest_timestamp is not None]
    newest = [row.newest_timestamp for row in rows if row.newest_timestamp is not None]
    return Row(
        "total",
        add("segments"),
        add("bytes"),
        add("records"),
        add("live_records"),
        add("live_bytes"),
        add("dead_records"),
        add("dead_bytes"),
        add("tombstones"),
        add("groups") if of_offsets else None,
        add("offsets") if of_offsets else None,
        min(oldest, default=None),
        max(newest, default=None),
        None,
    )


def as_table(rows: Sequence[Row], total: Row) -> None:
    header = [name.upper().replace("_", "-") for name in Row._fields]
    lines = [[_cell(*field) for field in row._asdict().items()] for row in (*rows, total)]
    for line in output.table([header, *lines], right=header[1:]):
        print(line)


def _cell(column: str, value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, int):
        return time_text(value) if column.endswith("timestamp") else f"{value:,}"
    return str(value)


def as_json(rows: Sequence[Row], total: Row) -> None:
    said = {"partitions": [row._asdict() for row in rows], "total": total._asdict()}
    print(json.dumps(said, indent=2, ensure_ascii=False))


def as_csv(rows: Sequence[Row], total: Row) -> None:
    output.write_csv(Row._fields, (*rows, total))


SHAPES: Final = {"table": as_table, "json": as_json, "csv": as_csv}
