"""The topic registry: changes, failed writes and crashes."""

import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest
from kohort.log.files import DiskFiles, delete_folder
from kohort.log.group_commit import BATCH_BYTES_MAX, Durability
from kohort.testing.faults.files import Crashed, FaultyFiles
from kohort.topics.names import OFFSETS_TOPIC
from kohort.topics.registry import RETRY_FAILED_MS, TopicRegistry
from kohort.topics.registry_log import (
    BrokerConfigRecord,
    GroupConfigRecord,
    UndecodableRegistryRecord,
)
from support.broker import DATA, BrokerHarness, batch

Known = Mapping[str, tuple[uuid.UUID, int, dict[str, str]]]


def known(topics: TopicRegistry) -> Known:
    return {t.name: (t.id, len(t.partitions), dict(t.overrides)) for t in topics}


def test_a_registry_with_an_undecodable_record_is_not_opened() -> None:
    broker = BrokerHarness()
    log = broker.topics._registry_log
    broker.group_commit.append(log, [(b"junk", b"junk")], broker.now_ms)
    broker.run_loop()
    with pytest.raises(UndecodableRegistryRecord, match=r"b'junk' is undecodable \(offset 1\)"):
        broker.restart()


def test_a_restart_restores_all_topics_and_configurations() -> None:
    broker = BrokerHarness()
    orders, gone = broker.create_topic("orders", 2), broker.create_topic("gone")
    broker.topics.add_partitions(orders, 5)
    broker.topics.configure(orders, {"retention.ms": "7"})
    broker.topics.change(BrokerConfigRecord("", {"log.retention.ms": "9"}))
    broker.topics.delete(gone)
    again = broker.restart().topics
    assert known(again) == known(broker.topics)
    assert list(known(again)) == ["orders"]
    assert again.configs.dynamic == {"": {"log.retention.ms": "9"}}


def test_a_topic_is_found_by_name_id_and_colliding_name() -> None:
    broker = BrokerHarness()
    topic = broker.create_topic("a.b")
    assert broker.topics.get("a.b") is broker.topics.by_id(topic.id) is topic
    assert broker.topics.colliding_topics("a_b") == ("a.b",)
    assert broker.topics.by_id(None) is None
    assert broker.topics.partition("a.b", 0) is topic.partitions[0]
    for index in (-1, 1):
        assert broker.topics.partition("a.b", index) is None
    broker.topics.delete(topic)
    assert broker.topics.get("a.b") is broker.topics.by_id(topic.id) is None
    assert broker.topics.colliding_topics("a_b") == ()


def test_the_version_that_groups_store_is_the_same_after_a_restart() -> None:
    broker = BrokerHarness()
    for name in ("orders", "gone", "kept"):
        topic = broker.create_topic(name)
        if name == "gone":
            broker.topics.delete(topic)
            broker.run_loop()
    assert broker.restart().topics.version == broker.topics.version


def test_ids_that_look_like_options_are_not_used() -> None:
    broker = BrokerHarness()
    option = uuid.UUID(bytes=b"\xf8" + bytes(15))
    good = uuid.UUID(int=5)
    ids = iter([option, good])
    broker.topics._new_id = lambda: next(ids)
    assert broker.topics.create("orders", 1, {}).id == good


def test_partitions_without_records_have_no_folder() -> None:
    broker = BrokerHarness()
    broker.create_topic("orders", 3)
    broker.produce("orders", batch(b"x"), 1)
    assert [name for name in broker.files.list(DATA) if name.startswith("orders")] == ["orders-1"]


def test_the_offsets_topic_is_created_once() -> None:
    broker = BrokerHarness(
        {"offsets.topic.num.partitions": "3", "offsets.topic.segment.bytes": "100"}
    )
    topic = broker.topics.ensure_coordinator_topic(OFFSETS_TOPIC)
    assert broker.topics.ensure_coordinator_topic(OFFSETS_TOPIC) is topic
    assert (len(topic.partitions), topic.is_internal) == (3, True)
    assert topic.partitions[0].settings.compacted
    assert topic.partitions[0].settings.segment_bytes == 1024 * 1024


@pytest.mark.parametrize("operation", ["append", "sync"])
@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_a_failed_write_is_undone_and_the_next_one_succeeds(
    operation: str, durability: str
) -> None:
    if (operation, durability) == ("sync", "os"):
        return  # durability `os` does not sync
    broker = BrokerHarness(durability=durability)  # type: ignore[arg-type]
    broker.create_topic("orders", 2, retention_ms="1")
    broker.produce("orders", batch(b"kept"))
    before = known(broker.topics)
    outcomes: list[OSError | None] = []
    broker.files.fail(operation)
    orders = broker.topics.get("orders")
    assert orders is not None
    broker.topics.add_partitions(orders, 9)
    broker.topics.configure(orders, {})
    broker.topics.change(BrokerConfigRecord("1", {"message.max.bytes": "5"}))
    broker.topics.change(GroupConfigRecord("g", {"consumer.session.timeout.ms": "50000"}))
    broker.topics.create("more", 1, {})
    broker.topics.delete(orders)
    broker.topics.on_durable(outcomes.append)
    broker.run_loop()
    assert [type(each) for each in outcomes] == [OSError]
    assert known(broker.topics) == before
    assert (broker.topics.configs.dynamic, broker.topics.configs.groups) == ({}, {})
    assert len(broker.fetch("orders").records) == len(batch(b"kept"))
    broker.create_topic("more")
    assert set(known(broker.topics)) == {"orders", "more"}
    assert known(broker.restart(durability).topics) == known(broker.topics)  # type: ignore[arg-type]


