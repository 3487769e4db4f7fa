"""Groups of real consumers with our strategies, alone and beside librdkafka's, whoever leads."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, groupby
from typing import Any

import pytest
from broker_thread import BrokerThread
from kohort.assignors import aiokafka, kafka_python
from kohort.assignors.builtin import BUILTIN
from kohort.assignors.model import Assignment, Assignor, Subscription, Topics
from kohort.broker.groups.voice import Event

from ..clients.adapter import Client, ConsumerSettings
from ..clients.aio import AioKafka
from ..clients.driven import Driven
from ..clients.kafka_python import KafkaPython
from ..clients.librdkafka import Librdkafka
from ..clients.stories import Audience, places

pytestmark = [
    pytest.mark.clients,
    # kafka-python leaves a socket to the collector when it is closed while it connects.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


PARTITIONS = 4


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
    """One member of each library at most."""

    def __init__(self, clients: dict[str, Client], topic: str, events: list[Event]) -> None:
        self._clients, self.topic, self._events = clients, topic, events
        self._audience = Audience()
        self.members: dict[str, Driven] = {}

    def join(self, library: str, **settings: Any) -> Driven:
        wanted = ConsumerSettings(self.topic, heartbeat_interval_ms=100, **settings)
        member = self.members[library] = Driven(self._clients[library].consumer(wanted))
        member.subscribe(self.topic)
        self._audience.add(member)
        return member

    def leave(self, library: str) -> None:
        self._audience.leave(self.members.pop(library))

    def until_shared(self, **shares: int) -> None:
        """Until each library's member owns as many, and together they own all."""
        self._audience.until_shared(places(self.topic, PARTITIONS), list(shares.values()))
        owned = {library: len(member.assignment()) for library, member in self.members.items()}
        assert owned == shares

    def until_given(self, wanted: Mapping[str, Iterable[tuple[str, int]]]) -> None:
        def given() -> bool:
            return wanted == {name: sorted(m.assignment()) for name, m in self.members.items()}

        self._audience.until(given, f"given {wanted}")

    def leaders(self) -> list[str]:
        """By whom generation after generation was shared out: member ids without the random part,
        a leader's several generations in a row told once."""
        led = [
            event.detail["leader"][: -len("-01234567-89ab-cdef-0123-456789abcdef")]
            for event in self._events
            if (event.group_id, event.type) == (self.topic, "sync_completed")
        ]
        return [leader for leader, _ in groupby(led)]


@pytest.fixture
def group(clients: dict[str, Client], topic: str, events: list[Event]) -> Iterator[Group]:
    group = Group(clients, topic, events)
    yield group
    for member in group.members.values():
        member.close()


class Weighted(Assignor):
    """Of each topic, to each member in proportion to what its user data says."""

    name = "weighted"
    cooperative = False

    def __init__(self, weight: int) -> None:
        self._weight = weight

    def user_data(self, *_: object) -> bytes:
        return bytes([self._weight])

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        weights = [(told.user_data or b"\0")[0] for told in members.values()]
        ends = list(accumulate(weights))
        return {
            member: [
                (topic, partition)
                for topic, size in topics.partitions.items()
                for partition in range(begin * size // ends[-1], end * size // ends[-1])
            ]
            for member, begin, end in zip(members, [0, *ends], ends, strict=False)
        }


PLUGGED: dict[str, Callable[[Assignor], Any]] = {
    "kafka-python": kafka_python.as_kafka_python,
    "aiokafka": aiokafka.as_aiokafka,
}


def test_custom_strategies_share_by_what_members_tell_whoever_leads(group: Group) -> None:
    group.join("kafka-python", strategies=(kafka_python.as_kafka_python(Weighted(3)),))
    group.until_shared(**{"kafka-python": 4})
    group.join("aiokafka", strategies=(aiokafka.as_aiokafka(Weighted(1)),))
    group.until_shared(**{"kafka-python": 3, "aiokafka": 1})
    group.leave("kafka-python")
    group.until_shared(aiokafka=4)
    group.join("kafka-python", strategies=(kafka_python.as_kafka_python(Weighted(3)),))
    group.until_shared(**{"kafka-python": 3, "aiokafka": 1})


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_eager_members_of_three_libraries_get_the_same_whoever_leads(
    name: str, group: Group
) -> None:
    """Who is there and joined first leads."""
    theirs: dict[str, dict[str, Any]] = {
        "librdkafka": {"assignors": (name,)},
        **{library: {"strategies": (plug(BUILTIN[name]),)} for library, plug in PLUGGED.items()},
    }

    def until_given() -> None:
        """As ours gives to members of these names; the order of their ids is the same."""
        wants = {library: Subscription((group.topic,)) for library in sorted(group.members)}
        group.until_given(BUILTIN[name].assign(Topics({group.topic: PARTITIONS}), wants))

    for library in ("kafka-python", "aiokafka", "librdkafka"):
        group.join(library, **theirs[library])
        until_given()
    for library in ("kafka-python", "aiokafka"):
        group.leave(library)
        until_given()
        group.join(library, **theirs[library])
        until_given()
    assert [leader.rsplit("-", 1)[0] for leader in group.leaders()] == [
        "kafka-python",
        "aiokafka",
        "rdkafka",
    ]
