"""Offsets of deleted topics are deleted despite failures and crashes, because the offsets under a
topic's name belong to that topic. The name is kept until all offsets are deleted."""

from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from kohort.broker.cluster import Cluster
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.runtime.context import CoordinatorState
from kohort.broker.runtime.runtime import RETRY_FAILED_MS
from kohort.coordinator.offset_cleanup import SLICE_TOMBSTONES
from kohort.offsets.records import OffsetTombstone
from kohort.offsets.table import OffsetsTable
from kohort.protocol.errors import ErrorCode
from kohort.testing.faults.files import Crashed, FaultyFiles
from kohort.topics.configs.effective import Configs
from kohort.topics.names import OFFSETS_TOPIC
from kohort.topics.registry import TopicRegistry
from kohort.topics.topic import Nodes, Topic
from kohort.topics.topic_deletion import SLICE_PARTITIONS
from support.broker import batch
from support.coordinator import offset_commit
from support.runtime import DATA, RuntimeHarness


class RuntimeWithTopics(RuntimeHarness):
    """A runtime whose topics can be created and deleted."""

    def __init__(self, files: FaultyFiles | None = None) -> None:
        super().__init__("fsync", files)
        if not self.files.exists(DATA):
            self.files.make_folder(DATA)
        self.topics = TopicRegistry(
            folder=DATA,
            files=self.files,
            group_commit=self.group_commit,
            configs=Configs(BrokerConfig({"offsets.topic.num.partitions": "1"}), 1),
            nodes=Nodes([1]),
            new_id=uuid4,
            now_ms=self.clock.now_ms,
            call_soon=self.scheduler.call,
        )
        cluster = Cluster("a cluster", self.topics, self.scheduler)
        for name in self.topics.deleted_names:
            self.deleted_topics.add(name)
        cluster.deleted_topics = self.deleted_topics
        node: Any = SimpleNamespace(coordinators=self.runtime, timers=self.timers)
        cluster.nodes[1] = node
        self.topics.on_deleted = cluster.topic_deleted
        self.runtime.on_cleaned_up = cluster.check_cleaned_up
        self.topics.ensure_coordinator_topic(OFFSETS_TOPIC)
        self.run_loop()

    def create_topic(self, name: str = "t", partitions: int = 1) -> Topic:
        topic = self.topics.create(name, partitions, {})
        self.run_loop()
        return topic

    def delete_topic(
        self, name: str = "t", on_deleted: Callable[[OSError | None], None] = lambda _error: None
    ) -> None:
        topic = self.topics.get(name)
        assert topic is not None
        self.topics.delete(topic, on_deleted)

    def commit_many(self, count: int) -> None:
        """Commit offsets of this number of partitions in the group `many`."""
        self.submit("many", offset_commit("many", [("t", n, 1) for n in range(count)]))
        self.run_loop()

    def run_step(self) -> None:
        """Run the next slice or callback."""
        if self.slices:
            self.run_slice()
        else:
            self.due.pop(0)()


def with_a_commit() -> RuntimeWithTopics:
    harness = RuntimeWithTopics()
    harness.create_topic()
    harness.commit_and_run(1)
    return harness


def test_failed_tombstones_are_written_before_the_name_is_reused() -> None:
    harness = with_a_commit()
    deleted: list[OSError | None] = []
    harness.delete_topic(on_deleted=deleted.append)
    # The first append is the deletion itself.
    harness.files.fail("append", after=1)
    harness.run_loop()
    assert deleted == [None]
    harness.create_topic()
    assert harness.committed_offset() == -1
    assert RuntimeHarness("fsync", harness.files).committed_offset() == -1


def test_the_partition_fails_if_its_tombstones_cannot_be_written() -> None:
    harness = with_a_commit()
    harness.files.fail("append", after=1, times=1_000)
    deleted: list[OSError | None] = []
    harness.delete_topic(on_deleted=deleted.append)
    harness.run_loop()  # returns, because the deletion is not retried forever
    assert deleted == [None]
    assert harness.context.state is CoordinatorState.FAILED
    harness.fetch("rejected")
    assert harness.results["rejected"].error_code is ErrorCode.not_coordinator
    harness.files.heal()
    harness.create_topic()
    harness.timers.advance(RETRY_FAILED_MS)
    harness.fetch("early")
    assert harness.results["early"].error_code is ErrorCode.coordinator_load_in_progress
    harness.run_loop()
    assert harness.committed_offset() == -1


