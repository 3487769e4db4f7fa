"""Every kind of record in __consumer_offsets, as Kafka 4.3 itself writes and reads it.

kafka_records.jsonl was written by Kafka's own message classes and JSON converters (Kafka 4.3.0,
group-coordinator jar): each kind in each version, once with all fields and once with as few as can
be. The last line is a record of a broker, with a tagged field that is null.
"""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from kohort.offsets.errors import UndecodableRecord
from kohort.offsets.record_schemas import KINDS, read_assignment, read_entry, read_subscription
from kohort.protocol import consumer_protocol as protocol

WRITTEN = [
    json.loads(line)
    for line in (Path(__file__).parent / "kafka_records.jsonl").read_text().splitlines()
]


def as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, dict):
        return {name: as_json(each) for name, each in value.items()}
    return [as_json(each) for each in value] if isinstance(value, list) else value


def test_every_kind_says_what_kafka_says() -> None:
    for line in WRITTEN:
        key, value = bytes.fromhex(line["key_bytes"]), bytes.fromhex(line["value_bytes"])
        entry = read_entry(key, value)
        assert entry is not None
        assert (entry.kind, entry.version) == (line["kind"], line["version"])
        assert (as_json(entry.key), as_json(entry.value)) == (line["key"], line["value"])
        tombstone = read_entry(key, None)
        assert tombstone == entry._replace(version=None, value=None)


def test_all_kinds_that_kafka_writes_are_known() -> None:
    # 9 was of previews of share groups: Kafka 4.3 does not know it any more.
    assert {kind.name for number, kind in KINDS.items() if number != 9} == {
        line["kind"] for line in WRITTEN
    }


def test_a_value_cut_anywhere_is_refused_or_says_the_same() -> None:
    """(Nothing follows the last field of some; a cut before it must not go unnoticed.)"""
    for line in WRITTEN:
        key, value = bytes.fromhex(line["key_bytes"]), bytes.fromhex(line["value_bytes"])
        for end in range(len(value)):
            with pytest.raises(UndecodableRecord):
                read_entry(key, value[:end])


def test_kinds_of_newer_kafkas_are_left_undecoded_and_versions_refused() -> None:
    assert read_entry(b"\x00\x63\x00\x01g", b"\x00\x00") is None
    with pytest.raises(UndecodableRecord, match="version 5 is not one of 0 to 4"):
        read_entry(b"\x00\x02\x00\x01g", b"\x00\x05")
    with pytest.raises(UndecodableRecord, match="without a key"):
        read_entry(None, b"")


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_subscriptions_and_assignments_of_the_consumer_protocol_are_read(version: int) -> None:
    owned = (protocol.TopicPartitions("t", (0, 3)),)
    wanted = protocol.Subscription(("t", "u"), b"\x01", owned, 7, "rack")
    read = read_subscription(protocol.encode_subscription(wanted, version))
    told: dict[str, Any] = {
        "topics": ["t", "u"],
        "userData": b"\x01",
        "ownedPartitions": [{"topic": "t", "partitions": [0, 3]}],
        "generationId": 7,
        "rackId": "rack",
    }
    assert read == {name: told[name] for name in list(told)[: version + 2]}
    given = protocol.encode_assignment(protocol.Assignment(owned), version)
    assert read_assignment(given) == {
        "assignedPartitions": [{"topic": "t", "partitions": [0, 3]}],
        "userData": None,
    }
