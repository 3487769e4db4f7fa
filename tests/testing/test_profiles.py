"""Brokers with the API versions of older Kafka releases: every client works with them, and requests
that the release did not support are rejected as it rejected them."""

import socket
import struct
from collections.abc import Iterator
from contextlib import closing

import pytest
from kohort.protocol.apis import NEWEST, PROFILES
from kohort.testing import Kafka

from ..clients.adapter import LIBRARIES, ConsumerSettings, Partition, load
from ..clients.consumers import until

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_client_consumes_and_commits(profile: str, library: str) -> None:
    with Kafka(profile=profile) as kafka, closing(load(library)(kafka.bootstrap_servers)) as client:
        kafka.topic("orders", partitions=1).produce(["a"])
        with closing(client.consumer(ConsumerSettings("billing"))) as consumer:
            consumer.subscribe("orders")
            until(lambda: [each.value for each in consumer.poll()] == [b"a"], "it reads the record")
            consumer.commit()
            assert consumer.committed(Partition("orders", 0)) == 1
        assert kafka.group("billing").committed("orders", 0) == 1
        check_versions(kafka, profile)


@pytest.mark.parametrize("profile", PROFILES)
def test_fake_members_join_and_commit(profile: str) -> None:
    with Kafka(profile=profile) as kafka:
        kafka.topic("orders", partitions=2)
        static = kafka.fake_member("billing", ["orders"], instance_id="till-1")
        other = kafka.fake_member("billing", ["orders"])
        static.restart()
        assert len(static.wait_owned(1) + other.wait_owned(1)) == 2
        assert other.commit("orders", 0, 1) is None
        static.leave()
        assert len(other.wait_owned(2)) == 2


def test_a_consumer_protocol_fake_member_needs_kafka_3_9() -> None:
    with Kafka(profile="kafka-3.9") as kafka:
        kafka.topic("orders", partitions=1)
        member = kafka.fake_member("billing", ["orders"], protocol="consumer")
        assert member.wait_owned(1) == [("orders", 0)]
        assert member.errors == []
    with Kafka(profile="kafka-2.8") as kafka:
        expected = "Profile kafka-2.8 does not serve ConsumerGroupHeartbeat"
        with pytest.raises(ValueError, match=expected):
            kafka.fake_member("billing", ["orders"], protocol="consumer")


def check_versions(kafka: Kafka, profile: str) -> None:
    """Check that no request was newer than that Kafka release, except for the first ApiVersions."""
    highest = {api.name: api.max_version for api in PROFILES[profile].values()}
    used = {(each.api, each.version) for each in kafka.history.requests if each.errors == ()}
    assert {"JoinGroup", "OffsetCommit", "Fetch"} <= {api for api, _ in used}
    assert [each for each in used if each[1] > highest[each[0]]] == []


@pytest.fixture
def old() -> Iterator[Kafka]:
    with Kafka(profile="kafka-2.8") as kafka:
        yield kafka


def request(kafka: Kafka, key: int, version: int, body: bytes = b"") -> bytes:
    """Return the response without its size; empty if the connection was closed."""
    host, port = kafka.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        header = struct.pack(">hhih", key, version, 7, -1)
        client.sendall(struct.pack(">i", len(header + body)) + header + body)
        size = client.recv(4)
        return client.recv(int.from_bytes(size)) if size else b""


# The smallest bodies: no member ids, no arrays. Flexible ones begin with the tags of the header.
LEAVE_GROUP = b"\0" + b"\2g" + b"\1" + b"\0"
LIST_TRANSACTIONS = b"\0" + b"\1\1\0"
API_VERSIONS = b"\0" + b"\2c" + b"\0021" + b"\0"


def test_a_request_unknown_to_the_profile_closes_the_connection(old: Kafka) -> None:
    with Kafka() as new:
        for key, version, body in ((13, 5, LEAVE_GROUP), (66, 0, LIST_TRANSACTIONS)):
            assert request(old, key, version, body) == b""
            assert len(request(new, key, version, body)) > 4
        assert len(request(old, 13, 4, LEAVE_GROUP)) > 4


def test_a_newer_apiversions_gets_the_supported_versions(old: Kafka) -> None:
    # In v0: correlation id, UNSUPPORTED_VERSION, one API: ApiVersions from 0 to 3 (KIP-511).
    assert request(old, 18, 4, API_VERSIONS) == struct.pack(">ihihhh", 7, 35, 1, 18, 0, 3)
    with Kafka() as new:
        assert struct.unpack_from(">ih", request(new, 18, 4, API_VERSIONS)) == (7, 0)


def test_an_unknown_profile_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"kohort\.profile.*kafka-2\.8, kafka-3\.9, kafka-4\.x"):
        Kafka(profile="kafka-5")
    assert NEWEST == "kafka-4.x"