def test_the_name_is_reserved_while_offsets_are_deleted_in_slices() -> None:
    harness = RuntimeWithTopics()
    harness.create_topic()
    harness.commit_many(3 * SLICE_TOMBSTONES)
    deleted: list[OSError | None] = []
    harness.delete_topic(on_deleted=deleted.append)
    left = []
    while harness.topics.is_being_deleted("t"):
        assert not deleted
        harness.run_step()
        left.append(len(harness.context.offsets))
        # Requests are served between two slices.
        harness.commit(f"between {len(left)}", 1, group_id=f"g{len(left)}")
    assert deleted == [None]
    assert len(left) > 3
    assert all(before - after <= SLICE_TOMBSTONES for before, after in pairwise(left))
    assert not harness.context.offsets.has_group("many")


def test_a_topic_deleted_during_the_cleanup_of_another_is_cleaned_up_too() -> None:
    harness = RuntimeWithTopics()
    harness.create_topic()
    harness.create_topic("u")
    harness.commit_many(2 * SLICE_TOMBSTONES)
    harness.submit("u", offset_commit("g", [("u", 0, 1)]))
    harness.run_loop()
    deleted: list[str] = []
    harness.delete_topic("t", lambda error: deleted.append("t") if error is None else None)
    while harness.context.cleanup is None:
        harness.run_step()
    harness.delete_topic("u", lambda error: deleted.append("u") if error is None else None)
    harness.run_loop()
    assert deleted == ["t", "u"]
    assert len(harness.context.offsets) == 0


def test_partition_folders_are_removed_in_slices() -> None:
    harness = RuntimeWithTopics()
    topic = harness.create_topic(partitions=3 * SLICE_PARTITIONS)
    for partition in topic.partitions:
        partition.log.append(batch(b"creates the folder"))
    deleted: list[OSError | None] = []
    harness.delete_topic(on_deleted=deleted.append)
    removed = 0
    while harness.topics.is_being_deleted("t"):
        harness.run_step()
        now_removed = [each[0] for each in harness.files.operations].count("remove_folder")
        assert now_removed - removed <= SLICE_PARTITIONS
        removed = now_removed
    assert (removed, deleted) == (3 * SLICE_PARTITIONS, [None])


def test_folders_left_by_a_stopped_broker_are_removed_at_the_next_start() -> None:
    harness = RuntimeWithTopics()
    topic = harness.create_topic(partitions=2)
    kept = harness.create_topic("t-1")
    for partition in (*topic.partitions, *kept.partitions):
        partition.log.append(batch(b"creates the folder"))
    harness.delete_topic()
    harness.files.fail("rename", times=2)
    harness.run_loop()
    assert harness.files.exists(DATA / "t-0")
    RuntimeWithTopics(harness.files)
    left = [name for name in harness.files.list(DATA) if name.startswith("t-")]
    assert left == ["t-1-0"]


# --- crashes


def create_delete_create(harness: RuntimeWithTopics, acknowledged: list[str]) -> None:
    """Create, delete and create a topic. Steps with a response are added to `acknowledged`."""

    def acknowledge(step: str) -> Callable[[OSError | None], None]:
        return lambda error: acknowledged.append(step) if error is None else None

    def commit(offset: int) -> None:
        if harness.commit_and_run(offset) is ErrorCode.none:
            acknowledged.append(f"commit {offset}")

    harness.create_topic()
    commit(1)
    harness.delete_topic(on_deleted=acknowledge("deleted"))
    harness.run_loop()
    harness.create_topic()
    commit(2)


@pytest.mark.parametrize("loaded_first", [True, False], ids=["loaded first", "created first"])
def test_a_topic_never_has_the_offsets_of_another_after_a_crash(loaded_first: bool) -> None:
    files = FaultyFiles()
    harness = RuntimeWithTopics(files)
    first_operation = len(files.operations)
    acknowledged: list[str] = []
    create_delete_create(harness, acknowledged)
    assert acknowledged == ["commit 1", "deleted", "commit 2"]
    states = {
        topic_after_crash(operation, loaded_first=loaded_first)
        for operation in range(first_operation, len(files.operations))
    }
    assert states == {"none yet", "first", "deleted", "second"}


