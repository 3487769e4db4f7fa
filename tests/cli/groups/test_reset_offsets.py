"""The new offsets of a reset, plans as CSV, and Kafka's notations of times."""

import re

import pytest
from kohort.cli.groups.cluster import Committed, Partition
from kohort.cli.groups.errors import CommandError, UsageError
from kohort.cli.groups.reset_offsets import (
    clamp_offsets,
    export_plan,
    import_plan,
    parse_datetime,
    parse_duration,
    partitions_of,
    shifted_offsets,
)

A0, A1, B0 = Partition("a", 0), Partition("a", 1), Partition("b", 0)
COMMITTED = {A0: Committed(5, 0), B0: Committed(2, None)}


def test_offsets_outside_the_log_are_limited_with_a_warning() -> None:
    new, warnings = clamp_offsets(
        {A0: 99, A1: -3, B0: 4}, {A0: 0, A1: 2, B0: 0}, {A0: 10, A1: 7, B0: 4}
    )
    assert new == {A0: 10, A1: 2, B0: 4}
    new_offset = "offset for topic partition"
    assert warnings == [
        f"New offset (99) is higher than latest {new_offset} a-0. Value will be set to 10.",
        f"New offset (-3) is lower than earliest {new_offset} a-1. Value will be set to 2.",
    ]


@pytest.mark.parametrize(("by", "expected"), [(3, {A0: 8, B0: 5}), (-4, {A0: 1, B0: -2})])
def test_a_shift_moves_committed_offsets_forward_or_backward(by: int, expected: object) -> None:
    assert shifted_offsets([A0, B0], COMMITTED, by) == expected


def test_a_partition_without_a_committed_offset_cannot_be_shifted() -> None:
    with pytest.raises(UsageError, match=r"^Cannot shift offset for partition a-1 since there"):
        shifted_offsets([A0, A1], COMMITTED, 1)


def test_partitions_of_a_topic_argument() -> None:
    assert partitions_of("a:0,1") == [A0, A1]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("a:x", "Invalid partition 'x' specified in topic arg 'a:x''"),
        ("a:2147483648", "Invalid partition '2147483648' specified in topic arg 'a:2147483648''"),
        ("a:0,", "Invalid partition '' specified in topic arg 'a:0,''"),
        ("a:", "Invalid topic arg 'a:', expected topic name and partitions"),
        ("a:0:1", "Invalid topic arg 'a:0:1', expected topic name and partitions"),
    ],
)
def test_invalid_partitions_are_rejected_with_kafkas_message(argument: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        partitions_of(argument)
    assert str(caught.value) == message


@pytest.mark.parametrize("groups", [["g"], ["g", 'h "the, second"']])
def test_an_exported_plan_can_be_imported(groups: list[str]) -> None:
    plan = {group: {A0: 3, B0: number} for number, group in enumerate(groups)}
    assert import_plan(export_plan(plan, with_group=len(groups) != 1), groups) == plan


def test_a_plan_for_one_group_may_contain_the_groups() -> None:
    assert import_plan("g,a,0,3\n\nh,a,0,4\n", ["g"]) == {"g": {A0: 3}, "h": {A0: 4}}


@pytest.mark.parametrize(
    "line", ["junk", "a,0", "a,0,x", "a,-1,3", "g,a,0,3,4", f"a,0,{9**20}", f"a,{9**11},0"]
)
def test_an_invalid_line_of_a_plan_is_reported_with_its_number(line: str) -> None:
    with pytest.raises(CommandError) as caught:
        import_plan(f"a,0,3\n{line}\n", ["g"])
    assert str(caught.value) == (
        f"invalid line 2 of the plan: '{line}', expected topic,partition,offset"
    )


def test_a_field_of_a_plan_that_is_too_long_is_reported_with_its_line() -> None:
    message = r"^invalid line 2 of the plan: field larger than .*, expected topic,partition,offset$"
    with pytest.raises(CommandError, match=message):
        import_plan(f"a,0,3\n{'a' * 131_073},0,3\n", ["g"])


def test_a_plan_for_two_groups_has_to_contain_the_groups() -> None:
    with pytest.raises(CommandError, match=r"expected group,topic,partition,offset$"):
        import_plan("a,0,3\n", ["g", "h"])


HOUR_MS = 3_600_000
NO_T = "It does not contain a 'T' according to ISO8601 format"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00.000", 0),
        ("1970-01-01T00:00:01.005", 1_005),
        ("1970-01-02T00:00:00.000Z", 24 * HOUR_MS),
        ("1970-01-01T02:00:00.000+02", 0),
        ("1970-01-01T02:30:00.000+0230", 0),
        ("1969-12-31T22:00:00.000-02:00", 0),
        ("1969-12-31T23:59:59.999", -1),
    ],
)
def test_a_datetime_is_utc_unless_a_zone_follows(text: str, expected: int) -> None:
    assert parse_datetime(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2020-01-01", f"Error parsing timestamp. {NO_T}"),
        ("2020-01-01T", f"Error parsing timestamp. {NO_T}"),
        ("2020-01-01T00:00:00", 'Unparseable date: "2020-01-01T00:00:00Z"'),
        ("2020-13-01T00:00:00.000", 'Unparseable date: "2020-13-01T00:00:00.000Z"'),
        ("99999999999-01-01T00:00:00.000", 'Unparseable date: "99999999999-01-01T00:00:00.000Z"'),
        ("2020-01-01T00:00:00.000+99", 'Unparseable date: "2020-01-01T00:00:00.000+99"'),
    ],
)
def test_an_invalid_datetime_is_rejected_with_javas_message(text: str, message: str) -> None:
    with pytest.raises(CommandError) as caught:
        parse_datetime(text)
    assert str(caught.value) == f"java.text.ParseException: {message}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1H", HOUR_MS),
        ("P1DT2H3M4.5S", 26 * HOUR_MS + 3 * 60_000 + 4_500),
        ("pt90m", 90 * 60_000),
        ("-PT1H", -HOUR_MS),
        ("PT-1.25S", -1_250),
        ("P2D", 48 * HOUR_MS),
    ],
)
def test_a_duration_is_parsed_as_in_java(text: str, expected: int) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "P1H", "P1DT", "PT1.5H", "PT1H "])
def test_an_invalid_duration_is_rejected_with_javas_message(text: str) -> None:
    with pytest.raises(CommandError, match=r"^Text cannot be parsed to a Duration$"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["P99999999999999D", "-PT9223372036854775807S"])
def test_a_duration_beyond_64_bits_is_rejected(text: str) -> None:
    message = f"Text cannot be parsed to a Duration: overflow: {text}"
    with pytest.raises(CommandError, match=f"^{re.escape(message)}$"):
        parse_duration(text)
