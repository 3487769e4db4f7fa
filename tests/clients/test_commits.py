"""What a group has read is remembered, committed by hand or by itself, through restarts."""

from collections.abc import Callable

from .adapter import Admin, Client, Committed, Place
from .driven import Driven
from .stories import Audience, numbered, places

MakeTopic = Callable[..., str]
MakeConsumer = Callable[..., Driven]


def read(consumer: Driven, topic: str, count: int) -> Audience:
    audience = Audience(consumer)
    consumer.subscribe(topic)
    audience.until_count(count)
    return audience


def test_a_restarted_consumer_resumes_at_the_committed_offset(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic()
    client.produce(topic, numbered(20, partitions=1))
    first = read(consumer(group), topic, 20)
    first.consumers[0].commit({Place(topic, 0): Committed(12, "")})
    first.leave(first.consumers[0])

    second = read(consumer(group), topic, 8)
    assert [record.offset for record in second.records] == list(range(12, 20))


def test_after_a_rebalance_the_new_owner_goes_on_at_the_committed_offset(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(2)
    client.produce(topic, numbered(20, partitions=2))
    audience = read(consumer(group), topic, 20)
    audience.consumers[0].commit(dict.fromkeys(places(topic, 2), Committed(4, "")))

    newcomer = consumer(group)
    newcomer.subscribe(topic)
    audience.add(newcomer)
    audience.until_shared(places(topic, 2), [1, 1])
    audience.until(lambda: len(newcomer.records) >= 6, "it reads what was not committed")
    (owned,) = newcomer.assignment()
    assert [(record.place, record.offset) for record in newcomer.records] == [
        (owned, offset) for offset in range(4, 10)
    ]


def test_a_commit_without_offsets_means_all_that_was_given_out(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str, admin: Admin
) -> None:
    topic = new_topic(3)
    client.produce(topic, numbered(30, partitions=3))
    first = read(consumer(group), topic, 30)
    first.consumers[0].commit()
    assert {place: o.offset for place, o in admin.group_offsets(group).items()} == dict.fromkeys(
        places(topic, 3), 10
    )
    first.leave(first.consumers[0])

    client.produce(topic, numbered(3, "new", partitions=3))
    second = read(consumer(group), topic, 3)
    assert sorted(second.values()) == [b"new 0", b"new 1", b"new 2"]


def test_what_was_not_committed_is_read_again(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic()
    client.produce(topic, numbered(10, partitions=1))
    first = read(consumer(group), topic, 10)
    assert first.consumers[0].committed(Place(topic, 0)) is None
    first.leave(first.consumers[0])
    second = read(consumer(group), topic, 10)
    assert [record.offset for record in second.records] == list(range(10))


def test_auto_commit_commits_while_the_consumer_polls_and_when_it_closes(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str, admin: Admin
) -> None:
    topic = new_topic()
    place = Place(topic, 0)
    client.produce(topic, numbered(10, partitions=1))
    first = read(consumer(group, auto_commit=True), topic, 10)
    first.until(
        lambda: admin.group_offsets(group).get(place, Committed(-1, "")).offset == 10,
        "ten are committed by the interval",
    )

    # With an interval longer than any test, only closing can commit.
    first.leave(first.consumers[0])
    client.produce(topic, numbered(5, "more", partitions=1))
    second = read(consumer(group, auto_commit=True, auto_commit_interval_ms=600_000), topic, 5)
    assert [record.offset for record in second.records] == list(range(10, 15))
    second.leave(second.consumers[0])
    assert admin.group_offsets(group)[place].offset == 15


def test_the_metadata_of_a_commit_come_back_with_it(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str, admin: Admin
) -> None:
    topic = new_topic(2)
    client.produce(topic, numbered(2, partitions=2))
    audience = read(consumer(group), topic, 2)
    said = {Place(topic, 0): Committed(1, "as far as ключ"), Place(topic, 1): Committed(0, "")}
    audience.consumers[0].commit(said)
    assert admin.group_offsets(group) == said


def test_a_consumer_that_assigns_by_itself_commits_too(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic()
    place = Place(topic, 0)
    client.produce(topic, numbered(10, partitions=1))
    first = Audience(consumer(group))
    first.consumers[0].assign(place)
    first.until_count(10)
    first.consumers[0].commit({place: Committed(4, "")})
    first.leave(first.consumers[0])

    second = Audience(consumer(group))
    second.consumers[0].assign(place)
    second.until_count(6)
    assert [record.offset for record in second.records] == list(range(4, 10))


def test_a_commit_beyond_the_end_and_a_commit_back_are_kept_as_they_are(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str, admin: Admin
) -> None:
    topic = new_topic()
    place = Place(topic, 0)
    client.produce(topic, numbered(3, partitions=1))
    audience = read(consumer(group), topic, 3)
    for offset in (1_000_000, 2, 0):
        audience.consumers[0].commit({place: Committed(offset, "")})
        assert admin.group_offsets(group)[place].offset == offset


def test_a_group_that_is_not_known_has_no_offsets(client: Client, admin: Admin, group: str) -> None:
    assert admin.group_offsets(group) == {}
