"""Three nodes: groups outlive the move of their coordinator and the stop of a node."""

import uuid
from collections.abc import Callable, Iterator

import pytest
from kohort.topics.names import OFFSETS_TOPIC
from support.broker_process import EXTERNAL
from support.broker_thread import BrokerThread

from .adapter import Admin, Client, Place
from .conftest import BROKER_OPTIONS
from .driven import Driven
from .stories import Audience, numbered, places, until

MakeTopic = Callable[..., str]
MakeConsumer = Callable[..., Driven]

pytestmark = pytest.mark.skipif(bool(EXTERNAL), reason="the story stops nodes of a broker of ours")


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
    """Made by an admin client of its own, that has not seen the cluster otherwise, and left to the
    end of the broker."""

    def make(partitions: int) -> str:
        topic = f"story-{uuid.uuid4().hex[:12]}"
        admin = client.admin()
        try:
            admin.create_topic(topic, partitions)
        finally:
            admin.close()
        return topic

    return make


def coordinator_of(nodes: BrokerThread, group: str) -> tuple[int, int]:
    """The group's offsets partition, and the node that leads it."""

    def found(broker: object) -> tuple[int, int]:
        index = broker.node.coordinators.partition_of(group)  # type: ignore[attr-defined]
        node = broker.cluster.leader_of(OFFSETS_TOPIC, index)  # type: ignore[attr-defined]
        assert node is not None
        return index, node.node_id

    return nodes.ask(found)


def two_members(consumer: MakeConsumer, group: str, topic: str) -> Audience:
    audience = Audience(consumer(group), consumer(group))
    for member in audience.consumers:
        member.subscribe(topic)
    audience.until_shared(places(topic, 6), [3, 3])
    return audience


def read_and_commit(client: Client, audience: Audience, topic: str, text: str) -> None:
    sent = numbered(12, text, partitions=6)
    client.produce(topic, sent)
    audience.until_values(message.value or b"" for message in sent)
    for member in audience.consumers:
        member.commit()


def committed(client: Client, group: str, topic: str) -> list[int]:
    """By an admin client that has not met the group yet: one that remembers a coordinator which is
    none any more shows the error (kafka-python, aiokafka) or crashes (librdkafka 2.16)."""
    admin = client.admin()
    try:
        offsets = admin.group_offsets(group)
    finally:
        admin.close()
    return [offsets[Place(topic, index)].offset for index in range(6)]


def test_every_node_is_told_and_any_of_them_answers(
    nodes: BrokerThread, client: Client, admin: Admin
) -> None:
    addresses = nodes.ask(lambda broker: list(broker.addresses.values()))
    assert sorted(admin.brokers()) == sorted(addresses)


def test_a_group_goes_on_when_its_coordinator_moves(
    nodes: BrokerThread,
    client: Client,
    new_topic: MakeTopic,
    consumer: MakeConsumer,
    group: str,
) -> None:
    topic = new_topic(6)
    audience = two_members(consumer, group, topic)
    read_and_commit(client, audience, topic, "before")
    assert committed(client, group, topic) == [2] * 6

    index, leader = coordinator_of(nodes, group)
    after = leader % 3 + 1
    nodes.ask(lambda broker: broker.cluster.move(OFFSETS_TOPIC, index, after))
    assert coordinator_of(nodes, group) == (index, after)

    read_and_commit(client, audience, topic, "after")
    assert committed(client, group, topic) == [4] * 6
    audience.until_shared(places(topic, 6), [3, 3])


def test_records_flow_on_when_the_leaders_of_their_partitions_move(
    nodes: BrokerThread,
    client: Client,
    new_topic: MakeTopic,
    consumer: MakeConsumer,
    group: str,
) -> None:
    topic = new_topic(6)
    audience = two_members(consumer, group, topic)
    read_and_commit(client, audience, topic, "before")

    def move_all(broker: object) -> None:
        for index, partition in enumerate(broker.node.topics.get(topic).partitions):  # type: ignore[attr-defined]
            broker.cluster.move(topic, index, partition.leader_id % 3 + 1)  # type: ignore[attr-defined]

    for text in ("after", "after another"):
        nodes.ask(move_all)
        read_and_commit(client, audience, topic, text)
    assert committed(client, group, topic) == [6] * 6


def test_a_group_rides_through_a_node_that_stops_and_comes_back(
    nodes: BrokerThread,
    client: Client,
    new_topic: MakeTopic,
    consumer: MakeConsumer,
    group: str,
) -> None:
    topic = new_topic(6)
    audience = two_members(consumer, group, topic)
    read_and_commit(client, audience, topic, "before")

    _, stopped = coordinator_of(nodes, group)
    nodes.run(lambda broker: broker.stop_node(stopped))
    assert coordinator_of(nodes, group)[1] != stopped
    read_and_commit(client, audience, topic, "without it")
    until(lambda: committed(client, group, topic) == [4] * 6, "all is committed elsewhere")

    nodes.run(lambda broker: broker.start_node(stopped))
    read_and_commit(client, audience, topic, "with it again")
    until(lambda: committed(client, group, topic) == [6] * 6, "all is committed again")
    audience.until_shared(places(topic, 6), [3, 3])
