"""Generate offsets logs of any size, like those of a busy cluster, at a million records/s (numpy).

`python -m benchmarks.offset_logs FOLDER RECORDS` generates the logs of all offsets partitions.
Every group starts with a GroupMetadata record with two members; then it commits the partitions of
one topic repeatedly, in batches of six records.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from crc32c import crc32c
from kohort.log.batch import CRC_START, BatchBuilder
from kohort.log.segment import segment_name
from kohort.offsets.coordinator_topic import partition_for
from kohort.offsets.record_codec import encode_commit_value, encode_record
from kohort.offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    MemberMetadata,
    OffsetCommitRecord,
    OffsetsRecord,
)
from kohort.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)

GROUPS = 250
OFFSETS_PARTITIONS = 8
SEGMENT_BYTES = 100 * 1024 * 1024
START_MS = 1_750_000_000_000
INTERVAL_MS = 5_000  # between two commits of a partition
# Placeholders in a template, replaced in each batch; no other bytes of a template equal them.
OFFSET, COMMIT_MS = 0x1F2E3D4C5B6A7988, 0x2A3B4C5D6E7F8091
# About 30 MB of batches with six records.
BATCHES_AT_ONCE = 50_000


def write_offsets_log(folder: Path, *, records: int, per_batch: int = 6) -> int:
    """Write about `records` commits and one generation per group; return the number of records."""
    names = [f"group-{number:06d}" for number in range(GROUPS)]
    chunks = -(-12 // per_batch)  # at least twelve partitions, a multiple of per_batch
    written = 0
    for number in range(OFFSETS_PARTITIONS):
        of_partition = [n for n in names if partition_for(n, OFFSETS_PARTITIONS) == number]
        log = _Writer(folder / f"__consumer_offsets-{number}")
        for name in of_partition:
            log.write(_generation(name, chunks * per_batch, log.end_offset))
        templates = [
            _template(name, range(chunk * per_batch, (chunk + 1) * per_batch))
            for chunk in range(chunks)
            for name in of_partition
        ]
        batches = max(1, round(records * len(of_partition) / GROUPS / per_batch))
        for rows in _rows(templates, batches, log.end_offset, per_batch):
            log.write_all(rows, per_batch)
        log.close()
        written += len(of_partition) + batches * per_batch
    return written


def _template(group: str, numbers: range) -> bytes:
    value = encode_commit_value(OFFSET, 7, "", COMMIT_MS)
    commits = [OffsetCommitRecord(group, _topic_of(group), number, value) for number in numbers]
    return _batch(commits, START_MS, 0)


def _rows(templates: list[bytes], batches: int, base_offset: int, per_batch: int) -> Iterator[Any]:
    """Yield batches without checksums, as rows of bytes of the same size."""
    source = np.frombuffer(b"".join(templates), np.uint8).reshape(len(templates), -1)
    offsets_at = _positions(templates[0], OFFSET)
    times_at = _positions(templates[0], COMMIT_MS)
    for first in range(0, batches, BATCHES_AT_ONCE):
        number = np.arange(first, min(batches, first + BATCHES_AT_ONCE))
        rounds, template = np.divmod(number, len(templates))
        rows = source[template]
        now_ms = START_MS + rounds * INTERVAL_MS + template * INTERVAL_MS // len(templates)
        _patch(rows, 0, base_offset + number * per_batch)
        for at in (27, 35, *times_at):  # base and max timestamp of the header
            _patch(rows, at, now_ms)
        for index, at in enumerate(offsets_at):
            _patch(rows, at, 1_000 + rounds * (100 + (template + index) % 50))
        yield rows


def _positions(template: bytes, number: int) -> list[int]:
    placeholder = number.to_bytes(8, "big")
    found = [template.find(placeholder)]
    while found[-1] >= 0:
        found.append(template.find(placeholder, found[-1] + 8))
    return found[:-1]


def _patch(rows: Any, at: int, numbers: Any) -> None:
    rows[:, at : at + 8] = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)


def _generation(group: str, partitions: int, base_offset: int) -> bytes:
    topic = _topic_of(group)
    members = [
        MemberMetadata(
            f"{group}-client-{number}-0a1b2c3d",
            None,
            f"{group}-client-{number}",
            f"/10.0.0.{number}",
            300_000,
            45_000,
            encode_subscription(Subscription((topic,))),
            encode_assignment(
                Assignment((TopicPartitions(topic, tuple(range(number, partitions, 2))),))
            ),
        )
        for number in range(2)
    ]
    stored = GroupMetadata(
        "consumer", 1, "range", members[0].member_id, START_MS - 1_000, tuple(members)
    )
    return _batch([GroupMetadataRecord(group, stored)], START_MS - 900, base_offset)


def _batch(records: Iterable[OffsetsRecord], timestamp_ms: int, base_offset: int) -> bytes:
    batch = BatchBuilder()
    batch.add_all(map(encode_record, records), timestamp_ms)
    return batch.finish(base_offset)


def _topic_of(group: str) -> str:
    return f"topic-{int(group.rpartition('-')[2]) % 50:03d}"


class _Writer:
    """Writes the segments of a partition, rolled by size as in Kafka; no fsync, no index."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self.end_offset = 0
        self._roll()

    def _roll(self) -> None:
        self._file = (self._folder / segment_name(self.end_offset)).open("wb")
        self._remaining = SEGMENT_BYTES

    def write(self, batch: bytes, records: int = 1) -> None:
        if len(batch) > self._remaining:
            self.close()
            self._roll()
        self._file.write(batch)
        self._remaining -= len(batch)
        self.end_offset += records

    def write_all(self, rows: Any, per_batch: int) -> None:
        size = rows.shape[1]
        whole = memoryview(rows.reshape(-1))
        crcs = [crc32c(whole[at + CRC_START : at + size]) for at in range(0, len(whole), size)]
        rows[:, 17:21] = np.array(crcs, ">u4").view(np.uint8).reshape(-1, 4)
        first = 0
        while first < len(rows):
            fit = self._remaining // size
            if fit:
                self._file.write(whole[first * size : (first + fit) * size])
                written = min(fit, len(rows) - first)
                self._remaining -= written * size
                self.end_offset += written * per_batch
                first += fit
            else:
                self.close()
                self._roll()

    def close(self) -> None:
        self._file.close()


def main() -> None:
    folder, records = Path(sys.argv[1]), int(sys.argv[2])
    print(f"{write_offsets_log(folder, records=records):,} records in {folder}")


if __name__ == "__main__":
    main()
