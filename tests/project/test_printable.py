"""Text that is safe to print."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.printable import printable, printable_json, shortened


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


@given(st.text(st.characters(exclude_categories=[])), st.integers(2, 9))
def test_long_text_keeps_both_ends(text: str, chars_max: int) -> None:
    whole, short = printable(text), shortened(text, chars_max)
    if len(whole) <= chars_max:
        assert short == whole
    else:
        first, _, last = short.rpartition("…")
        assert len(short) == chars_max // 2 * 2
        assert whole.startswith(first)
        assert whole.endswith(last)


@given(st.text(st.characters(exclude_categories=[])))
def test_json_stays_equal(text: str) -> None:
    encoded = printable_json(json.dumps([text], ensure_ascii=False, indent=1))
    assert json.loads(encoded) == [text]
    assert "".join(encoded.split("\n")).isprintable()
