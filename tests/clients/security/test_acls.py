"""How real clients fail if an ACL is missing, and that they continue once the ACL is added."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaProducer
from kohort.broker.config.keys import STANDARD_AUTHORIZER
from kohort.testing.kafka import Kafka

from ..adapter import Client, Committed, Consumer, ConsumerSettings, Partition
from ..aio import AioKafka, Loop
from ..consumers import until
from ..kafka_python import KafkaPython
from ..librdkafka import Librdkafka
from .conftest import JavaClient

# Clients are User:ANONYMOUS on the first listener, and an administrator on the second one.
CONFIG = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin",
    "group.initial.rebalance.delay.ms": "0",
}
Send = Callable[[str], Any]
"""A function that sends a record to a topic and waits for the response."""
TOPIC, GROUP = 29, 30
"""TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED."""


class Authorized(NamedTuple):
    """A broker with an authorizer, and a topic and a group that no ACL allows yet."""

    kafka: Kafka
    admin: AdminClient
    topic: str
    group: str

    @property
    def address(self) -> str:
        """The address of the listener without authentication."""
        return self.kafka.bootstrap_servers.split(",")[0]

    def allow(self, kind: str, name: str, operation: str) -> None:
        binding = AclBinding(
            ResourceType[kind],
            name,
            ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        for future in self.admin.create_acls([binding]).values():
            future.result(20)


@pytest.fixture(scope="module")
def broker() -> Iterator[tuple[Kafka, AdminClient]]:
    with Kafka(security="SASL_PLAINTEXT", users={"admin": "a"}, config=CONFIG) as kafka:
        config = kafka.security.client_config(
            "admin", library="confluent", listener="SASL_PLAINTEXT"
        )
        yield kafka, AdminClient(config)


@pytest.fixture
def authorized(broker: tuple[Kafka, AdminClient], request: pytest.FixtureRequest) -> Authorized:
    kafka, admin = broker
    name = request.node.name
    topic = "".join(each if each.isalnum() else "-" for each in name)
    kafka.topic(topic, partitions=1).produce([b"tea"])
    return Authorized(kafka, admin, topic, f"group-{topic}")


@pytest.fixture(params=[Librdkafka, KafkaPython, AioKafka], ids=lambda each: each.name)
def client(request: pytest.FixtureRequest, authorized: Authorized) -> Iterator[Client]:
    client = request.param(authorized.address)
    yield client
    client.close()


def code_of(error: Exception) -> int | None:
    """Return Kafka's code in the exception of a library or its adapter."""
    if isinstance(error, KafkaException):
        error = error.args[0]
    code = getattr(error, "code", None)
    code = code() if callable(code) else code
    return code if code is not None else getattr(error, "errno", None)


def denied(action: Callable[[], Any], code: int) -> None:
    """Repeat the action until it fails with this code."""
    found: list[int | None] = []

    def fails() -> bool:
        try:
            action()
        except Exception as error:
            if code_of(error) is None:
                raise
            found.append(code_of(error))
        return bool(found)

    until(fails, f"error {code}")
    assert found == [code]


def allowed(action: Callable[[], Any], code: int) -> Any:
    """Repeat the action until it returns something. Before that, it may fail with this code,
    because clients cache responses and metadata."""
    results: list[Any] = []

    def is_done() -> bool:
        try:
            results.append(action())
        except Exception as error:
            if code_of(error) != code:
                raise
            return False
        return bool(results[-1])

    until(is_done, "success")
    return results[-1]


def values(consumer: Consumer, code: int) -> list[bytes | None]:
    return [record.value for record in allowed(consumer.poll, code)]


# librdkafka's default is five minutes.
REFRESH = {"topic.metadata.refresh.interval.ms": 300}


@contextlib.contextmanager
def confluent_producer(address: str) -> Iterator[Send]:
    producer = confluent_kafka.Producer({"bootstrap.servers": address, **REFRESH, "log_level": 0})

    def send(topic: str) -> bool:
        errors: list[Any] = []
        producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
        producer.flush(20)
        if errors[0] is not None:
            raise KafkaException(errors[0])
        return True

    yield send


@contextlib.contextmanager
def kafka_python_producer(address: str) -> Iterator[Send]:
    # An idempotent producer would need a topic to which it may write.
    with KafkaProducer(bootstrap_servers=address, enable_idempotence=False) as producer:
        yield lambda topic: producer.send(topic, b"x").get(20)


