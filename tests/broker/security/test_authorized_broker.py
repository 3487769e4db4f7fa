"""A broker with an authorizer, over sockets: repeated requests, restarts, configuration."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.keys import STANDARD_AUTHORIZER
from kohort.broker.config.sources import ConfigError
from kohort.broker.security.authorizer import Denial
from kohort.topics.acls import Acl, AclOperation, AclPermission, AclResourceType, PatternType
from support.running_broker import BrokerThread
from support.wire import Client

CONFIG = {"authorizer.class.name": STANDARD_AUTHORIZER}
DENIED = "group_authorization_failed"
EVERYONE = ("User:ANONYMOUS", "*")


def acl(type_: AclResourceType, name: str, permission: AclPermission) -> Acl:
    return Acl(type_, name, PatternType.LITERAL, *EVERYONE, AclOperation.ALL, permission)


def allow(type_: AclResourceType, name: str) -> Acl:
    return acl(type_, name, AclPermission.ALLOW)


def create(broker: BrokerThread, *acls: Acl) -> None:
    def create(running: Broker) -> None:
        for each in acls:
            running.node.topics.create_acl(each)

    broker.call(create)


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(CONFIG) as running:
        topic, group = AclResourceType.TOPIC, AclResourceType.GROUP
        create(running, allow(topic, "t"), allow(group, "g"))
        create(running, allow(AclResourceType.CLUSTER, "kafka-cluster"))
        yield running


def deny_group(broker: BrokerThread) -> None:
    create(broker, acl(AclResourceType.GROUP, "g", AclPermission.DENY))


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[Client]:
    with Client(broker.bootstrap) as connected:
        connected.create_topics("t")
        found = connected.call("FindCoordinator", 3, key="g")
        assert found["error_code"] == "none"
        yield connected


def test_a_client_that_may_describe_no_group_does_not_create_the_offsets_topic(
    broker: BrokerThread,
) -> None:
    def exists() -> bool:
        return (
            broker.call(lambda running: running.node.topics.get("__consumer_offsets")) is not None
        )

    with Client(broker.bootstrap) as client:
        found = client.call("FindCoordinator", 4, coordinator_keys=("other", "another"))
        assert {each["error_code"] for each in found["coordinators"]} == {DENIED}
        assert not exists()
        client.call("FindCoordinator", 4, coordinator_keys=("other", "g"))
        assert exists()


def test_repeated_commits_are_authorized_each_time(broker: BrokerThread, client: Client) -> None:
    def errors() -> list[str]:
        return [client.commit("g", topic="t") for _ in range(3)]

    assert errors() == ["none"] * 3
    create(broker, acl(AclResourceType.TOPIC, "t", AclPermission.DENY))
    assert errors() == ["topic_authorization_failed"] * 3
    deny_group(broker)
    assert errors() == [DENIED] * 3


def test_each_denied_topic_of_repeated_commits_is_reported(
    broker: BrokerThread, client: Client
) -> None:
    denials: list[Denial] = []

    def record(running: Broker) -> None:
        assert running.node.security.authorizer is not None
        running.node.security.authorizer.on_denied = denials.append

    broker.call(record)
    partitions = [{"partition_index": 0, "committed_offset": 5}]
    topics = [{"name": name, "partitions": partitions} for name in ("t", "secret")]
    for _ in range(3):
        client.commit("g", topics=topics)
    assert [each.resource.name for each in denials] == ["secret"] * 3


@pytest.mark.parametrize("topics", [[{"name": "t", "partition_indexes": (0,)}], None])
def test_repeated_offset_fetches_are_authorized_each_time(
    broker: BrokerThread, client: Client, topics: list[dict[str, object]] | None
) -> None:
    client.commit("g", 5, topic="t")

    def fetch() -> list[tuple[int, str]]:
        groups = [{"group_id": "g", "topics": topics}]
        (group,) = client.call("OffsetFetch", 8, groups=groups)["groups"]
        fetched = [each for topic in group["topics"] for each in topic["partitions"]]
        errors = [(each["committed_offset"], each["error_code"]) for each in fetched]
        return errors or [(-1, group["error_code"])]

    assert [fetch() for _ in range(3)] == [[(5, "none")]] * 3
    create(broker, acl(AclResourceType.TOPIC, "t", AclPermission.DENY))
    hidden = (-1, "none" if topics is None else "topic_authorization_failed")
    assert [fetch() for _ in range(3)] == [[hidden]] * 3
    deny_group(broker)
    assert [fetch() for _ in range(3)] == [[(-1, DENIED)]] * 3


def test_repeated_heartbeats_of_consumers_are_authorized_each_time(
    broker: BrokerThread, client: Client
) -> None:
    joins = {"member_epoch": 0, "rebalance_timeout": 1000, "subscribed_topic_names": ("t",)}
    values = {"group_id": "g", "member_id": "m"}
    joined = client.call("ConsumerGroupHeartbeat", 1, **values, **joins, topic_partitions=())
    assert joined["error_code"] == "none"
    values["member_epoch"] = joined["member_epoch"]
    for _ in range(3):
        assert client.call("ConsumerGroupHeartbeat", 1, **values)["error_code"] == "none"
    deny_group(broker)
    for _ in range(3):
        assert client.call("ConsumerGroupHeartbeat", 1, **values)["error_code"] == DENIED


def test_pipelined_requests_are_authorized_each(broker: BrokerThread, client: Client) -> None:
    values = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    for _ in range(20):
        client.send("Heartbeat", 4, **values)
    assert {client.receive()["error_code"] for _ in range(20)} == {"unknown_member_id"}
    deny_group(broker)
    for _ in range(20):
        client.send("Heartbeat", 4, **values)
    assert {client.receive()["error_code"] for _ in range(20)} == {DENIED}


def test_acls_survive_a_restart(tmp_path: Path) -> None:
    group = AclResourceType.GROUP
    kept, removed = allow(group, "kept"), allow(group, "removed")

    def delete(running: Broker) -> None:
        running.node.topics.delete_acl(removed)

    with BrokerThread(CONFIG, data_dir=tmp_path, durability="fsync") as broker:
        create(broker, kept, removed)
        broker.call(delete)
    with BrokerThread(CONFIG, data_dir=tmp_path, durability="fsync") as broker:
        assert broker.call(lambda running: list(running.node.topics.security.acls)) == [kept]
        with Client(broker.bootstrap) as client:
            for name, error in (("kept", "none"), ("removed", DENIED)):
                values = {"groups": (name,), "include_authorized_operations": True}
                response = client.call("DescribeGroups", 5, **values)["groups"][0]
                assert response["error_code"] == error


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("authorizer.class.name", "kafka.security.AclAuthorizer", "the only authorizer is"),
        ("super.users", "alice", "expected a string in format principalType:principalName"),
        ("super.users", "User:a;User:", "expected a string in format principalType:principalName"),
        ("allow.everyone.if.no.acl.found", "yes", "allow.everyone.if.no.acl.found"),
    ],
)
def test_a_wrong_configuration_is_an_error_at_startup(key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BrokerConfig({key: value})


def test_without_an_authorizer_nothing_is_checked() -> None:
    with BrokerThread({"super.users": "User:root"}) as broker:
        assert broker.call(lambda running: running.node.security.authorizer) is None
