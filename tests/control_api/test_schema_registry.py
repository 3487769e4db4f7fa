"""The schema registry, with Confluent's serializers."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from kohort.control_api.server import ControlServer, serving
from kohort.testing import Kafka

pytestmark = pytest.mark.clients

RECORD = {"type": "record", "name": "Order", "fields": [{"name": "what", "type": "string"}]}
OBJECT = {
    "title": "Order",
    "type": "object",
    "properties": {"what": {"type": "string"}},
    "required": ["what"],
}

NESTED = "[" * 100_000 + "]" * 100_000


def referring(subject: object) -> Schema:
    return Schema('"string"', "AVRO", [SchemaReference("name", subject, 1)])


def message_class() -> Any:
    """`message Order { string what = 1; }`, without protoc."""
    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    field = FieldDescriptorProto(name="what", number=1)
    field.type, field.label = field.TYPE_STRING, field.LABEL_OPTIONAL
    file.message_type.add(name="Order").field.append(field)
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


ORDER = message_class()
CONTEXT = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture(scope="module")
def server() -> Iterator[ControlServer]:
    with Kafka() as kafka, serving(kafka) as server:
        yield server


@pytest.fixture
def client(server: ControlServer) -> Iterator[SchemaRegistryClient]:
    server.control.reset()
    with SchemaRegistryClient({"url": server.schema_registry_url}) as client:
        yield client


def avro(client: SchemaRegistryClient) -> tuple[Any, Any, Any]:
    return (
        AvroSerializer(client, json.dumps(RECORD)),
        AvroDeserializer(client),
        {"what": "one espresso"},
    )


def json_schema(client: SchemaRegistryClient) -> tuple[Any, Any, Any]:
    return (
        JSONSerializer(json.dumps(OBJECT), client),
        JSONDeserializer(None, schema_registry_client=client),
        {"what": "one espresso"},
    )


def protobuf(client: SchemaRegistryClient) -> tuple[Any, Any, Any]:
    return (
        ProtobufSerializer(ORDER, client, {"use.deprecated.format": False}),
        ProtobufDeserializer(ORDER, {"use.deprecated.format": False}, client),
        ORDER(what="one espresso"),
    )


@pytest.mark.parametrize("kind", [avro, json_schema, protobuf])
def test_a_value_is_written_and_read_with_its_schema(
    server: ControlServer,
    client: SchemaRegistryClient,
    kind: Callable[[SchemaRegistryClient], tuple[Any, Any, Any]],
) -> None:
    serialize, _, value = kind(client)
    kafka = server.control.kafka
    kafka.topic("orders", partitions=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    producer.produce("orders", serialize(value, CONTEXT))
    assert producer.flush(10) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    record = consumer.poll(10)
    consumer.close()
    # Another process does not know the schema yet.
    with SchemaRegistryClient({"url": server.schema_registry_url}) as other:
        _, deserialize, _ = kind(other)
        assert deserialize(record.value(), CONTEXT) == value
    latest = client.get_latest_version("orders-value")
    assert (latest.subject, latest.version, latest.schema_id) == ("orders-value", 1, 1)


def test_equal_schemas_have_one_id_and_each_subject_its_versions(
    client: SchemaRegistryClient,
) -> None:
    compact, pretty = (Schema(json.dumps(RECORD, indent=n), "AVRO") for n in (None, 2))
    other = Schema('"string"', "AVRO")
    assert client.register_schema("a", compact) == client.register_schema("b", pretty) == 1
    assert (client.register_schema("b", other), client.register_schema("b", pretty)) == (2, 1)
    assert client.get_subjects() == ["a", "b"]
    assert client.get_versions("b") == [1, 2]
    assert client.lookup_schema("b", other).version == 2
    assert client.get_version("b", 1).schema.schema_type == "AVRO"
    assert client.delete_version("b", 2) == 2
    assert client.register_schema("b", other) == 2
    assert client.get_versions("b") == [1, 3]  # version numbers are not used again
    assert client.delete_subject("a") == [1]
    assert client.get_subjects() == ["b"]


def test_a_deletion_is_soft_until_it_is_repeated_as_permanent(client: SchemaRegistryClient) -> None:
    text = Schema('"string"', "AVRO")
    client.register_schema("orders", text)
    with pytest.raises(SchemaRegistryError, match="40405"):
        client.delete_subject("orders", permanent=True)
    assert client.delete_subject("orders") == [1]
    assert (client.get_subjects(), client.get_subjects(deleted=True)) == ([], ["orders"])
    with pytest.raises(SchemaRegistryError, match="40404"):
        client.delete_subject("orders")
    with pytest.raises(SchemaRegistryError, match="40404"):
        client._rest_client.delete("subjects/orders?deleted=true")
    assert client.delete_subject("orders", permanent=True) == [1]
    assert client.get_subjects(deleted=True) == []
    with pytest.raises(SchemaRegistryError, match="40401"):
        client.delete_subject("orders")


def test_a_version_is_deleted_in_two_steps_too(client: SchemaRegistryClient) -> None:
    client.register_schema("orders", Schema('"string"', "AVRO"))
    client.register_schema("orders", Schema('"int"', "AVRO"))
    with pytest.raises(SchemaRegistryError, match="40407"):
        client.delete_version("orders", 2, permanent=True)
    assert client.delete_version("orders", -1) == 2
    assert client.get_latest_version("orders").version == 1
    with pytest.raises(SchemaRegistryError, match="40406"):
        client.delete_version("orders", 2)
    assert client.delete_version("orders", 2, permanent=True) == 2
    with pytest.raises(SchemaRegistryError, match="40402"):
        client.delete_version("orders", 2, permanent=True)


def test_a_referenced_schema_must_exist_and_cannot_be_deleted(client: SchemaRegistryClient) -> None:
    to_name = SchemaReference("shop.Name", "name", 2)
    order = Schema(json.dumps({**RECORD, "namespace": "shop"}), "AVRO", [to_name])
    with pytest.raises(SchemaRegistryError, match=r"name version 2 is unknown .*42201"):
        client.register_schema("orders", order)
    client.register_schema("name", Schema('"string"', "AVRO"))
    client.register_schema("name", Schema('{"type":"fixed","name":"shop.Name","size":4}', "AVRO"))
    id_ = client.register_schema("orders", order)
    with pytest.raises(SchemaRegistryError, match="42206"):
        client.delete_subject("name")
    assert client.get_versions("name") == [1, 2]
    (place,) = client._rest_client.get(f"schemas/ids/{id_}/versions")
    assert place == {"subject": "orders", "version": 1}
    assert client._rest_client.get(f"schemas/ids/{id_}/subjects") == ["orders"]
    client.delete_subject("orders")
    client.delete_subject("name")


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda client: client.get_latest_version("none"), 40401),
        (lambda client: client.get_version("orders", 7), 40402),
        (lambda client: client.get_version("orders", 0), 42202),
        (lambda client: client.get_schema(99), 40403),
        (lambda client: client.get_schema("9" * 5_000), 40403),
        (lambda client: client.lookup_schema("orders", Schema('"int"', "AVRO")), 40403),
        (lambda client: client.register_schema("orders", Schema(NESTED, "AVRO")), 42201),
        (lambda client: client.register_schema("orders", Schema("{", "AVRO")), 42201),
        (lambda client: client.register_schema("orders", Schema("[1e999]", "AVRO")), 42201),
        (lambda client: client.register_schema("orders", Schema("[NaN]", "JSON")), 42201),
        (lambda client: client.register_schema("orders", Schema("x", "XML")), 42201),
        (lambda client: client.register_schema("orders", referring([])), 42201),
        (lambda client: client.register_schema("orders", referring({})), 42201),
        (lambda client: client.set_compatibility("orders", "BACKWARD"), 42203),
    ],
)
def test_errors_have_confluents_codes(
    client: SchemaRegistryClient, call: Callable[[SchemaRegistryClient], object], code: int
) -> None:
    client.register_schema("orders", Schema('"string"', "AVRO"))
    with pytest.raises(SchemaRegistryError) as raised:
        call(client)
    assert raised.value.error_code == code
    assert raised.value.http_status_code == int(str(code)[:3])


def test_nothing_is_checked_for_compatibility(client: SchemaRegistryClient) -> None:
    client.register_schema("orders", Schema('"string"', "AVRO"))
    assert client.test_compatibility("orders", Schema('"int"', "AVRO"))
    assert client.get_compatibility("orders") == "NONE"
    client.set_compatibility("orders", "NONE")
    assert client.get_mode("orders") == "READWRITE"


def test_schemas_are_limited(client: SchemaRegistryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.control_api.schema_registry.SCHEMAS_MAX", 2)
    for name in ("string", "int"):
        client.register_schema("s", Schema(f'"{name}"', "AVRO"))
    with pytest.raises(SchemaRegistryError, match="At most 2 schemas"):
        client.register_schema("s", Schema('"more"', "AVRO"))
