"""The tables byte by byte, as the tool of Kafka 4.3 printed them (kafka_tables.txt)."""

import re
from pathlib import Path

from kohort.cli.groups import tables
from kohort.cli.groups.rows import (
    Committed,
    DeletedOffsetRow,
    Group,
    ListedRow,
    Member,
    Partition,
    ResetRow,
    member_rows,
    offset_rows,
    state_row,
)

PRINTED = Path(__file__).with_name("kafka_tables.txt").read_text()
ORDERS, BILLS = "warehouse-orders", "warehouse-bills"
FIXED = Member(
    "stat-fa68db60-067c-40c1-ab82-689802c96b64",
    "stat",
    "/127.0.0.1",
    "two",
    (Partition(ORDERS, 1), Partition(ORDERS, 0)),
)
OTHER = Member(
    "one-2d93e5f3-daa9-4612-a996-ea05ca8445f1",
    None,
    "/127.0.0.1",
    "one",
    (Partition(ORDERS, 2), Partition(BILLS, 0)),
)
LIVE = Group("warehouse-live", "Stable", "range", (FIXED, OTHER))
EMPTY = Group("warehouse-empty", "Empty", "", ())
COMMITTED = {
    Partition(BILLS, 0): Committed(1, None),
    Partition(ORDERS, 0): Committed(4, None),
    Partition(ORDERS, 2): Committed(10, 0),
}
ENDS = {Partition(BILLS, 0): 5} | {Partition(ORDERS, n): 10 for n in range(3)}


def printed(name: str) -> str:
    """What Kafka's tool printed under this heading."""
    match = re.search(rf"^# {name}: .*\n((?:.*\|\n)+)", PRINTED, re.MULTILINE)
    assert match is not None, name
    return match[1].replace("|\n", "\n")


def test_offsets_of_a_group_without_members() -> None:
    rows = offset_rows(EMPTY, COMMITTED, ENDS)
    assert tables.offsets(rows, verbose=False) == printed("offsets of a group without members")
    assert tables.offsets(rows, verbose=True) == printed("offsets of it, verbose")


def test_offsets_of_members_come_member_by_member() -> None:
    committed = {Partition(BILLS, 0): Committed(5, None), Partition(ORDERS, 2): Committed(10, 0)}
    rows = offset_rows(LIVE, committed, ENDS)
    assert tables.offsets(rows, verbose=False) == printed("offsets of a group with members")


def test_the_member_with_the_most_partitions_comes_first_and_the_unowned_last() -> None:
    small = OTHER._replace(partitions=(Partition("z", 0),))
    rows = offset_rows(Group("g", "Stable", "range", (small, FIXED)), COMMITTED, ENDS)
    assert [(row.topic, row.partition, row.client_id) for row in rows] == [
        (ORDERS, 0, "two"),
        (ORDERS, 1, "two"),
        ("z", 0, "one"),
        (BILLS, 0, None),
        (ORDERS, 2, None),
    ]


def test_a_partition_without_a_leader_has_neither_end_nor_lag() -> None:
    rows = offset_rows(EMPTY, COMMITTED, {})
    assert [(row.log_end_offset, row.lag) for row in rows] == [(None, None)] * 3


def test_members() -> None:
    rows = member_rows(LIVE)
    assert tables.members(rows, verbose=False) == printed("members")
    assert tables.members(rows, verbose=True) == printed("members, verbose")


def test_without_static_members_there_is_no_column_for_their_ids() -> None:
    assert tables.members([], verbose=False) == printed("no members")


def test_the_state_of_a_group() -> None:
    live = state_row(LIVE, "127.0.0.1", 29092, 1)
    assert tables.state(live, verbose=False) == printed("state")
    empty = state_row(EMPTY, "127.0.0.1", 29092, 1)
    assert tables.state(empty, verbose=True) == printed("state, verbose")


def test_a_kip_848_group_has_epochs_and_targets() -> None:
    three = tuple(Partition(ORDERS, n) for n in range(3))
    who = ("24eDrlfLQOmlnwCI/Y4o7Q", None, "/127.0.0.1", "new")
    member = Member(*who, three, epoch=4, target=three, upgraded=True)
    group = Group("warehouse-848", "Stable", "uniform", (member,), 4, 4)
    table = tables.members(member_rows(group), verbose=True)
    assert table == printed("members of a KIP-848 group, verbose")
    table = tables.state(state_row(group, "127.0.0.1", 29092, 1), verbose=True)
    assert table == printed("state of a KIP-848 group, verbose")


def test_members_of_both_protocols_are_told_apart() -> None:
    both = (FIXED._replace(upgraded=False), OTHER._replace(upgraded=True))
    table = tables.members(member_rows(LIVE._replace(members=both)), verbose=True)
    assert [line.split()[-1] for line in table.splitlines()[1:]] == ["UPGRADED", "false", "true"]


def test_a_list_is_names_alone_or_has_the_columns_that_are_asked_for() -> None:
    rows = [ListedRow("warehouse-live", "Classic", "Stable")]
    assert tables.listed(rows, with_type=False, with_state=False) == "warehouse-live\n"
    assert tables.listed(rows, with_type=True, with_state=True) == printed("list")
    assert tables.listed([], with_type=False, with_state=True) == printed("empty list")


def test_new_offsets() -> None:
    rows = [ResetRow(EMPTY.group, ORDERS, n, offset) for n, offset in enumerate((4, 10, 10))]
    assert tables.reset(rows, [EMPTY.group]) == printed("new offsets")
    assert tables.reset([], ["warehouse-nope2"]) == printed("no new offsets")


def test_deleted_offsets() -> None:
    why = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not "
    why += "host this topic-partition."
    rows = [DeletedOffsetRow("warehouse-nix", None, why), DeletedOffsetRow(ORDERS, 2, None)]
    assert tables.deleted_offsets(rows) == printed("deleted offsets")
