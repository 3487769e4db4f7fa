"""Three nodes: coordinators and leaders move, nodes stop and start."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from kohort.protocol.errors import ErrorCode
from kohort.testing import Kafka
from support.running_broker import EXTERNAL

from .adapter import Admin, Client, Partition
from .conftest import BROKER_OPTIONS, MakeTopic, NewGroup, topic_that_stays
from .consumers import Consumers, numbered, partitions_of, until

pytestmark = pytest.mark.skipif(bool(EXTERNAL), reason="stops nodes of a broker")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Kafka]:
    config = dict(option.split("=") for option in BROKER_OPTIONS)
    with Kafka(nodes=3, preset="kafka", config=config) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def bootstrap(nodes: Kafka) -> str:
    return nodes.bootstrap_servers


@pytest.fixture
def new_topic(client: Client) -> MakeTopic:
    return partial(topic_that_stays, client)


def read_and_commit(client: Client, consumers: Consumers, topic: str, text: str) -> None:
    sent = numbered(12, text, partitions=6)
    client.produce(topic, sent)
    consumers.until_values(message.value or b"" for message in sent)
    for member in consumers.all:
        member.commit()


def committed(client: Client, group: str, topic: str) -> list[int]:
    """Return the committed offsets, requested with a new admin client. A client with the old
    coordinator in its cache raises an error (kafka-python, aiokafka) or crashes (librdkafka
    2.16)."""
    admin = client.admin()
    try:
        offsets = admin.group_offsets(group)
    finally:
        admin.close()
    return [offsets[Partition(topic, index)].offset for index in range(6)]


def test_the_cluster_description_has_every_node(nodes: Kafka, client: Client, admin: Admin) -> None:
    found = {f"{host}:{port}" for host, port in admin.brokers()}
    assert found == {each.address for each in nodes.nodes}


def test_a_group_continues_when_its_coordinator_moves(
    nodes: Kafka,
    client: Client,
    new_topic: MakeTopic,
    new_group: NewGroup,
    group: str,
) -> None:
    topic = new_topic(6)
    consumers = new_group(topic, 3, 3)
    read_and_commit(client, consumers, topic, "before")
    assert committed(client, group, topic) == [2] * 6

    nodes.group(group).move_to(nodes.group(group).node_id % 3 + 1)

    read_and_commit(client, consumers, topic, "after")
    assert committed(client, group, topic) == [4] * 6
    consumers.until_shared(partitions_of(topic, 6), [3, 3])


def test_a_group_continues_when_the_leaders_of_its_partitions_move(
    nodes: Kafka,
    client: Client,
    new_topic: MakeTopic,
    new_group: NewGroup,
    group: str,
) -> None:
    topic = new_topic(6)
    consumers = new_group(topic, 3, 3)
    read_and_commit(client, consumers, topic, "before")

    def move_all(broker: object) -> None:
        for index, partition in enumerate(broker.node.topics.get(topic).partitions):  # type: ignore[attr-defined]
            broker.cluster.move(topic, index, partition.leader_id % 3 + 1)  # type: ignore[attr-defined]

    for text in ("after", "after another"):
        nodes.call(move_all)
        read_and_commit(client, consumers, topic, text)
    assert committed(client, group, topic) == [6] * 6


def test_a_group_continues_when_a_node_stops_and_starts(
    nodes: Kafka,
    client: Client,
    new_topic: MakeTopic,
    new_group: NewGroup,
    group: str,
) -> None:
    topic = new_topic(6)
    consumers = new_group(topic, 3, 3)
    read_and_commit(client, consumers, topic, "before")

    stopped = nodes.group(group).node_id
    nodes.stop_node(stopped)
    assert nodes.group(group).node_id != stopped
    read_and_commit(client, consumers, topic, "without it")
    until(lambda: committed(client, group, topic) == [4] * 6, "all offsets are committed")

    nodes.start_node(stopped)
    read_and_commit(client, consumers, topic, "with it again")
    until(lambda: committed(client, group, topic) == [6] * 6, "all offsets are committed")
    consumers.until_shared(partitions_of(topic, 6), [3, 3])


def test_a_producer_waits_for_enough_in_sync_replicas(
    nodes: Kafka, client: Client, new_topic: MakeTopic
) -> None:
    topic = new_topic(**{"min.insync.replicas": "3"})
    nodes.stop_node(2)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(client.produce, topic, numbered(1, "delayed"))
        rejected = ErrorCode.not_enough_replicas.name.upper()
        until(
            lambda: any(
                rejected in request.errors
                for request in nodes.history.requests_of("Produce")
                if topic in request.topics
            ),
            "a record is rejected",
        )
        assert not sent.done()
        nodes.start_node(2)
        assert sent.result(30) == [(0, 0)]
