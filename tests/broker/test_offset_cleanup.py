"""Deleted topics take their offsets along, whatever fails or crashes on the way: what shows up
under a topic's name was committed for that topic."""

from collections.abc import Callable
from itertools import pairwise
from uuid import UUID

import pytest
from kohort.broker.context import CoordinatorState
from kohort.broker.runtime import RETRY_FAILED_MS
from kohort.coordinator.commands import OffsetFetch
from kohort.coordinator.offsets import SLICE_TOMBSTONES
from kohort.offsets.records import OffsetTombstone
from kohort.offsets.table import OffsetsTable
from kohort.protocol.errors import ErrorCode
from kohort.testing.faulty_files import Crashed, FaultyFiles
from kohort.topics.topic_deletion import SLICE_PARTITIONS
from support.broker import batch
from support.coordinator import offset_commit
from support.deleted_topics import DATA, Life
from support.runtime import World


def test_tombstones_that_could_not_be_written_are_written_before_anyone_is_answered() -> None:
    life = Life(FaultyFiles())
    life.make()
    life.commit("c", 1)
    life.turn()
    gone: list[OSError | None] = []
    life.delete(gone.append)
    # The first append is that of the deletion itself.
    life.files.fail("append", after=1)
    life.turn()
    assert gone == [None]
    life.make()
    assert life.fetched() == -1
    again = World("fsync", life.files)
    assert again.fetched() == -1, "the log says so too"


def test_a_disk_that_takes_no_tombstones_costs_the_partition_and_no_name() -> None:
    life = Life(FaultyFiles())
    life.make()
    life.commit("c", 1)
    life.turn()
    life.files.fail("append", after=1, times=1_000)
    gone: list[OSError | None] = []
    life.delete(gone.append)
    life.turn()  # It does not try for ever.
    assert gone == [None]
    assert life.shard.state is CoordinatorState.FAILED
    life.ask("refused", OffsetFetch("g", (("t", (0,)),), False, None, -1))
    assert life.answers["refused"].error is ErrorCode.not_coordinator
    life.files.heal()
    life.make()
    life.timers.advance(RETRY_FAILED_MS)
    life.ask("early", OffsetFetch("g", (("t", (0,)),), False, None, -1))
    assert life.answers["early"].error is ErrorCode.coordinator_load_in_progress
    life.turn()
    assert life.fetched() == -1


def test_a_name_is_not_free_while_its_offsets_are_being_forgotten() -> None:
    life = Life(FaultyFiles())
    life.make()
    life.commit_many(3 * SLICE_TOMBSTONES)
    gone: list[OSError | None] = []
    life.delete(gone.append)
    left = []
    while life.topics.is_being_deleted("t"):
        assert not gone
        life.step()
        left.append(len(life.shard.offsets))
        # Whoever asks is served between two slices.
        life.commit(f"between {len(left)}", 1, group_id=f"g{len(left)}")
    assert gone == [None]
    assert len(left) > 3
    assert all(before - after <= SLICE_TOMBSTONES for before, after in pairwise(left))
    assert not life.shard.offsets.has_group("many")


def test_a_topic_that_is_deleted_while_another_is_forgotten_is_forgotten_too() -> None:
    life = Life(FaultyFiles())
    life.make()
    life.make("u")
    life.commit_many(2 * SLICE_TOMBSTONES)
    life.ask("u", offset_commit("g", [("u", 0, 1)]))
    life.turn()
    gone: list[str] = []
    life.delete(lambda error: gone.append("t") if error is None else None)
    while life.shard.cleanup is None:
        life.step()
    life.delete(lambda error: gone.append("u") if error is None else None, "u")
    life.turn()
    assert gone == ["t", "u"]
    assert len(life.shard.offsets) == 0


def test_partitions_are_removed_a_few_in_a_turn() -> None:
    life = Life(FaultyFiles())
    topic = life.make(partitions=3 * SLICE_PARTITIONS)
    for partition in topic.partitions:
        partition.log.append(batch(b"so it has a folder"))
    gone: list[OSError | None] = []
    life.delete(gone.append)
    removed = 0
    while life.topics.is_being_deleted("t"):
        life.step()
        now_removed = [each[0] for each in life.files.operations].count("remove_folder")
        assert now_removed - removed <= SLICE_PARTITIONS
        removed = now_removed
    assert (removed, gone) == (3 * SLICE_PARTITIONS, [None])


