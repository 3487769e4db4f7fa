"""What plugged strategies put on the wire, and what they make of what others put there.

The bytes are Java's: ConsumerProtocol.serializeSubscription and serializeAssignment of Kafka 4.3,
the user data by subscriptionUserData of each assignor after onAssignment of `OWNED`, generation 7.
(In what order topics stand in the user data of `sticky` is left to a HashMap, and means nothing.)
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
from kohort.assignors.aiokafka import Sticky, as_aiokafka
from kohort.assignors.builtin import BUILTIN
from kohort.assignors.kafka_python import as_kafka_python
from kohort.assignors.model import Assignment, Assignor, Subscription, Topics

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
PLACES = "00000002 0005 62696c6c73 00000001 00000001 0006 6f7264657273 00000002 00000000 00000002"
ASSIGNED = f"0003 {PLACES} ffffffff"


def as_bytes(*hexes: str) -> bytes:
    return bytes.fromhex(" ".join(hexes))


class Coordinator:
    """What kafka-python's has when it asks its strategies for the member's subscription."""

    def __init__(self, rebalances: RebalanceProtocol, generation: int, owned: Sequence[Any]):
        self._rebalance_protocol = rebalances
        self._generation = SimpleNamespace(generation_id=generation)
        self._subscription = SimpleNamespace(assigned_partitions=lambda: set(owned))

    def group_protocols(self, strategy: Any) -> bytes:
        written: bytes = strategy.metadata(set(TOPICS)).encode()
        return written


def asked(strategy: Any, generation: int = -1, owned: Sequence[tuple[str, int]] = ()) -> bytes:
    how = max(strategy.supported_protocols())
    places = [TopicPartition(*place) for place in owned]
    return Coordinator(how, generation, places).group_protocols(strategy)


def remembering(strategy: Any) -> Any:
    """After its member was given `OWNED`, which Java's leader wrote."""
    strategy.on_assignment(ConsumerProtocolAssignment.decode(as_bytes(ASSIGNED)), GENERATION)
    return strategy


# By strategy: the user data before the first assignment, and after it.
USER_DATA = {
    "range": (NO_USER_DATA, NO_USER_DATA),
    "roundrobin": (NO_USER_DATA, NO_USER_DATA),
    "sticky": (NO_USER_DATA, f"0000002b {PLACES} {GENERATION_7}"),
    "cooperative-sticky": ("00000004 ffffffff", f"00000004 {GENERATION_7}"),
}


@pytest.mark.parametrize("name", USER_DATA)
def test_kafka_pythons_members_write_what_javas_write(name: str) -> None:
    first, later = USER_DATA[name]
    owned = PLACES if name == "cooperative-sticky" else NOTHING_OWNED
    for rack, told in ((None, NO_RACK), ("a", RACK_A)):
        strategy = as_kafka_python(BUILTIN[name], client_rack=rack)
        assert asked(strategy) == as_bytes(HEAD, first, NOTHING_OWNED, "ffffffff", told)
        again = asked(remembering(strategy), GENERATION, OWNED)
        assert again == as_bytes(HEAD, later, owned, GENERATION_7, told)


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky"])
def test_aiokafkas_members_write_what_javas_write_but_for_the_generation(name: str) -> None:
    """aiokafka keeps it from its strategies."""
    first, later = USER_DATA[name]
    for rack, told in ((None, NO_RACK), ("a", RACK_A)):
        strategy = as_aiokafka(BUILTIN[name], client_rack=rack)
        rest = (NOTHING_OWNED, "ffffffff", told)
        assert strategy.metadata(TOPICS).encode() == as_bytes(HEAD, first, *rest)
        strategy.on_assignment(ConsumerProtocol.ASSIGNMENT.decode(as_bytes(ASSIGNED)))
        without = later.replace(GENERATION_7, "ffffffff")
        assert strategy.metadata(TOPICS).encode() == as_bytes(HEAD, without, *rest)


