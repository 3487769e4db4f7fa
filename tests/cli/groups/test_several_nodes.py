"""Groups whose coordinator moves while a command is under way."""

from collections.abc import Callable, Iterator

import pytest
from broker_thread import BrokerThread
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kohort.broker.broker import Broker
from kohort.cli.groups.cluster import Cluster, connected
from kohort.cli.groups.rows import Committed, Group, Partition
from kohort.topics.names import OFFSETS_TOPIC

GROUP = "g"
PLACE = Partition("orders", 0)


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
    """`move()` -> the node that coordinates the group from now on."""

    def moved(broker: Broker) -> int:
        index = broker.node.coordinators.partition_of(GROUP)
        leader = broker.cluster.leader_of(OFFSETS_TOPIC, index)
        assert leader is not None
        after = leader.node_id % 3 + 1
        broker.cluster.move(OFFSETS_TOPIC, index, after)
        return after

    return lambda: nodes.ask(moved)


def test_a_coordinator_that_has_moved_is_looked_for_again(
    cluster: Cluster, move: Callable[[], int]
) -> None:
    for offset in (1, 2):
        cluster.alter(GROUP, {PLACE: offset})
        node_id = move()
        assert cluster.committed(GROUP) == {PLACE: Committed(offset, None)}
        assert cluster.coordinator(GROUP)[2] == node_id
        node_id = move()
        assert isinstance(cluster.describe([GROUP])[GROUP], Group)
        assert cluster.coordinator(GROUP)[2] == node_id
        move()


def test_a_group_is_deleted_where_its_coordinator_is_now(
    cluster: Cluster, move: Callable[[], int]
) -> None:
    cluster.alter(GROUP, {PLACE: 1})
    assert cluster.coordinator(GROUP)
    move()
    results = cluster.delete_groups([GROUP, "nobody"])
    assert results.pop(GROUP) is None
    assert [refused and refused.name for refused in results.values()] == ["GROUP_ID_NOT_FOUND"]
    assert cluster.committed(GROUP) == {}
