"""Compaction of the registry's log: a log that is mostly obsolete is rewritten at startup and keeps
its state."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.testing.faults.files import Crashed, FaultyFiles
from kohort.topics.registry import TopicRegistry
from kohort.topics.registry_log import (
    COMPACTION_RECORDS_MIN,
    BrokerConfigRecord,
    ClientMetricsRecord,
    CorruptRegistry,
    GroupConfigRecord,
    LeaderRecord,
    ProducerIdsRecord,
    RegistryRecord,
    ScramCredentialRecord,
    TopicDeletedRecord,
    TopicPurgedRecord,
    TopicRecord,
    check_registry,
    latest_records,
    read_registry,
)
from kohort.topics.scram import ScramCredential, ScramMechanism
from support.broker import DATA, BrokerHarness, batch

REGISTRY = DATA / "__kohort_topics-0"


def known(topics: TopicRegistry) -> Mapping[str, Any]:
    """Return the complete state of a registry, in order."""
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
        "collision keys": dict(topics._by_collision_key),
        "deleted": set(topics.deleted_names),
        "configs": dict(topics.configs.dynamic),
        "groups": dict(topics.configs.groups),
        "client metrics": dict(topics.configs.client_metrics),
        "producer ids": topics.allocate_producer_id(),
        "scram credentials": topics.security.scram_credentials,
    }


NAMES = st.sampled_from(["a.b", "a_c", "d"])
IDS = st.sampled_from([uuid.UUID(int=number) for number in range(1, 5)])
NODES = st.sampled_from([1, 2])
COUNTS = st.integers(1, 3)
CONFIGS = st.sampled_from([{}, {"retention.ms": "1"}, {"cleanup.policy": "compact"}])
BROKER_CONFIGS = st.sampled_from([{}, {"log.retention.ms": "1"}, {"message.max.bytes": "9"}])
GROUP_CONFIGS = st.sampled_from([{}, {"consumer.session.timeout.ms": "50000"}])
CREDENTIALS = st.sampled_from([None, ScramCredential(b"salt", 4096, b"stored", b"server")])
RECORDS = st.one_of(
    st.builds(TopicRecord, NAMES, IDS, COUNTS, CONFIGS),
    st.builds(TopicDeletedRecord, NAMES),
    st.builds(TopicPurgedRecord, NAMES),
    st.builds(LeaderRecord, NAMES, IDS, st.integers(0, 3), NODES, st.integers(0, 5)),
    st.builds(GroupConfigRecord, NAMES, GROUP_CONFIGS),
    st.builds(ClientMetricsRecord, NAMES, st.sampled_from([{}, {"interval.ms": "1000"}])),
    st.builds(BrokerConfigRecord, st.sampled_from(["", "1", "2"]), BROKER_CONFIGS),
    st.builds(ProducerIdsRecord, st.integers(1, 9).map(lambda number: number * 1000)),
    st.builds(ScramCredentialRecord, NAMES, st.sampled_from(ScramMechanism), CREDENTIALS),
)


def consistent(stored: Iterable[RegistryRecord]) -> list[RegistryRecord]:
    """As in real registries: a topic keeps its name, and no id is used twice."""
    names: dict[uuid.UUID, str] = {}
    deleted: set[uuid.UUID] = set()
    alive: dict[str, uuid.UUID] = {}
    kept: list[RegistryRecord] = []
    for record in stored:
        match record:
            case TopicRecord(name, id_):
                if id_ in deleted or names.setdefault(id_, name) != name:
                    continue
                if (before := alive.get(name)) not in (None, id_):
                    deleted.add(before)  # type: ignore[arg-type]
                alive[name] = id_
            case LeaderRecord(name, id_):
                if names.get(id_, name) != name:
                    continue
            case TopicDeletedRecord(name):
                if (before := alive.pop(name, None)) is not None:
                    deleted.add(before)
        kept.append(record)
    return kept


@given(st.lists(RECORDS, max_size=30).map(consistent))
def test_the_latest_records_yield_the_same_state_as_all_records(
    stored: list[RegistryRecord],
) -> None:
    all_, compacted = BrokerHarness(), BrokerHarness()
    all_.topics._replay(stored)
    short = latest_records(stored)
    compacted.topics._replay(short)
    assert known(compacted.topics) == known(all_.topics)
    assert latest_records(short) == short


def registry_bytes(broker: BrokerHarness) -> int:
    return sum(
        len(content) for path, content in broker.files.contents.items() if path.parent == REGISTRY
    )


def fill_with_obsolete_records(broker: BrokerHarness) -> None:
    """Many deleted topics, and some live records of each kind."""
    topics = broker.topics
    first = broker.create_topic("first", 2, retention_ms="1")
    left = broker.create_topic("left")
    topics.change(BrokerConfigRecord("", {"log.retention.ms": "9"}))
    topics.change(GroupConfigRecord("g", {"consumer.session.timeout.ms": "50000"}))
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
def test_a_registry_of_mostly_obsolete_records_is_rewritten_at_the_start(durability: Any) -> None:
    broker = BrokerHarness(durability=durability)
    fill_with_obsolete_records(broker)
    before, size, end_offset = known(broker.topics), registry_bytes(broker), end_of(broker)
    assert before["deleted"] == {"left"}
    broker = broker.restart(durability)
    assert registry_bytes(broker) < size / 20
    assert end_of(broker) >= end_offset, "offsets never go back"
    assert list(broker.files.list(REGISTRY)) == [f"{0:020}.log"]
    # A restart skips reserved producer ids that were not allocated.
    before["producer ids"] = 1_000
    assert known(broker.topics) == before
    broker.create_topic("more")
    assert [topic.name for topic in broker.restart(durability).topics] == ["first", "last", "more"]


def test_corruption_of_a_rewritten_registry_is_not_taken_for_a_torn_tail() -> None:
    broker = BrokerHarness()
    fill_with_obsolete_records(broker)
    broker = broker.restart()
    broker.files.contents[REGISTRY / f"{0:020}.log"][80] ^= 1
    with pytest.raises(CorruptRegistry):
        check_registry(DATA, broker.files)


def end_of(broker: BrokerHarness) -> int:
    return broker.topics._registry_log.end_offset


def test_a_registry_without_topics_is_not_rewritten_to_an_empty_log() -> None:
    """With an empty log, the next start would import the folders as those of a Kafka."""
    broker = BrokerHarness()
    for number in range(COMPACTION_RECORDS_MIN // 2):
        broker.topics.delete(broker.topics.create(f"churn-{number}", 1, {}))
    broker.run_loop()
    broker = broker.restart()
    stray = DATA / "stray-0"
    broker.files.make_folder(stray)
    broker.files.contents[stray / f"{0:020}.log"] = bytearray(batch(b"of an unknown topic"))
    assert list(broker.restart().topics) == []


def test_a_registry_without_obsolete_records_is_not_rewritten() -> None:
    broker = BrokerHarness()
    for number in range(COMPACTION_RECORDS_MIN):
        broker.topics.create(f"kept-{number}", 1, {})
    broker.run_loop()
    before = bytes(broker.files.contents[REGISTRY / f"{0:020}.log"])
    assert bytes(broker.restart().files.contents[REGISTRY / f"{0:020}.log"]) == before


@pytest.fixture(scope="module")
def long_registry() -> tuple[FaultyFiles, Mapping[str, Any]]:
    broker = BrokerHarness()
    fill_with_obsolete_records(broker)
    return broker.files, {**known(broker.topics), "producer ids": 1_000}


def test_a_crash_at_any_operation_of_a_rewrite_keeps_the_state(
    long_registry: tuple[FaultyFiles, Mapping[str, Any]],
) -> None:
    files, expected = long_registry
    disk = files.copy()
    BrokerHarness(files=disk)
    crash_points = range(len(files.operations), len(disk.operations))
    assert "rename" in [kind for kind, _ in disk.operations[crash_points.start :]]
    for operation in crash_points:
        disk = files.copy()
        disk.crash_at = operation
        with pytest.raises(Crashed):
            BrokerHarness(files=disk)
        disk.crash()
        disk.crash_at = None
        broker = BrokerHarness(files=disk)
        assert known(broker.topics) == expected, f"after a crash at operation {operation}"
        broker.create_topic("more")
        assert "more" in [topic.name for topic in broker.restart().topics]


@pytest.mark.parametrize("operation", ["append", "sync", "rename", "open", "truncate"])
def test_a_disk_failure_during_a_rewrite_keeps_the_state(
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