@contextlib.contextmanager
def aiokafka_producer(address: str) -> Iterator[Send]:
    with Loop() as loop:
        producer = loop.invoke(AIOKafkaProducer, bootstrap_servers=address)
        loop.invoke(producer.start)
        yield lambda topic: loop.invoke(producer.send_and_wait, topic, b"x")
        loop.invoke(producer.stop)


@pytest.mark.parametrize(
    "new_producer", [confluent_producer, kafka_python_producer, aiokafka_producer]
)
def test_a_producer_is_denied_until_it_may_write(authorized: Authorized, new_producer: Any) -> None:
    topic = authorized.topic
    with new_producer(authorized.address) as send:
        denied(lambda: send(topic), TOPIC)
        authorized.allow("TOPIC", topic, "WRITE")
        allowed(lambda: send(topic), TOPIC)
    assert [each.value for each in authorized.kafka.topic(topic).records()] == [b"tea", b"x"]


def test_a_consumer_is_denied_until_it_may_read_the_topic(
    client: Client, authorized: Authorized
) -> None:
    # Without this ACL, kafka-python and aiokafka request metadata forever, as with Kafka.
    authorized.allow("TOPIC", authorized.topic, "DESCRIBE")
    authorized.allow("GROUP", "none", "READ")  # the adapter's group
    consumer = client.consumer(ConsumerSettings())
    consumer.assign(Partition(authorized.topic, 0))
    denied(consumer.poll, TOPIC)
    authorized.allow("TOPIC", authorized.topic, "READ")
    assert values(consumer, TOPIC) == [b"tea"]  # librdkafka fetches again after 5 s
    consumer.close()


def test_a_member_is_denied_until_it_may_read_the_group(
    client: Client, authorized: Authorized
) -> None:
    authorized.allow("TOPIC", authorized.topic, "READ")
    consumer = client.consumer(ConsumerSettings(authorized.group))
    consumer.subscribe(authorized.topic)
    denied(consumer.poll, GROUP)
    authorized.allow("GROUP", authorized.group, "READ")
    if client.name == "aiokafka":  # aiokafka does not join again after this error
        consumer.close()
        consumer = client.consumer(ConsumerSettings(authorized.group))
        consumer.subscribe(authorized.topic)
    assert values(consumer, GROUP) == [b"tea"]
    consumer.close()


def test_a_commit_is_denied_until_the_client_may_read_the_topic(
    client: Client, authorized: Authorized
) -> None:
    authorized.allow("GROUP", authorized.group, "READ")
    partition = Partition(authorized.topic, 0)
    consumer = client.consumer(ConsumerSettings(authorized.group))
    consumer.assign(partition)
    commit = {partition: Committed(1, "")}
    denied(lambda: consumer.commit(commit), TOPIC)
    authorized.allow("TOPIC", authorized.topic, "READ")
    consumer.commit(commit)
    assert consumer.committed(partition) == 1
    consumer.close()


def test_the_offsets_of_a_group_are_denied_until_it_may_be_described(
    client: Client, authorized: Authorized
) -> None:
    admin = client.admin()
    denied(lambda: admin.group_offsets(authorized.group), GROUP)
    authorized.allow("GROUP", authorized.group, "DESCRIBE")
    assert admin.group_offsets(authorized.group) == {}
    admin.close()


@pytest.mark.java
def test_clients_in_java_are_denied_until_acls_allow_each_action(
    authorized: Authorized, java_client: JavaClient
) -> None:
    config = {"bootstrap.servers": authorized.address}
    topic, group = authorized.topic, authorized.group

    def run(action: str) -> str | None:
        return java_client.run(action, config, topic=topic, group=group)

    no_topic = f"TopicAuthorizationException: Not authorized to access topics: [{topic}]"
    for action in ("produce", "fetch", "join"):
        assert no_topic in (run(action) or "")
    assert "TopicAuthorizationException: Topic authorization failed." in (run("describe") or "")
    authorized.allow("TOPIC", topic, "READ")
    authorized.allow("TOPIC", topic, "WRITE")
    no_group = f"GroupAuthorizationException: Not authorized to access group: {group}"
    for action in ("join", "commit"):
        assert no_group in (run(action) or "")
    authorized.allow("GROUP", group, "READ")
    for action in ("produce", "describe", "fetch", "join", "commit"):
        assert run(action) is None
