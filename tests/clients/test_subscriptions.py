"""What a consumer subscribes to need not be there yet, nor be known by name."""

from collections.abc import Callable

import pytest

from .adapter import Admin, Client, Message
from .driven import Driven
from .stories import Audience, numbered, places

MakeTopic = Callable[..., str]
MakeConsumer = Callable[..., Driven]


def test_a_pattern_covers_the_topics_that_match_and_later_ones_too(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str, topic_name: str
) -> None:
    for suffix in ("-a", "-b"):
        new_topic(1, topic_name + suffix)
    other = new_topic()  # begins with story-, as they do, and must not be matched
    audience = Audience(consumer(group))
    audience.consumers[0].subscribe_pattern(f"^{topic_name}-.*")
    audience.until_shared(places(f"{topic_name}-a", 1) + places(f"{topic_name}-b", 1), [2])
    for topic in (f"{topic_name}-a", f"{topic_name}-b", other):
        client.produce(topic, [Message(topic.encode(), partition=0)])
    audience.until_values([f"{topic_name}-a".encode(), f"{topic_name}-b".encode()])
    assert other.encode() not in audience.values()

    later = new_topic(2, f"{topic_name}-later")
    audience.until(
        lambda: set(places(later, 2)) <= audience.consumers[0].assignment(), "the later one joined"
    )
    client.produce(later, numbered(4, "later", partitions=2))
    audience.until_values(f"later {number}".encode() for number in range(4))


def test_a_topic_that_a_producer_brings_to_life_reaches_the_consumer_that_waits_for_it(
    client: Client, consumer: MakeConsumer, group: str, topic_name: str
) -> None:
    audience = Audience(consumer(group))
    audience.consumers[0].subscribe(topic_name)
    client.produce(topic_name, numbered(10))
    audience.until_values(f"record {number}".encode() for number in range(10))


def test_a_topic_that_is_created_later_reaches_the_consumer_that_waits_for_it(
    client: Client, consumer: MakeConsumer, group: str, topic_name: str, admin: Admin
) -> None:
    audience = Audience(consumer(group))
    audience.consumers[0].subscribe(topic_name)
    if client.creates_topics == "always":
        audience.until(lambda: topic_name in admin.topics(), "the consumer itself created it")
        admin.add_partitions(topic_name, 3)
    else:
        assert topic_name not in admin.topics()
        admin.create_topic(topic_name, 3)
    audience.until_shared(places(topic_name, 3), [3])
    client.produce(topic_name, numbered(30, partitions=3))
    audience.until_values(f"record {number}".encode() for number in range(30))


def test_a_consumer_that_may_create_topics_creates_the_one_it_subscribes_to(
    client: Client, consumer: MakeConsumer, group: str, topic_name: str, admin: Admin
) -> None:
    if client.creates_topics == "never":
        pytest.skip(f"{client.name}'s consumers create no topics")
    audience = Audience(consumer(group, creates_topics=True))
    audience.consumers[0].subscribe(topic_name)
    audience.until_shared(places(topic_name, 1), [1])
    assert topic_name in admin.topics()


def test_the_topics_of_a_subscription_can_be_changed(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    one, other = new_topic(2), new_topic(1)
    audience = Audience(consumer(group))
    audience.consumers[0].subscribe(one)
    audience.until_shared(places(one, 2), [2])
    audience.consumers[0].subscribe(one, other)
    audience.until_shared(places(one, 2) + places(other, 1), [3])
    audience.consumers[0].subscribe(other)
    audience.until_shared(places(other, 1), [1])
    client.produce(other, numbered(3, partitions=1))
    audience.until_values(f"record {number}".encode() for number in range(3))
