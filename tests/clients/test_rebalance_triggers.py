"""What makes a group share out its partitions anew, and what does not."""

from collections.abc import Callable

import pytest
from kafka.admin import MemberToRemove
from kafka.errors import NoError

from .adapter import Admin, Client, Committed, Place, RefusedError
from .conftest import SESSION_TIMEOUT_MS
from .driven import Driven
from .kafka_python import KafkaPython, KafkaPythonAdmin
from .stories import Audience, numbered, places, until

MakeTopic = Callable[..., str]
MakeConsumer = Callable[..., Driven]
FENCED_INSTANCE_ID = 82
LIBRDKAFKA_FATAL = -150  # RD_KAFKA_RESP_ERR__FATAL
# Longer than any story: nobody's session ends by chance.
LONG_MS = 20_000


def remove_static_member(bootstrap: str, group: str, instance: str) -> None:
    """LeaveGroup by instance id, as an operator sends it; kafka-python's admin client can."""
    client = KafkaPython(bootstrap)
    admin = client.admin()
    assert isinstance(admin, KafkaPythonAdmin)
    leaving = [MemberToRemove(group_instance_id=instance)]
    (said,) = admin._admin.remove_group_members(group, leaving).values()
    admin.close()
    client.close()
    assert said is NoError


def test_a_static_member_rebalances_its_group_in_four_cases_only(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str, admin: Admin
) -> None:
    topic = new_topic(6)
    audience = Audience()

    def static(instance: str, session_timeout_ms: int = LONG_MS) -> Driven:
        member = consumer(group, group_instance_id=instance, session_timeout_ms=session_timeout_ms)
        member.subscribe(topic)
        audience.add(member)
        return member

    stays = static("a")
    audience.until_shared(places(topic, 6), [6])
    restarts = static("b")  # a new member
    audience.until_shared(places(topic, 6), [3, 3])
    kept, owned, rebalances = stays.assignment(), restarts.assignment(), stays.rebalances

    audience.leave(restarts)  # a static member's close does not leave the group
    back = static("b")
    audience.until(lambda: back.assignment() == owned, "the same partitions as before")
    assert stays.assignment() == kept
    assert stays.rebalances == rebalances, "a restart within the session is no rebalance"

    audience.leave(back)
    remove_static_member(client.bootstrap, group, "b")  # an explicit leave
    audience.until_shared(places(topic, 6), [6])

    absent = static("c", SESSION_TIMEOUT_MS)
    audience.until_shared(places(topic, 6), [3, 3])
    audience.leave(absent)  # offline for longer than its session
    audience.until_shared(places(topic, 6), [6])

    rebalances = stays.rebalances
    admin.add_partitions(topic, 8)  # the leader sees it and rejoins
    audience.until_shared(places(topic, 8), [8])
    assert stays.rebalances > rebalances


def test_of_two_members_with_one_instance_id_the_elder_is_fenced(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    if client.name == "aiokafka":
        pytest.skip("aiokafka 0.14 sends no instance id with heartbeats and knows no fencing")
    topic = new_topic(2)
    elder, younger = (
        consumer(group, group_instance_id="same", session_timeout_ms=LONG_MS) for _ in range(2)
    )
    elder.subscribe(topic)
    until(lambda: elder.assignment() == set(places(topic, 2)), "the elder owns all")
    younger.subscribe(topic)
    until(lambda: younger.assignment() == set(places(topic, 2)), "the younger owns all")
    with pytest.raises(RefusedError) as refused:
        elder.commit({Place(topic, 0): Committed(1, "")})
    # librdkafka wraps what is fatal in an error of its own and keeps the broker's text; if a
    # heartbeat has told it already, it says only that it is fatal, which little else is to it.
    is_told = refused.value.code in (FENCED_INSTANCE_ID, LIBRDKAFKA_FATAL)
    assert is_told or "fenced" in str(refused.value)


def test_a_member_that_is_too_slow_to_rejoin_is_left_out_until_it_polls_again(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(6)
    patience_ms = SESSION_TIMEOUT_MS + 500  # librdkafka wants it above the session timeout
    busy, stays, comes = (consumer(group, max_poll_interval_ms=patience_ms) for _ in range(3))
    audience = Audience(stays, busy)
    for member in audience.consumers:
        member.subscribe(topic)
    audience.until_shared(places(topic, 6), [3, 3])
    client.produce(topic, numbered(60, partitions=6))
    audience.until_count(60)

    busy.pause()  # its heartbeats go on
    comes.subscribe(topic)
    others = Audience(stays, comes)
    others.until_shared(places(topic, 6), [3, 3])
    # These offsets, for it may not have read anything since the round.
    stays.commit(dict.fromkeys(stays.assignment(), Committed(10, "")))

    busy.resume()
    everyone = Audience(stays, comes, busy)
    everyone.until_shared(places(topic, 6), [2, 2, 2])


def test_a_commit_of_a_member_that_was_left_out_is_refused(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str, admin: Admin
) -> None:
    topic = new_topic(2)
    busy = consumer(group, max_poll_interval_ms=SESSION_TIMEOUT_MS + 500)
    busy.subscribe(topic)
    audience = Audience(busy)
    audience.until_shared(places(topic, 2), [2])
    client.produce(topic, numbered(20, partitions=2))
    audience.until_count(20)
    busy.pause()

    other = consumer(group)
    other.subscribe(topic)
    successor = Audience(other)
    successor.until_shared(places(topic, 2), [2])
    successor.until_count(20)
    with pytest.raises(RefusedError):
        busy.commit()
    assert admin.group_offsets(group) == {}


def test_members_with_different_subscriptions_share_only_what_each_wants(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    one, other = new_topic(2), new_topic(2)
    audience = Audience(consumer(group), consumer(group))
    stays, changes = audience.consumers
    for member in audience.consumers:
        member.subscribe(one)
    audience.until_shared(places(one, 2), [1, 1])
    changes.subscribe(other)
    audience.until(
        lambda: (
            stays.assignment() == set(places(one, 2))
            and changes.assignment() == set(places(other, 2))
        ),
        "each owns the topic that it wants",
    )
