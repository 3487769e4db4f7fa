"""Validation of topic names."""

import pytest
from kohort.topics.names import collision_key, is_internal, topic_name_error


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * 249, "...", "__x"])
def test_valid_names(name: str) -> None:
    assert topic_name_error(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        ("__kohort_topics", "'__kohort_topics' is reserved by the broker"),
    ],
)
def test_invalid_names_are_rejected_with_kafkas_message(name: str, reason: str) -> None:
    assert topic_name_error(name) == f"Topic name is invalid: {reason}"


@pytest.mark.parametrize("name", ["a b", "ü", "a/b", "a\n", "a,b", "../x"])
def test_names_with_illegal_characters_are_rejected(name: str) -> None:
    assert "contains one or more characters other than" in (topic_name_error(name) or "")


def test_names_that_differ_in_dots_and_underscores_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert collision_key("a-b") != collision_key("a_b")


def test_the_offsets_topic_is_internal() -> None:
    assert is_internal("__consumer_offsets")
    assert not is_internal("orders")
