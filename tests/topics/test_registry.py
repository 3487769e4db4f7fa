"""The registry of topics: durable before anyone is told, the same after every crash."""

import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest
from kohort.log.files import DiskFiles, delete_folder
from kohort.testing.faulty_files import Crashed, FaultyFiles
from kohort.topics.registry import Topics
from kohort.topics.registry_log import UndecodableRegistryRecord
from support.broker import FOLDER, World, batch

Known = Mapping[str, tuple[uuid.UUID, int, dict[str, str]]]


def known(topics: Topics) -> Known:
    return {t.name: (t.id, len(t.partitions), dict(t.overrides)) for t in topics}


def test_a_log_with_such_a_record_is_not_opened() -> None:
    world = World()
    log = world.topics._registry_log
    world.group_commit.append(log, [(b"junk", b"junk")], world.now_ms)
    world.turn()
    with pytest.raises(UndecodableRegistryRecord, match=r"b'junk' is undecodable \(offset 0\)"):
        world.restarted()


# --- living


def test_what_is_known_is_what_the_log_says() -> None:
    world = World()
    orders, gone = world.make("orders", 2), world.make("gone")
    world.topics.add_partitions(orders, 5)
    world.topics.configure(orders, {"retention.ms": "7"})
    world.topics.configure_broker("", {"log.retention.ms": "9"})
    world.topics.delete(gone)
    again = world.restarted().topics
    assert known(again) == known(world.topics)
    assert list(known(again)) == ["orders"]
    assert again.configs.dynamic == {"": {"log.retention.ms": "9"}}


def test_a_topic_is_found_by_name_id_and_near_name() -> None:
    world = World()
    topic = world.make("a.b")
    assert world.topics.get("a.b") is world.topics.by_id(topic.id) is topic
    assert world.topics.colliding_topic("a_b") == "a.b"
    assert world.topics.by_id(None) is None
    assert world.topics.partition("a.b", 0) is topic.partitions[0]
    for index in (-1, 1):
        assert world.topics.partition("a.b", index) is None
    world.topics.delete(topic)
    assert world.topics.get("a.b") is world.topics.by_id(topic.id) is None
    assert world.topics.colliding_topic("a_b") is None


def test_ids_that_look_like_flags_are_not_given() -> None:
    world = World()
    flag = uuid.UUID(bytes=b"\xf8" + bytes(15))
    good = uuid.UUID(int=5)
    ids = iter([flag, good])
    world.topics._new_id = lambda: next(ids)
    assert world.topics.create("orders", 1, {}).id == good


def test_partitions_nobody_wrote_to_have_no_folder() -> None:
    world = World()
    world.make("orders", 3)
    world.produce("orders", batch(b"x"), 1)
    assert [name for name in world.files.list(FOLDER) if name.startswith("orders")] == ["orders-1"]


def test_the_offsets_topic_is_made_once() -> None:
    world = World({"offsets.topic.num.partitions": "3", "offsets.topic.segment.bytes": "100"})
    topic = world.topics.ensure_offsets_topic()
    assert world.topics.ensure_offsets_topic() is topic
    assert (len(topic.partitions), topic.is_internal) == (3, True)
    assert topic.partitions[0].settings.compacted
    assert topic.partitions[0].settings.segment_bytes == 1024 * 1024


@pytest.mark.parametrize("operation", ["append", "sync"])
@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_a_failed_write_is_undone_and_the_next_one_succeeds(
    operation: str, durability: str
) -> None:
    if (operation, durability) == ("sync", "os"):
        return  # nothing is synced there
    world = World(durability=durability)  # type: ignore[arg-type]
    world.make("orders", 2, retention_ms="1")
    world.produce("orders", batch(b"kept"))
    before = known(world.topics)
    outcomes: list[OSError | None] = []
    world.files.fail(operation)
    orders = world.topics.get("orders")
    assert orders is not None
    world.topics.add_partitions(orders, 9)
    world.topics.configure(orders, {})
    world.topics.configure_broker("1", {"message.max.bytes": "5"})
    world.topics.create("more", 1, {})
    world.topics.delete(orders)
    world.topics.on_durable(outcomes.append)
    world.turn()
    assert [type(each) for each in outcomes] == [OSError]
    assert known(world.topics) == before
    assert world.topics.configs.dynamic == {}
    assert len(world.fetch("orders").records) == len(batch(b"kept"))
    world.make("more")
    assert set(known(world.topics)) == {"orders", "more"}
    assert known(world.restarted(durability).topics) == known(world.topics)  # type: ignore[arg-type]


@pytest.mark.parametrize("operations", [("sync", "truncate"), ("sync", "open")])
def test_a_log_that_cannot_be_read_back_leaves_what_is_known_and_the_next_change_tries_again(
    operations: tuple[str, ...],
) -> None:
    world = World()
    world.make("orders", 2)
    before = known(world.topics)
    for operation in operations:
        world.files.fail(operation, times=1_000)
    world.topics.create("more", 1, {})
    world.turn()
    assert known(world.topics).keys() >= before.keys()
    # What is known may be ahead of the log, so nobody is told that it is durable.
    outcomes: list[OSError | None] = []
    world.topics.on_durable(outcomes.append)
    world.files.heal()
    world.topics.create("again", 1, {})
    world.turn()
    assert known(world.topics) == before
    world.topics.on_durable(outcomes.append)
    assert [type(each) for each in outcomes] == [OSError, type(None)]
    world.make("again")
    assert known(world.restarted().topics) == known(world.topics)


