"""The declared schemas of all record types, compared with Kafka 4.3.

kafka_records.jsonl was written by Kafka's own message classes and JSON converters (Kafka 4.3.0,
group-coordinator jar). It has each record type in each version, once with all fields and once with
as few as possible. The last line is a broker's record, with a tagged field that is null.
"""

import json
import re
from base64 import b64decode, b64encode, urlsafe_b64decode
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID
from zipfile import ZipFile

import pytest
from kohort.offsets.record_schemas import RECORD_SPECS, decode_as_dicts
from kohort.offsets.records import UndecodableRecord, UnencodableRecord
from kohort.protocol import consumer_protocol as protocol
from kohort.protocol.encoder import compile_body_encoder
from kohort.protocol.schema import Field, Schema

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


def test_every_record_type_is_decoded_as_by_kafka() -> None:
    for line in WRITTEN:
        key, value = bytes.fromhex(line["key_bytes"]), bytes.fromhex(line["value_bytes"])
        record = decode_as_dicts(key, value)
        assert record is not None
        assert (record.kind, record.version) == (line["kind"], line["version"])
        assert (as_json(record.key), as_json(record.value)) == (line["key"], line["value"])
        tombstone = decode_as_dicts(key, None)
        assert tombstone == record._replace(version=None, value=None)


def message_of(schema: Schema, values: dict[str, Any]) -> Any:
    """Return an object to be encoded, from the JSON of a structure."""
    attributes = {}
    for field in schema.all_fields:
        if field.name not in values:
            continue
        value = values[field.name]
        items = value if field.is_array else [value]
        if value is not None:
            items = [value_of(field, each) for each in items]
            value = items if field.is_array else items[0]
        attributes[field.attribute] = value
    return SimpleNamespace(**attributes)


def value_of(field: Field, value: Any) -> Any:
    if field.struct is not None:
        return message_of(field.struct, value)
    if field.type == "bytes":
        return b64decode(value)
    return UUID(bytes=urlsafe_b64decode(value + "==")) if field.type == "uuid" else value


def test_every_record_type_is_encoded_as_by_kafka() -> None:
    for line in WRITTEN[:-1]:  # the last one has a null tagged field, which kohort omits
        value = bytes.fromhex(line["value_bytes"])
        record_type = int(line["key_bytes"][:4], 16)
        schema = RECORD_SPECS[record_type].value.schema(line["version"])
        encode = compile_body_encoder(schema, UnencodableRecord)
        assert encode(message_of(schema, line["value"])) == value[2:], line["kind"]


def test_all_record_types_of_kafka_are_declared() -> None:
    # Type 9 belonged to previews of share groups. Kafka 4.3 does not have it.
    assert {spec.name for number, spec in RECORD_SPECS.items() if number != 9} == {
        line["kind"] for line in WRITTEN
    }


def fields_of(schema: Schema) -> list[Any]:
    """Return (name, type or fields of a structure, is an array, nullable, tag) of each field."""
    return [
        (
            each.name,
            fields_of(each.struct) if each.struct is not None else each.type,
            each.is_array,
            each.nullable,
            each.tag,
        )
        for each in schema.all_fields
    ]


def fields_of_kafka(message: Any, fields: Any, version: int) -> list[Any]:
    """Return the same values from Kafka's JSON."""

    def includes(versions: str) -> bool:
        if versions == "none":
            return False
        lowest, _, highest = versions.replace("+", "-").partition("-")
        return int(lowest) <= version <= int(highest or (99 if "+" in versions else lowest))

    structs = {each["name"]: each["fields"] for each in message.get("commonStructs", [])}
    found = []
    for field in fields:
        if not includes(field.get("versions", "0+")):
            continue
        item = field["type"].removeprefix("[]")
        inner = field.get("fields") or structs.get(item)
        found.append(
            (
                field["name"][0].lower() + field["name"][1:],
                item if inner is None else fields_of_kafka(message, inner, version),
                field["type"].startswith("[]"),
                includes(field.get("nullableVersions", "none")),
                field.get("tag") if includes(field.get("taggedVersions", "none")) else None,
            )
        )
    return sorted(found, key=lambda each: -1 if each[4] is None else each[4])


@pytest.mark.java
def test_declared_schemas_are_those_of_kafka(kafka_jars: Path) -> None:
    (jar,) = kafka_jars.glob("kafka-group-coordinator-[0-9]*.jar")
    compared = 0
    with ZipFile(jar) as files:
        for name in files.namelist():
            if not name.startswith("common/message/") or not name.endswith(".json"):
                continue
            text = re.sub(r"^\s*//.*$", "", files.read(name).decode(), flags=re.MULTILINE)
            message = json.loads(text)
            record = RECORD_SPECS[message["apiKey"]]
            spec = record.key if message["name"].endswith("Key") else record.value
            assert spec.name == message["name"]
            lowest, _, highest = message["validVersions"].partition("-")
            for version in range(int(lowest), int(highest or lowest) + 1):
                expected = fields_of_kafka(message, message["fields"], version)
                assert fields_of(spec.schema(version)) == expected, (name, version)
                compared += 1
    assert compared >= 2 * len(RECORD_SPECS)


def test_value_cut_anywhere_is_an_error() -> None:
    for line in WRITTEN:
        key, value = bytes.fromhex(line["key_bytes"]), bytes.fromhex(line["value_bytes"])
        for end in range(len(value)):
            with pytest.raises(UndecodableRecord):
                decode_as_dicts(key, value[:end])


def test_unknown_record_types_are_not_decoded_and_unknown_versions_are_errors() -> None:
    assert decode_as_dicts(b"\x00\x63\x00\x01g", b"\x00\x00") is None
    with pytest.raises(UndecodableRecord, match="version 5 is not one of 0 to 4"):
        decode_as_dicts(b"\x00\x02\x00\x01g", b"\x00\x05")
    with pytest.raises(UndecodableRecord, match="record without a key"):
        decode_as_dicts(None, b"")


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_subscriptions_and_assignments_are_decoded_as_dicts(version: int) -> None:
    owned = (protocol.TopicPartitions("t", (0, 3)),)
    subscription = protocol.Subscription(("t", "u"), b"\x01", owned, 7, "rack")
    read = protocol.decode_as_dict(
        protocol.SUBSCRIPTION, protocol.encode_subscription(subscription, version)
    )
    expected: dict[str, Any] = {
        "topics": ["t", "u"],
        "userData": b"\x01",
        "ownedPartitions": [{"topic": "t", "partitions": [0, 3]}],
        "generationId": 7,
        "rackId": "rack",
    }
    assert read == {name: expected[name] for name in list(expected)[: version + 2]}
    assignment = protocol.encode_assignment(protocol.Assignment(owned), version)
    assert protocol.decode_as_dict(protocol.ASSIGNMENT, assignment) == {
        "assignedPartitions": [{"topic": "t", "partitions": [0, 3]}],
        "userData": None,
    }
