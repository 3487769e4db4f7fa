"""Records that a real Kafka wrote to __consumer_offsets are decoded as Kafka decodes them.

vectors/kafka.json has the batches and the output of Kafka's own decoder; record_vectors.py
recorded both.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from kohort.log.batch import check
from kohort.log.records import records
from kohort.offsets.partitioner import partition_for
from kohort.offsets.record_codec import decode_commit_value, decode_record, encode_record
from kohort.offsets.records import (
    GroupMetadataRecord,
    GroupTombstone,
    MemberMetadata,
    OffsetCommitRecord,
    OffsetsRecord,
    OffsetTombstone,
    OtherGroupRecord,
    UnknownRecord,
)

DELETED = "<DELETE>"
BATCHES = json.loads((Path(__file__).parent / "vectors" / "kafka.json").read_text())["batches"]


def data_records() -> list[tuple[int, bytes | None, bytes | None, dict[str, Any]]]:
    """(offsets partition, key, value, as Kafka decodes it) of all but the transaction markers."""
    found = []
    for vector in BATCHES:
        batch = bytes.fromhex(vector["batch"])
        if not check(batch, 0, len(batch)).is_control:
            for record, by_kafka in zip(records(batch), vector["kafka_reads"], strict=True):
                found.append((vector["partition"], record.key, record.value, by_kafka))
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


@pytest.mark.parametrize(("_", "key", "value", "kafka_reads"), RECORDS)
def test_record_is_decoded_as_by_kafka(
    _: int, key: bytes, value: bytes | None, kafka_reads: dict[str, Any]
) -> None:
    ours = as_kafka_prints(decode_record(key, value))
    assert ours["type"] == kafka_reads["key"]["type"]
    if "key" not in ours:
        return
    assert ours["key"] == kafka_reads["key"]["data"]
    if ours["data"] == DELETED:
        assert kafka_reads["payload"] == DELETED
        return
    expected = dict(kafka_reads["payload"]["data"])
    # The topic id is ignored; version 1 has no leader epoch, the others have no expiry time.
    expected.pop("topicId", None)
    if ours["type"] == "1":
        expected = {"leaderEpoch": -1, "expireTimestamp": None} | expected
    for member in expected.get("members", ()):
        # Printed decoded; compared as bytes in the next test.
        del member["subscription"], member["assignment"]
    assert ours["data"] == expected


@pytest.mark.parametrize(("_", "key", "value", "kafka_reads"), RECORDS)
def test_decoded_record_is_encoded_to_the_same_bytes(
    _: int, key: bytes, value: bytes | None, kafka_reads: dict[str, Any]
) -> None:
    assert encode_record(decode_record(key, value)) == (key, value)


@pytest.mark.parametrize(("partition", "key", "_", "kafka_reads"), RECORDS)
def test_groups_are_in_the_partition_that_we_compute(
    partition: int, key: bytes, _: bytes | None, kafka_reads: dict[str, Any]
) -> None:
    data = kafka_reads["key"]["data"]
    assert partition_for(data.get("group") or data["groupId"], 50) == partition


def test_recording_has_every_type_of_record() -> None:
    types = Counter(type(decode_record(key, value)) for _, key, value, _ in RECORDS)
    expected = {
        OffsetCommitRecord,
        OffsetTombstone,
        GroupMetadataRecord,
        GroupTombstone,
        OtherGroupRecord,
    }
    assert set(types) == expected
    versions = {value[:2].hex() for _, key, value, _ in RECORDS if key[:2] == b"\0\1" and value}
    assert versions == {"0001", "0004"}
    markers = [vector for vector in BATCHES if vector["kafka_reads"] == [None]]
    assert len(markers) == 2  # one transaction committed, one aborted
