"""Kafka's DumpLogSegments decodes every record type and version that kohort writes, in rolled
segments, compacted segments, and after a crash with a truncated batch."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from signal import SIGKILL

import pytest
from clients.consumers import until
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.running_broker import config_flags, start_broker

from . import consumer_groups
from .group_requests import commit_with_retention
from .test_import import serving

pytestmark = pytest.mark.java

PARTITIONS = 500
COMMITS = 30  # of PARTITIONS offsets each: more than one segment
OPTIONS = (
    "offsets.topic.num.partitions=1",
    "offsets.topic.segment.bytes=1048576",
    "group.initial.rebalance.delay.ms=0",
)


def consumer(address: str, group_id: str, **config: object) -> Consumer:
    return Consumer({"bootstrap.servers": address, "group.id": group_id, **config})


def write_everything(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("many", PARTITIONS, 1)])["many"].result()
    for group_id, config in (("dynamic", {}), ("static", {"group.instance.id": "one"})):
        member = consumer(address, group_id, **config)
        assigned: list[object] = []
        member.subscribe(
            ["many"], on_assign=lambda _, partitions, assigned=assigned: assigned.append(partitions)
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
    standalone = consumer(address, group_id)
    offsets = [TopicPartition("many", n, offset, "some metadata") for n in range(PARTITIONS)]
    standalone.commit(offsets=offsets, asynchronous=False)
    standalone.close()


def dump(kafka_tool: Callable[..., str], segments: list[Path]) -> str:
    files = ",".join(map(str, segments))
    tool = "org.apache.kafka.tools.DumpLogSegments"
    output = kafka_tool(tool, "--offsets-decoder", "--files", files)
    assert not re.search("isvalid: false|mismatch|CORRUPT|exception|stray", output, re.IGNORECASE)
    return output


def test_kafka_decodes_rolled_segments_and_those_after_a_crash(
    tmp_path: Path, kafka_tool: Callable[..., str]
) -> None:
    options = ("--port", "0", "--data-dir", tmp_path / "data", *config_flags(OPTIONS))
    with start_broker(tmp_path, *options) as broker:
        write_everything(broker.bootstrap)
        broker.stop(SIGKILL)
    folder = tmp_path / "data" / "__consumer_offsets-0"
    newest = max(folder.glob("*.log"))
    newest.write_bytes(newest.read_bytes().rstrip(b"\0") + b"\0\0\0\0\0\0\0\x99\0\0\1\0torn")
    with start_broker(tmp_path, *options) as broker:
        commit(broker.bootstrap, "after the crash", 7)
        assert broker.stop() == 0
    segments = sorted(folder.glob("*.log"))
    assert len(segments) > 1
    output = dump(kafka_tool, segments)
    assert output.count("Dumping") == len(segments)
    records = re.findall(r"^\| offset: (\d+) .*? key: (.*) payload: (.*)$", output, re.MULTILINE)
    assert [int(offset) for offset, _, _ in records] == list(range(len(records)))
    kinds = {
        (json.loads(key)["type"], "-" if payload == "<DELETE>" else json.loads(payload)["version"])
        for _, key, payload in records
    }
    assert kinds == {("1", "1"), ("1", "4"), ("1", "-"), ("2", "3"), ("2", "-")}
    assert '"topicId"' in records[-1][2]
    assert '"after the crash"' in records[-1][1]


def test_kafka_decodes_compacted_segments(tmp_path: Path, kafka_tool: Callable[..., str]) -> None:
    eager = ("log.cleaner.backoff.ms=50", "log.cleaner.min.cleanable.ratio=0")
    options = ("--port", "0", "--data-dir", tmp_path / "data", *config_flags((*OPTIONS, *eager)))
    checkpoint = tmp_path / "data" / "cleaner-offset-checkpoint"
    folder = tmp_path / "data" / "__consumer_offsets-0"
    with start_broker(tmp_path, *options) as broker:
        write_everything(broker.bootstrap)
        active = max(int(path.stem) for path in folder.glob("*.log"))
        until(
            lambda: checkpoint.exists() and f" 0 {active}\n" in checkpoint.read_text(),
            "all inactive segments are compacted",
        )
        assert broker.stop() == 0
    output = dump(kafka_tool, sorted(folder.glob("*.log")))
    records = re.findall(r"^\| offset: (\d+) .*? key: (.*) payload: .*$", output, re.MULTILINE)
    compacted = [key for offset, key in records if int(offset) < active]
    assert len(compacted) > PARTITIONS
    assert len(compacted) == len(set(compacted))  # one record for each key


def test_kafka_decodes_records_appended_to_its_own_segments(
    kafka_data: Path, kafka_tool: Callable[..., str]
) -> None:
    with serving(kafka_data) as address:
        standalone = consumer(address, "written-by-kohort")
        standalone.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
        standalone.close()
        consumer_groups.create(address, "kohort")
    output = dump(kafka_tool, sorted(kafka_data.glob("__consumer_offsets-*/*.log")))
    assert "written-by-kohort" in output
    assert {"none", "gzip", "snappy", "lz4", "zstd"} <= set(re.findall(r"codec: (\w+)", output))
    keys = re.findall(r'key: {"type":"(\d+)","data":{"groupId":"kohort-.*}} payload: {', output)
    assert set(keys) == {"3", "5", "6", "7", "8", "16"}  # 4 is written by Kafka before 4.1
