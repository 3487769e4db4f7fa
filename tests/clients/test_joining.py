"""Joining a group: the choice of the assignor, and rejected members."""

import pytest

from .adapter import Client
from .conftest import MakeConsumer, MakeTopic, NewGroup
from .consumers import Consumers, numbered, partitions_of, until
from .librdkafka import LibrdkafkaConsumerProtocol

INCONSISTENT_GROUP_PROTOCOL, INVALID_SESSION_TIMEOUT = 23, 26


def test_the_assignor_that_most_members_prefer_is_used(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    if isinstance(client, LibrdkafkaConsumerProtocol):
        pytest.skip("the broker assigns partitions")
    if client.name == "aiokafka":
        pytest.skip("one of aiokafka 0.14's members may wait forever here, with Kafka 4.3 too")
    one, other = new_topic(4), new_topic(4)
    prefers_range = consumer(group, assignors=("range", "roundrobin"))
    others = [consumer(group, assignors=("roundrobin", "range")) for _ in range(2)]
    consumers = Consumers(prefers_range, *others)
    for member in consumers.all:
        member.subscribe(one, other)
    # With range, one member would have two partitions of each topic: 4, 2, 2.
    consumers.until_shared(partitions_of(one, 4) + partitions_of(other, 4), [3, 3, 2])


def test_a_member_without_a_common_assignor_is_rejected(
    client: Client, new_topic: MakeTopic, new_group: NewGroup, consumer: MakeConsumer, group: str
) -> None:
    if isinstance(client, LibrdkafkaConsumerProtocol):
        pytest.skip("the broker assigns partitions")
    topic = new_topic(2)
    consumers = new_group(topic, 2, assignors=("range",))
    (member,) = consumers.all
    rebalances = member.rebalances

    # Each library supports one of these two assignors.
    assignor = "sticky" if client.name == "aiokafka" else "cooperative-sticky"
    rejected = consumer(group, assignors=(assignor,))
    rejected.subscribe(topic)
    until(lambda: rejected.error_code == INCONSISTENT_GROUP_PROTOCOL, "the member is rejected")
    client.produce(topic, numbered(20, partitions=2))
    consumers.until_count(20)
    assert member.rebalances == rebalances


def test_a_session_timeout_below_the_brokers_minimum_is_rejected(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    if isinstance(client, LibrdkafkaConsumerProtocol):
        pytest.skip("the broker has the session timeout")
    member = consumer(group, session_timeout_ms=900)
    member.subscribe(new_topic())
    until(lambda: member.error_code == INVALID_SESSION_TIMEOUT, "the member is rejected")
