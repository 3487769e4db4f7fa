"""Parity of compaction: kohort and Kafka turn a log into the same files, batches and records.

Kafka's results are recorded in vectors/compaction.json and compared in every run. With a Java
runtime Kafka runs again; KOHORT_PARITY_RECORD=1 then writes the vectors.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kohort.conformance.recordings import KAFKA_VERSION
from kohort.log.batch import BatchHeader, split
from kohort.log.cleaner import CleanerConfig, clean
from kohort.log.log import Log, LogConfig
from kohort.log.memory_files import MemoryFiles
from kohort.log.records import Record, records
from kohort.log.tasks import run_synchronously
from kohort.testing.deadline import poll
from parity.brokers import kafka_broker
from support.log import DAY_MS

VECTORS = Path(__file__).parent / "vectors" / "compaction.json"
FOLDER = Path("/data/compacted-0")
TOPIC = "compacted"
SEGMENT_BYTES = 1024 * 1024
RETENTION_MS = 3_000
PATIENCE_SECONDS = 60

Segments = dict[str, bytes]
Batch = tuple[BatchHeader, list[Record]]


class Run(NamedTuple):
    """One compaction by Kafka."""

    before: Segments
    after: Segments
    first_dirty: int


def content(segments: Segments) -> dict[str, list[Batch]]:
    """Batches by file. Compressed bytes differ between implementations of a codec."""
    return {
        name: [
            (
                header._replace(crc=0, batch_length=0) if header.codec else header,
                list(records(data, position)),
            )
            for position, header in split(data)
        ]
        for name, data in sorted(segments.items())
    }


def time_of(run: Run) -> int:
    """Return the time of Kafka's run, computed from the delete horizons that it set."""
    known = {h.delete_horizon_ms for file in content(run.before).values() for h, _ in file}
    new = {h.delete_horizon_ms for file in content(run.after).values() for h, _ in file} - known
    (horizon_ms,) = new
    assert horizon_ms is not None
    return horizon_ms - RETENTION_MS


def compacted(run: Run) -> Segments:
    files = MemoryFiles()
    files.make_folder(FOLDER)
    for name, data in run.before.items():
        files.contents[FOLDER / name] = bytearray(data)
    log = Log.open(FOLDER, files, LogConfig(segment_bytes=SEGMENT_BYTES))
    config = CleanerConfig(
        now_ms=time_of(run),
        delete_retention_ms=RETENTION_MS,
        segment_bytes=SEGMENT_BYTES,
        dedupe_buffer_bytes=1024 * 1024,
        producer_expiration_ms=DAY_MS,
    )
    run_synchronously(clean(log, run.first_dirty, log.segments[-1].base_offset, config))
    names = (name for name in files.list(FOLDER) if name.endswith(".log"))
    return {name: files.read_bytes(FOLDER / name) for name in names}


def recorded() -> list[Run]:
    return [
        Run(_unpack(run["before"]), _unpack(run["after"]), run["first_dirty"])
        for run in json.loads(VECTORS.read_text())["runs"]
    ]


def _unpack(packed: dict[str, str]) -> Segments:
    return {name: zlib.decompress(base64.b64decode(text)) for name, text in packed.items()}


def _pack(segments: Segments) -> dict[str, str]:
    return {
        name: base64.b64encode(zlib.compress(data, 9)).decode()
        for name, data in sorted(segments.items())
    }


def write(runs: list[Run]) -> None:
    content = {
        "kafka": KAFKA_VERSION,
        "recorded": "KOHORT_PARITY_RECORD=1: segments before and after each run of its cleaner",
        "runs": [
            {
                "before": _pack(run.before),
                "after": _pack(run.after),
                "first_dirty": run.first_dirty,
            }
            for run in runs
        ],
    }
    VECTORS.parent.mkdir(exist_ok=True)
    VECTORS.write_text(json.dumps(content, indent=1) + "\n")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_result_equals_kafkas(number: int) -> None:
    run = recorded()[number]
    assert content(compacted(run)) == content(run.after)


