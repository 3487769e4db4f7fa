"""Expired offsets from a client's perspective: after the test has advanced the clock, and after a
restart that reads the tombstones."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kohort.broker.event_loop.timers import SystemClock
from kohort.coordinator.commands import (
    DescribeConsumerGroup,
    DescribeConsumerResult,
    DescribeGroup,
    DescribeResult,
)
from kohort.protocol.consumer_protocol import decode_subscription
from support.broker_process import EXTERNAL
from support.broker_thread import BrokerThread
from support.wire import AsyncClient

from .adapter import Admin, Client, Committed, Partition
from .conftest import BROKER_OPTIONS, MakeConsumer, MakeTopic, topic_that_stays
from .consumers import until

OffsetTopics = Callable[[str], set[str]]

pytestmark = pytest.mark.skipif(bool(EXTERNAL), reason="advances the clock of a broker")

MINUTE_MS = 60_000
RETENTION_MINUTES = 10
# No session expires when the clock is advanced beyond the retention.
SESSION_MS = 30 * MINUTE_MS
CONFIG = {
    **dict(option.split("=") for option in BROKER_OPTIONS),
    "group.max.session.timeout.ms": str(SESSION_MS),
    "group.consumer.max.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "offsets.retention.minutes": str(RETENTION_MINUTES),
    "offsets.retention.check.interval.ms": str(MINUTE_MS),
}


class AheadClock(SystemClock):
    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


class ClockedBroker:
    """A broker with a clock that the test advances. A restart keeps the clock, the data and the
    port."""

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
        self.port = self.broker.call(lambda broker: broker.port)

    def end(self) -> None:
        self.broker.__exit__()

    def restart(self) -> None:
        self.end()
        self.begin()

    def subscribed(self, group: str) -> set[str]:
        """Return the topics to which members of the group subscribe, if the group is Stable."""
        classic: DescribeResult = self.submit(DescribeGroup(group))
        modern: DescribeConsumerResult = self.submit(DescribeConsumerGroup(group))
        return {
            topic
            for member in classic.members
            if member.member_metadata
            for topic in decode_subscription(member.member_metadata).topics
        }.union(*(member.subscribed_topic_names for member in modern.members))

    def submit(self, command: Any) -> Any:
        results: list[Any] = []
        self.broker.call(
            lambda broker: broker.node.coordinators.submit(command, list.append, results)
        )
        until(lambda: bool(results), "it responds")
        return results[0]

    def pass_minutes(self, count: int) -> None:
        self.clock.ahead_ms += count * MINUTE_MS
        self.broker.call(lambda broker: broker.node.timers.fire())


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ClockedBroker]:
    served = ClockedBroker(tmp_path)
    yield served
    served.end()


@pytest.fixture
def bootstrap(served: ClockedBroker) -> str:
    return served.broker.bootstrap


@pytest.fixture
def new_topic(client: Client) -> MakeTopic:
    return partial(topic_that_stays, client)


@pytest.fixture
def offset_topics(served: ClockedBroker, client: Client) -> OffsetTopics:
    """`offset_topics(group)` returns the topics of the committed offsets, requested with a new
    admin client."""

    def topics(group: str) -> set[str]:
        other = type(client)(served.broker.bootstrap)
        admin = other.admin()
        try:
            return {
                partition.topic for partition, each in admin.group_offsets(group).items() if each
            }
        finally:
            admin.close()
            other.close()

    return topics


def commit(consumer: MakeConsumer, group: str, *topics: str) -> None:
    """Commit with a member that then leaves."""
    member = consumer(group)
    member.subscribe(*topics)
    until(lambda: len(member.assignment()) == len(topics), "it is a member")
    member.commit({Partition(topic, 0): Committed(7, "") for topic in topics})
    member.close()


def test_offsets_of_a_group_expire_when_it_has_been_empty_for_the_retention(
    served: ClockedBroker,
    new_topic: MakeTopic,
    consumer: MakeConsumer,
    offset_topics: OffsetTopics,
    group: str,
) -> None:
    topic = new_topic()
    commit(consumer, group, topic)
    served.pass_minutes(RETENTION_MINUTES - 2)
    commit(consumer, f"{group}-young", topic)
    assert offset_topics(group) == {topic}
    served.pass_minutes(3)
    until(lambda: offset_topics(group) == set(), "its offsets have expired")
    assert offset_topics(f"{group}-young") == {topic}
    served.restart()
    assert offset_topics(group) == set()
    assert offset_topics(f"{group}-young") == {topic}


def test_in_a_group_with_members_only_unsubscribed_topics_expire(
    served: ClockedBroker,
    new_topic: MakeTopic,
    consumer: MakeConsumer,
    offset_topics: OffsetTopics,
    group: str,
) -> None:
    read, other = new_topic(), new_topic()
    member = consumer(group, session_timeout_ms=SESSION_MS, max_poll_interval_ms=SESSION_MS)
    member.subscribe(read, other)
    until(lambda: len(member.assignment()) == 2, "it is a member")
    member.commit({Partition(read, 0): Committed(3, ""), Partition(other, 0): Committed(4, "")})
    member.subscribe(read)
    until(lambda: member.assignment() == {Partition(read, 0)}, "it owns one topic only")
    # The broker receives the new subscription with a delay.
    until(lambda: served.subscribed(group) == {read}, "the broker has the new subscription")
    assert offset_topics(group) == {read, other}
    served.pass_minutes(RETENTION_MINUTES + 1)
    until(lambda: offset_topics(group) == {read}, "the other topic has expired")
    assert member.committed(Partition(read, 0)) == 3
    member.close()  # aiokafka cannot be closed while it searches for its broker
    served.restart()
    assert offset_topics(group) == {read}


def test_offsets_of_a_deleted_topic_do_not_return_with_its_name(
    served: ClockedBroker,
    admin: Admin,
    new_topic: MakeTopic,
    consumer: MakeConsumer,
    offset_topics: OffsetTopics,
    group: str,
) -> None:
    kept, deleted = new_topic(), new_topic()
    commit(consumer, group, kept, deleted)
    admin.delete_topic(deleted)
    assert offset_topics(group) == {kept}
    admin.create_topic(deleted)
    assert offset_topics(group) == {kept}
    served.restart()
    assert offset_topics(group) == {kept}


def test_a_commit_with_its_own_retention_time_expires_after_that_time(
    served: ClockedBroker, new_topic: MakeTopic, offset_topics: OffsetTopics, group: str
) -> None:
    """The request is OffsetCommit v2 to v4, which the libraries no longer send."""
    topic = new_topic()
    for version in (2, 3, 4):
        own = MINUTE_MS * 5 if version < 4 else MINUTE_MS * 2 * RETENTION_MINUTES
        error = asyncio.run(commit_old(served, version, f"{group}-{version}", topic, own))
        assert error == "none"
    served.pass_minutes(4)
    assert all(offset_topics(f"{group}-{version}") == {topic} for version in (2, 3, 4))
    served.pass_minutes(2)
    until(lambda: offset_topics(f"{group}-2") == set(), "the first has expired")
    until(lambda: offset_topics(f"{group}-3") == set(), "the second has expired")
    served.pass_minutes(RETENTION_MINUTES)
    assert offset_topics(f"{group}-4") == {topic}
    served.restart()
    served.pass_minutes(RETENTION_MINUTES)
    until(lambda: offset_topics(f"{group}-4") == set(), "the last has expired")


async def commit_old(
    served: ClockedBroker, version: int, group: str, topic: str, retention_ms: int
) -> str:
    """Commit to one partition, and return its error code."""
    connection = await AsyncClient.connect(served.port, "old")
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
