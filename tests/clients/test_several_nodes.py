"""Three nodes: coordinators and leaders move, nodes stop and start."""

from collections.abc import Iterator
from functools import partial

import pytest
from kohort.topics.names import OFFSETS_TOPIC
from support.broker_process import EXTERNAL
from support.broker_thread import BrokerThread

from .adapter import Admin, Client, Partition
from .conftest import BROKER_OPTIONS, MakeTopic, NewGroup, topic_that_stays
from .consumers import Consumers, numbered, partitions_of, until

pytestmark = pytest.mark.skipif(bool(EXTERNAL), reason="stops nodes of a broker")


@pytest.fixture(scope="module")
def nodes() -> Iterator[BrokerThread]:
    config = dict(option.split("=") for option in BROKER_OPTIONS)
    with BrokerThread({**config, "kohort.nodes": "3"}) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def bootstrap(nodes: BrokerThread) -> str:
    return nodes.bootstrap


@pytest.fixture
def new_topic(client: Client) -> MakeTopic:
    return partial(topic_that_stays, client)


def coordinator_of(nodes: BrokerThread, group: str) -> tuple[int, int]:
    """Return the group's offsets partition, and its leader."""

    def found(broker: object) -> tuple[int, int]:
        index = broker.node.coordinators.partition_of(group)  # type: ignore[attr-defined]
        node = broker.cluster.leader_of(OFFSETS_TOPIC, index)  # type: ignore[attr-defined]
        assert node is not None
        return index, node.node_id

    return nodes.call(found)


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


def test_the_cluster_description_has_every_node(
    nodes: BrokerThread, client: Client, admin: Admin
) -> None:
    addresses = nodes.call(lambda broker: list(broker.addresses.values()))
    assert sorted(admin.brokers()) == sorted(addresses)


def test_a_group_continues_when_its_coordinator_moves(
    nodes: BrokerThread,
    client: Client,
    new_topic: MakeTopic,
    new_group: NewGroup,
    group: str,
) -> None:
    topic = new_topic(6)
    consumers = new_group(topic, 3, 3)
    read_and_commit(client, consumers, topic, "before")
    assert committed(client, group, topic) == [2] * 6

    index, leader = coordinator_of(nodes, group)
    after = leader % 3 + 1
    nodes.call(lambda broker: broker.cluster.move(OFFSETS_TOPIC, index, after))
    assert coordinator_of(nodes, group) == (index, after)

    read_and_commit(client, consumers, topic, "after")
    assert committed(client, group, topic) == [4] * 6
    consumers.until_shared(partitions_of(topic, 6), [3, 3])


def test_a_group_continues_when_the_leaders_of_its_partitions_move(
    nodes: BrokerThread,
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
    nodes: BrokerThread,
    client: Client,
    new_topic: MakeTopic,
    new_group: NewGroup,
    group: str,
) -> None:
    topic = new_topic(6)
    consumers = new_group(topic, 3, 3)
    read_and_commit(client, consumers, topic, "before")

    _, stopped = coordinator_of(nodes, group)
    nodes.run(lambda broker: broker.stop_node(stopped))
    assert coordinator_of(nodes, group)[1] != stopped
    read_and_commit(client, consumers, topic, "without it")
    until(lambda: committed(client, group, topic) == [4] * 6, "all offsets are committed")

    nodes.run(lambda broker: broker.start_node(stopped))
    read_and_commit(client, consumers, topic, "with it again")
    until(lambda: committed(client, group, topic) == [6] * 6, "all offsets are committed")
    consumers.until_shared(partitions_of(topic, 6), [3, 3])
