"""Records that a real Kafka wrote to __consumer_offsets are decoded as Kafka decodes them.

The records are in tests/kafka_folder/kafka-4.3.tar.gz; kafka_dump.jsonl has the output of Kafka's
own decoder for them. KOHORT_PARITY_RECORD=1 recreates it.
"""

import json
import os
import re
import tarfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from kohort.log.batch import check, split
from kohort.log.records import records
from kohort.offsets.coordinator_topic import partition_for
from kohort.offsets.record_codec import decode_commit_value, decode_record, encode_record
from kohort.offsets.records import (
    ConsumerGroupRecord,
    GroupMetadataRecord,
    GroupTombstone,
    MemberMetadata,
    OffsetCommitRecord,
    OffsetsRecord,
    OffsetTombstone,
    OtherGroupRecord,
    UnknownRecord,
)

FOLDER = Path(__file__).parents[1] / "kafka_folder" / "kafka-4.3.tar.gz"
DUMP = Path(__file__).with_name("kafka_dump.jsonl")
PARTITIONS = 4  # of the offsets topic
DELETED = "<DELETE>"


@cache
def segments() -> list[bytes]:
    """Return the first segment of each partition."""
    names = [f"data/__consumer_offsets-{number}/{0:020}.log" for number in range(PARTITIONS)]
    with tarfile.open(FOLDER) as tar:
        return [file.read() for name in names if (file := tar.extractfile(name)) is not None]


def data_records() -> list[tuple[int, bytes, bytes | None, dict[str, Any]]]:
    """Return (offsets partition, key, value, Kafka's decoded record) of all records except
    transaction markers."""
    lines = [json.loads(line) for line in DUMP.read_text().splitlines()]
    by_kafka = {(line["partition"], line["offset"]): line for line in lines}
    found = []
    for partition, segment in enumerate(segments()):
        for position, header in split(segment):
            batch = segment[position : position + header.size]
            if not check(batch, 0, len(batch)).is_control:
                for record in records(batch):
                    kafka_reads = by_kafka.get((partition, record.offset), {})
                    found.append((partition, record.key or b"", record.value, kafka_reads))
    return found


RECORDS = data_records()


def as_kafka_prints(record: OffsetsRecord) -> dict[str, Any]:
    match record:
        case OffsetCommitRecord(group_id, topic, partition, value):
            committed = decode_commit_value(value)
            data = {
                "offset": committed.offset,
                "leaderEpoch": committed.leader_epoch,
                "metadata": committed.metadata,
                "commitTimestamp": committed.commit_timestamp_ms,
                "expireTimestamp": committed.expire_timestamp_ms,
            }
            key = {"group": group_id, "topic": topic, "partition": partition}
            return {"type": "1", "key": key, "data": data}
        case OffsetTombstone(group_id, topic, partition):
            key = {"group": group_id, "topic": topic, "partition": partition}
            return {"type": "1", "key": key, "data": DELETED}
        case GroupMetadataRecord(group_id, group):
            data = {
                "protocolType": group.protocol_type,
                "generation": group.generation,
                "protocol": group.protocol_name,
                "leader": group.leader,
                "currentStateTimestamp": group.state_timestamp_ms,
                "members": list(map(member_as_kafka_prints, group.members)),
            }
            return {"type": "2", "key": {"group": group_id}, "data": data}
        case GroupTombstone(group_id):
            return {"type": "2", "key": {"group": group_id}, "data": DELETED}
        case ConsumerGroupRecord():
            # The next test compares the bytes.
            return {"type": str(int(record.type))}
        case OtherGroupRecord():
            return {"type": str(record.record_type)}
        case UnknownRecord():
            raise AssertionError(record)


def member_as_kafka_prints(member: MemberMetadata) -> dict[str, Any]:
    return {
        "memberId": member.member_id,
        "groupInstanceId": member.group_instance_id,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "rebalanceTimeout": member.rebalance_timeout_ms,
        "sessionTimeout": member.session_timeout_ms,
    }


def test_records_are_decoded_as_by_kafka() -> None:
    for _, key, value, kafka_reads in RECORDS:
        compare_with_kafka(as_kafka_prints(decode_record(key, value)), kafka_reads)


def compare_with_kafka(ours: dict[str, Any], kafka_reads: dict[str, Any]) -> None:
    assert ours["type"] == kafka_reads["key"]["type"]
    if "key" not in ours:
        return
    assert ours["key"] == kafka_reads["key"]["data"]
    if ours["data"] == DELETED:
        assert kafka_reads["payload"] == DELETED
        return
    expected = dict(kafka_reads["payload"]["data"])
    # The topic id is ignored. Version 1 has no leader epoch; other versions have no expiry time.
    expected.pop("topicId", None)
    if ours["type"] == "1":
        expected = {"leaderEpoch": -1, "expireTimestamp": None} | expected
    for member in expected.get("members", ()):
        # These fields are printed in decoded form. The next test compares the bytes.
        del member["subscription"], member["assignment"]
    assert ours["data"] == expected


def test_decoded_records_are_encoded_to_the_same_bytes() -> None:
    for _, key, value, _ in RECORDS:
        assert encode_record(decode_record(key, value)) == (key, value)


def test_groups_are_in_the_partition_that_we_compute() -> None:
    for partition, _, _, kafka_reads in RECORDS:
        data = kafka_reads["key"]["data"]
        assert partition_for(data.get("group") or data["groupId"], PARTITIONS) == partition


def test_recording_has_every_type_of_record() -> None:
    types = Counter(type(decode_record(key, value)) for _, key, value, _ in RECORDS)
    expected = {
        OffsetCommitRecord,
        OffsetTombstone,
        GroupMetadataRecord,
        GroupTombstone,
        ConsumerGroupRecord,
        OtherGroupRecord,
    }
    assert set(types) == expected
    versions = {value[:2].hex() for _, key, value, _ in RECORDS if key[:2] == b"\0\1" and value}
    assert versions == {"0001", "0004"}


@pytest.mark.java
def test_kafkas_dump_tool_still_decodes_the_records_like_this(
    tmp_path: Path, kafka_tool: Callable[..., str]
) -> None:
    dumped = []
    for partition, segment in enumerate(segments()):
        file = tmp_path / f"{0:020}.log"
        file.write_bytes(segment)
        options = ("--offsets-decoder", "--print-data-log", "--files", file)
        output = kafka_tool("org.apache.kafka.tools.DumpLogSegments", *options)
        found = re.findall(r"^\| offset: (\d+) .*? key: (.*) payload: (.*)$", output, re.MULTILINE)
        for offset, key, payload in found:
            line = {"partition": partition, "offset": int(offset), "key": json.loads(key)}
            line["payload"] = payload if payload == DELETED else json.loads(payload)
            dumped.append(json.dumps(line, ensure_ascii=False))
    if os.environ.get("KOHORT_PARITY_RECORD") == "1":
        DUMP.write_text("".join(f"{line}\n" for line in dumped))
    assert dumped == DUMP.read_text().splitlines()
