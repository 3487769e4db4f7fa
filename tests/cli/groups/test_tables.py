"""The tables, byte for byte as printed by the tool of Kafka 4.3 (kafka_tables.txt)."""

import re
from pathlib import Path

from kohort.cli.groups import tables
from kohort.cli.groups.cluster import Committed, Group, Member, Partition
from kohort.cli.groups.tables import (
    DeletedOffsetRow,
    ListedRow,
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
END_OFFSETS = {Partition(BILLS, 0): 5} | {Partition(ORDERS, n): 10 for n in range(3)}


def printed(name: str) -> str:
    """The output of Kafka's tool under this heading."""
    match = re.search(rf"^# {name}: .*\n((?:.*\|\n)+)", PRINTED, re.MULTILINE)
    assert match is not None, name
    return match[1].replace("|\n", "\n")


def test_offsets_of_a_group_without_members() -> None:
    rows = offset_rows(EMPTY, COMMITTED, END_OFFSETS)
    assert tables.offset_table(rows, verbose=False) == printed("offsets of a group without members")
    assert tables.offset_table(rows, verbose=True) == printed("offsets of it, verbose")


def test_offsets_are_sorted_by_member() -> None:
    committed = {Partition(BILLS, 0): Committed(5, None), Partition(ORDERS, 2): Committed(10, 0)}
    rows = offset_rows(LIVE, committed, END_OFFSETS)
    assert tables.offset_table(rows, verbose=False) == printed("offsets of a group with members")


def test_the_member_with_most_partitions_comes_first_and_unassigned_last() -> None:
    small = OTHER._replace(partitions=(Partition("z", 0),))
    rows = offset_rows(Group("g", "Stable", "range", (small, FIXED)), COMMITTED, END_OFFSETS)
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
    assert tables.member_table(rows, verbose=False) == printed("members")
    assert tables.member_table(rows, verbose=True) == printed("members, verbose")


def test_without_static_members_there_is_no_column_for_their_ids() -> None:
    assert tables.member_table([], verbose=False) == printed("no members")


def test_the_state_of_a_group() -> None:
    live = state_row(LIVE, "127.0.0.1", 29092, 1)
    assert tables.state_table(live, verbose=False) == printed("state")
    empty = state_row(EMPTY, "127.0.0.1", 29092, 1)
    assert tables.state_table(empty, verbose=True) == printed("state, verbose")


def test_a_group_of_the_consumer_protocol_has_epochs_and_targets() -> None:
    three = tuple(Partition(ORDERS, n) for n in range(3))
    identity = ("24eDrlfLQOmlnwCI/Y4o7Q", None, "/127.0.0.1", "new")
    member = Member(*identity, three, epoch=4, target=three, upgraded=True)
    group = Group("warehouse-848", "Stable", "uniform", (member,), 4, 4)
    table = tables.member_table(member_rows(group), verbose=True)
    assert table == printed("members of a KIP-848 group, verbose")
    table = tables.state_table(state_row(group, "127.0.0.1", 29092, 1), verbose=True)
    assert table == printed("state of a KIP-848 group, verbose")


def test_members_of_both_protocols_are_marked() -> None:
    both = (FIXED._replace(upgraded=False), OTHER._replace(upgraded=True))
    table = tables.member_table(member_rows(LIVE._replace(members=both)), verbose=True)
    assert [line.split()[-1] for line in table.splitlines()[1:]] == ["UPGRADED", "false", "true"]


def test_a_list_has_only_names_or_the_requested_columns() -> None:
    rows = [ListedRow("warehouse-live", "Classic", "Stable")]
    assert tables.list_table(rows, with_type=False, with_state=False) == "warehouse-live\n"
    assert tables.list_table(rows, with_type=True, with_state=True) == printed("list")
    assert tables.list_table([], with_type=False, with_state=True) == printed("empty list")


def test_new_offsets() -> None:
    rows = [ResetRow(EMPTY.group, ORDERS, n, offset) for n, offset in enumerate((4, 10, 10))]
    assert tables.reset_table(rows, [EMPTY.group]) == printed("new offsets")
    assert tables.reset_table([], ["warehouse-nope2"]) == printed("no new offsets")


def test_deleted_offsets() -> None:
    error = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not "
    error += "host this topic-partition."
    rows = [DeletedOffsetRow("warehouse-nix", None, error), DeletedOffsetRow(ORDERS, 2, None)]
    assert tables.deleted_offsets_table(rows) == printed("deleted offsets")
