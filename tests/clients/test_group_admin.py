"""Groups through the libraries' admin clients: list, describe, delete."""

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import GroupIdNotFoundError, GroupSubscribedToTopicError, NoError

from .adapter import Admin, Committed, Partition, load
from .conftest import MakeConsumer, MakeTopic
from .consumers import BackgroundConsumer, until
from .kafka_python import KafkaPythonAdmin
from .test_admin import assert_rejected

NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 68, 69


def join(consumer: MakeConsumer, group: str, topic: str) -> BackgroundConsumer:
    member = consumer(group)
    member.subscribe(topic)
    until(lambda: len(member.assignment()) == 1, "the member owns its partition")
    return member


def test_a_group_is_listed_described_and_deleted_when_empty(
    admin: Admin, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic()
    member = join(consumer, group, topic)
    until(lambda: admin.describe_group(group).state == "Stable", "the group is stable")
    description = admin.describe_group(group)
    assert description.members == 1
    assert description.protocol
    assert group in admin.groups()
    if admin.delete_group:
        assert_rejected(NON_EMPTY_GROUP, admin.delete_group, group)
    member.commit({Partition(topic, 0): Committed(0, "")})
    member.close()
    until(lambda: admin.describe_group(group).state == "Empty", "the member has left")
    assert admin.describe_group(group).members == 0
    assert group in admin.groups()
    if admin.delete_group:
        admin.delete_group(group)
        assert group not in admin.groups()
        assert_rejected(GROUP_ID_NOT_FOUND, admin.delete_group, group)


def test_a_deleted_group_has_no_offsets(
    admin: Admin, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    partition = Partition(new_topic(), 0)
    simple = consumer(group)
    simple.assign(partition)
    simple.commit({partition: Committed(5, "")})
    assert admin.group_offsets(group)[partition].offset == 5
    assert admin.describe_group(group).state == "Empty"
    simple.close()
    if admin.delete_group:
        admin.delete_group(group)
        assert partition not in admin.group_offsets(group)


@pytest.fixture
def kafka_python(bootstrap: str) -> Iterator[Any]:
    """Return a client of the only library here that deletes offsets."""
    client = load("kafka-python")(bootstrap)
    admin = client.admin()
    assert isinstance(admin, KafkaPythonAdmin)
    yield admin._admin
    admin.close()
    client.close()


def test_offsets_are_deleted_unless_a_member_is_subscribed(
    kafka_python: Any, admin: Admin, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    read, left = Partition(new_topic(), 0), Partition(new_topic(), 0)
    simple = consumer(group)
    simple.assign(left)
    simple.commit({left: Committed(2, "")})
    simple.close()
    member = join(consumer, group, read.topic)
    member.commit({read: Committed(1, "")})
    both = [TopicPartition(*read), TopicPartition(*left)]
    errors = kafka_python.delete_group_offsets(group, both)
    assert errors == {both[0]: GroupSubscribedToTopicError, both[1]: NoError}
    assert set(admin.group_offsets(group)) == {read}
    member.close()
    until(
        lambda: kafka_python.delete_group_offsets(group, both)[both[0]] is NoError,
        "no member is subscribed",
    )
    assert read not in admin.group_offsets(group)
    with pytest.raises(GroupIdNotFoundError):
        kafka_python.delete_group_offsets(f"{group}-unknown", both)