class Custom(Assignor):
    """Notes what it is asked, and gives what it is told to give."""

    name = "custom"

    def __init__(self, gives: Assignment | None = None, *, cooperative: bool = False) -> None:
        self._gives = gives
        self._cooperative = cooperative
        self.asked: list[tuple[Topics, Mapping[str, Subscription]]] = []
        self.remembered: list[tuple[object, ...]] = []

    @property
    def cooperative(self) -> bool:
        return self._cooperative

    def user_data(self, *remembered: object) -> bytes | None:
        self.remembered.append(remembered)
        return b"mine"

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        self.asked.append((topics, members))
        assert self._gives is not None
        return self._gives


MINE = "00000004 6d696e65"


def test_a_cooperative_member_claims_what_its_consumer_owns() -> None:
    custom = Custom(cooperative=True)
    strategy = remembering(as_kafka_python(custom))
    claims = as_bytes(HEAD, MINE, PLACES, GENERATION_7, NO_RACK)
    assert asked(strategy, GENERATION, OWNED) == claims
    assert custom.remembered == [(("bills", "orders"), tuple(sorted(OWNED)), GENERATION)]


def test_a_member_that_was_expelled_claims_nothing_though_it_remembers() -> None:
    strategy = remembering(as_kafka_python(Custom(cooperative=True)))
    assert asked(strategy) == as_bytes(HEAD, MINE, *FIRST)


def test_a_cooperative_strategy_beside_an_eager_one_claims_nothing() -> None:
    """The consumer rebalances eagerly then, and gives up all before each join (KIP-429)."""
    strategy = as_kafka_python(Custom(cooperative=True))
    assert RebalanceProtocol.EAGER in strategy.supported_protocols()
    places = [TopicPartition(*place) for place in OWNED]
    eager = Coordinator(RebalanceProtocol.EAGER, GENERATION, places)
    told = as_bytes(HEAD, MINE, NOTHING_OWNED, GENERATION_7, NO_RACK)
    assert eager.group_protocols(strategy) == told


def test_a_strategy_of_aiokafka_that_was_not_called_says_so() -> None:
    with pytest.raises(AttributeError, match=r"^no metadata: the strategy has to be called, as in"):
        Sticky.metadata(["orders"])
    assert Sticky().metadata(["orders"]).subscription == ["orders"]


def test_aiokafka_is_refused_what_is_cooperative() -> None:
    with pytest.raises(ValueError, match=r"custom is cooperative, and aiokafka is not: .* sticky"):
        as_aiokafka(Custom(cooperative=True))


# Three nodes, of which the third tells no rack, and a replica on one that is not there.
NODES = ((1, "a"), (2, "b"), (3, None))
REPLICAS = {"orders": [[1, 2], [2, 3], [3, 9]], "bills": [[1], [2]]}
KNOWN = Topics(
    {"bills": 2, "orders": 3},
    {"bills": [["a"], ["b"]], "orders": [["a", "b"], ["b", None], [None, None]]},
)


def kafka_python_knows(nodes: Sequence[tuple[int, str | None]] = NODES) -> ClusterMetadata:
    told = MetadataResponse(
        version=7,
        brokers=[(node, "localhost", 9092, rack) for node, rack in nodes],
        topics=[
            (0, topic, False, [(0, n, on[0], 0, on, on, []) for n, on in enumerate(placed)])
            for topic, placed in REPLICAS.items()
        ],
    )
    cluster = ClusterMetadata()
    cluster.update_metadata(MetadataResponse.decode(told.encode(), version=7))
    return cluster


def aiokafka_knows() -> AioCluster:
    brokers = [(node, "localhost", 9092, rack) for node, rack in NODES]
    topics = [
        (0, topic, False, [(0, n, on[0], on, on) for n, on in enumerate(placed)])
        for topic, placed in REPLICAS.items()
    ]
    cluster = AioCluster()
    cluster.update_metadata(MetadataResponse_v1(brokers, 1, topics))
    return cluster


JAVAS = as_bytes(HEAD, MINE, PLACES, GENERATION_7, RACK_A)
OLD = as_bytes("0000 00000002 0006 6f7264657273 0004 6c6f7374", NO_USER_DATA)
GIVES: Assignment = {"java": sorted(OWNED), "old": []}


