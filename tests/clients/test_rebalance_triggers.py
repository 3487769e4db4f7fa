"""What triggers a rebalance, and what does not."""

import pytest
from kafka.admin import MemberToRemove
from kafka.errors import NoError

from .adapter import Admin, BrokerError, Client, Committed, Partition
from .conftest import SESSION_TIMEOUT_MS, MakeConsumer, MakeTopic, NewGroup
from .consumers import BackgroundConsumer, Consumers, numbered, partitions_of, until
from .kafka_python import KafkaPython, KafkaPythonAdmin
from .librdkafka import LibrdkafkaConsumerProtocol

FENCED_INSTANCE_ID = 82
LIBRDKAFKA_FATAL = -150  # RD_KAFKA_RESP_ERR__FATAL
# Longer than any test.
LONG_MS = 20_000


def remove_static_member(bootstrap: str, group: str, instance: str) -> None:
    """Send LeaveGroup with an instance id, as an administrator does, with kafka-python's client."""
    client = KafkaPython(bootstrap)
    admin = client.admin()
    assert isinstance(admin, KafkaPythonAdmin)
    leaving = [MemberToRemove(group_instance_id=instance)]
    (error,) = admin._admin.remove_group_members(group, leaving).values()
    admin.close()
    client.close()
    assert error is NoError


def test_a_static_member_triggers_a_rebalance_in_four_cases_only(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str, admin: Admin
) -> None:
    topic = new_topic(6)
    consumers = Consumers()

    def static(instance: str, session_timeout_ms: int = LONG_MS) -> BackgroundConsumer:
        member = consumer(group, group_instance_id=instance, session_timeout_ms=session_timeout_ms)
        member.subscribe(topic)
        consumers.add(member)
        return member

    stays = static("a")
    consumers.until_shared(partitions_of(topic, 6), [6])
    restarts = static("b")  # a new member
    consumers.until_shared(partitions_of(topic, 6), [3, 3])
    kept, owned, rebalances = stays.assignment(), restarts.assignment(), stays.rebalances

    consumers.close(restarts)  # a static member's close does not leave the group
    back = static("b")
    consumers.until(lambda: back.assignment() == owned, "it owns the same partitions as before")
    assert stays.assignment() == kept
    assert stays.rebalances == rebalances, "a restart within the session triggers no rebalance"

    consumers.close(back)
    remove_static_member(client.bootstrap, group, "b")  # an explicit leave
    consumers.until_shared(partitions_of(topic, 6), [6])

    absent = static("c", SESSION_TIMEOUT_MS)
    consumers.until_shared(partitions_of(topic, 6), [3, 3])
    consumers.close(absent)  # offline for longer than its session
    consumers.until_shared(partitions_of(topic, 6), [6])

    rebalances = stays.rebalances
    admin.add_partitions(topic, 8)  # the leader rejoins
    consumers.until_shared(partitions_of(topic, 8), [8])
    assert stays.rebalances > rebalances


def test_the_older_of_two_members_with_one_instance_id_is_fenced(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    if client.name == "aiokafka":
        pytest.skip(
            "aiokafka 0.14 sends no instance id with heartbeats, and does not support fencing"
        )
    if isinstance(client, LibrdkafkaConsumerProtocol):
        pytest.skip("the broker rejects the newer one: test_consumer_protocol.py")
    topic = new_topic(2)
    older, newer = (
        consumer(group, group_instance_id="same", session_timeout_ms=LONG_MS) for _ in range(2)
    )
    older.subscribe(topic)
    until(
        lambda: older.assignment() == set(partitions_of(topic, 2)),
        "the older member owns all partitions",
    )
    newer.subscribe(topic)
    until(
        lambda: newer.assignment() == set(partitions_of(topic, 2)),
        "the newer member owns all partitions",
    )
    with pytest.raises(BrokerError) as raised:
        older.commit({Partition(topic, 0): Committed(1, "")})
    # librdkafka raises its own fatal error, with the broker's text unless a heartbeat received the
    # error earlier.
    is_fenced = raised.value.code in (FENCED_INSTANCE_ID, LIBRDKAFKA_FATAL)
    assert is_fenced or "fenced" in str(raised.value)


def test_a_member_too_slow_to_rejoin_is_removed_until_it_polls_again(
    client: Client, new_topic: MakeTopic, new_group: NewGroup, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(6)
    poll_ms = SESSION_TIMEOUT_MS + 500  # librdkafka requires more than the session timeout
    consumers = new_group(topic, 3, 3, max_poll_interval_ms=poll_ms)
    stays, busy = consumers.all
    joins = consumer(group, max_poll_interval_ms=poll_ms)
    client.produce(topic, numbered(60, partitions=6))
    consumers.until_count(60)

    busy.pause()  # the member still sends heartbeats
    joins.subscribe(topic)
    others = Consumers(stays, joins)
    others.until_shared(partitions_of(topic, 6), [3, 3])
    # With explicit offsets, because it may not have polled anything since the rebalance.
    stays.commit(dict.fromkeys(stays.assignment(), Committed(10, "")))

    busy.resume()
    everyone = Consumers(stays, joins, busy)
    everyone.until_shared(partitions_of(topic, 6), [2, 2, 2])


def test_a_commit_of_a_removed_member_is_rejected(
    client: Client, new_topic: MakeTopic, new_group: NewGroup, group: str, admin: Admin
) -> None:
    topic = new_topic(2)
    consumers = new_group(topic, 2, max_poll_interval_ms=SESSION_TIMEOUT_MS + 500)
    (busy,) = consumers.all
    client.produce(topic, numbered(20, partitions=2))
    consumers.until_count(20)
    busy.pause()

    new_group(topic, 2).until_count(20)
    with pytest.raises(BrokerError):
        busy.commit()
    assert admin.group_offsets(group) == {}


def test_members_get_only_partitions_of_topics_they_subscribe_to(
    new_topic: MakeTopic, new_group: NewGroup
) -> None:
    one, other = new_topic(2), new_topic(2)
    consumers = new_group(one, 1, 1)
    stays, changes = consumers.all
    changes.subscribe(other)
    consumers.until(
        lambda: (
            stays.assignment() == set(partitions_of(one, 2))
            and changes.assignment() == set(partitions_of(other, 2))
        ),
        "each member owns the topic that it subscribes to",
    )
