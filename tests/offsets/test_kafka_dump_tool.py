"""Kafka's own dump tool decodes the offsets log that we write."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kohort.log.batch import BatchBuilder
from kohort.log.files import DiskFiles
from kohort.log.log import Log
from kohort.offsets.record_codec import encode_commit_value, encode_record
from kohort.offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    GroupTombstone,
    GroupType,
    MemberMetadata,
    OffsetCommitRecord,
    OffsetsRecord,
    OffsetTombstone,
    OtherGroupRecord,
)

NOW_MS = 1_700_000_000_000
SUBSCRIPTION = bytes.fromhex("0001 00000001 000174 ffffffff 00000000")
ASSIGNMENT = bytes.fromhex("0001 00000001 000174 00000002 00000000 00000001 ffffffff")
MEMBER = MemberMetadata(
    "m1", "instance-1", "c", "/127.0.0.1", 300_000, 45_000, SUBSCRIPTION, ASSIGNMENT
)
BATCHES: list[list[OffsetsRecord]] = [
    [GroupMetadataRecord("grüppe", GroupMetadata("", 0, None, None, NOW_MS, ()))],
    [GroupMetadataRecord("grüppe", GroupMetadata("consumer", 1, "range", "m1", NOW_MS, (MEMBER,)))],
    [
        OffsetCommitRecord("grüppe", "t", 0, encode_commit_value(42, 7, "m", NOW_MS)),
        OffsetCommitRecord("grüppe", "t", 1, encode_commit_value(43, -1, "", NOW_MS)),
        OffsetCommitRecord(
            "grüppe", "t", 2, encode_commit_value(44, 7, "", NOW_MS, NOW_MS + 600_000)
        ),
    ],
    [OffsetTombstone("grüppe", "t", 0)],
    [
        OtherGroupRecord(
            GroupType.CONSUMER, "g", 3, b"\x00\x03\x00\x01g", b"\x00\x00\x00\x00\x00\x05\x00"
        ),
        GroupTombstone("grüppe"),
    ],
]


def commit_data(offset: int, **more: Any) -> dict[str, Any]:
    return {"offset": offset, "metadata": "", "commitTimestamp": NOW_MS, **more}


def group_data(**more: Any) -> dict[str, Any]:
    nothing = {"generation": 0, "protocol": None, "leader": None, "members": []}
    return {"protocolType": "", **nothing, "currentStateTimestamp": NOW_MS, **more}


def commit_key(partition: int) -> dict[str, Any]:
    return {"type": "1", "data": {"group": "grüppe", "topic": "t", "partition": partition}}


GROUP_KEY = {"type": "2", "data": {"group": "grüppe"}}
MEMBER_DATA = {
    "memberId": "m1",
    "groupInstanceId": "instance-1",
    "clientId": "c",
    "clientHost": "/127.0.0.1",
    "rebalanceTimeout": 300_000,
    "sessionTimeout": 45_000,
}
EXPECTED = [
    (GROUP_KEY, {"version": "3", "data": group_data()}),
    (
        GROUP_KEY,
        {
            "version": "3",
            "data": group_data(
                protocolType="consumer",
                generation=1,
                protocol="range",
                leader="m1",
                members=[MEMBER_DATA],
            ),
        },
    ),
    (commit_key(0), {"version": "3", "data": commit_data(42, leaderEpoch=7, metadata="m")}),
    (commit_key(1), {"version": "3", "data": commit_data(43, leaderEpoch=-1)}),
    (
        commit_key(2),
        {"version": "1", "data": commit_data(44, expireTimestamp=NOW_MS + 600_000)},
    ),
    (commit_key(0), "<DELETE>"),
    (
        {"type": "3", "data": {"groupId": "g"}},
        {"version": "0", "data": {"epoch": 5}},
    ),
    (GROUP_KEY, "<DELETE>"),
]


def parsed(text: str) -> Any:
    return json.loads(text) if text.startswith("{") else text


@pytest.mark.java
def test_kafkas_dump_tool_decodes_our_offsets_log(
    tmp_path: Path, kafka_tool: Callable[..., str]
) -> None:
    log = Log.open(tmp_path / "__consumer_offsets-0", DiskFiles())
    for batch_records in BATCHES:
        batch = BatchBuilder()
        for record in batch_records:
            key, value = encode_record(record)
            batch.add(key, value, NOW_MS)
        log.append(batch.finish(log.end_offset))
    log.close()

    segment = tmp_path / "__consumer_offsets-0" / f"{0:020}.log"
    output = kafka_tool(
        "org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", segment
    )

    assert output.count("isvalid: true") == len(BATCHES)
    assert "isvalid: false" not in output
    assert "stray" not in output.lower()
    read = re.findall(r"^\| offset: .*? key: (.*) payload: (.*)$", output, re.MULTILINE)
    found = [(parsed(key), parsed(payload)) for key, payload in read]
    for _, payload in found:
        if isinstance(payload, dict):
            for member in payload["data"].get("members", ()):
                # Printed decoded, so the bytes are valid.
                assert member.pop("subscription")["topics"] == ["t"]
                assert member.pop("assignment")["assignedPartitions"] == [
                    {"topic": "t", "partitions": [0, 1]}
                ]
    assert found == EXPECTED
