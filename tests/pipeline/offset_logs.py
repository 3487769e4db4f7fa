"""Offsets logs for tests of who reads them, made with few words."""

from pathlib import Path

from kohort.log.batch import read_header
from kohort.log.files import DiskFiles
from kohort.log.log import Log, LogConfig
from kohort.offsets.record_codec import encode_commit_value, encode_record
from kohort.offsets.records import OffsetCommitRecord, OffsetsRecord
from support.log import NewRecord, build

NOW_MS = 1_700_000_000_000


def commit(offset: int, group: str = "orders") -> OffsetsRecord:
    return OffsetCommitRecord(
        group, "clicks", 3, encode_commit_value(offset, 7, "note", NOW_MS + offset)
    )


def batch_of(base_offset: int, *records: OffsetsRecord) -> bytes:
    made = [NewRecord(*encode_record(record), NOW_MS) for record in records]
    return build(made, base_offset=base_offset)


def write(folder: Path, *batches: bytes, segment_bytes: int = 1024 * 1024) -> Log:
    folder.mkdir(parents=True, exist_ok=True)
    log = Log.open(folder, DiskFiles(), LogConfig(segment_bytes=segment_bytes))
    for batch in batches:
        log.append(batch)
    return log


def index_of(log: Log, every: int = 3) -> None:
    """Kafka's .index beside each segment: the last offset of an append, and where it begins; with
    room at its end, as that of a live segment has."""
    for segment in log.segments:
        entries, position = [], 0
        data = segment.path.read_bytes()
        while position + 61 <= len(data) and data[position + 16] == 2:
            header = read_header(data, position)
            entries.append((header.last_offset - segment.base_offset, position))
            position += header.size
        raw = b"".join(
            offset.to_bytes(4, "big") + at.to_bytes(4, "big") for offset, at in entries[1::every]
        )
        segment.path.with_suffix(".index").write_bytes(raw + bytes(80))
