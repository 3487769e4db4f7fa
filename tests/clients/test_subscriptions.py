"""Subscriptions: patterns, topics that do not exist yet, changes."""

from .adapter import Admin, Client, Message
from .conftest import MakeConsumer, MakeTopic
from .consumers import Consumers, numbered, partitions_of


def test_a_pattern_matches_existing_and_later_topics(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str, topic_name: str
) -> None:
    for suffix in ("-a", "-b"):
        new_topic(1, topic_name + suffix)
    other = new_topic()  # does not match
    consumers = Consumers(consumer(group))
    consumers.all[0].subscribe_pattern(f"^{topic_name}-.*")
    consumers.until_shared(
        partitions_of(f"{topic_name}-a", 1) + partitions_of(f"{topic_name}-b", 1), [2]
    )
    for topic in (f"{topic_name}-a", f"{topic_name}-b", other):
        client.produce(topic, [Message(topic.encode(), partition=0)])
    consumers.until_values([f"{topic_name}-a".encode(), f"{topic_name}-b".encode()])
    assert other.encode() not in consumers.values()

    later = new_topic(2, f"{topic_name}-later")
    consumers.until(
        lambda: set(partitions_of(later, 2)) <= consumers.all[0].assignment(),
        "the later topic is assigned",
    )
    client.produce(later, numbered(4, "later", partitions=2))
    consumers.until_values(f"later {number}".encode() for number in range(4))


def test_a_waiting_consumer_is_assigned_a_topic_that_a_producer_creates(
    client: Client, consumer: MakeConsumer, group: str, topic_name: str
) -> None:
    consumers = Consumers(consumer(group))
    consumers.all[0].subscribe(topic_name)
    client.produce(topic_name, numbered(10))
    consumers.until_values(f"record {number}".encode() for number in range(10))


def test_a_waiting_consumer_is_assigned_a_topic_that_is_created_later(
    client: Client, consumer: MakeConsumer, group: str, topic_name: str, admin: Admin
) -> None:
    consumers = Consumers(consumer(group))
    consumers.all[0].subscribe(topic_name)
    if client.creates_topics:
        consumers.until(lambda: topic_name in admin.topics(), "the consumer itself has created it")
        admin.add_partitions(topic_name, 3)
    else:
        assert topic_name not in admin.topics()
        admin.create_topic(topic_name, 3)
    consumers.until_shared(partitions_of(topic_name, 3), [3])
    client.produce(topic_name, numbered(30, partitions=3))
    consumers.until_values(f"record {number}".encode() for number in range(30))


def test_the_topics_of_a_subscription_can_be_changed(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    one, other = new_topic(2), new_topic(1)
    consumers = Consumers(consumer(group))
    consumers.all[0].subscribe(one)
    consumers.until_shared(partitions_of(one, 2), [2])
    consumers.all[0].subscribe(one, other)
    consumers.until_shared(partitions_of(one, 2) + partitions_of(other, 1), [3])
    consumers.all[0].subscribe(other)
    consumers.until_shared(partitions_of(other, 1), [1])
    client.produce(other, numbered(3, partitions=1))
    consumers.until_values(f"record {number}".encode() for number in range(3))