def member_of_kafka_python(member_id: str, told: bytes, instance: str | None = None) -> Any:
    """As its coordinator hands it to the leader's strategy."""
    metadata = ConsumerProtocolSubscription.decode(told)
    return SimpleNamespace(member_id=member_id, group_instance_id=instance, metadata=metadata)


def test_a_leader_of_kafka_python_reads_members_of_any_version() -> None:
    custom = Custom(GIVES)
    members = [member_of_kafka_python("java", JAVAS, "i"), member_of_kafka_python("old", OLD)]
    written = as_kafka_python(custom).assign(kafka_python_knows(), members)
    java = Subscription(("bills", "orders"), tuple(sorted(OWNED)), GENERATION, "a", b"mine", "i")
    old = Subscription(("orders", "lost"))
    assert custom.asked == [(KNOWN, {"java": java, "old": old})]
    assert {member: share.encode() for member, share in written.items()} == {
        "java": as_bytes(ASSIGNED),
        "old": as_bytes("0003 00000000 ffffffff"),
    }


def test_a_leader_of_aiokafka_reads_topics_and_user_data_of_members_of_any_version() -> None:
    custom = Custom(GIVES)
    members = {
        member: ConsumerProtocol.METADATA.decode(told)
        for member, told in (("java", JAVAS), ("old", OLD))
    }
    written = as_aiokafka(custom).assign(aiokafka_knows(), members)
    java = Subscription(("bills", "orders"), user_data=b"mine")
    assert custom.asked == [(KNOWN, {"java": java, "old": Subscription(("orders", "lost"))})]
    assert {member: share.encode() for member, share in written.items()} == {
        "java": as_bytes(ASSIGNED),
        "old": as_bytes("0003 00000000 ffffffff"),
    }


def test_racks_are_left_out_where_no_node_tells_one() -> None:
    custom = Custom({"old": []})
    old = member_of_kafka_python("old", OLD)
    as_kafka_python(custom).assign(kafka_python_knows([(1, None), (2, None)]), [old])
    ((topics, _),) = custom.asked
    assert topics == Topics({"orders": 3})


def test_a_member_that_the_assignor_forgot_is_named() -> None:
    with pytest.raises(KeyError, match="java"):
        as_kafka_python(Custom({})).assign(
            kafka_python_knows(), [member_of_kafka_python("java", JAVAS)]
        )


def test_a_cooperative_assignor_may_not_give_away_what_its_owner_still_has() -> None:
    java = member_of_kafka_python("java", JAVAS)
    old = member_of_kafka_python("old", OLD)
    kept, moved = [("bills", 1), ("orders", 2)], ("orders", 0)

    def give(gives: Assignment) -> object:
        return as_kafka_python(Custom(gives, cooperative=True)).assign(
            kafka_python_knows(), [java, old]
        )

    said = r"custom is cooperative and gave old what another member still owns: \[\('orders', 0\)\]"
    with pytest.raises(ValueError, match=said):
        give({"java": kept, "old": [moved]})
    assert give({"java": kept, "old": []})
    assert give({"java": [*kept, moved], "old": [("orders", 1)]})


def test_an_old_claim_does_not_take_from_its_owner_what_it_has_not_given_back() -> None:
    """Kafka's own lets the old one have it at once, though the other, that wants it no more, may
    read it still."""
    old = as_bytes("0001 00000001 0006 6f7264657273 00000000")
    claims = as_bytes("00000001 0006 6f7264657273 00000001 00000000")
    newer = as_bytes("0002 00000001 0005 62696c6c73 00000000")
    shares = as_kafka_python(BUILTIN["cooperative-sticky"]).assign(
        kafka_python_knows(),
        [
            member_of_kafka_python("old", old + claims),
            member_of_kafka_python("newer", newer + claims + as_bytes(GENERATION_7)),
        ],
    )
    given = [tuple(place) for place in shares["old"].partitions()]
    assert given == [("orders", 1), ("orders", 2)]


def test_assignors_bring_no_client_library_along() -> None:
    modules = "kohort.assignors, kohort.assignors.builtin, kohort.assignors.plugged"
    probe = f"import sys, {modules}; print({{'kafka', 'aiokafka'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")
