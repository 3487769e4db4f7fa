"""Kafka's own decoder on all that a broker of ours has written: records of each kind and version,
segments that were rolled, one that a crash has torn."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from signal import SIGKILL

import pytest
from clients.stories import until
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from processes import overrides
from processes import serving as served

from .asking import commit_with_retention
from .test_takeover import serving

pytestmark = pytest.mark.java

PARTITIONS = 500
COMMITS = 30  # of so many partitions each: more than the smallest segment holds
OPTIONS = (
    "offsets.topic.num.partitions=1",
    "offsets.topic.segment.bytes=1048576",
    "group.initial.rebalance.delay.ms=0",
)


def consumer(address: str, group_id: str, **more: object) -> Consumer:
    return Consumer({"bootstrap.servers": address, "group.id": group_id, **more})


def write_everything(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("many", PARTITIONS, 1)])["many"].result()
    for group_id, more in (("dynamic", {}), ("static", {"group.instance.id": "one"})):
        member = consumer(address, group_id, **more)
        assigned: list[object] = []
        member.subscribe(
            ["many"], on_assign=lambda _, given, assigned=assigned: assigned.append(given)
        )
        while not assigned:
            member.poll(0.1)
        member.close()
    for number in range(COMMITS):
        commit(address, "writer", number)
    commit_with_retention(address, "retained", "many", 42)
    commit(address, "deleted", 1)
    admin.delete_consumer_groups(["deleted"])["deleted"].result()


def commit(address: str, group_id: str, offset: int) -> None:
    alone = consumer(address, group_id)
    places = [TopicPartition("many", n, offset, "as far as here") for n in range(PARTITIONS)]
    alone.commit(offsets=places, asynchronous=False)
    alone.close()


def dumped(kafka_tool: Callable[..., str], segments: list[Path]) -> str:
    files = ",".join(map(str, segments))
    tool = "org.apache.kafka.tools.DumpLogSegments"
    said = kafka_tool(tool, "--offsets-decoder", "--files", files)
    assert not re.search("isvalid: false|mismatch|CORRUPT|exception|stray", said, re.IGNORECASE)
    return said


def test_every_segment_of_a_brokers_life_is_sound(
    tmp_path: Path, kafka_tool: Callable[..., str]
) -> None:
    where = ("--port", "0", "--data-dir", tmp_path / "data", *overrides(OPTIONS))
    with served(tmp_path, *where) as broker:
        write_everything(broker.bootstrap)
        broker.stop(SIGKILL)
    folder = tmp_path / "data" / "__consumer_offsets-0"
    newest = max(folder.glob("*.log"))
    newest.write_bytes(newest.read_bytes().rstrip(b"\0") + b"\0\0\0\0\0\0\0\x99\0\0\1\0torn")
    with served(tmp_path, *where) as broker:
        commit(broker.bootstrap, "after the crash", 7)
        assert broker.stop() == 0
    segments = sorted(folder.glob("*.log"))
    assert len(segments) > 1
    said = dumped(kafka_tool, segments)
    assert said.count("Dumping") == len(segments)
    read = re.findall(r"^\| offset: (\d+) .*? key: (.*) payload: (.*)$", said, re.MULTILINE)
    assert [int(offset) for offset, _, _ in read] == list(range(len(read)))
    kinds = {
        (json.loads(key)["type"], "-" if payload == "<DELETE>" else json.loads(payload)["version"])
        for _, key, payload in read
    }
    assert kinds == {("1", "1"), ("1", "3"), ("1", "-"), ("2", "3"), ("2", "-")}
    assert '"after the crash"' in read[-1][1]


def test_segments_that_were_compacted_are_sound(
    tmp_path: Path, kafka_tool: Callable[..., str]
) -> None:
    always = ("log.cleaner.backoff.ms=50", "log.cleaner.min.cleanable.ratio=0")
    where = ("--port", "0", "--data-dir", tmp_path / "data", *overrides((*OPTIONS, *always)))
    checkpoint = tmp_path / "data" / "cleaner-offset-checkpoint"
    folder = tmp_path / "data" / "__consumer_offsets-0"
    with served(tmp_path, *where) as broker:
        write_everything(broker.bootstrap)
        active = max(int(path.stem) for path in folder.glob("*.log"))
        until(
            lambda: checkpoint.exists() and f" 0 {active}\n" in checkpoint.read_text(),
            "all but the newest segment is compacted",
        )
        assert broker.stop() == 0
    said = dumped(kafka_tool, sorted(folder.glob("*.log")))
    places = re.findall(r"^\| offset: (\d+) .*? key: (.*) payload: .*$", said, re.MULTILINE)
    compacted = [key for offset, key in places if int(offset) < active]
    assert len(compacted) > PARTITIONS
    assert len(compacted) == len(set(compacted))  # one record for each key


def test_what_we_write_behind_kafkas_own_records_is_sound(
    data: Path, kafka_tool: Callable[..., str]
) -> None:
    with serving(data) as address:
        alone = consumer(address, "written-by-kohort")
        alone.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
        alone.close()
    said = dumped(kafka_tool, sorted(data.glob("__consumer_offsets-*/*.log")))
    assert "written-by-kohort" in said
    assert {"none", "gzip", "snappy", "lz4", "zstd"} <= set(re.findall(r"codec: (\w+)", said))
