"""Expired offsets from a client's perspective: after the test has advanced the clock, and after a
restart that reads the tombstones."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from kohort.testing import Kafka
from support.running_broker import EXTERNAL
from support.wire import Client as RawClient

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


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with Kafka(preset="kafka", config=CONFIG, durability="os") as kafka:
        yield kafka


@pytest.fixture
def bootstrap(kafka: Kafka) -> str:
    return kafka.bootstrap_servers


@pytest.fixture
def new_topic(client: Client) -> MakeTopic:
    return partial(topic_that_stays, client)


@pytest.fixture
def offset_topics(kafka: Kafka, client: Client) -> OffsetTopics:
    """`offset_topics(group)` returns the topics of the committed offsets, requested with a new
    admin client."""

    def topics(group: str) -> set[str]:
        other = type(client)(kafka.bootstrap_servers)
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
    kafka: Kafka,
    new_topic: MakeTopic,
    consumer: MakeConsumer,
    offset_topics: OffsetTopics,
    group: str,
) -> None:
    topic = new_topic()
    commit(consumer, group, topic)
    kafka.clock.advance(minutes=RETENTION_MINUTES - 2)
    commit(consumer, f"{group}-young", topic)
    assert offset_topics(group) == {topic}
    kafka.clock.advance(minutes=3)
    until(lambda: offset_topics(group) == set(), "its offsets have expired")
    assert offset_topics(f"{group}-young") == {topic}
    kafka.restart()
    assert offset_topics(group) == set()
    assert offset_topics(f"{group}-young") == {topic}


def test_in_a_group_with_members_only_unsubscribed_topics_expire(
    kafka: Kafka,
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
    until(lambda: kafka.group(group).owner(other, 0) is None, "the broker has the new subscription")
    kafka.group(group).wait_stable(members=1)
    assert offset_topics(group) == {read, other}
    kafka.clock.advance(minutes=RETENTION_MINUTES + 1)
    until(lambda: offset_topics(group) == {read}, "the other topic has expired")
    assert member.committed(Partition(read, 0)) == 3
    member.close()  # aiokafka cannot be closed while it searches for its broker
    kafka.restart()
    assert offset_topics(group) == {read}


def test_offsets_of_a_deleted_topic_do_not_return_with_its_name(
    kafka: Kafka,
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
    kafka.restart()
    assert offset_topics(group) == {kept}


def test_a_commit_with_its_own_retention_time_expires_after_that_time(
    kafka: Kafka, new_topic: MakeTopic, offset_topics: OffsetTopics, group: str
) -> None:
    """The request is OffsetCommit v2 to v4, which the libraries no longer send."""
    topic = new_topic()
    for version in (2, 3, 4):
        own = MINUTE_MS * 5 if version < 4 else MINUTE_MS * 2 * RETENTION_MINUTES
        with RawClient(kafka.bootstrap_servers) as old:
            assert (
                old.commit(f"{group}-{version}", topic=topic, version=version, retention_time=own)
                == "none"
            )
    kafka.clock.advance(minutes=4)
    assert all(offset_topics(f"{group}-{version}") == {topic} for version in (2, 3, 4))
    kafka.clock.advance(minutes=2)
    until(lambda: offset_topics(f"{group}-2") == set(), "the first has expired")
    until(lambda: offset_topics(f"{group}-3") == set(), "the second has expired")
    kafka.clock.advance(minutes=RETENTION_MINUTES)
    assert offset_topics(f"{group}-4") == {topic}
    kafka.restart()
    kafka.clock.advance(minutes=RETENTION_MINUTES)
    until(lambda: offset_topics(f"{group}-4") == set(), "the last has expired")
