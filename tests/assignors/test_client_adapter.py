"""The data that the strategies for client libraries write, and how they read data from other
members.

The bytes are Java's: ConsumerProtocol.serializeSubscription and serializeAssignment of Kafka 4.3,
the user data by subscriptionUserData of each assignor after onAssignment of `OWNED`, generation 7.
(The order of topics in the user data of `sticky` is that of a HashMap, and has no meaning.)
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.cluster import ClusterMetadata as AioCluster
from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.protocol.metadata import MetadataResponse_v1
from kafka.cluster import ClusterMetadata
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka.protocol.metadata import MetadataResponse
from kafka.structs import TopicPartition
from kohort.assignors.aiokafka import StickyAssignor, as_aiokafka
from kohort.assignors.kafka_python import as_kafka_python
from kohort.assignors.model import Assignment, Assignor, Subscription, Topics
from kohort.assignors.resolve import BUILTIN

TOPICS = ("orders", "bills")
OWNED = (("orders", 0), ("orders", 2), ("bills", 1))
GENERATION = 7
# version 3, two topics
HEAD = "0003 00000002 0005 62696c6c73 0006 6f7264657273"
NO_USER_DATA = "ffffffff"
NOTHING_OWNED = "00000000"
GENERATION_7 = "00000007"
NO_RACK, RACK_A = "ffff", "0001 61"
FIRST = (NOTHING_OWNED, "ffffffff", NO_RACK)
PARTITIONS = (
    "00000002 0005 62696c6c73 00000001 00000001 0006 6f7264657273 00000002 00000000 00000002"
)
ASSIGNED = f"0003 {PARTITIONS} ffffffff"


def as_bytes(*hexes: str) -> bytes:
    return bytes.fromhex(" ".join(hexes))


class Coordinator:
    """The attributes of kafka-python's coordinator that a strategy uses."""

    def __init__(self, protocol: RebalanceProtocol, generation: int, owned: Sequence[Any]):
        self._rebalance_protocol = protocol
        self._generation = SimpleNamespace(generation_id=generation)
        self._subscription = SimpleNamespace(assigned_partitions=lambda: set(owned))

    def group_protocols(self, strategy: Any) -> bytes:
        metadata: bytes = strategy.metadata(set(TOPICS)).encode()
        return metadata


def metadata(strategy: Any, generation: int = -1, owned: Sequence[tuple[str, int]] = ()) -> bytes:
    protocol = max(strategy.supported_protocols())
    partitions = [TopicPartition(*each) for each in owned]
    return Coordinator(protocol, generation, partitions).group_protocols(strategy)


def with_assignment(strategy: Any) -> Any:
    """Return a strategy whose member was assigned `OWNED` by Java's leader."""
    strategy.on_assignment(ConsumerProtocolAssignment.decode(as_bytes(ASSIGNED)), GENERATION)
    return strategy


# By strategy: the user data before and after the first assignment.
USER_DATA = {
    "range": (NO_USER_DATA, NO_USER_DATA),
    "roundrobin": (NO_USER_DATA, NO_USER_DATA),
    "sticky": (NO_USER_DATA, f"0000002b {PARTITIONS} {GENERATION_7}"),
    "cooperative-sticky": ("00000004 ffffffff", f"00000004 {GENERATION_7}"),
}


@pytest.mark.parametrize("name", USER_DATA)
def test_members_of_kafka_python_write_what_java_writes(name: str) -> None:
    first, later = USER_DATA[name]
    owned = PARTITIONS if name == "cooperative-sticky" else NOTHING_OWNED
    for rack, encoded in ((None, NO_RACK), ("a", RACK_A)):
        strategy = as_kafka_python(BUILTIN[name], client_rack=rack)
        assert metadata(strategy) == as_bytes(HEAD, first, NOTHING_OWNED, "ffffffff", encoded)
        again = metadata(with_assignment(strategy), GENERATION, OWNED)
        assert again == as_bytes(HEAD, later, owned, GENERATION_7, encoded)


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky"])
def test_members_of_aiokafka_write_what_java_writes_except_the_generation(name: str) -> None:
    """aiokafka does not pass the generation to its strategies."""
    first, later = USER_DATA[name]
    for rack, encoded in ((None, NO_RACK), ("a", RACK_A)):
        strategy = as_aiokafka(BUILTIN[name], client_rack=rack)
        rest = (NOTHING_OWNED, "ffffffff", encoded)
        assert strategy.metadata(TOPICS).encode() == as_bytes(HEAD, first, *rest)
        strategy.on_assignment(ConsumerProtocol.ASSIGNMENT.decode(as_bytes(ASSIGNED)))
        without = later.replace(GENERATION_7, "ffffffff")
        assert strategy.metadata(TOPICS).encode() == as_bytes(HEAD, without, *rest)