@pytest.mark.parametrize("operations", [("sync", "truncate"), ("sync", "open")])
def test_a_registry_that_cannot_be_recovered_is_recovered_by_the_next_change(
    operations: tuple[str, ...],
) -> None:
    broker = BrokerHarness()
    orders = broker.create_topic("orders", 2)
    before = known(broker.topics)
    for operation in operations:
        broker.files.fail(operation, times=1_000)
    broker.topics.create("more", 1, {})
    broker.topics.add_partitions(orders, 3)
    version = broker.topics.version
    broker.run_loop()
    assert known(broker.topics) == before, "records in new partitions would be lost"
    assert broker.topics.version != version, "cached requests would still find the topic"
    # The state may be ahead of the log, so nothing is reported as durable.
    outcomes: list[OSError | None] = []
    broker.topics.on_durable(outcomes.append)
    broker.files.heal()
    broker.topics.create("again", 1, {})
    broker.run_loop()
    assert known(broker.topics) == before
    broker.topics.on_durable(outcomes.append)
    assert [type(each) for each in outcomes] == [OSError, type(None)]
    broker.create_topic("recreated")
    restored = broker.topics.get("orders")
    assert restored is not None
    broker.topics.add_partitions(restored, 3)
    broker.run_loop()
    assert known(broker.restart().topics) == known(broker.topics)


def test_a_registry_that_cannot_be_recovered_is_recovered_by_requests_that_change_nothing() -> None:
    """A repeated request finds its change in memory, and waits for it to become durable."""
    broker = BrokerHarness()
    orders = broker.create_topic("orders")
    before = known(broker.topics)
    broker.files.fail("sync", times=1_000)
    broker.topics.configure(orders, {"retention.ms": "7"})
    broker.run_loop()
    broker.files.heal()
    outcomes: list[OSError | None] = []
    broker.topics.on_durable(outcomes.append)
    assert known(broker.topics) != before  # another attempt would be too early
    broker.advance(RETRY_FAILED_MS)
    broker.topics.on_durable(outcomes.append)
    assert [isinstance(each, OSError) for each in outcomes] == [True, True]
    assert known(broker.topics) == before
    broker.topics.on_durable(outcomes.append)
    broker.create_topic("more")
    assert outcomes[2:] == [None]
    assert known(broker.restart().topics) == known(broker.topics)


def test_a_leader_epoch_whose_record_was_lost_is_not_used_again() -> None:
    broker = BrokerHarness()
    broker.create_topic("orders")
    partition = broker.topics.partition("orders", 0)
    assert partition is not None
    partition.configure(partition.settings, 1, 5)  # as if the leader record had been lost
    broker.produce("orders", batch(b"written"))
    partition = broker.restart().topics.partition("orders", 0)
    assert partition is not None
    assert partition.log.end_offset == 1
    assert partition.leader_epoch == 6


@pytest.mark.parametrize("operation", ["append", "sync"])
def test_failed_changes_keep_the_partitions_and_their_open_logs(operation: str) -> None:
    """Two open logs would corrupt the same file."""
    broker = BrokerHarness()
    orders = broker.create_topic("orders", 2)
    broker.produce("orders", batch(b"kept"))
    before = [(id(partition), partition.opened_log) for partition in orders.partitions]
    broker.files.fail(operation)
    broker.topics.add_partitions(orders, 3)
    broker.topics.configure(orders, {})
    broker.topics.delete(orders)
    broker.run_loop()
    after = broker.topics.get("orders")
    assert after is not None
    assert [(id(partition), partition.opened_log) for partition in after.partitions] == before
    assert broker.produce("orders", batch(b"more")).base_offset == 1


def test_records_left_by_an_interrupted_deletion_are_not_in_a_new_topic() -> None:
    broker = BrokerHarness()
    orders = broker.create_topic("orders")
    broker.produce("orders", batch(b"old"))
    broker.files.fail("rename")
    broker.topics.delete(orders)
    broker.run_loop()
    assert broker.files.exists(DATA / "orders-0")
    assert broker.topics.deleted_names == {"orders"}
    orders = broker.create_topic("orders")
    assert broker.fetch("orders").high_watermark == 0
    broker.topics.delete(orders)
    broker.run_loop()
    assert broker.topics.deleted_names == set(), "no folder is left"