def topic_after_crash(operation: int, *, loaded_first: bool) -> str:
    """Return which topic exists after a crash at this disk operation."""
    files = FaultyFiles()
    harness = RuntimeWithTopics(files)
    # The ids are fixed, because a random id whose text begins with "-" would be skipped.
    first_id, second_id = UUID(int=7), UUID(int=8)
    harness.topics._new_id = iter((first_id, second_id)).__next__
    acknowledged: list[str] = []
    files.crash_at = operation
    with pytest.raises(Crashed):
        create_delete_create(harness, acknowledged)
    files.crash()
    harness = RuntimeWithTopics(files)
    topic = harness.topics.get("t")
    if loaded_first:
        harness.runtime.load([0])
        harness.run_loop()
    if topic is None:
        harness.create_topic()
    harness.runtime.load([0])
    harness.run_loop()
    offset = harness.committed_offset()
    if topic is None:
        assert offset == -1
        return "deleted" if "commit 1" in acknowledged else "none yet"
    if topic.id == first_id:
        assert "deleted" not in acknowledged
        assert offset == 1 or "commit 1" not in acknowledged
        return "first"
    assert offset == 2 or (offset == -1 and "commit 2" not in acknowledged)
    assert RuntimeHarness("fsync", files).committed_offset() == offset
    return "second"


def test_missing_tombstones_are_written_once_at_the_next_start() -> None:
    harness = with_a_commit()
    # This simulates a crash between the deletion and the tombstones.
    harness.topics.on_deleted = lambda _name, _done: None
    harness.delete_topic()
    harness.run_loop()

    def records_after_a_start() -> list[object]:
        harness = RuntimeWithTopics(files)
        harness.runtime.load([0])
        harness.run_loop()
        _, batches = harness.runtime._store.load(harness.context.log, OffsetsTable())
        return [record for records in batches for record in records]

    files = harness.files
    records = records_after_a_start()
    assert type(records[-1]) is OffsetTombstone
    assert len(records_after_a_start()) == len(records)


# --- the names of deleted topics


def check_name_is_released_at_the_next_start(files: FaultyFiles) -> None:
    harness = RuntimeWithTopics(files)
    assert harness.topics.deleted_names == {"t"}
    harness.runtime.load([0])
    harness.run_loop()
    assert harness.topics.deleted_names == set()
    harness.create_topic()
    assert harness.committed_offset() == -1
    assert RuntimeWithTopics(files).topics.deleted_names == set()


def test_no_name_is_kept_once_nothing_of_the_topic_is_left() -> None:
    harness = RuntimeWithTopics()
    for number in range(20):
        harness.create_topic()
        harness.commit_and_run(number)
        harness.delete_topic()
        harness.run_loop()
    assert (harness.topics.deleted_names, harness.deleted_topics._names) == (set(), [])
    assert len(harness.deleted_topics) == 20
    assert RuntimeWithTopics(harness.files).topics.deleted_names == set()


def test_a_name_is_kept_while_a_failed_partition_may_have_offsets() -> None:
    harness = with_a_commit()
    harness.files.fail("append", after=1, times=1_000)
    harness.delete_topic()
    harness.run_loop()
    assert harness.context.state is CoordinatorState.FAILED
    assert "t" in harness.topics.deleted_names
    harness.files.heal()
    check_name_is_released_at_the_next_start(harness.files)


def test_a_name_is_kept_while_an_unloaded_partition_may_have_offsets() -> None:
    harness = RuntimeWithTopics(with_a_commit().files)
    harness.delete_topic()
    harness.run_loop()
    assert "t" in harness.topics.deleted_names
    check_name_is_released_at_the_next_start(harness.files)


def test_a_name_is_kept_while_its_folder_cannot_be_removed() -> None:
    harness = RuntimeWithTopics()
    harness.create_topic().partitions[0].log.append(batch(b"creates the folder"))
    harness.files.fail("rename")
    harness.delete_topic()
    harness.run_loop()
    assert harness.topics.deleted_names == {"t"}
    harness = RuntimeWithTopics(harness.files)
    assert not harness.files.exists(DATA / "t-0")
    harness.create_topic("u")
    harness.delete_topic("u")
    harness.run_loop()
    assert harness.topics.deleted_names == set()
