"""Text that is safe to print."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.printable import printable, printable_json


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("größer 名前 🙂", "größer 名前 🙂"),
        ("a\nb\t\x1b[2J", r"a\nb\t\x1b[2J"),
        ("\u202e\u2028\xa0\x9b", r"\u202e\u2028\xa0\x9b"),
        ("\ud800\U000e0001", r"\ud800\U000e0001"),
    ],
)
def test_only_what_affects_other_text_is_escaped(text: str, escaped: str) -> None:
    assert printable(text) == escaped


@given(st.text(st.characters(exclude_categories=[])))
def test_json_stays_equal(text: str) -> None:
    encoded = printable_json(json.dumps([text], ensure_ascii=False, indent=1))
    assert json.loads(encoded) == [text]
    assert "".join(encoded.split("\n")).isprintable()
