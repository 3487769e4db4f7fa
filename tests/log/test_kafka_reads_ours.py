"""Kafka's own DumpLogSegments on segments that we wrote."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from kohort.log.batch import BatchBuilder, NewRecord, build, with_append_time, with_base_offset
from kohort.log.files import DiskFiles
from kohort.log.log import Log, LogConfig
from support.log import append, batch, headers


@pytest.mark.java
def test_kafka_finds_every_batch_sound(tmp_path: Path, kafka_tool: Callable[..., str]) -> None:
    """Batches of every codec, from both builders, moved, with gaps, by a producer; across rolls,
    with room allocated ahead, after a cut and a crash."""
    folder = tmp_path / "orders-0"
    config = LogConfig(segment_bytes=3000)
    log = Log.open(folder, DiskFiles(preallocate_bytes=64 * 1024), config)
    some = [NewRecord(b"k%d" % n, b"v" * n, 5 - n, (("h", None),)) for n in range(50)]
    for codec in range(5):
        log.append(
            build([*some, NewRecord(None, None, 0)], base_offset=log.end_offset, codec=codec)
        )
    log.append(
        build(some, base_offset=log.end_offset, producer_id=7, producer_epoch=1, base_sequence=9)
    )
    log.append(
        with_base_offset(with_append_time(batch(0, 3), 1_800_000_000_000), log.end_offset, 4)
    )
    builder = BatchBuilder()
    for number in range(20):
        builder.add(b"key", None if number % 3 else b"value", 1_700_000_000_000 + number)
    log.append(builder.finish(log.end_offset))
    append(log, [1, 2, 3] * 20)
    kept = headers(log)[-1].base_offset
    append(log, [4])
    log.truncate_to(kept + 6)
    append(log, [2])
    log.sync()
    # No close: the zeros stay, as after a crash, until the next open cuts them.
    Log.open(folder, DiskFiles(), config).close()
    segments = sorted(folder.glob("*.log"))
    assert len(segments) > 2
    names = ",".join(map(str, segments))
    said = kafka_tool(
        "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", names
    )
    offsets = [
        (int(a), int(b)) for a, b in re.findall(r"baseOffset: (\d+) lastOffset: (\d+)", said)
    ]
    assert offsets == [(header.base_offset, header.last_offset) for header in headers(log)]
    assert said.count("isvalid: true") == len(offsets)
    assert "isvalid: false" not in said
    assert not re.search("invalid bytes|CORRUPT|mismatch|exception", said, re.IGNORECASE)
    assert {"none", "gzip", "snappy", "lz4", "zstd"} <= {
        found.lower() for found in re.findall(r"compresscodec: (\w+)", said)
    }
    assert "producerId: 7 producerEpoch: 1" in said
    assert "LogAppendTime: 1800000000000" in said
    log.close()
