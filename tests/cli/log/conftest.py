"""Logs on disk for the commands of `kohort log`."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from kohort.log.batch import CONTROL, TRANSACTIONAL
from kohort.log.files import DiskFiles
from kohort.log.log import Log, LogConfig
from kohort.offsets.record_codec import encode_commit_value, encode_record
from kohort.offsets.records import OffsetCommitRecord, OffsetsRecord
from support.log import NewRecord, build

NOW_MS = 1_700_000_000_000


def commit(group: str, offset: int, partition: int = 0) -> OffsetCommitRecord:
    return OffsetCommitRecord(
        group, "orders", partition, encode_commit_value(offset, -1, "", NOW_MS)
    )


def new_records(*records: OffsetsRecord, at_ms: int = NOW_MS) -> list[NewRecord]:
    return [NewRecord(*encode_record(record), at_ms) for record in records]


def batch_of(base_offset: int, *records: OffsetsRecord) -> bytes:
    return build(new_records(*records, at_ms=NOW_MS + base_offset), base_offset=base_offset)


def in_transaction(
    records: list[NewRecord], base_offset: int, producer_id: int, *, control: bool = False
) -> bytes:
    return build(
        records,
        base_offset=base_offset,
        attributes=TRANSACTIONAL | CONTROL * control,
        producer_id=producer_id,
        producer_epoch=1,
        base_sequence=0,
    )


def write_log(
    folder: Path, batches: Iterable[Callable[[int], bytes]], *, segment_bytes: int = 1 << 20
) -> list[bytes]:
    """Append batches, each built for the current end offset. Return the batches."""
    folder.parent.mkdir(exist_ok=True)
    log = Log.open(folder, DiskFiles(), LogConfig(segment_bytes=segment_bytes))
    written = []
    for make in batches:
        written.append(make(log.end_offset))
        log.append(written[-1])
    log.close()
    return written


@pytest.fixture
def offsets_log(tmp_path: Path) -> Path:
    """A partition of __consumer_offsets with one segment: ten batches of one commit each."""
    folder = tmp_path / "data" / "__consumer_offsets-7"
    write_log(folder, [lambda at, n=n: batch_of(at, commit("g", n)) for n in range(10)])
    return folder


def corrupt(segment: Path, position: int, *, size: int = 1) -> bytes:
    """Invert bytes of a file, as a failing disk may do. Return the original content."""
    content = segment.read_bytes()
    inverted = bytes(byte ^ 0xFF for byte in content[position : position + size])
    segment.write_bytes(content[:position] + inverted + content[position + size :])
    return content
