"""The registry's log is written anew when most of it is about what is gone, and says the same."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.testing.faulty_files import Crashed, FaultyFiles
from kohort.topics.registry import Topics
from kohort.topics.registry_log import (
    COMPACTION_RECORDS_MIN,
    BrokerConfigRecord,
    CorruptRegistry,
    LeaderRecord,
    ProducerIdsRecord,
    RegistryRecord,
    TopicDeletedRecord,
    TopicPurgedRecord,
    TopicRecord,
    check_registry,
    latest_records,
    read_registry,
)
from support.broker import DATA, BrokerHarness, batch

JOURNAL = DATA / "__kohort_topics-0"


def known(topics: Topics) -> Mapping[str, Any]:
    """All that a registry says, in its order."""
    return {
        "topics": [
            (
                topic.name,
                topic.id,
                dict(topic.overrides),
                [(each.leader_id, each.leader_epoch, each.settings) for each in topic.partitions],
            )
            for topic in topics
        ],
        "ids": {topic.id for topic in topics} == set(topics._by_id),
        "near names": dict(topics._by_collision_key),
        "deleted": set(topics.deleted_names),
        "configs": dict(topics.configs.dynamic),
        "producer ids": topics.allocate_producer_id(),
    }


NAMES = st.sampled_from(["a.b", "a_c", "d"])
IDS = st.sampled_from([uuid.UUID(int=number) for number in range(1, 5)])
NODES = st.sampled_from([1, 2])
COUNTS = st.integers(1, 3)
CONFIGS = st.sampled_from([{}, {"retention.ms": "1"}, {"cleanup.policy": "compact"}])
BROKER_CONFIGS = st.sampled_from([{}, {"log.retention.ms": "1"}, {"message.max.bytes": "9"}])
RECORDS = st.one_of(
    st.builds(TopicRecord, NAMES, IDS, COUNTS, CONFIGS),
    st.builds(TopicDeletedRecord, NAMES),
    st.builds(TopicPurgedRecord, NAMES),
    st.builds(LeaderRecord, NAMES, IDS, st.integers(0, 3), NODES, st.integers(0, 5)),
    st.builds(BrokerConfigRecord, st.sampled_from(["", "1", "2"]), BROKER_CONFIGS),
    st.builds(ProducerIdsRecord, st.integers(1, 9).map(lambda number: number * 1000)),
)


def of_one_name(stored: Iterable[RegistryRecord]) -> list[RegistryRecord]:
    """As registries are: a topic keeps its name, and an id is given once."""
    names: dict[uuid.UUID, str] = {}
    over: set[uuid.UUID] = set()
    alive: dict[str, uuid.UUID] = {}
    told: list[RegistryRecord] = []
    for record in stored:
        match record:
            case TopicRecord(name, id_):
                if id_ in over or names.setdefault(id_, name) != name:
                    continue
                if (before := alive.get(name)) not in (None, id_):
                    over.add(before)  # type: ignore[arg-type]
                alive[name] = id_
            case LeaderRecord(name, id_):
                if names.get(id_, name) != name:
                    continue
            case TopicDeletedRecord(name):
                if (before := alive.pop(name, None)) is not None:
                    over.add(before)
        told.append(record)
    return told


@given(st.lists(RECORDS, max_size=30).map(of_one_name))
def test_what_still_counts_says_the_same_as_all_of_it(stored: list[RegistryRecord]) -> None:
    all_, counting = BrokerHarness(), BrokerHarness()
    all_.topics._replay(stored)
    short = latest_records(stored)
    counting.topics._replay(short)
    assert known(counting.topics) == known(all_.topics)
    assert latest_records(short) == short


def bytes_of_journal(broker: BrokerHarness) -> int:
    return sum(
        len(content) for path, content in broker.files.contents.items() if path.parent == JOURNAL
    )


def churned(broker: BrokerHarness) -> None:
    """Many topics that are gone, and some of each kind of what stays."""
    topics = broker.topics
    first = broker.create_topic("first", 2, retention_ms="1")
    left = broker.create_topic("left")
    topics.configure_broker("", {"log.retention.ms": "9"})
    topics.allocate_producer_id()
    for number in range(COMPACTION_RECORDS_MIN // 3):
        topics.delete(topics.create(f"churn-{number}", 1, {}))
        if number % 50 == 0:
            broker.run_loop()
    topics.add_partitions(first, 3)
    topics.elect_leader(first, first.partitions[1], 1)
    broker.create_topic("last")
    topics.has_leftovers = lambda name: name == "left"
    topics.delete(left)
    broker.run_loop()


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_a_registry_that_is_mostly_about_what_is_gone_is_written_anew_at_the_start(
    durability: Any,
) -> None:
    broker = BrokerHarness(durability=durability)
    churned(broker)
    before, size, end_offset = known(broker.topics), bytes_of_journal(broker), end_of(broker)
    assert before["deleted"] == {"left"}
    broker = broker.restart(durability)
    assert bytes_of_journal(broker) < size / 20
    assert end_of(broker) >= end_offset, "offsets never go back"
    assert list(broker.files.list(JOURNAL)) == [f"{0:020}.log"]
    # The next one, of which nothing was asked, goes on with the ids that nobody was given.
    before["producer ids"] = 1_000
    assert known(broker.topics) == before
    broker.create_topic("more")
    assert [topic.name for topic in broker.restart(durability).topics] == ["first", "last", "more"]


def test_damage_to_one_that_was_written_anew_is_told_and_not_taken_for_a_torn_end() -> None:
    broker = BrokerHarness()
    churned(broker)
    broker = broker.restart()
    broker.files.contents[JOURNAL / f"{0:020}.log"][80] ^= 1
    with pytest.raises(CorruptRegistry):
        check_registry(DATA, broker.files)


def end_of(broker: BrokerHarness) -> int:
    return broker.topics._registry_log.end_offset


def test_a_registry_of_which_nothing_is_left_is_still_one() -> None:
    """Else the next start would take the folders that lie there for Kafka's."""
    broker = BrokerHarness()
    for number in range(COMPACTION_RECORDS_MIN // 2):
        broker.topics.delete(broker.topics.create(f"churn-{number}", 1, {}))
    broker.run_loop()
    broker = broker.restart()
    stray = DATA / "stray-0"
    broker.files.make_folder(stray)
    broker.files.contents[stray / f"{0:020}.log"] = bytearray(batch(b"of nobody's"))
    assert list(broker.restart().topics) == []


def test_a_registry_of_what_is_there_stays_as_it_is() -> None:
    broker = BrokerHarness()
    for number in range(COMPACTION_RECORDS_MIN):
        broker.topics.create(f"kept-{number}", 1, {})
    broker.run_loop()
    before = bytes(broker.files.contents[JOURNAL / f"{0:020}.log"])
    assert bytes(broker.restart().files.contents[JOURNAL / f"{0:020}.log"]) == before


@pytest.fixture(scope="module")
def long_registry() -> tuple[FaultyFiles, Mapping[str, Any]]:
    broker = BrokerHarness()
    churned(broker)
    return broker.files, {**known(broker.topics), "producer ids": 1_000}


def test_a_crash_at_any_moment_of_it_leaves_a_registry_that_says_the_same(
    long_registry: tuple[FaultyFiles, Mapping[str, Any]],
) -> None:
    files, expected = long_registry
    disk = files.copy()
    BrokerHarness(files=disk)
    moments = range(len(files.operations), len(disk.operations))
    assert "rename" in [kind for kind, _ in disk.operations[moments.start :]]
    for moment in moments:
        disk = files.copy()
        disk.crash_at = moment
        with pytest.raises(Crashed):
            BrokerHarness(files=disk)
        disk.crash()
        disk.crash_at = None
        broker = BrokerHarness(files=disk)
        assert known(broker.topics) == expected, f"after a crash at operation {moment}"
        broker.create_topic("more")
        assert "more" in [topic.name for topic in broker.restart().topics]


@pytest.mark.parametrize("operation", ["append", "sync", "rename", "open", "truncate"])
def test_a_disk_that_fails_in_the_middle_of_it_costs_nothing_but_time(
    long_registry: tuple[FaultyFiles, Mapping[str, Any]], operation: str
) -> None:
    files, expected = long_registry
    disk = files.copy()
    disk.fail(operation)
    try:
        broker = BrokerHarness(files=disk)
    except OSError:
        disk.heal()
        broker = BrokerHarness(files=disk)
    assert known(broker.topics) == expected
    disk.heal()
    assert len([*read_registry(broker.restart().topics._registry_log)]) < COMPACTION_RECORDS_MIN