class Custom(Assignor):
    """An assignor that records its calls and returns a given assignment."""

    name = "custom"

    def __init__(self, result: Assignment | None = None, *, cooperative: bool = False) -> None:
        self._result = result
        self._cooperative = cooperative
        self.assign_calls: list[tuple[Topics, Mapping[str, Subscription]]] = []
        self.user_data_calls: list[tuple[object, ...]] = []

    @property
    def cooperative(self) -> bool:
        return self._cooperative

    def subscription_user_data(self, *arguments: object) -> bytes | None:
        self.user_data_calls.append(arguments)
        return b"mine"

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        self.assign_calls.append((topics, members))
        assert self._result is not None
        return self._result


CUSTOM_DATA = "00000004 6d696e65"


def test_a_cooperative_member_claims_what_its_consumer_owns() -> None:
    custom = Custom(cooperative=True)
    strategy = with_assignment(as_kafka_python(custom))
    claims = as_bytes(HEAD, CUSTOM_DATA, PARTITIONS, GENERATION_7, NO_RACK)
    assert metadata(strategy, GENERATION, OWNED) == claims
    assert custom.user_data_calls == [(("bills", "orders"), tuple(sorted(OWNED)), GENERATION)]


def test_a_member_that_was_removed_claims_nothing() -> None:
    strategy = with_assignment(as_kafka_python(Custom(cooperative=True)))
    assert metadata(strategy) == as_bytes(HEAD, CUSTOM_DATA, *FIRST)


def test_a_cooperative_strategy_beside_an_eager_one_claims_nothing() -> None:
    """The consumer then rebalances eagerly, and revokes everything before each join (KIP-429)."""
    strategy = as_kafka_python(Custom(cooperative=True))
    assert RebalanceProtocol.EAGER in strategy.supported_protocols()
    partitions = [TopicPartition(*each) for each in OWNED]
    eager = Coordinator(RebalanceProtocol.EAGER, GENERATION, partitions)
    expected = as_bytes(HEAD, CUSTOM_DATA, NOTHING_OWNED, GENERATION_7, NO_RACK)
    assert eager.group_protocols(strategy) == expected


def test_a_strategy_of_aiokafka_has_to_be_called() -> None:
    with pytest.raises(AttributeError, match=r"^no attribute metadata: call the strategy, as in"):
        StickyAssignor.metadata(["orders"])
    assert StickyAssignor().metadata(["orders"]).subscription == ["orders"]


def test_aiokafka_rejects_cooperative_assignors() -> None:
    with pytest.raises(
        ValueError, match=r"does not support cooperative assignors such as custom: .* sticky"
    ):
        as_aiokafka(Custom(cooperative=True))


# Three nodes, the third without a rack, and a replica on a node that does not exist.
NODES = ((1, "a"), (2, "b"), (3, None))
REPLICAS = {"orders": [[1, 2], [2, 3], [3, 9]], "bills": [[1], [2]]}
KNOWN = Topics(
    {"bills": 2, "orders": 3},
    {"bills": [["a"], ["b"]], "orders": [["a", "b"], ["b", None], [None, None]]},
)


def kafka_python_metadata(nodes: Sequence[tuple[int, str | None]] = NODES) -> ClusterMetadata:
    response = MetadataResponse(
        version=7,
        brokers=[(node, "localhost", 9092, rack) for node, rack in nodes],
        topics=[
            (0, topic, False, [(0, n, on[0], 0, on, on, []) for n, on in enumerate(placed)])
            for topic, placed in REPLICAS.items()
        ],
    )
    cluster = ClusterMetadata()
    cluster.update_metadata(MetadataResponse.decode(response.encode(), version=7))
    return cluster


def aiokafka_metadata() -> AioCluster:
    brokers = [(node, "localhost", 9092, rack) for node, rack in NODES]
    topics = [
        (0, topic, False, [(0, n, on[0], on, on) for n, on in enumerate(placed)])
        for topic, placed in REPLICAS.items()
    ]
    cluster = AioCluster()
    cluster.update_metadata(MetadataResponse_v1(brokers, 1, topics))
    return cluster


