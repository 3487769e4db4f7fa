"""Where a partition begins and ends, what was there at a time, and how to go there."""

import time
from collections.abc import Callable

from .adapter import Client, Message, Place
from .driven import Driven
from .stories import Audience, numbered

MakeTopic = Callable[..., str]
MakeConsumer = Callable[..., Driven]


def test_beginning_and_end_of_partitions_empty_and_filled(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer
) -> None:
    topic = new_topic(2)
    client.produce(topic, numbered(7, partitions=1))
    asking = consumer()
    assert asking.beginning_offset(Place(topic, 0)) == 0
    assert asking.end_offset(Place(topic, 0)) == 7
    assert asking.beginning_offset(Place(topic, 1)) == 0
    assert asking.end_offset(Place(topic, 1)) == 0


def test_the_offset_of_a_time_is_that_of_the_first_record_not_before_it(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer
) -> None:
    topic = new_topic()
    place = Place(topic, 0)
    start_ms = int(time.time() * 1000) - 60_000
    for minute_part in range(3):  # three batches, as three producers write them
        client.produce(
            topic,
            [
                Message(b"x", partition=0, timestamp_ms=start_ms + 10_000 * minute_part + 1_000 * n)
                for n in range(5)
            ],
        )
    asking = consumer()
    assert asking.offset_for_time(place, start_ms - 1) == 0
    assert asking.offset_for_time(place, start_ms) == 0
    assert asking.offset_for_time(place, start_ms + 1) == 1
    assert asking.offset_for_time(place, start_ms + 4_000) == 4
    assert asking.offset_for_time(place, start_ms + 4_001) == 5
    assert asking.offset_for_time(place, start_ms + 12_500) == 8
    assert asking.offset_for_time(place, start_ms + 24_000) == 14
    assert asking.offset_for_time(place, start_ms + 24_001) is None


def test_seeking_back_reads_again_and_seeking_forward_skips(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer
) -> None:
    topic = new_topic()
    place = Place(topic, 0)
    client.produce(topic, numbered(50, partitions=1))
    audience = Audience(consumer())
    audience.consumers[0].assign(place)
    audience.until_count(50)
    for offset in (45, 0, 49, 7):
        audience.forget()
        audience.consumers[0].seek(place, offset)
        audience.until_count(50 - offset)
        assert [record.offset for record in audience.records] == list(range(offset, 50))


def test_a_new_group_that_wants_the_latest_gets_only_what_comes_after(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic()
    place = Place(topic, 0)
    client.produce(topic, numbered(10, "old", partitions=1))
    audience = Audience(consumer(group, auto_offset_reset="latest"))
    audience.consumers[0].subscribe(topic)
    audience.until_shared([place], [1])
    # "Latest" is decided when the library looks the offset up, which it does not tell; so records
    # come until one arrives.
    audience.until(lambda: bool(audience.records) or _one_more(client, topic, audience), "one came")
    assert b"new" in audience.values()[:1]


def _one_more(client: Client, topic: str, audience: Audience) -> bool:
    client.produce(topic, [Message(b"new", partition=0)])
    return bool(audience.records)


def test_an_offset_beyond_the_end_is_reset_as_the_consumer_wishes(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer
) -> None:
    topic = new_topic()
    place = Place(topic, 0)
    client.produce(topic, numbered(5, partitions=1))
    audience = Audience(consumer(auto_offset_reset="earliest"))
    audience.consumers[0].assign(place)
    audience.until_count(5)
    audience.forget()
    audience.consumers[0].seek(place, 1_000)
    audience.until_count(5)
    assert [record.offset for record in audience.records] == list(range(5))