def test_folders_that_the_end_of_a_broker_left_are_removed_by_the_next() -> None:
    life = Life(FaultyFiles())
    topic = life.make(partitions=2)
    kept = life.make("t-1")
    for partition in (*topic.partitions, *kept.partitions):
        partition.log.append(batch(b"so it has a folder"))
    life.delete(lambda _error: None)
    life.files.fail("rename", times=2)
    life.turn()
    assert life.files.exists(DATA / "t-0")
    Life(life.files)
    left = [name for name in life.files.list(DATA) if name.startswith("t-")]
    assert left == ["t-1-0"]


# --- crashes


def story(life: Life, told: list[str]) -> None:
    """`told` grows when a client would have been answered."""

    def tell(what: str) -> Callable[[OSError | None], None]:
        return lambda error: told.append(what) if error is None else None

    def commit(offset: int) -> None:
        life.commit(f"commit {offset}", offset)
        life.turn()
        if life.answers[f"commit {offset}"].errors == (ErrorCode.none,):
            told.append(f"commit {offset}")

    life.make()
    commit(1)
    life.delete(tell("gone"))
    life.turn()
    life.make()
    commit(2)


@pytest.mark.parametrize("is_loaded_first", [True, False], ids=["loaded first", "created first"])
def test_after_a_crash_at_any_moment_no_topic_shows_the_offsets_of_another(
    is_loaded_first: bool,
) -> None:
    files = FaultyFiles()
    life = Life(files)
    moments = len(files.operations)
    told: list[str] = []
    story(life, told)
    assert told == ["commit 1", "gone", "commit 2"]
    seen = set()
    for moment in range(moments, len(files.operations)):
        seen.add(crash_at(moment, is_loaded_first=is_loaded_first))
    assert seen == {"none yet", "first", "deleted", "second"}


def crash_at(moment: int, *, is_loaded_first: bool) -> str:
    """Which topic there is afterwards."""
    files = FaultyFiles()
    life = Life(files)
    # Not drawn: one that no topic is given (its text would begin with "-") would be passed over.
    first_id, second_id = UUID(int=7), UUID(int=8)
    life.topics._new_id = iter((first_id, second_id)).__next__
    told: list[str] = []
    files.crash_at = moment
    with pytest.raises(Crashed):
        story(life, told)
    files.crash()
    life = Life(files)
    topic = life.topics.get("t")
    if is_loaded_first:
        life.runtime.load([0])
        life.turn()
    if topic is None:
        life.make()
        life.runtime.load([0])
        life.turn()
        assert life.fetched() == -1
        return "deleted" if "commit 1" in told else "none yet"
    life.runtime.load([0])
    life.turn()
    offset = life.fetched()
    if topic.id == first_id:
        assert "gone" not in told
        assert offset == 1 or "commit 1" not in told
        return "first"
    assert offset == 2 or (offset == -1 and "commit 2" not in told)
    assert World("fsync", files).fetched() == offset
    return "second"


def test_what_was_deleted_before_is_written_down_as_forgotten_at_the_next_start() -> None:
    life = Life(FaultyFiles())
    life.make()
    life.commit("c", 1)
    life.turn()
    # As if it had died between the deletion and the tombstones.
    life.topics.on_deleted = lambda _name, _gone: None
    life.delete(lambda _error: None)
    life.turn()
    life = Life(life.files)
    life.runtime.load([0])
    life.turn()
    kinds = [
        type(record)
        for records in life.runtime._store.load(life.shard.log, OffsetsTable())[1]
        for record in records
    ]
    assert kinds[-1] is OffsetTombstone
    written = len(kinds)
    life = Life(life.files)
    life.runtime.load([0])
    life.turn()
    assert sum(map(len, life.runtime._store.load(life.shard.log, OffsetsTable())[1])) == written, (
        "once is enough"
    )
