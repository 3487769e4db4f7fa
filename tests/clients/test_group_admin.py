"""Groups as an operator sees them, through the libraries' own admin clients."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import pytest
from confluent_kafka import ConsumerGroupState, KafkaException
from kafka import TopicPartition
from kafka.errors import GroupIdNotFoundError, GroupSubscribedToTopicError, NoError

from .adapter import Admin, Client, Committed, Place
from .driven import Driven
from .kafka_python import KafkaPythonAdmin
from .member import load
from .stories import until

MakeTopic = Callable[..., str]
MakeConsumer = Callable[..., Driven]
ANSWER_S = 30
NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 68, 69


class Seen(NamedTuple):
    """A group as each of the libraries can tell it."""

    state: str
    protocol: str
    members: int


class KafkaPythonOperator:
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

    def describe(self, group: str) -> Seen:
        told = self._admin.describe_groups([group])[group]
        return Seen(told["group_state"], told["protocol_data"], len(told["members"]))

    def delete(self, group: str) -> int:
        return int(self.codes[self._admin.delete_groups([group])[group]])


class LibrdkafkaOperator:
    states: ClassVar = {
        ConsumerGroupState.STABLE: "Stable",
        ConsumerGroupState.EMPTY: "Empty",
    }
    can_delete = True

    def __init__(self, admin: Any) -> None:
        self._admin = admin._admin

    def groups(self) -> set[str]:
        listed = self._admin.list_consumer_groups().result(ANSWER_S)
        assert not listed.errors
        return {group.group_id for group in listed.valid}

    def describe(self, group: str) -> Seen:
        told = self._admin.describe_consumer_groups([group])[group].result(ANSWER_S)
        state = self.states.get(told.state, str(told.state))
        return Seen(state, told.partition_assignor, len(told.members))

    def delete(self, group: str) -> int:
        try:
            self._admin.delete_consumer_groups([group])[group].result(ANSWER_S)
        except KafkaException as error:
            return int(error.args[0].code())
        return 0


class AioOperator:
    can_delete = False  # its admin client has no such call

    def __init__(self, admin: Any) -> None:
        self._admin = admin._admin
        self._run = admin._loop.run

    def groups(self) -> set[str]:
        return {group[0] for group in self._run(self._admin.list_consumer_groups())}

    def describe(self, group: str) -> Seen:
        (answer,) = self._run(self._admin.describe_consumer_groups([group]))
        (told,) = answer.groups
        _error, _group, state, _type, protocol, members, *_ = told
        return Seen(state, protocol, len(members))

    def delete(self, group: str) -> int:
        raise AssertionError("ask can_delete first")


Operator = KafkaPythonOperator | LibrdkafkaOperator | AioOperator
OPERATORS: dict[str, type[Operator]] = {
    "kafka-python": KafkaPythonOperator,
    "librdkafka": LibrdkafkaOperator,
    "aiokafka": AioOperator,
}


@pytest.fixture
def operator(client: Client, admin: Admin) -> Operator:
    """The group calls of the client library whose turn it is."""
    return OPERATORS[client.name](admin)


def settle(consumer: MakeConsumer, group: str, topic: str) -> Driven:
    member = consumer(group)
    member.subscribe(topic)
    until(lambda: len(member.assignment()) == 1, "the member has its partition")
    return member


def test_a_group_is_listed_and_described_in_its_states_and_deleted_when_empty(
    operator: Operator, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic()
    member = settle(consumer, group, topic)
    until(lambda: operator.describe(group).state == "Stable", "the group is stable")
    seen = operator.describe(group)
    assert seen.members == 1
    assert seen.protocol
    assert group in operator.groups()
    if operator.can_delete:
        assert operator.delete(group) == NON_EMPTY_GROUP
    member.commit({Place(topic, 0): Committed(0, "")})
    member.close()
    until(lambda: operator.describe(group).state == "Empty", "all have left")
    assert operator.describe(group).members == 0
    assert group in operator.groups()
    if operator.can_delete:
        assert operator.delete(group) == 0
        assert group not in operator.groups()
        assert operator.delete(group) == GROUP_ID_NOT_FOUND


def test_a_deleted_group_has_no_offsets_any_more(
    operator: Operator, admin: Admin, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    place = Place(new_topic(), 0)
    simple = consumer(group)
    simple.assign(place)
    simple.commit({place: Committed(5, "")})
    assert admin.group_offsets(group)[place].offset == 5
    assert operator.describe(group).state == "Empty"
    simple.close()
    if operator.can_delete:
        assert operator.delete(group) == 0
        assert place not in admin.group_offsets(group)


@pytest.fixture
def kafka_python(bootstrap: str) -> Iterator[Any]:
    """The one library here that deletes offsets."""
    client = load("kafka-python")(bootstrap)
    admin = client.admin()
    assert isinstance(admin, KafkaPythonAdmin)
    yield admin._admin
    admin.close()
    client.close()


def test_offsets_are_deleted_unless_somebody_reads_their_topic(
    kafka_python: Any, admin: Admin, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    read, left = Place(new_topic(), 0), Place(new_topic(), 0)
    simple = consumer(group)
    simple.assign(left)
    simple.commit({left: Committed(2, "")})
    simple.close()
    member = settle(consumer, group, read.topic)
    member.commit({read: Committed(1, "")})
    asked = [TopicPartition(*read), TopicPartition(*left)]
    told = kafka_python.delete_group_offsets(group, asked)
    assert told == {asked[0]: GroupSubscribedToTopicError, asked[1]: NoError}
    assert set(admin.group_offsets(group)) == {read}
    member.close()
    until(
        lambda: kafka_python.delete_group_offsets(group, asked)[asked[0]] is NoError,
        "nobody reads it any more",
    )
    assert read not in admin.group_offsets(group)
    with pytest.raises(GroupIdNotFoundError):
        kafka_python.delete_group_offsets(f"{group}-nobody", asked)
