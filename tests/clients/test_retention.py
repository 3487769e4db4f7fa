"""Offsets that expire, as clients see it: through a socket, with a steered clock, and again after
a restart that reads the tombstones back."""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kohort.broker.timers import SystemClock
from kohort.coordinator.commands import DescribeGroup, DescribeResult
from kohort.protocol.consumer_protocol import decode_subscription
from support.broker_process import EXTERNAL
from support.broker_thread import BrokerThread
from support.wire import AsyncClient

from .adapter import Admin, Client, Committed, Place
from .conftest import BROKER_OPTIONS
from .driven import Driven
from .stories import until

MakeTopic = Callable[..., str]
MakeConsumer = Callable[..., Driven]
Remembered = Callable[[str], set[str]]

pytestmark = pytest.mark.skipif(bool(EXTERNAL), reason="the story steers the clock of a broker")

MINUTE_MS = 60_000
RETENTION_MINUTES = 10
# So long that no session is over when the clock is moved beyond the retention.
SESSION_MS = 30 * MINUTE_MS
CONFIG = {
    **dict(option.split("=") for option in BROKER_OPTIONS),
    "group.max.session.timeout.ms": str(SESSION_MS),
    "offsets.retention.minutes": str(RETENTION_MINUTES),
    "offsets.retention.check.interval.ms": str(MINUTE_MS),
}


class AheadClock(SystemClock):
    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