def test_the_recorded_segments_cover_all_special_cases() -> None:
    runs = recorded()
    left = [[h for file in content(run.after).values() for h, _ in file] for run in runs]
    first, second, third = left
    emptied = [header for header in first if not header.count]
    assert {header.codec for header in first} == set(range(5))
    assert any(h.producer_id >= 0 and not h.is_transactional for h in emptied)
    assert any(header.is_transactional for header in emptied)
    assert any(h.delete_horizon_ms for h in first if not h.is_control)
    # The marker of a transaction without records: kept, then with a horizon, then removed.
    ends = {h.base_offset for h in second if h.is_control and h.delete_horizon_ms}
    assert ends <= {h.base_offset for h in first if not h.delete_horizon_ms}
    assert ends
    assert not ends & {h.base_offset for h in third if h.count}
    tombstones = {h.base_offset for h in first if h.delete_horizon_ms}
    assert tombstones - {h.base_offset for h in second}
    # The last batch of a run is kept, even without records.
    assert any(h.producer_id < 0 and not h.count for h in third)
    assert any(not data for run in runs for data in run.after.values())
    assert any(len(run.after) < len(run.before) for run in runs)


@pytest.mark.java
def test_kafka_reads_the_compacted_segments(kafka_tool: Callable[..., str], tmp_path: Path) -> None:
    for run in recorded():
        for name, data in compacted(run).items():
            (tmp_path / name).write_bytes(data)
        names = sorted(map(str, tmp_path.glob("*.log")))
        output = kafka_tool(
            "org.apache.kafka.tools.DumpLogSegments",
            "--deep-iteration",
            "--files",
            ",".join(names),
        )
        assert output.count("isvalid: true") == sum(map(len, content(compacted(run)).values()))
        assert "isvalid: false" not in output
        assert not re.search("invalid bytes|CORRUPT|mismatch|exception", output, re.IGNORECASE)
        for name in names:
            Path(name).unlink()


@pytest.mark.java
@pytest.mark.slow
async def test_kafka_still_has_the_recorded_result(kafka_jars: Path, tmp_path: Path) -> None:
    settings = {
        "log.cleaner.backoff.ms": "100",
        "transaction.state.log.num.partitions": "1",
        "log.initial.task.delay.ms": "500",
    }
    async with kafka_broker(kafka_jars, tmp_path / "kafka", settings) as broker:
        data = tmp_path / "kafka" / "data"
        runs = await asyncio.to_thread(_play, f"127.0.0.1:{broker.port}", data)
    for run in runs:
        assert content(compacted(run)) == content(run.after)
    if os.environ.get("KOHORT_PARITY_RECORD") == "1":
        write(runs)


def _play(bootstrap: str, data: Path) -> list[Run]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    config = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "segment.bytes": str(SEGMENT_BYTES),
        "delete.retention.ms": str(RETENTION_MS),
        "min.cleanable.dirty.ratio": "0",
    }
    for made in admin.create_topics([NewTopic(TOPIC, 1, 1, config=config)]).values():
        made.result(PATIENCE_SECONDS)
    _write_first(bootstrap)
    first = _run(admin, data)
    _write_second(bootstrap)
    _await_horizon(first)
    second = _run(admin, data)
    _write_third(bootstrap)
    _await_horizon(second)
    return [first, second, _run(admin, data)]


