"""Groups of real consumers with our strategies, together with librdkafka's and Java's."""

import asyncio
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import MemberToRemove
from kafka.errors import NoError
from kohort.assignors import aiokafka, kafka_python
from kohort.assignors.examples import Weighted
from kohort.assignors.model import Assignment, Assignor, Subscription, Topics
from kohort.assignors.resolve import BUILTIN
from kohort.assignors.sticky.assignors import CooperativeStickyAssignor
from kohort.coordinator.outcome import GroupEvent
from support.running_broker import BrokerThread

from ..clients.adapter import Client, ConsumerSettings, Message
from ..clients.aio import AioKafka
from ..clients.consumers import BackgroundConsumer, partitions_of, until
from ..clients.kafka_python import KafkaPython, KafkaPythonAdmin
from ..clients.librdkafka import Librdkafka
from ..kafka_tools.tools import Tools, Verifiable

pytestmark = [
    pytest.mark.clients,
    # kafka-python leaves a socket to the garbage collector if it is closed while connecting.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

PARTITIONS = 4
# The prefixes of member ids: the default client ids of the libraries.
MEMBER_IDS = {
    "aiokafka": "aiokafka-",
    "java": "consumer-",
    "kafka-python": "kafka-python-",
    "librdkafka": "rdkafka-",
}
Join = Callable[[], object]


@pytest.fixture(scope="module")
def events() -> list[GroupEvent]:
    """The group events of the broker."""
    return []


@pytest.fixture(scope="module")
def broker(events: list[GroupEvent]) -> Iterator[BrokerThread]:
    config = {"group.initial.rebalance.delay.ms": "0"}
    with BrokerThread(config, listener=lambda _, event: events.append(event)) as broker:
        yield broker


@pytest.fixture(scope="module")
def clients(broker: BrokerThread) -> Iterator[dict[str, Client]]:
    made = [library(broker.bootstrap) for library in (KafkaPython, AioKafka, Librdkafka)]
    yield {client.name: client for client in made}
    for client in made:
        client.close()


@pytest.fixture
def topic(clients: dict[str, Client]) -> str:
    """The topic is not deleted, because members that leave still need its metadata."""
    name = f"strategies-{uuid.uuid4().hex[:12]}"
    admin = clients["kafka-python"].admin()
    admin.create_topic(name, PARTITIONS)
    admin.close()
    return name


class Group:
    """A group of one topic with at most one member of each library."""

    def __init__(self, clients: dict[str, Client], events: list[GroupEvent], topic: str) -> None:
        self._clients, self._events, self.topic = clients, events, topic
        self.members: dict[str, BackgroundConsumer | Verifiable] = {}

    def join(self, library: str, **settings: Any) -> BackgroundConsumer:
        consumer_settings = ConsumerSettings(self.topic, heartbeat_interval_ms=100, **settings)
        member = self.members[library] = BackgroundConsumer(
            self._clients[library].consumer(consumer_settings)
        )
        member.subscribe(self.topic)
        return member

    def leave(self, library: str) -> None:
        member = self.members.pop(library)
        if isinstance(member, BackgroundConsumer):
            member.close()
        else:
            member.stop()

    def remove_leader(self) -> None:
        """Remove the leader as an administrator does."""
        admin = self._clients["kafka-python"].admin()
        assert isinstance(admin, KafkaPythonAdmin)
        leaving = [MemberToRemove(member_id=self._leader_ids()[-1])]
        (error,) = admin._call("remove_group_members", self.topic, leaving).values()
        admin.close()
        assert error is NoError

    def owned(self) -> dict[str, list[tuple[str, int]]]:
        for member in self.members.values():
            if isinstance(member, BackgroundConsumer) and member.failure is not None:
                raise member.failure
        return {library: sorted(member.assignment()) for library, member in self.members.items()}

    def until_balanced(self) -> None:
        """Wait until each partition has one owner and loads differ by at most one."""
        every_partition = partitions_of(self.topic, PARTITIONS)

        def is_balanced() -> bool:
            owned = list(self.owned().values())
            sizes = [len(share) for share in owned]
            return sorted(chain(*owned)) == every_partition and max(sizes) - min(sizes) < 2

        until(is_balanced, f"balanced over {list(self.members)}", self.owned)

    def until_assigned(self, expected: Mapping[str, Iterable[tuple[str, int]]]) -> None:
        until(lambda: self.owned() == expected, f"assigned {expected}", self.owned)

    def until_assigned_by(self, name: str) -> None:
        """Wait until the assignment is that of kohort's assignor. The names of the libraries are in
        the same order as the member ids."""
        members = {library: Subscription((self.topic,)) for library in sorted(self.members)}
        self.until_assigned(BUILTIN[name].assign(Topics({self.topic: PARTITIONS}), members))

    def _leader_ids(self) -> list[str]:
        """Return the leader of each generation."""
        return [
            event.detail["leader"]
            for event in self._events
            if (event.group_id, event.type) == (self.topic, "sync_completed")
        ]

    def leaders(self) -> list[str]:
        """The libraries of the leaders."""
        return [
            next(library for library, id_ in MEMBER_IDS.items() if leader.startswith(id_))
            for leader in self._leader_ids()
        ]

    def lead_in_turn(self, joins: Mapping[str, Join], settle: Callable[[], None]) -> None:
        """All members join; then the leader leaves and rejoins until each member has been the
        leader."""
        first, *others = joins.values()
        first()
        settle()
        for join in others:
            join()
        settle()
        while len(previous := set(self.leaders())) < len(joins):
            leader = self.leaders()[-1]
            self.leave(leader)
            joins[leader]()
            settle()
            assert self.leaders()[-1] not in previous


@pytest.fixture
def group(clients: dict[str, Client], events: list[GroupEvent], topic: str) -> Iterator[Group]:
    group = Group(clients, events, topic)
    yield group
    for library in list(group.members):
        group.leave(library)


WEIGHTS = {"kafka-python": 3, "aiokafka": 1}
ADAPTERS: dict[str, Callable[[Assignor], Any]] = {
    "kafka-python": kafka_python.as_kafka_python,
    "aiokafka": aiokafka.as_aiokafka,
}


def test_custom_strategies_use_the_members_user_data_whichever_library_leads(group: Group) -> None:
    def until_weighted() -> None:
        weights = {library: WEIGHTS[library] for library in group.members}
        sizes = {
            library: 4 * weight // sum(weights.values()) for library, weight in weights.items()
        }
        until(
            lambda: {library: len(owned) for library, owned in group.owned().items()} == sizes,
            f"assigned {sizes}",
            group.owned,
        )

    joins = {
        library: partial(group.join, library, strategies=(adapt(Weighted(WEIGHTS[library])),))
        for library, adapt in ADAPTERS.items()
    }
    group.lead_in_turn(joins, until_weighted)


def test_eager_members_of_three_libraries_get_the_same_from_every_leader(group: Group) -> None:
    joins: dict[str, Join] = {
        library: partial(group.join, library, strategies=(adapt(BUILTIN["roundrobin"]),))
        for library, adapt in ADAPTERS.items()
    }
    joins["librdkafka"] = partial(group.join, "librdkafka", assignors=("roundrobin",))
    group.lead_in_turn(joins, partial(group.until_assigned_by, "roundrobin"))


class Recording(CooperativeStickyAssignor):
    """A strategy that counts the partitions members claimed and received in each rebalance."""

    def __init__(self) -> None:
        self.rebalances: list[tuple[list[int], list[int]]] = []

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        shares = super().assign(topics, members)
        claimed = sorted(len(member.owned_partitions) for member in members.values())
        self.rebalances.append((claimed, sorted(map(len, shares.values()))))
        return shares


def test_a_cooperative_member_keeps_the_rest_while_partitions_move(group: Group) -> None:
    recording = Recording()
    strategies = (kafka_python.as_kafka_python(recording),)
    leader = group.join("kafka-python", strategies=strategies)
    group.until_balanced()
    (owned,) = group.owned().values()
    before = leader.rebalances
    group.join("librdkafka", assignors=("cooperative-sticky",))
    group.until_balanced()
    assert recording.rebalances[-2:] == [([0, 4], [0, 2]), ([0, 2], [2, 2])]
    assert set(leader.assignment()) < set(owned)
    assert leader.rebalances == before, "its consumer got no new assignment"


def test_a_member_that_was_removed_claims_nothing(group: Group) -> None:
    """A partition that is claimed but not owned would never be assigned to another member."""
    recording = Recording()
    strategies = (kafka_python.as_kafka_python(recording),)
    removed = group.join("kafka-python", strategies=strategies)
    group.until_balanced()
    before, recorded = removed.rebalances, len(recording.rebalances)
    group.remove_leader()
    until(lambda: removed.rebalances > before, "it has rejoined")
    group.until_balanced()
    # On a busy machine kafka-python may miss its SyncGroup response and rejoin once more.
    later = recording.rebalances[recorded:]
    assert later == [([0], [PARTITIONS])] * len(later) != []


@pytest.fixture
def java(
    kafka_jars: Path, broker: BrokerThread, group: Group, tmp_path: Path
) -> Callable[[str], None]:
    """`java("RangeAssignor")`: Kafka's VerifiableConsumer joins the group."""
    config = tmp_path / "consumer.properties"
    config.write_text("heartbeat.interval.ms=100\n")
    tools = Tools(kafka_jars, broker.bootstrap)
    who = ("--topic", group.topic, "--group-id", group.topic, "--command-config", config)

    def join(assignor: str) -> None:
        how = ("--assignment-strategy", f"org.apache.kafka.clients.consumer.{assignor}")
        group.members["java"] = Verifiable(tools.command("consumer", *who, *how))

    return join


@pytest.mark.java
def test_range_members_of_four_libraries_get_the_same_from_every_leader(
    group: Group, java: Callable[[str], None]
) -> None:
    joins: dict[str, Join] = {
        "kafka-python": partial(
            group.join, "kafka-python", strategies=(kafka_python.RangeAssignor,)
        ),
        "aiokafka": lambda: group.join("aiokafka", strategies=(aiokafka.RangeAssignor(),)),
        "librdkafka": partial(group.join, "librdkafka", assignors=("range",)),
        "java": partial(java, "RangeAssignor"),
    }
    group.lead_in_turn(joins, partial(group.until_assigned_by, "range"))


@pytest.mark.java
def test_sticky_members_of_three_libraries_are_balanced_by_every_leader(
    group: Group, java: Callable[[str], None]
) -> None:
    joins: dict[str, Join] = {
        "kafka-python": partial(
            group.join, "kafka-python", strategies=(kafka_python.StickyAssignor,)
        ),
        "aiokafka": lambda: group.join("aiokafka", strategies=(aiokafka.StickyAssignor(),)),
        "java": partial(java, "StickyAssignor"),
    }
    group.lead_in_turn(joins, group.until_balanced)


@pytest.mark.java
def test_cooperative_members_of_three_libraries_are_balanced_by_every_leader(
    group: Group, java: Callable[[str], None]
) -> None:
    ours = (kafka_python.CooperativeStickyAssignor,)
    joins: dict[str, Join] = {
        "kafka-python": partial(group.join, "kafka-python", strategies=ours),
        "librdkafka": partial(group.join, "librdkafka", assignors=("cooperative-sticky",)),
        "java": partial(java, "CooperativeStickyAssignor"),
    }
    group.lead_in_turn(joins, group.until_balanced)


def documented_programs() -> list[str]:
    page = (Path(__file__).parents[2] / "docs" / "assignors.md").read_text()
    section = page.split("## In kafka-python and aiokafka\n")[1].split("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


def test_the_programs_in_the_docs_run(clients: dict[str, Client], broker: BrokerThread) -> None:
    ran: dict[str, Any] = {}
    admin = clients["kafka-python"].admin()
    admin.create_topic("orders", PARTITIONS)
    admin.close()
    clients["librdkafka"].produce("orders", [Message(b"one espresso")])
    consumers = []
    for program in documented_programs():
        exec(program.replace("127.0.0.1:9092", broker.bootstrap), ran)
        consumers += [consumer] if (consumer := ran.pop("consumer", None)) else []
    assert asyncio.run(asyncio.wait_for(ran["first_order"](), 30)).value == b"one espresso"
    assert len(consumers) == 2
    for consumer in consumers:
        until(lambda: consumer.poll(300) or consumer.assignment(), "assigned")  # noqa: B023
        consumer.close()