class Steered:
    """A broker whose data and clock outlive its restarts; clients find it at the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = AheadClock()
        self.port = 0
        self.begin()

    def begin(self) -> None:
        self.broker = BrokerThread(
            CONFIG, data_dir=self.folder, durability="os", clock=self.clock, port=self.port
        )
        self.broker.__enter__()
        self.port = self.broker.ask(lambda broker: broker.port)

    def end(self) -> None:
        self.broker.__exit__()

    def subscribed(self, group: str) -> set[str]:
        """The topics of its members, while it is stable."""
        told: list[DescribeResult] = []
        self.broker.ask(
            lambda broker: broker.node.coordinators.submit(DescribeGroup(group), list.append, told)
        )
        until(lambda: bool(told), "it is described")
        return {
            topic
            for member in told[0].members
            if member.metadata
            for topic in decode_subscription(member.metadata).topics
        }

    def pass_minutes(self, count: int) -> None:
        self.clock.ahead_ms += count * MINUTE_MS
        self.broker.ask(lambda broker: broker.node.timers.fire())


@pytest.fixture
def steered(tmp_path: Path) -> Iterator[Steered]:
    steered = Steered(tmp_path)
    yield steered
    steered.end()


@pytest.fixture
def bootstrap(steered: Steered) -> str:
    return steered.broker.bootstrap


@pytest.fixture
def new_topic(client: Client) -> MakeTopic:
    """Made by an admin client that need not find the broker after a restart; the topic is left to
    the end of the broker."""

    def make() -> str:
        topic = f"story-{uuid.uuid4().hex[:12]}"
        admin = client.admin()
        try:
            admin.create_topic(topic)
        finally:
            admin.close()
        return topic

    return make


@pytest.fixture
def remembered(steered: Steered, client: Client) -> Remembered:
    """`remembered(group)` -> the topics that it has committed offsets of, as an admin client of
    its own is told; the broker may have been restarted since."""

    def topics(group: str) -> set[str]:
        other = type(client)(steered.broker.bootstrap)
        admin = other.admin()
        try:
            return {place.topic for place, told in admin.group_offsets(group).items() if told}
        finally:
            admin.close()
            other.close()

    return topics


def commit(consumer: MakeConsumer, group: str, *topics: str) -> None:
    """By a member that reads them, and leaves."""
    member = consumer(group)
    member.subscribe(*topics)
    until(lambda: len(member.assignment()) == len(topics), "it is a member")
    member.commit({Place(topic, 0): Committed(7, "") for topic in topics})
    member.close()


def test_offsets_of_an_empty_group_expire_when_it_has_been_empty_for_so_long(
    steered: Steered,
    new_topic: MakeTopic,
    consumer: MakeConsumer,
    remembered: Remembered,
    group: str,
) -> None:
    topic = new_topic()
    commit(consumer, group, topic)
    steered.pass_minutes(RETENTION_MINUTES - 2)
    commit(consumer, f"{group}-young", topic)
    assert remembered(group) == {topic}
    steered.pass_minutes(3)
    until(lambda: remembered(group) == set(), "its offsets are gone")
    assert remembered(f"{group}-young") == {topic}
    steered.end()
    steered.begin()
    assert remembered(group) == set()
    assert remembered(f"{group}-young") == {topic}


def test_of_a_living_group_what_it_reads_stays_and_the_rest_expires(
    steered: Steered,
    new_topic: MakeTopic,
    consumer: MakeConsumer,
    remembered: Remembered,
    group: str,
) -> None:
    read, other = new_topic(), new_topic()
    member = consumer(group, session_timeout_ms=SESSION_MS, max_poll_interval_ms=SESSION_MS)
    member.subscribe(read, other)
    until(lambda: len(member.assignment()) == 2, "it is a member")
    member.commit({Place(read, 0): Committed(3, ""), Place(other, 0): Committed(4, "")})
    member.subscribe(read)
    until(lambda: member.assignment() == {Place(read, 0)}, "it reads one of them no more")
    # A client knows so before it has told the broker, by whose subscriptions offsets expire.
    until(lambda: steered.subscribed(group) == {read}, "the broker knows")
    assert remembered(group) == {read, other}
    steered.pass_minutes(RETENTION_MINUTES + 1)
    until(lambda: remembered(group) == {read}, "what nobody reads is gone")
    assert member.committed(Place(read, 0)) == 3
    member.close()  # aiokafka cannot be closed in peace while it looks for its broker
    steered.end()
    steered.begin()
    assert remembered(group) == {read}


def test_offsets_of_a_deleted_topic_are_gone_at_once_and_do_not_come_back_with_its_name(
    steered: Steered,
    admin: Admin,
    new_topic: MakeTopic,
    consumer: MakeConsumer,
    remembered: Remembered,
    group: str,
) -> None:
    kept, doomed = new_topic(), new_topic()
    commit(consumer, group, kept, doomed)
    admin.delete_topic(doomed)
    assert remembered(group) == {kept}
    admin.create_topic(doomed)
    assert remembered(group) == {kept}
    steered.end()
    steered.begin()
    assert remembered(group) == {kept}


def test_a_commit_with_a_retention_time_of_its_own_goes_by_that(
    steered: Steered, new_topic: MakeTopic, remembered: Remembered, group: str
) -> None:
    """OffsetCommit v2 to v4, which none of the libraries sends any more."""
    topic = new_topic()
    for version in (2, 3, 4):
        own = MINUTE_MS * 5 if version < 4 else MINUTE_MS * 2 * RETENTION_MINUTES
        error = asyncio.run(commit_old(steered, version, f"{group}-{version}", topic, own))
        assert error == "none"
    steered.pass_minutes(4)
    assert all(remembered(f"{group}-{version}") == {topic} for version in (2, 3, 4))
    steered.pass_minutes(2)
    until(lambda: remembered(f"{group}-2") == set(), "the first is gone")
    until(lambda: remembered(f"{group}-3") == set(), "the second is gone")
    steered.pass_minutes(RETENTION_MINUTES)
    assert remembered(f"{group}-4") == {topic}
    steered.end()
    steered.begin()
    steered.pass_minutes(RETENTION_MINUTES)
    until(lambda: remembered(f"{group}-4") == set(), "the last is gone")


async def commit_old(
    steered: Steered, version: int, group: str, topic: str, retention_ms: int
) -> str:
    """The error code of the one partition."""
    connection = await AsyncClient.connect(steered.port, "old")
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    response = await connection.call(
        "OffsetCommit",
        version,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        retention_time=retention_ms,
        topics=[{"name": topic, "partitions": [partition]}],
    )
    connection.close()
    while not connection.is_closed:
        await asyncio.sleep(0)
    return str(response["topics"][0]["partitions"][0]["error_code"])
