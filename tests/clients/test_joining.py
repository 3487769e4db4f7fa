"""Whom a group takes in, and how its members agree on an assignor."""

from collections.abc import Callable

import pytest

from .adapter import Client
from .driven import Driven
from .stories import Audience, numbered, places, refusal_of, until

MakeTopic = Callable[..., str]
MakeConsumer = Callable[..., Driven]
INCONSISTENT_GROUP_PROTOCOL, INVALID_SESSION_TIMEOUT = 23, 26


def test_the_assignor_that_most_members_prefer_is_used(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    if client.name == "aiokafka":
        pytest.skip("here one of aiokafka 0.14's members may wait for ever, with Kafka 4.3 too")
    one, other = new_topic(4), new_topic(4)
    prefers_range = consumer(group, assignors=("range", "roundrobin"))
    others = [consumer(group, assignors=("roundrobin", "range")) for _ in range(2)]
    audience = Audience(prefers_range, *others)
    for member in audience.consumers:
        member.subscribe(one, other)
    # range would give one member two partitions of each topic: 4, 2, 2
    audience.until_shared(places(one, 4) + places(other, 4), [3, 3, 2])


def test_a_member_with_none_of_the_groups_assignors_is_refused_and_the_group_goes_on(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(2)
    audience = Audience(consumer(group, assignors=("range",)))
    (member,) = audience.consumers
    member.subscribe(topic)
    audience.until_shared(places(topic, 2), [2])
    rebalances = member.rebalances

    # Each library has one of the two.
    stickiness = "sticky" if client.name == "aiokafka" else "cooperative-sticky"
    stranger = consumer(group, assignors=(stickiness,))
    stranger.subscribe(topic)
    until(lambda: refusal_of(stranger) == INCONSISTENT_GROUP_PROTOCOL, "the stranger is refused")
    client.produce(topic, numbered(20, partitions=2))
    audience.until_count(20)
    assert member.rebalances == rebalances


def test_a_session_timeout_below_the_brokers_bound_is_refused(
    new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    member = consumer(group, session_timeout_ms=900)
    member.subscribe(new_topic())
    until(lambda: refusal_of(member) == INVALID_SESSION_TIMEOUT, "the member is refused")