def test_a_topic_whose_deletion_fails_keeps_its_partitions_and_their_open_logs() -> None:
    world = World()
    world.make("orders", 2)
    world.produce("orders", batch(b"kept"))
    orders = world.topics.get("orders")
    assert orders is not None
    world.files.fail("sync")
    world.topics.configure(orders, {})
    world.topics.delete(orders)
    world.turn()
    after = world.topics.get("orders")
    assert after is not None
    assert list(map(id, after.partitions)) == list(map(id, orders.partitions))
    assert world.produce("orders", batch(b"more")).base_offset == 1


def test_an_epoch_that_a_crash_took_back_is_not_given_again() -> None:
    world = World()
    world.make("orders")
    partition = world.topics.partition("orders", 0)
    assert partition is not None
    partition.configure(partition.settings, 1, 5)  # and the record of it is lost
    world.produce("orders", batch(b"written"))
    partition = world.restarted().topics.partition("orders", 0)
    assert partition is not None
    assert partition.log.end_offset == 1
    assert partition.leader_epoch == 6


def test_partitions_and_their_open_logs_outlive_a_failed_change() -> None:
    """Whoever writes to a log keeps it: a second one on the same file would be its end."""
    world = World()
    world.make("orders", 2)
    world.produce("orders", batch(b"kept"))
    orders = world.topics.get("orders")
    assert orders is not None
    before = [(partition, partition.opened_log) for partition in orders.partitions]
    world.files.fail("append")
    world.topics.add_partitions(orders, 3)
    world.turn()
    after = world.topics.get("orders")
    assert after is not None
    assert [(partition, partition.opened_log) for partition in after.partitions] == before
    assert world.produce("orders", batch(b"more")).base_offset == 1


def test_folders_that_a_crash_left_behind_do_not_show_up_in_a_new_topic() -> None:
    world = World()
    orders = world.make("orders")
    world.produce("orders", batch(b"old"))
    world.files.fail("rename")
    world.topics.delete(orders)
    world.turn()
    assert world.files.exists(FOLDER / "orders-0")
    world.make("orders")
    assert world.fetch("orders").high_watermark == 0


def test_a_folder_that_no_deleted_topic_had_is_kept_under_another_name() -> None:
    world = World()
    orders, taken = FOLDER / "orders-1", FOLDER / f"orders-1.{0:032x}-stray"
    for folder in (orders, taken):
        world.files.make_folder(folder)
    world.files.contents[orders / "0.log"] = bytearray(b"precious")
    world.make("orders", 2)
    assert not world.files.exists(orders)
    assert world.files.read_bytes(FOLDER / f"orders-1.{1:032x}-stray" / "0.log") == b"precious"


def test_a_grown_topic_takes_no_folder_that_was_there_before() -> None:
    world = World()
    orders = world.make("orders")
    world.files.make_folder(FOLDER / "orders-1")
    world.topics.add_partitions(orders, 2)
    assert world.files.exists(FOLDER / f"orders-1.{0:032x}-stray")


@pytest.mark.parametrize("is_kept", [True, False])
def test_nothing_is_removed_by_a_registry_that_has_lost_its_end(is_kept: bool) -> None:
    """The last thing it knows of the topic is that it was deleted, or that nothing was left of it;
    there was another one since."""
    world = World()
    world.topics.has_leftovers = lambda _name: is_kept
    world.topics.delete(world.make("orders"))
    world.turn()
    world.make("orders")
    world.produce("orders", batch(b"precious"))
    world.files.contents[FOLDER / "__kohort_topics-0" / f"{0:020}.log"][-1] ^= 1
    again = world.restarted()
    assert again.topics.get("orders") is None
    again.make("orders")
    assert again.files.exists(FOLDER / f"orders-0.{0:032x}-stray")


def test_a_topic_with_the_longest_name_leaves_nothing_behind_on_a_real_disk(tmp_path: Path) -> None:
    """Its folders' names have no room for all that a name gets on its way out."""
    folder = tmp_path / f"{'t' * 249}-0"
    folder.mkdir()
    delete_folder(folder, DiskFiles())
    assert not list(tmp_path.iterdir())


def story(world: World, told: list[str]) -> None:
    """A life with every kind of change; `told` grows when a client would have been answered."""
    topics = world.topics

    def settle(what: str) -> None:
        topics.on_durable(lambda error: told.append(what) if error is None else None)
        world.turn()

    orders = topics.create("orders", 2, {})
    settle("orders")
    world.produce("orders", batch(b"x"))
    topics.add_partitions(orders, 3)
    settle("grown")
    topics.create("more", 1, {"retention.ms": "1"})
    settle("more")
    topics.delete(orders)
    settle("deleted")
    topics.create("orders", 1, {})
    settle("again")


def test_after_a_crash_at_any_moment_everything_that_was_told_is_true() -> None:
    files = FaultyFiles()
    story(World(files=files), [])
    moments = len(files.operations)
    assert moments > 20
    for moment in range(moments):
        files = FaultyFiles()
        world = World(files=files)
        told: list[str] = []
        files.crash_at = moment + files.count
        try:
            story(world, told)
        except Crashed:
            files.crash()
        files.crash_at = None
        after = known(World(files=files).topics)
        check_after_crash(told, after)


def check_after_crash(told: list[str], after: Known) -> None:
    if "more" in told:
        assert after["more"][1:] == (1, {"retention.ms": "1"})
    if "again" in told:
        assert after["orders"][1] == 1
    elif "deleted" in told:
        assert "orders" not in after or after["orders"][1] == 1
    elif "grown" in told:
        assert "orders" not in after or after["orders"][1] in (3, 1)
    elif "orders" in told:
        assert after["orders"][1] in (2, 3)
