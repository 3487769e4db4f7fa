"""A cluster's groups through kafka-python: descriptions, client properties, moved coordinators."""

import re
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trustme
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import CoordinatorNotAvailableError
from kio.schema.consumer_group_describe.v0 import request as request_0
from kio.schema.consumer_group_describe.v0 import response as response_0
from kio.schema.consumer_group_describe.v1 import request as request_1
from kio.schema.consumer_group_describe.v1 import response as response_1
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from kohort import client_properties
from kohort.broker.broker import Broker
from kohort.cli.groups.cluster import (
    Cluster,
    Committed,
    Group,
    Member,
    Partition,
    classic_group,
    client_arguments,
    connected,
    consumer_group,
)
from kohort.cli.groups.errors import BrokerError, CommandError
from kohort.conformance.wire import kio_bytes
from kohort.testing.kafka_python.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kohort.topics.names import OFFSETS_TOPIC
from support.running_broker import BrokerThread

GROUP = "g"
PARTITION = Partition("orders", 0)


# --- group descriptions


def response_of(of: ModuleType, error: ErrorCode, message: str | None, **member: int) -> Any:
    """A response for `g`: its member has `orders` 0, and 0 and 1 in the target assignment."""

    def assignment(*partitions: int) -> Any:
        topic = of.TopicPartitions(
            topic_id=uuid.UUID(int=5), topic_name="orders", partitions=partitions
        )
        return of.Assignment(topic_partitions=(topic,))

    one = of.Member(
        member_id="m",
        instance_id="i",
        rack_id=None,
        member_epoch=6,
        client_id="c",
        client_host="/127.0.0.1",
        subscribed_topic_names=("orders",),
        assignment=assignment(0),
        target_assignment=assignment(0, 1),
        **member,
    )
    group = of.DescribedGroup(
        error_code=error,
        error_message=message,
        group_id="g",
        group_state="Reconciling",
        group_epoch=8,
        assignment_epoch=7,
        assignor_name="uniform",
        members=(one,),
    )
    return of.ConsumerGroupDescribeResponse(throttle_time=timedelta(0), groups=(group,))


def decoded(version: int, response: Any) -> Any:
    data = kio_bytes(response)
    return ConsumerGroupDescribeResponse.decode(data, version=version).to_dict()["groups"][0]


@pytest.mark.parametrize(("version", "of"), [(0, request_0), (1, request_1)])
def test_a_request_can_be_decoded_by_another_library(version: int, of: ModuleType) -> None:
    ours = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
    decoded_request, _ = entity_reader(of.ConsumerGroupDescribeRequest)(
        memoryview(bytes(ours.encode(version=version))), 0
    )
    assert decoded_request == of.ConsumerGroupDescribeRequest(
        group_ids=("g",), include_authorized_operations=False
    )


@pytest.mark.parametrize(
    ("version", "of", "member_type", "upgraded"),
    [
        (0, response_0, {}, None),
        (1, response_1, {"member_type": -1}, None),
        (1, response_1, {"member_type": 0}, False),
        (1, response_1, {"member_type": 1}, True),
    ],
)
def test_a_group_of_the_consumer_protocol_has_epochs_and_target_assignments(
    version: int, of: ModuleType, member_type: dict[str, int], upgraded: bool | None
) -> None:
    owned, target = (Partition("orders", 0),), (Partition("orders", 0), Partition("orders", 1))
    member = Member("m", "i", "/127.0.0.1", "c", owned, 6, target, upgraded)
    group = Group("g", "Reconciling", "uniform", (member,), 8, 7)
    assert (
        consumer_group(decoded(version, response_of(of, ErrorCode.none, None, **member_type)))
        == group
    )


def test_a_group_that_is_not_of_the_consumer_protocol_is_none() -> None:
    response = response_of(response_1, ErrorCode.group_id_not_found, "Group g not found.")
    assert consumer_group(decoded(1, response)) is None


def test_an_error_has_the_brokers_message_if_there_is_one() -> None:
    response = response_of(response_1, ErrorCode.group_authorization_failed, None)
    error = consumer_group(decoded(1, response))
    assert isinstance(error, BrokerError)
    assert error.message == "Group authorization failed."
    error = classic_group({"error": "[Error 69] GroupIdNotFoundError: Group g not found."})
    assert isinstance(error, BrokerError)
    assert str(error) == (
        "org.apache.kafka.common.errors.GroupIdNotFoundException: Group g not found."
    )