def test_a_folder_of_an_unknown_topic_is_renamed_and_kept() -> None:
    broker = BrokerHarness()
    orders, existing = DATA / "orders-1", DATA / f"orders-1.{0:032x}-stray"
    for folder in (orders, existing):
        broker.files.make_folder(folder)
    broker.files.contents[orders / "0.log"] = bytearray(b"precious")
    broker.create_topic("orders", 2)
    assert not broker.files.exists(orders)
    assert broker.files.read_bytes(DATA / f"orders-1.{1:032x}-stray" / "0.log") == b"precious"


def test_an_added_partition_does_not_use_an_existing_folder() -> None:
    broker = BrokerHarness()
    orders = broker.create_topic("orders")
    broker.files.make_folder(DATA / "orders-1")
    broker.topics.add_partitions(orders, 2)
    assert broker.files.exists(DATA / f"orders-1.{0:032x}-stray")


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_registry_that_has_lost_its_tail_removes_no_folder(is_kept: bool) -> None:
    """The registry's last record is the deletion of a topic that was recreated since."""
    broker = BrokerHarness()
    broker.topics.has_leftovers = lambda _name: is_kept
    broker.topics.delete(broker.create_topic("orders"))
    broker.run_loop()
    broker.create_topic("orders")
    broker.produce("orders", batch(b"precious"))
    broker.files.contents[DATA / "__kohort_topics-0" / f"{0:020}.log"][-1] ^= 1
    again = broker.restart()
    assert again.topics.get("orders") is None
    again.create_topic("orders")
    assert again.files.exists(DATA / f"orders-0.{0:032x}-stray")


def test_a_topic_with_the_longest_name_can_be_deleted_on_a_real_disk(tmp_path: Path) -> None:
    """The folder name is too long for the suffix of deleted folders."""
    folder = tmp_path / f"{'t' * 249}-0"
    folder.mkdir()
    delete_folder(folder, DiskFiles())
    assert not list(tmp_path.iterdir())


def change_everything(broker: BrokerHarness, acknowledged: list[str]) -> None:
    """Make changes of every kind; append each to `acknowledged` once it is durable."""
    topics = broker.topics

    def wait_for(change: str) -> None:
        topics.on_durable(lambda error: acknowledged.append(change) if error is None else None)
        broker.run_loop()

    orders = topics.create("orders", 2, {})
    wait_for("orders")
    broker.produce("orders", batch(b"x"))
    topics.add_partitions(orders, 3)
    wait_for("partitions added")
    topics.create("more", 1, {"retention.ms": "1"})
    wait_for("more")
    topics.delete(orders)
    wait_for("deleted")
    topics.create("orders", 1, {})
    wait_for("recreated")


def test_after_a_crash_at_any_operation_every_acknowledged_change_is_kept() -> None:
    files = FaultyFiles()
    change_everything(BrokerHarness(files=files), [])
    operations = len(files.operations)
    assert operations > 20
    for operation in range(operations):
        files = FaultyFiles()
        broker = BrokerHarness(files=files)
        acknowledged: list[str] = []
        files.crash_at = operation + files.count
        try:
            change_everything(broker, acknowledged)
        except Crashed:
            files.crash()
        files.crash_at = None
        after = known(BrokerHarness(files=files).topics)
        check_after_crash(acknowledged, after)


def check_after_crash(acknowledged: list[str], after: Known) -> None:
    if "more" in acknowledged:
        assert after["more"][1:] == (1, {"retention.ms": "1"})
    if "recreated" in acknowledged:
        assert after["orders"][1] == 1
    elif "deleted" in acknowledged:
        assert "orders" not in after or after["orders"][1] == 1
    elif "partitions added" in acknowledged:
        assert "orders" not in after or after["orders"][1] in (3, 1)
    elif "orders" in acknowledged:
        assert after["orders"][1] in (2, 3)


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_changes_in_several_batches_are_all_undone_if_the_last_cannot_be_written(
    durability: Durability,
) -> None:
    """The first batch is completely written, then the disk fails the second and the truncation."""
    broker = BrokerHarness(durability=durability)
    broker.create_topic("orders")
    broker.topics.create("first", 1, {})
    broker.topics.change(BrokerConfigRecord("another", {"some.key": "x" * 7 * BATCH_BYTES_MAX}))
    broker.topics.create("second", 1, {})
    broker.files.fail("append", after=1)
    broker.files.fail("truncate", times=2)
    broker.run_loop()
    broker.files.heal()
    broker.topics.create("again", 1, {})
    broker.run_loop()
    assert {topic.name for topic in broker.topics} <= {"orders", "again"}
    stored = {topic.name for topic in broker.restart(durability).topics}
    assert stored == {topic.name for topic in broker.topics} >= {"orders"}
