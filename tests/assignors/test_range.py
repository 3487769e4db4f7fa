"""The range assignor, where it follows Java. test_as_kafka.py compares all else with Kafka's."""

import pytest
from kohort.assignors.model import Assignment, Topics

from .groups import assign, group, shares


def test_members_are_in_the_order_of_javas_strings() -> None:
    last, first = "\ufb01", "\U00010000"  # in UTF-16 the second begins with D800
    result = assign("range", Topics({"t": 2}), group(**{last: "t", first: "t"}))
    assert result == {first: [("t", 0)], last: [("t", 1)]}


IN_ITS_RACK = shares(c0="t-1", c1="t-0")


@pytest.mark.parametrize(
    ("rack", "expected"),
    [
        (" ", IN_ITS_RACK),
        ("\t", IN_ITS_RACK),
        ("\u00a0", IN_ITS_RACK),
        ("", shares(c0="t-0", c1="t-1")),
    ],
)
def test_a_rack_may_be_named_by_a_blank_but_not_by_an_empty_string(
    rack: str, expected: Assignment
) -> None:
    members = group({"c0": rack}, c0="t", c1="t")
    topics = Topics({"t": 2}, {"t": [["z"], [rack]]})
    assert assign("range", topics, members) == expected
