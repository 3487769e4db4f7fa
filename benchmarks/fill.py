"""Write millions of committed offsets into the logs of a data directory."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from kohort.log.batch import BatchBuilder
from kohort.log.files import DiskFiles
from kohort.log.log import Log, LogConfig
from kohort.offsets.coordinator_topic import partition_for
from kohort.offsets.record_codec import encode_commit_value, encode_record
from kohort.offsets.records import OffsetCommitRecord

from . import servers
from .clients import LoadClient

OFFSETS_PARTITIONS = 50
TOPIC = "many"
TOPIC_ID = bytes(range(16))
PARTITIONS = 10
# The number of records that a busy broker writes to a log in one flush.
BATCH_RECORDS = 100
# offsets.topic.segment.bytes
SEGMENT_BYTES = 100 * 1024 * 1024


def group_names(groups: int, prefix: str) -> list[str]:
    """Return the group names of the load client."""
    return [f"{prefix}-{number}" for number in range(groups)]


def prepare(data: Path, client: LoadClient) -> None:
    """Create a data directory with all topics, but without the commits of the benchmark."""
    with servers.running("kohort", servers.kohort_command("os", data)) as server:
        warm_up(server, client)


def warm_up(server: servers.Server, client: LoadClient) -> None:
    """Commit in 500 groups, which covers every partition of the offsets topic."""
    options = {"partitions": PARTITIONS} if client.modes is None else {}
    client.run(server, "commit", conns=50, depth=1, spread=10, seconds=0.1, topic=TOPIC, **options)


def fill(data: Path, groups: list[str], commits: int, segment_bytes: int = SEGMENT_BYTES) -> int:
    """Replace the offsets log: `commits` commits by each group, each of PARTITIONS partitions.

    Return the number of records."""
    by_partition: list[list[str]] = [[] for _ in range(OFFSETS_PARTITIONS)]
    for group in groups:
        by_partition[partition_for(group, OFFSETS_PARTITIONS)].append(group)
    for partition, groups_of_partition in enumerate(by_partition):
        folder = data / f"__consumer_offsets-{partition}"
        shutil.rmtree(folder, ignore_errors=True)
        log = Log.open(folder, DiskFiles(), LogConfig(segment_bytes=segment_bytes))
        for batch in batches(log, keys_of(groups_of_partition), commits):
            log.append(batch)
        log.sync()
        log.close()
    return len(groups) * PARTITIONS * commits


def keys_of(groups: list[str]) -> list[bytes]:
    return [
        encode_record(OffsetCommitRecord(group, TOPIC, partition, b""))[0]
        for group in groups
        for partition in range(PARTITIONS)
    ]


def batches(log: Log, keys: list[bytes], commits: int) -> Iterator[bytes]:
    """Yield batches with `commits` records per key. Append each one before requesting the next."""
    now_ms = int(time.time() * 1000)
    for commit in range(commits):
        value = encode_commit_value(commit, -1, "", now_ms, topic_id=TOPIC_ID)
        for start in range(0, len(keys), BATCH_RECORDS):
            batch = BatchBuilder()
            for key in keys[start : start + BATCH_RECORDS]:
                batch.add(key, value, now_ms)
            yield batch.finish(log.end_offset)


def size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.log"))
