"""Which offsets a reset gives, from which offsets: without a cluster."""

import pytest
from kohort.cli.groups.errors import CommandError, UsageError
from kohort.cli.groups.plans import (
    at_time,
    current,
    exported,
    imported,
    partitions_of,
    shifted,
    within,
)
from kohort.cli.groups.rows import Committed, Partition

A0, A1, B0 = Partition("a", 0), Partition("a", 1), Partition("b", 0)
COMMITTED = {A0: Committed(5, 0), B0: Committed(2, None)}


def test_offsets_outside_of_the_log_go_to_its_ends_and_that_is_told() -> None:
    new, warnings = within({A0: 99, A1: -3, B0: 4}, {A0: 0, A1: 2, B0: 0}, {A0: 10, A1: 7, B0: 4})
    assert new == {A0: 10, A1: 2, B0: 4}
    new_offset = "offset for topic partition"
    assert warnings == [
        f"New offset (99) is higher than latest {new_offset} a-0. Value will be set to 10.",
        f"New offset (-3) is lower than earliest {new_offset} a-1. Value will be set to 2.",
    ]


@pytest.mark.parametrize(("by", "expected"), [(3, {A0: 8, B0: 5}), (-4, {A0: 1, B0: -2})])
def test_a_shift_moves_what_is_committed_either_way(by: int, expected: object) -> None:
    assert shifted([A0, B0], COMMITTED, by) == expected


def test_what_is_not_committed_cannot_be_shifted() -> None:
    with pytest.raises(UsageError, match=r"^Cannot shift offset for partition a-1 since there"):
        shifted([A0, A1], COMMITTED, 1)


def test_current_is_what_is_committed_or_the_end_of_the_log() -> None:
    assert current([A0, A1, B0], COMMITTED, {A0: 10, A1: 7, B0: 4}) == {A0: 5, A1: 7, B0: 2}


def test_a_partition_with_nothing_as_new_goes_to_its_end() -> None:
    assert at_time({A0: 3, A1: None}, {A0: 10, A1: 7}) == ({A0: 3, A1: 7}, [A1])


def test_a_topic_is_given_with_its_partitions() -> None:
    assert partitions_of("a:0,1") == [A0, A1]


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("a:x", "Invalid partition 'x' specified in topic arg 'a:x''"),
        ("a:0,", "Invalid partition '' specified in topic arg 'a:0,''"),
        ("a:", "Invalid topic arg 'a:', expected topic name and partitions"),
        ("a:0:1", "Invalid topic arg 'a:0:1', expected topic name and partitions"),
    ],
)
def test_partitions_that_are_none_are_refused_in_kafkas_words(argument: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        partitions_of(argument)
    assert str(caught.value) == said


@pytest.mark.parametrize("groups", [["g"], ["g", 'h "the, second"']])
def test_what_was_exported_is_imported_as_it_was(groups: list[str]) -> None:
    plan = {group: {A0: 3, B0: number} for number, group in enumerate(groups)}
    assert imported(exported(plan, with_group=len(groups) != 1), groups) == plan


def test_a_plan_for_one_group_may_name_its_groups() -> None:
    assert imported("g,a,0,3\n\nh,a,0,4\n", ["g"]) == {"g": {A0: 3}, "h": {A0: 4}}


@pytest.mark.parametrize("line", ["junk", "a,0", "a,0,x", "a,-1,3", "g,a,0,3,4"])
def test_a_line_that_is_no_plan_is_told_with_its_number(line: str) -> None:
    with pytest.raises(CommandError) as caught:
        imported(f"a,0,3\n{line}\n", ["g"])
    assert str(caught.value) == f"line 2 of the plan, '{line}', is not topic,partition,offset"


def test_a_plan_for_two_groups_has_to_name_them() -> None:
    with pytest.raises(CommandError, match=r"is not group,topic,partition,offset$"):
        imported("a,0,3\n", ["g", "h"])
