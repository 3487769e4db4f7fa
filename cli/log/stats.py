"""`kohort log stats`: print the sizes of logs, and how much compaction would remove."""

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
from ...log.files import DISK
from ...log.records import raw_records
from ...log.recovery import Corruption, ValidBatch
from ...printable import printable_json
from ...protocol.primitives import INT16
from .. import output
from ..errors import UserError
from .decoding import format_time
from .partition_logs import Cursor, PartitionLog, find_logs, report, size_of

# The fields before a record's offset delta are length, attributes and timestamp delta, at least one
# byte each.
RECORD_HEAD_BYTES: Final = 3
# Record types of __consumer_offsets.
COMMIT_TYPES: Final = (b"\x00\x00", b"\x00\x01")


class Row(NamedTuple):
    """One partition or the total, with the columns of docs/log.md; None means not applicable."""

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
    """Print sizes and return 0. Raises UserError."""
    logs = find_logs(args.path)
    # The next compaction starts at these offsets.
    cleaned = OffsetCheckpoint(logs[0].folder.parent / CLEANED_OFFSETS_FILE, DISK)
    rows: list[Row] = []
    batches, incomplete = 0, False
    with output.progress("stats", size_of(logs)) as advance:
        for log in logs:
            tally = Tally(log)
            tally.read(advance)
            batches += tally.batches
            incomplete |= tally.incomplete
            rows.append(tally.row(cleaned.get(log.name)))
    if incomplete and not batches:
        raise UserError(f"{args.path} is not a log: it has no valid record batch.")
    total = total_of(rows)
    match args.format:
        case "json":
            partitions = [row._asdict() for row in rows]
            content = {"partitions": partitions, "total": total._asdict()}
            print(printable_json(json.dumps(content, indent=2, ensure_ascii=False)))
        case "csv":
            output.write_csv(Row._fields, (*rows, total))
        case _:
            print_table([*rows, total])
    return 0


class Tally:
    """The counts of one partition. `batches` is the number of valid batches, and `incomplete` is
    True if there are corrupt bytes or a torn tail."""

    def __init__(self, log: PartitionLog) -> None:
        self.batches = 0
        self.incomplete = False
        self._log = log
        self._records = self._keyless_records = self._dead_records = 0
        self._keyless_bytes = self._dead_bytes = 0.0
        # Key -> bytes of its latest record; negative for a tombstone.
        self._latest: dict[bytes, float] = {}
        self._bytes: Counter[Path] = Counter()
        self._oldest_timestamp: int | None = None
        self._newest_timestamp: int | None = None

    def read(self, advance: Callable[[int], None]) -> None:
        for path, _, item in Cursor(self._log, report).read():
            if isinstance(item, ValidBatch):
                self._add_batch(path, item)
                advance(len(item.batch))
                continue
            self.incomplete = True
            if isinstance(item, Corruption):
                report(
                    f"{path}: {item.size} corrupt bytes are not counted; see `kohort log verify`"
                )

    def _add_batch(self, path: Path, batch: ValidBatch) -> None:
        self.batches += 1
        self._bytes[path] += len(batch.batch)
        header = batch.header
        self._records += header.count
        first = header.max_timestamp if header.timestamp_type else header.base_timestamp
        if header.delete_horizon_ms is not None:
            first = header.max_timestamp  # the base timestamp is the delete horizon
        if header.count and header.max_timestamp >= 0:
            oldest = self._oldest_timestamp
            self._oldest_timestamp = first if oldest is None else min(first, oldest)
            self._newest_timestamp = max(header.max_timestamp, self._newest_timestamp or 0)
        if header.is_control:
            return
        try:
            self._add_records(batch)
        except InvalidRecord as error:
            report(f"{path}: the batch at byte {batch.position} cannot be read: {error}")

    def _add_records(self, batch: ValidBatch) -> None:
        """Count the records of a batch. The bytes of a compressed batch are distributed in
        proportion to the uncompressed sizes."""
        header, data = batch.header, batch.batch[HEADER_BYTES:]
        if header.codec:
            data = decompress(header.codec, memoryview(data))
        ratio = len(batch.batch) / len(data) if data else 0.0
        latest = self._latest
        for record in raw_records(data, header.count):
            key = record.key
            size = (record.end - record.start + RECORD_HEAD_BYTES) * ratio
            if key is None:
                self._keyless_records += 1
                self._keyless_bytes += size
                continue
            before = latest.get(key)
            if before is not None:
                self._dead_records += 1
                self._dead_bytes += abs(before)
            latest[key] = size if record.has_value else -size

    def row(self, first_dirty: int) -> Row:
        sizes = {base: self._bytes[path] for base, path in self._log.segments().items()}
        live = [size for size in self._latest.values() if size > 0]
        groups, offsets = self._groups() if self._log.is_offsets else (None, None)
        return Row(
            self._log.name,
            len(sizes),
            sum(sizes.values()),
            self._records,
            len(live) + self._keyless_records,
            round(sum(live) + self._keyless_bytes),
            self._dead_records,
            round(self._dead_bytes),
            len(self._latest) - len(live),
            groups,
            offsets,
            self._oldest_timestamp,
            self._newest_timestamp,
            dirty_ratio(sizes, first_dirty),
        )

    def _groups(self) -> tuple[int, int]:
        """Return the number of groups with live records, and of live commits."""
        groups: set[bytes] = set()
        offsets = 0
        for key, size in self._latest.items():
            if size > 0:
                (length,) = INT16.unpack(key[2:4].rjust(2, b"\0"))
                groups.add(key[4 : 4 + length])
                offsets += key[:2] in COMMIT_TYPES
        return len(groups), offsets


def dirty_ratio(sizes: dict[int, int], first_dirty: int) -> float:
    """Return the share of never-compacted bytes in closed segments (Kafka's LogToClean)."""
    closed = list(sizes.items())[:-1]
    ends = list(sizes)[1:]
    dirty = sum(size for (_, size), end in zip(closed, ends, strict=True) if end > first_dirty)
    total = sum(size for _, size in closed)
    return dirty / total if total else 0.0


def total_of(rows: Sequence[Row]) -> Row:
    """Return the row of totals: sums, the oldest and newest timestamp, and no dirty ratio."""

    def total(column: str, values: Sequence[Any]) -> Any:
        combine = {"oldest_timestamp": min, "newest_timestamp": max}.get(column, sum)
        numbers = [value for value in values if value is not None]
        return combine(numbers) if numbers else None

    columns = list(zip(Row._fields, zip(*rows, strict=True), strict=True))[1:-1]
    return Row._make(["total", *(total(*column) for column in columns), None])


def print_table(rows: Sequence[Row]) -> None:
    header = [name.upper().replace("_", "-") for name in Row._fields]
    lines = [[_cell(*field) for field in row._asdict().items()] for row in rows]
    print(*output.table([header, *lines], right=header[1:]), sep="\n")


def _cell(column: str, value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, int):
        return format_time(value) if column.endswith("timestamp") else f"{value:,}"
    return str(value)
