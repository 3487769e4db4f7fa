"""Spans, counts and names as people read them."""

from typing import Any

import pytest
from kohort.pipeline.answers.names import MemberNames, nearest
from kohort.pipeline.answers.words import cause_text, counted, span


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, "-"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.0 s"),
        (9_949, "9.9 s"),
        (9_950, "10 s"),
        (59_400, "59 s"),
        (59_600, "1 min"),
        (95_000, "1 min 35 s"),
        (3_600_000, "1 h"),
        (7_500_000, "2 h 5 min"),
        (86_400_000, "1 d"),
        (604_700_000, "6 d 23 h"),
    ],
)
def test_a_span_has_two_units_at_most(milliseconds: int | None, text: str) -> None:
    assert span(milliseconds) == text


def test_one_is_not_many() -> None:
    assert (counted(1, "member"), counted(1200, "member")) == ("1 member", "1,200 members")


def test_a_cause_of_a_newer_pipeline_is_shown_by_its_name() -> None:
    assert cause_text("SLOW_POLL") == "poll interval exceeded"
    assert cause_text("STRUCK_BY_LIGHTNING") == "struck by lightning"


def member(member_id: str, client_id: str, instance_id: str | None = None) -> dict[str, Any]:
    return {"member_id": member_id, "client_id": client_id, "instance_id": instance_id}


def test_a_member_is_called_as_it_calls_itself() -> None:
    generations = [
        [member("a-111", "a"), member("rack-1-222", "consumer", "rack-1")],
        [member("a-333", "a")],
    ]
    names = MemberNames(generations)
    assert [names.of(each) for each in ("a-111", "a-333", "rack-1-222")] == ["a", "a", "rack-1"]
    assert names.of("unheard-of") == "unheard-of"


def test_members_of_one_generation_with_one_name_are_told_apart() -> None:
    first, second = "c-01234567-89ab", "c-fedcba98-7654"
    names = MemberNames([[member(first, "c"), member(second, "c")]])
    assert [names.of(first), names.of(second)] == ["c-01234567", "c-fedcba98"]


def test_near_names_are_those_that_begin_so_are_alike_or_contain_it() -> None:
    names = ["billing", "billing-eu", "shipping", "mail"]
    assert nearest("bill", names) == ["billing", "billing-eu"]
    assert nearest("biling", names)[0] == "billing"
    assert nearest("eu", names) == ["billing-eu"]
    assert nearest("zzz", names) == []