JAVA = as_bytes(HEAD, CUSTOM_DATA, PARTITIONS, GENERATION_7, RACK_A)
OLD = as_bytes("0000 00000002 0006 6f7264657273 0004 6c6f7374", NO_USER_DATA)
RESULT: Assignment = {"java": sorted(OWNED), "old": []}


def member_of_kafka_python(member_id: str, data: bytes, instance_id: str | None = None) -> Any:
    """Return members as kafka-python's coordinator passes them to the leader's strategy."""
    decoded = ConsumerProtocolSubscription.decode(data)
    return SimpleNamespace(member_id=member_id, group_instance_id=instance_id, metadata=decoded)


def test_a_leader_of_kafka_python_reads_members_of_any_version() -> None:
    custom = Custom(RESULT)
    members = [member_of_kafka_python("java", JAVA, "i"), member_of_kafka_python("old", OLD)]
    assigned = as_kafka_python(custom).assign(kafka_python_metadata(), members)
    java = Subscription(("bills", "orders"), tuple(sorted(OWNED)), GENERATION, "a", b"mine", "i")
    old = Subscription(("orders", "lost"))
    assert custom.assign_calls == [(KNOWN, {"java": java, "old": old})]
    assert {member: share.encode() for member, share in assigned.items()} == {
        "java": as_bytes(ASSIGNED),
        "old": as_bytes("0003 00000000 ffffffff"),
    }


def test_a_leader_of_aiokafka_reads_topics_and_user_data_of_any_version() -> None:
    custom = Custom(RESULT)
    members = {
        member: ConsumerProtocol.METADATA.decode(data)
        for member, data in (("java", JAVA), ("old", OLD))
    }
    assigned = as_aiokafka(custom).assign(aiokafka_metadata(), members)
    java = Subscription(("bills", "orders"), user_data=b"mine")
    assert custom.assign_calls == [(KNOWN, {"java": java, "old": Subscription(("orders", "lost"))})]
    assert {member: share.encode() for member, share in assigned.items()} == {
        "java": as_bytes(ASSIGNED),
        "old": as_bytes("0003 00000000 ffffffff"),
    }


def test_racks_are_left_out_if_no_node_has_one() -> None:
    custom = Custom({"old": []})
    old = member_of_kafka_python("old", OLD)
    as_kafka_python(custom).assign(kafka_python_metadata([(1, None), (2, None)]), [old])
    ((topics, _),) = custom.assign_calls
    assert topics == Topics({"orders": 3})


def test_a_member_missing_from_the_assignment_is_reported() -> None:
    with pytest.raises(KeyError, match="java"):
        as_kafka_python(Custom({})).assign(
            kafka_python_metadata(), [member_of_kafka_python("java", JAVA)]
        )


def test_a_cooperative_assignor_must_not_reassign_what_is_still_owned() -> None:
    java = member_of_kafka_python("java", JAVA)
    old = member_of_kafka_python("old", OLD)
    kept, moved = [("bills", 1), ("orders", 2)], ("orders", 0)

    def assign(result: Assignment) -> object:
        return as_kafka_python(Custom(result, cooperative=True)).assign(
            kafka_python_metadata(), [java, old]
        )

    message = (
        r"custom assigned partitions that another member still owns to old: \[\('orders', 0\)\]"
    )
    with pytest.raises(ValueError, match=message):
        assign({"java": kept, "old": [moved]})
    assert assign({"java": kept, "old": []})
    assert assign({"java": [*kept, moved], "old": [("orders", 1)]})


def test_a_stale_claimant_does_not_get_a_partition_before_its_revocation() -> None:
    """Kafka assigns it to the stale claimant immediately, although the owner may still be reading
    it."""
    old = as_bytes("0001 00000001 0006 6f7264657273 00000000")
    claims = as_bytes("00000001 0006 6f7264657273 00000001 00000000")
    newer = as_bytes("0002 00000001 0005 62696c6c73 00000000")
    shares = as_kafka_python(BUILTIN["cooperative-sticky"]).assign(
        kafka_python_metadata(),
        [
            member_of_kafka_python("old", old + claims),
            member_of_kafka_python("newer", newer + claims + as_bytes(GENERATION_7)),
        ],
    )
    assigned = [tuple(each) for each in shares["old"].partitions()]
    assert assigned == [("orders", 1), ("orders", 2)]


def test_assignors_import_no_client_library() -> None:
    modules = "kohort.assignors, kohort.assignors.resolve, kohort.assignors.client_adapter"
    probe = f"import sys, {modules}; print({{'kafka', 'aiokafka'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")
