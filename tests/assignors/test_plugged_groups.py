"""Groups of real consumers with our strategies, alone and beside librdkafka's, whoever leads."""

import asyncio
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from broker_thread import BrokerThread
from kafka.admin import MemberToRemove
from kafka.errors import NoError
from kohort.assignors import aiokafka, kafka_python
from kohort.assignors.builtin import BUILTIN
from kohort.assignors.examples.weighted import Weighted
from kohort.assignors.model import Assignment, Assignor, Subscription, Topics
from kohort.assignors.sticky.cooperative import CooperativeSticky
from kohort.coordinator.voice import Event

from ..clients.adapter import Client, ConsumerSettings, Message
from ..clients.aio import AioKafka
from ..clients.driven import Driven
from ..clients.kafka_python import KafkaPython, KafkaPythonAdmin
from ..clients.librdkafka import Librdkafka
from ..clients.stories import places, until
from ..kafka_tools.tools import Tools, Verifiable

pytestmark = [
    pytest.mark.clients,
    # kafka-python leaves a socket to the collector when it is closed while it connects.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

PARTITIONS = 4
# How the ids begin that members get, by their libraries' client ids.
MEMBER_IDS = {
    "aiokafka": "aiokafka-",
    "java": "consumer-",
    "kafka-python": "kafka-python-",
    "librdkafka": "rdkafka-",
}
Join = Callable[[], object]


@pytest.fixture(scope="module")
def events() -> list[Event]:
    """What the broker tells of its groups."""
    return []


@pytest.fixture(scope="module")
def broker(events: list[Event]) -> Iterator[BrokerThread]:
    config = {"group.initial.rebalance.delay.ms": "0"}
    with BrokerThread(config, hear=lambda _, event: events.append(event)) as broker:
        yield broker


@pytest.fixture(scope="module")
def clients(broker: BrokerThread) -> Iterator[dict[str, Client]]:
    made = [library(broker.bootstrap) for library in (KafkaPython, AioKafka, Librdkafka)]
    yield {client.name: client for client in made}
    for client in made:
        client.close()


@pytest.fixture
def topic(clients: dict[str, Client]) -> str:
    """It stays, since leaving members would miss it."""
    name = f"plugged-{uuid.uuid4().hex[:12]}"
    admin = clients["kafka-python"].admin()
    admin.create_topic(name, PARTITIONS)
    admin.close()
    return name


class Group:
    """Members of one topic's group, one of each library at most."""

    def __init__(self, clients: dict[str, Client], events: list[Event], topic: str) -> None:
        self._clients, self._events, self.topic = clients, events, topic
        self.members: dict[str, Driven | Verifiable] = {}

    def join(self, library: str, **settings: Any) -> Driven:
        wanted = ConsumerSettings(self.topic, heartbeat_interval_ms=100, **settings)
        member = self.members[library] = Driven(self._clients[library].consumer(wanted))
        member.subscribe(self.topic)
        return member

    def leave(self, library: str) -> None:
        member = self.members.pop(library)
        if isinstance(member, Driven):
            member.close()
        else:
            member.stop()

    def expel_leader(self) -> None:
        """As an administrator does it."""
        admin = self._clients["kafka-python"].admin()
        assert isinstance(admin, KafkaPythonAdmin)
        leaving = [MemberToRemove(member_id=self._led()[-1])]
        (said,) = admin._ask("remove_group_members", self.topic, leaving).values()
        admin.close()
        assert said is NoError

    def owned(self) -> dict[str, list[tuple[str, int]]]:
        for member in self.members.values():
            if isinstance(member, Driven) and member.failure is not None:
                raise member.failure
        return {library: sorted(member.assignment()) for library, member in self.members.items()}

    def until_shared(self) -> None:
        """Until each partition has one owner, and nobody owns two more than another."""
        all_of_it = places(self.topic, PARTITIONS)

        def shared() -> bool:
            owned = list(self.owned().values())
            sizes = [len(share) for share in owned]
            return sorted(chain(*owned)) == all_of_it and max(sizes) - min(sizes) < 2

        until(shared, f"shared by {list(self.members)}", self.owned)

    def until_given(self, wanted: Mapping[str, Iterable[tuple[str, int]]]) -> None:
        until(lambda: self.owned() == wanted, f"given {wanted}", self.owned)

    def until_given_by(self, name: str) -> None:
        """Until each has what ours gives to members of these names, which are ordered as are the
        ids that the libraries' members get."""
        wants = {library: Subscription((self.topic,)) for library in sorted(self.members)}
        self.until_given(BUILTIN[name].assign(Topics({self.topic: PARTITIONS}), wants))

    def _led(self) -> list[str]:
        """The members that shared out the generations, one after the other."""
        return [
            event.detail["leader"]
            for event in self._events
            if (event.group_id, event.type) == (self.topic, "sync_completed")
        ]

    def leaders(self) -> list[str]:
        """Their libraries."""
        return [
            next(library for library, id_ in MEMBER_IDS.items() if leader.startswith(id_))
            for leader in self._led()
        ]

    def lead_in_turn(self, joins: Mapping[str, Join], settle: Callable[[], None]) -> None:
        """All join; then who leads leaves and joins again, until each has led all the others."""
        first, *others = joins.values()
        first()
        settle()
        for join in others:
            join()
        settle()
        while len(had := set(self.leaders())) < len(joins):
            leader = self.leaders()[-1]
            self.leave(leader)
            joins[leader]()
            settle()
            assert self.leaders()[-1] not in had


@pytest.fixture
def group(clients: dict[str, Client], events: list[Event], topic: str) -> Iterator[Group]:
    group = Group(clients, events, topic)
    yield group
    for library in list(group.members):
        group.leave(library)


WEIGHTS = {"kafka-python": 3, "aiokafka": 1}
PLUGGED: dict[str, Callable[[Assignor], Any]] = {
    "kafka-python": kafka_python.as_kafka_python,
    "aiokafka": aiokafka.as_aiokafka,
}


def test_custom_strategies_share_by_what_members_tell_whoever_leads(group: Group) -> None:
    def until_weighed() -> None:
        told = {library: WEIGHTS[library] for library in group.members}
        sizes = {library: 4 * weight // sum(told.values()) for library, weight in told.items()}
        until(
            lambda: {library: len(owned) for library, owned in group.owned().items()} == sizes,
            f"shared as {sizes}",
            group.owned,
        )

    joins = {
        library: partial(group.join, library, strategies=(plug(Weighted(WEIGHTS[library])),))
        for library, plug in PLUGGED.items()
    }
    group.lead_in_turn(joins, until_weighed)


def test_eager_members_of_three_libraries_get_the_same_whoever_leads(group: Group) -> None:
    joins: dict[str, Join] = {
        library: partial(group.join, library, strategies=(plug(BUILTIN["roundrobin"]),))
        for library, plug in PLUGGED.items()
    }
    joins["librdkafka"] = partial(group.join, "librdkafka", assignors=("roundrobin",))
    group.lead_in_turn(joins, partial(group.until_given_by, "roundrobin"))


class Noted(CooperativeSticky):
    """Notes how many partitions members claimed and got, round by round."""

    def __init__(self) -> None:
        self.rounds: list[tuple[list[int], list[int]]] = []

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        shares = super().assign(topics, members)
        claimed = sorted(len(member.owned) for member in members.values())
        self.rounds.append((claimed, sorted(map(len, shares.values()))))
        return shares


def test_a_cooperative_member_gives_away_in_two_rounds_and_never_stops_with_the_rest(
    group: Group,
) -> None:
    noted = Noted()
    strategies = (kafka_python.as_kafka_python(noted),)
    leader = group.join("kafka-python", strategies=strategies)
    group.until_shared()
    (kept_and_given,) = group.owned().values()
    told = leader.rebalances
    group.join("librdkafka", assignors=("cooperative-sticky",))
    group.until_shared()
    assert noted.rounds[-2:] == [([0, 4], [0, 2]), ([0, 2], [2, 2])]
    assert set(leader.assignment()) < set(kept_and_given)
    assert leader.rebalances == told, "it was given nothing anew"


def test_a_member_that_was_expelled_claims_nothing(group: Group) -> None:
    """A claim of what nobody owns would be withheld from others, and given back by nobody."""
    noted = Noted()
    strategies = (kafka_python.as_kafka_python(noted),)
    expelled = group.join("kafka-python", strategies=strategies)
    group.until_shared()
    told, rounds = expelled.rebalances, len(noted.rounds)
    group.expel_leader()
    until(lambda: expelled.rebalances > told, "it is back")
    group.until_shared()
    # On a busy machine kafka-python may lose the answer to its SyncGroup, and joins once more.
    again = noted.rounds[rounds:]
    assert again == [([0], [PARTITIONS])] * len(again) != []


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
def test_range_members_of_four_libraries_get_the_same_whoever_leads(
    group: Group, java: Callable[[str], None]
) -> None:
    joins: dict[str, Join] = {
        "kafka-python": partial(group.join, "kafka-python", strategies=(kafka_python.Range,)),
        "aiokafka": lambda: group.join("aiokafka", strategies=(aiokafka.Range(),)),
        "librdkafka": partial(group.join, "librdkafka", assignors=("range",)),
        "java": partial(java, "RangeAssignor"),
    }
    group.lead_in_turn(joins, partial(group.until_given_by, "range"))


@pytest.mark.java
def test_sticky_members_of_three_libraries_share_whoever_leads(
    group: Group, java: Callable[[str], None]
) -> None:
    joins: dict[str, Join] = {
        "kafka-python": partial(group.join, "kafka-python", strategies=(kafka_python.Sticky,)),
        "aiokafka": lambda: group.join("aiokafka", strategies=(aiokafka.Sticky(),)),
        "java": partial(java, "StickyAssignor"),
    }
    group.lead_in_turn(joins, group.until_shared)


@pytest.mark.java
def test_cooperative_members_of_three_libraries_share_whoever_leads(
    group: Group, java: Callable[[str], None]
) -> None:
    ours = (kafka_python.CooperativeSticky,)
    joins: dict[str, Join] = {
        "kafka-python": partial(group.join, "kafka-python", strategies=ours),
        "librdkafka": partial(group.join, "librdkafka", assignors=("cooperative-sticky",)),
        "java": partial(java, "CooperativeStickyAssignor"),
    }
    group.lead_in_turn(joins, group.until_shared)


def documented() -> list[str]:
    page = (Path(__file__).parents[2] / "docs" / "assignors.md").read_text()
    section = page.split("## In kafka-python and aiokafka\n")[1].split("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


def test_the_programs_of_the_docs_run(clients: dict[str, Client], broker: BrokerThread) -> None:
    ran: dict[str, Any] = {}
    admin = clients["kafka-python"].admin()
    admin.create_topic("orders", PARTITIONS)
    admin.close()
    clients["librdkafka"].produce("orders", [Message(b"one espresso")])
    consumers = []
    for program in documented():
        exec(program.replace("127.0.0.1:9092", broker.bootstrap), ran)
        consumers += [consumer] if (consumer := ran.pop("consumer", None)) else []
    assert asyncio.run(asyncio.wait_for(ran["first_order"](), 30)).value == b"one espresso"
    assert len(consumers) == 2
    for consumer in consumers:
        until(lambda: consumer.poll(300) or consumer.assignment(), "assigned")  # noqa: B023
        consumer.close()
