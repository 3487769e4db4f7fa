"""Durations, counts and names as text."""

from typing import Any

import pytest
from kohort.pipeline.formatting import MemberNames, cause_text, count_of, duration


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, "-"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.0 s"),
        (9_949, "9.9 s"),
        (59_400, "59.4 s"),
        (59_949, "59.9 s"),
        (59_950, "1 min"),
        (95_000, "1 min 35 s"),
        (3_600_000, "1 h"),
        (7_500_000, "2 h 5 min"),
        (86_400_000, "1 d"),
        (604_700_000, "6 d 23 h"),
    ],
)
def test_a_duration_has_at_most_two_units(milliseconds: int | None, text: str) -> None:
    assert duration(milliseconds) == text


def test_count_of_one_is_singular() -> None:
    assert (count_of(1, "member"), count_of(1200, "member")) == ("1 member", "1,200 members")


def test_an_unknown_cause_is_shown_by_its_name() -> None:
    assert cause_text("SLOW_POLL") == "poll interval exceeded"
    assert cause_text("STRUCK_BY_LIGHTNING") == "struck by lightning"


def member(member_id: str, client_id: str, instance_id: str | None = None) -> dict[str, Any]:
    return {"member_id": member_id, "client_id": client_id, "instance_id": instance_id}


def test_a_member_is_named_by_its_instance_id_or_client_id() -> None:
    generations = [
        [member("a-111", "a"), member("rack-1-222", "consumer", "rack-1")],
        [member("a-333", "a")],
    ]
    names = MemberNames(generations)
    assert [names.of(each) for each in ("a-111", "a-333", "rack-1-222")] == ["a", "a", "rack-1"]
    assert names.of("unknown-id") == "unknown-id"


def test_members_of_a_generation_with_the_same_client_id_are_distinguished() -> None:
    first, second = "c-01234567-89ab", "c-fedcba98-7654"
    names = MemberNames([[member(first, "c"), member(second, "c")]])
    assert [names.of(first), names.of(second)] == ["c-01234567", "c-fedcba98"]
