"""Subscriptions and assignments, as Java's ConsumerProtocol writes them."""

import contextlib
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    read_assignment,
    read_subscribed_topics,
    read_subscription,
    write_assignment,
    write_subscription,
)
from kohort.protocol.errors import UndecodableBlob

topic_names = st.text(max_size=20)
owned = st.lists(
    st.builds(
        TopicPartitions,
        topic_names,
        st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple),
    ),
    max_size=4,
).map(tuple)
user_data = st.none() | st.binary(max_size=40)

FULL = Subscription(("t",), b"u", (TopicPartitions("t", (1, 2)),), 7, "r")
# version 3 | 1 topic "t" | user data "u" | 1 owned topic "t" of 2 partitions | generation | rack
FULL_BYTES = bytes.fromhex(
    "0003 00000001 000174 00000001 75 00000001 000174 00000002 00000001 00000002 00000007 000172"
)


def test_a_subscription_has_these_bytes() -> None:
    assert write_subscription(FULL) == FULL_BYTES
    assert read_subscription(FULL_BYTES) == FULL


def test_an_assignment_has_these_bytes() -> None:
    assignment = Assignment((TopicPartitions("t", (0, 3)),), None)
    expected = bytes.fromhex("0001 00000001 000174 00000002 00000000 00000003 ffffffff")
    assert write_assignment(assignment, version=1) == expected
    assert read_assignment(expected) == assignment


@given(
    subscription=st.builds(
        Subscription,
        st.lists(topic_names, max_size=4).map(tuple),
        user_data,
        owned,
        st.integers(-(2**31), 2**31 - 1),
        st.none() | st.text(max_size=10),
    ),
    version=st.integers(0, 3),
)
def test_a_subscription_comes_back_as_far_as_its_version_can_say(
    subscription: Subscription, version: int
) -> None:
    blob = write_subscription(subscription, version)
    told = Subscription(*subscription[: 2 + version])
    assert read_subscription(blob) == told
    assert read_subscribed_topics(blob) == subscription.topics


@given(st.builds(Assignment, owned, user_data), st.integers(0, 3))
def test_an_assignment_comes_back(assignment: Assignment, version: int) -> None:
    assert read_assignment(write_assignment(assignment, version)) == assignment


def test_newer_versions_are_read_as_the_newest_known_one() -> None:
    assert read_subscription(pack(">h", 9) + FULL_BYTES[2:] + b"more") == FULL


def test_topics_are_found_whatever_follows_them() -> None:
    assert read_subscribed_topics(FULL_BYTES[:14] + b"junk") == ("t",)


@pytest.mark.parametrize("version", [-32768, -1, 0, 3, 9])
def test_topics_are_found_in_whatever_version(version: int) -> None:
    assert read_subscribed_topics(pack(">h", version) + FULL_BYTES[2:]) == ("t",)


@pytest.mark.parametrize("blob", [b"", b"\0", b"\0\0", b"\0\0\xff\xff\xff\xff"])
def test_without_topics_it_cannot_be_read(blob: bytes) -> None:
    with pytest.raises(UndecodableBlob):
        read_subscribed_topics(blob)


@pytest.mark.parametrize(
    "blob", [b"", b"\0", b"\xff\xff", FULL_BYTES[:-1], b"\0\0\x7f\xff\xff\xff"]
)
def test_what_cannot_be_read_is_an_error(blob: bytes) -> None:
    with pytest.raises(UndecodableBlob):
        read_subscription(blob)


@given(st.binary(max_size=60))
def test_junk_is_a_blob_or_an_error(blob: bytes) -> None:
    for read in (read_subscription, read_assignment, read_subscribed_topics):
        with contextlib.suppress(UndecodableBlob):
            read(blob)