def _await_horizon(run: Run) -> None:
    """Wait until tombstones may be removed."""
    deadline_ms = time_of(run) + RETENTION_MS
    assert poll(lambda: time.time_ns() // 1_000_000 > deadline_ms, PATIENCE_SECONDS)


def _run(admin: AdminClient, data: Path) -> Run:
    before, first_dirty = _segments(data), _cleaned_offset(data)
    active = int(max(before).removesuffix(".log"))
    _set_policy(admin, "compact")
    assert poll(lambda: _cleaned_offset(data) == active, PATIENCE_SECONDS)
    _set_policy(admin, "delete")
    return Run(before, _segments(data), first_dirty)


def _set_policy(admin: AdminClient, policy: str) -> None:
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    for changed in admin.incremental_alter_configs([resource]).values():
        changed.result(PATIENCE_SECONDS)


def _segments(data: Path) -> Segments:
    return {path.name: path.read_bytes() for path in (data / f"{TOPIC}-0").glob("*.log")}


def _cleaned_offset(data: Path) -> int:
    file = data / "cleaner-offset-checkpoint"
    lines = file.read_text().splitlines()[2:] if file.exists() else []
    return next((int(line.split()[2]) for line in lines if line.startswith(f"{TOPIC} ")), 0)


def _producer(bootstrap: str, **config: Any) -> Producer:
    options = {key.replace("_", "."): value for key, value in config.items()}
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 5_000, **options, "log_level": 0})


def _put(producer: Producer, *pairs: tuple[str | None, str | None]) -> None:
    """Send the records as one batch."""
    for key, value in pairs:
        producer.produce(TOPIC, key=key, value=value, partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0


def _roll(bootstrap: str, key: str | None = "filler") -> None:
    """Fill the active segment, so that it is rolled."""
    producer = _producer(bootstrap)
    for _ in range(4):
        _put(producer, (key, "." * 300 * 1024))


def _transaction(
    bootstrap: str, name: str, pairs: list[tuple[str | None, str | None]], *, commit: bool
) -> None:
    producer = _producer(bootstrap, transactional_id=name)
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    _put(producer, *pairs)
    if commit:
        producer.commit_transaction(PATIENCE_SECONDS)
    else:
        producer.abort_transaction(PATIENCE_SECONDS)


def _write_first(bootstrap: str) -> None:
    plain = _producer(bootstrap)
    _put(plain, ("a", "1"), ("b", "1"), ("c", "1"), (None, "no key"))
    _put(plain, ("a", "2"), ("d", None), ("b", None))
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        packed = _producer(bootstrap, compression_type=codec)
        _put(packed, ("a", codec), *((f"{codec} {n}", f"value {n}" * 9) for n in range(40)))
        _put(packed, (f"{codec} 1", "newer"), (f"{codec} 2", None))
    idempotent = _producer(bootstrap, enable_idempotence=True)
    _put(idempotent, ("i", "1"), ("j", "1"))
    _put(idempotent, ("i", "2"), ("k", "1"))
    _transaction(bootstrap, "kept", [("t1", "1"), ("t2", "1")], commit=True)
    _transaction(bootstrap, "aborted", [("t1", "never"), ("a", "never")], commit=False)
    _transaction(bootstrap, "superseded", [("t3", "1")], commit=True)
    # The same transactional id again, with another epoch.
    _transaction(bootstrap, "superseded", [("t4", "1")], commit=True)
    _roll(bootstrap)
    _put(plain, ("i", "3"), ("k", "2"), ("t3", "2"), ("t4", "2"), ("c", "2"))
    _roll(bootstrap)
    _transaction(bootstrap, "late", [("t5", "1")], commit=True)
    _roll(bootstrap)
    _put(plain, ("a", "in the active segment"), ("filler", "short"))


def _write_second(bootstrap: str) -> None:
    plain = _producer(bootstrap)
    _put(plain, ("c", None), ("e", "1"), ("t5", "2"))
    _transaction(bootstrap, "second", [("t1", "2"), ("t2", "2")], commit=True)
    _transaction(bootstrap, "aborted", [("e", "never")], commit=False)
    _roll(bootstrap)
    _put(plain, ("e", "2"))
    _roll(bootstrap)
    _put(plain, ("filler", "short"))


def _write_third(bootstrap: str) -> None:
    plain = _producer(bootstrap)
    _put(plain, ("e", None), ("a", "3"))
    _roll(bootstrap, key=None)
    _put(plain, ("filler", "short"))
