"""Groups through the libraries' admin clients: list, describe, delete."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import pytest
from confluent_kafka import ConsumerGroupState, KafkaException
from kafka import TopicPartition
from kafka.errors import GroupIdNotFoundError, GroupSubscribedToTopicError, NoError

from .adapter import Admin, Client, Committed, Partition
from .consumers import BackgroundConsumer, until
from .kafka_python import KafkaPythonAdmin
from .member import load

MakeTopic = Callable[..., str]
MakeConsumer = Callable[..., BackgroundConsumer]
TIMEOUT_SECONDS = 30
NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 68, 69


class Description(NamedTuple):
    """A group: the fields that all libraries return."""

    state: str
    protocol: str
    members: int


class KafkaPythonGroups:
    codes: ClassVar = {
        "OK": 0,
        "NonEmptyGroupError": NON_EMPTY_GROUP,
        "GroupIdNotFoundError": GROUP_ID_NOT_FOUND,
    }
    can_delete = True

    def __init__(self, admin: Any) -> None:
        self._admin = admin._admin

    def groups(self) -> set[str]:
        return {group["group_id"] for group in self._admin.list_groups()}

    def describe(self, group: str) -> Description:
        described = self._admin.describe_groups([group])[group]
        return Description(
            described["group_state"], described["protocol_data"], len(described["members"])
        )

    def delete(self, group: str) -> int:
        return int(self.codes[self._admin.delete_groups([group])[group]])


class LibrdkafkaGroups:
    states: ClassVar = {
        ConsumerGroupState.STABLE: "Stable",
        ConsumerGroupState.EMPTY: "Empty",
    }
    can_delete = True

    def __init__(self, admin: Any) -> None:
        self._admin = admin._admin

    def groups(self) -> set[str]:
        listed = self._admin.list_consumer_groups().result(TIMEOUT_SECONDS)
        assert not listed.errors
        return {group.group_id for group in listed.valid}

    def describe(self, group: str) -> Description:
        described = self._admin.describe_consumer_groups([group])[group].result(TIMEOUT_SECONDS)
        state = self.states.get(described.state, str(described.state))
        return Description(state, described.partition_assignor, len(described.members))

    def delete(self, group: str) -> int:
        try:
            self._admin.delete_consumer_groups([group])[group].result(TIMEOUT_SECONDS)
        except KafkaException as error:
            return int(error.args[0].code())
        return 0


class AioGroups:
    can_delete = False  # the library's admin client cannot delete groups

    def __init__(self, admin: Any) -> None:
        self._admin = admin._admin
        self._run = admin._loop.run

    def groups(self) -> set[str]:
        return {group[0] for group in self._run(self._admin.list_consumer_groups())}

    def describe(self, group: str) -> Description:
        (response,) = self._run(self._admin.describe_consumer_groups([group]))
        ((_error, _group, state, _type, protocol, members, *_),) = response.groups
        return Description(state, protocol, len(members))

    def delete(self, group: str) -> int:
        raise NotImplementedError


GroupAdmin = KafkaPythonGroups | LibrdkafkaGroups | AioGroups
GROUP_ADMINS: dict[str, type[GroupAdmin]] = {
    "kafka-python": KafkaPythonGroups,
    "librdkafka": LibrdkafkaGroups,
    "librdkafka-consumer-protocol": LibrdkafkaGroups,
    "aiokafka": AioGroups,
}


@pytest.fixture
def groups(client: Client, admin: Admin) -> GroupAdmin:
    """Return the group admin client of this test's library."""
    return GROUP_ADMINS[client.name](admin)


def join(consumer: MakeConsumer, group: str, topic: str) -> BackgroundConsumer:
    member = consumer(group)
    member.subscribe(topic)
    until(lambda: len(member.assignment()) == 1, "the member owns its partition")
    return member


def test_a_group_is_listed_described_and_deleted_when_empty(
    groups: GroupAdmin, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic()
    member = join(consumer, group, topic)
    until(lambda: groups.describe(group).state == "Stable", "the group is stable")
    description = groups.describe(group)
    assert description.members == 1
    assert description.protocol
    assert group in groups.groups()
    if groups.can_delete:
        assert groups.delete(group) == NON_EMPTY_GROUP
    member.commit({Partition(topic, 0): Committed(0, "")})
    member.close()
    until(lambda: groups.describe(group).state == "Empty", "the member has left")
    assert groups.describe(group).members == 0
    assert group in groups.groups()
    if groups.can_delete:
        assert groups.delete(group) == 0
        assert group not in groups.groups()
        assert groups.delete(group) == GROUP_ID_NOT_FOUND


def test_a_deleted_group_has_no_offsets(
    groups: GroupAdmin, admin: Admin, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    partition = Partition(new_topic(), 0)
    simple = consumer(group)
    simple.assign(partition)
    simple.commit({partition: Committed(5, "")})
    assert admin.group_offsets(group)[partition].offset == 5
    assert groups.describe(group).state == "Empty"
    simple.close()
    if groups.can_delete:
        assert groups.delete(group) == 0
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
