"""Kafka's DumpLogSegments reads kohort's segments."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from kohort.log.batch import BatchBuilder, with_append_time, with_base_offset
from kohort.log.files import DiskFiles
from kohort.log.log import Log, LogConfig
from support.log import NewRecord, append, batch, build, headers


@pytest.mark.java
def test_kafka_reads_every_batch(tmp_path: Path, kafka_tool: Callable[..., str]) -> None:
    """The log has batches of every codec and both builders, with changed offsets, gaps and a
    producer. It is rolled, preallocated, truncated and, as after a crash, not closed."""
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
    # The log is not closed, so that zeros remain until the next opening truncates them.
    Log.open(folder, DiskFiles(), config).close()
    segments = sorted(folder.glob("*.log"))
    assert len(segments) > 2
    names = ",".join(map(str, segments))
    output = kafka_tool(
        "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", names
    )
    offsets = [
        (int(a), int(b)) for a, b in re.findall(r"baseOffset: (\d+) lastOffset: (\d+)", output)
    ]
    assert offsets == [(header.base_offset, header.last_offset) for header in headers(log)]
    assert output.count("isvalid: true") == len(offsets)
    assert "isvalid: false" not in output
    assert not re.search("invalid bytes|CORRUPT|mismatch|exception", output, re.IGNORECASE)
    assert {"none", "gzip", "snappy", "lz4", "zstd"} <= {
        found.lower() for found in re.findall(r"compresscodec: (\w+)", output)
    }
    assert "producerId: 7 producerEpoch: 1" in output
    assert "LogAppendTime: 1800000000000" in output
    log.close()
