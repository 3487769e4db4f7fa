"""Offsets logs for tests of who reads them, made with few words."""

from pathlib import Path

from kohort.log.batch import NewRecord, build
from kohort.log.files import DiskFiles
from kohort.log.log import Log, LogConfig
from kohort.offsets.records import OffsetCommitted, OffsetsRecord, committed_value, encode

NOW_MS = 1_700_000_000_000


def commit(offset: int, group: str = "orders") -> OffsetsRecord:
    return OffsetCommitted(group, "clicks", 3, committed_value(offset, 7, "note", NOW_MS + offset))


def batch_of(base_offset: int, *records: OffsetsRecord) -> bytes:
    made = [NewRecord(*encode(record), NOW_MS) for record in records]
    return build(made, base_offset=base_offset)


def write(folder: Path, *batches: bytes, segment_bytes: int = 1024 * 1024) -> Log:
    folder.mkdir(parents=True, exist_ok=True)
    log = Log.open(folder, DiskFiles(), LogConfig(segment_bytes=segment_bytes))
    for batch in batches:
        log.append(batch)
    return log
