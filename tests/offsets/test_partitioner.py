"""The offsets partition of a group, with vectors that were checked with a JVM."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.offsets.coordinator_topic import java_hash, partition_for

VECTORS = [
    ("", 0, 0, 0),
    ("a", 97, 47, 1),
    ("test", 3556498, 48, 1),
    ("group", 98629247, 47, 2),
    ("my-group", -1906497762, 12, 0),
    ("connect-cluster", 1440343063, 13, 1),
    ("polygenelubricants", -2147483648, 0, 0),
    ("grüppe", -1233264812, 12, 2),
    ("消费者组", 871131088, 38, 1),
    ("группа", 1749938458, 8, 1),
    ("😀", 1772899, 49, 1),
    ("g-😀-1", 399151085, 35, 2),
    ("AaAa", 2031744, 44, 0),
    ("BBBB", 2031744, 44, 0),
]


@pytest.mark.parametrize(("group_id", "number", "of_50", "of_3"), VECTORS)
def test_hash_and_partition_of_a_group_are_those_of_java(
    group_id: str, number: int, of_50: int, of_3: int
) -> None:
    assert java_hash(group_id) == number
    assert partition_for(group_id, 50) == of_50
    assert partition_for(group_id, 3) == of_3


def test_a_lone_surrogate_counts_as_one_unit() -> None:
    assert java_hash("\ud800") == 0xD800


@given(st.text(), st.integers(1, 1000))
def test_every_group_has_a_partition_and_a_signed_32_bit_hash(group_id: str, count: int) -> None:
    assert -(1 << 31) <= java_hash(group_id) < 1 << 31
    assert 0 <= partition_for(group_id, count) < count