def test_retriable_errors_are_raised() -> None:
    response = response_of(response_1, ErrorCode.coordinator_not_available, None)
    with pytest.raises(CoordinatorNotAvailableError):
        consumer_group(decoded(1, response))
    with pytest.raises(CoordinatorNotAvailableError):
        classic_group({"error": "[Error 15] CoordinatorNotAvailableError"})


# --- --command-config


def test_java_properties_become_arguments_of_kafka_python(tmp_path: Path) -> None:
    file, authority = tmp_path / "client.properties", tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(authority)
    file.write_text(
        "# a comment\n"
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        '    username="ann" password="a=b;c";\n'
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={authority}\n"
        "ssl.endpoint.identification.algorithm=\n"
        "max.poll.records=5\n"
    )
    assert client_arguments(file) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ann",
        "sasl_plain_password": "a=b;c",
        "ssl_cafile": str(authority),
        "ssl_check_hostname": False,
    }


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"ssl.truststore.type": "PKCS12"}, "unsupported ssl.truststore.type=PKCS12: expected PEM"),
        ({"ssl.truststore.location": "ca.jks"}, "ssl.truststore.location needs"),
        ({"sasl.login.class": "com.example.Login"}, "sasl.login.class is not supported"),
        ({"security.protocol": "SASL_SLL"}, "invalid security.protocol=SASL_SLL: use one of PLAIN"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "security.protocol=SASL_SSL needs sasl.jaas.config=M",
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "no.pem"},
            "cannot load ssl.truststore.location=no.pem: No such file",
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": __file__},
            f"cannot load ssl.truststore.location={__file__}: NO_CERTIFICATE_OR_CRL_FOUND",
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": __file__},
            f"cannot load ssl.keystore.location={__file__}: ",
        ),
    ],
)
def test_unsupported_security_settings_are_rejected(
    properties: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=r"^" + re.escape(message)):
        client_properties.client_arguments(properties)


def test_the_sasl_mechanism_is_by_default_that_of_javas_clients() -> None:
    assert client_properties.client_arguments({"security.protocol": "sasl_ssl"}) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "GSSAPI",
    }


def test_a_missing_properties_file_is_reported_with_javas_message() -> None:
    with pytest.raises(CommandError) as caught:
        client_arguments(Path("no.properties"))
    assert str(caught.value) == "java.nio.file.NoSuchFileException: no.properties"


# --- coordinators that move


@pytest.fixture(scope="module")
def nodes() -> Iterator[BrokerThread]:
    with BrokerThread({"kohort.nodes": "3", "offsets.topic.num.partitions": "5"}) as nodes:
        admin = KafkaAdminClient(bootstrap_servers=nodes.bootstrap)
        admin.create_topics([NewTopic("orders", 1, 1)])
        admin.close()
        yield nodes


@pytest.fixture
def cluster(nodes: BrokerThread) -> Iterator[Cluster]:
    with connected(nodes.bootstrap, 10_000, {}) as cluster:
        yield cluster


@pytest.fixture
def move(nodes: BrokerThread) -> Callable[[], int]:
    """`move()` moves the group to another coordinator and returns that node's id."""

    def moved(broker: Broker) -> int:
        index = broker.node.coordinators.partition_of(GROUP)
        leader = broker.cluster.leader_of(OFFSETS_TOPIC, index)
        assert leader is not None
        node_id = leader.node_id % 3 + 1
        broker.cluster.move(OFFSETS_TOPIC, index, node_id)
        return node_id

    return lambda: nodes.call(moved)


def test_a_coordinator_that_has_moved_is_found_again(
    cluster: Cluster, move: Callable[[], int]
) -> None:
    for offset in (1, 2):
        cluster.commit(GROUP, {PARTITION: offset})
        node_id = move()
        assert cluster.committed(GROUP) == {PARTITION: Committed(offset, None)}
        assert cluster.coordinator(GROUP)[2] == node_id
        node_id = move()
        assert isinstance(cluster.describe([GROUP])[GROUP], Group)
        assert cluster.coordinator(GROUP)[2] == node_id
        move()


def test_a_group_is_deleted_at_its_new_coordinator(
    cluster: Cluster, move: Callable[[], int]
) -> None:
    cluster.commit(GROUP, {PARTITION: 1})
    assert cluster.coordinator(GROUP)
    move()
    results = cluster.delete_groups([GROUP, "nobody"])
    assert results.pop(GROUP) is None
    assert [error and error.name for error in results.values()] == ["GROUP_ID_NOT_FOUND"]
    assert cluster.committed(GROUP) == {}
