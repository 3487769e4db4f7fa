"""The name of a deleted topic is kept as long as anything may be left of it, and no longer."""

from kohort.broker.context import CoordinatorState
from kohort.testing.faulty_files import FaultyFiles
from support.broker import batch
from support.deleted_topics import DATA, Life


def test_of_topics_of_which_nothing_is_left_no_name_is_kept() -> None:
    life = Life(FaultyFiles())
    for number in range(20):
        life.make()
        life.commit(f"c {number}", number)
        life.turn()
        life.delete(lambda _error: None)
        life.turn()
    assert (life.topics.deleted_names, life.deleted_topics._names) == (set(), [])
    assert len(life.deleted_topics) == 20
    assert Life(life.files).topics.deleted_names == set()


def test_a_name_is_kept_while_a_partition_that_cannot_be_read_may_have_its_offsets() -> None:
    life = Life(FaultyFiles())
    life.make()
    life.commit("c", 1)
    life.turn()
    life.files.fail("append", after=1, times=1_000)
    life.delete(lambda _error: None)
    life.turn()
    assert life.shard.state is CoordinatorState.FAILED
    assert "t" in life.topics.deleted_names
    life.files.heal()
    check_is_forgotten_by_the_next(life)


def test_a_name_is_kept_while_nobody_has_read_a_partition_that_may_have_its_offsets() -> None:
    life = Life(FaultyFiles())
    life.make()
    life.commit("c", 1)
    life.turn()
    life = Life(life.files)
    life.delete(lambda _error: None)
    life.turn()
    assert "t" in life.topics.deleted_names
    check_is_forgotten_by_the_next(life)


def check_is_forgotten_by_the_next(life: Life) -> None:
    life = Life(life.files)
    assert life.topics.deleted_names == {"t"}
    life.runtime.load([0])
    life.turn()
    assert life.topics.deleted_names == set()
    life.make()
    assert life.fetched() == -1
    assert Life(life.files).topics.deleted_names == set()


def test_a_name_is_kept_while_its_folder_cannot_be_removed() -> None:
    life = Life(FaultyFiles())
    life.make().partitions[0].log.append(batch(b"so it has a folder"))
    life.files.fail("rename")
    life.delete(lambda _error: None)
    life.turn()
    assert life.topics.deleted_names == {"t"}
    life = Life(life.files)
    assert not life.files.exists(DATA / "t-0")
    life.make("u")
    life.delete(lambda _error: None, "u")
    life.turn()
    assert life.topics.deleted_names == set()
