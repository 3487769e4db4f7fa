"""Subscriptions and assignments, as Java's ConsumerProtocol encodes them."""

import contextlib
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscribed_topics,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.protocol.errors import DecodeError

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


def test_subscription_bytes() -> None:
    assert encode_subscription(FULL) == FULL_BYTES
    assert decode_subscription(FULL_BYTES) == FULL


def test_assignment_bytes() -> None:
    assignment = Assignment((TopicPartitions("t", (0, 3)),), None)
    expected = bytes.fromhex("0001 00000001 000174 00000002 00000000 00000003 ffffffff")
    assert encode_assignment(assignment, version=1) == expected
    assert decode_assignment(expected) == assignment


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
def test_subscription_round_trip_keeps_the_fields_of_its_version(
    subscription: Subscription, version: int
) -> None:
    encoded = encode_subscription(subscription, version)
    expected = Subscription(*subscription[: 2 + version])
    assert decode_subscription(encoded) == expected
    assert decode_subscribed_topics(encoded) == subscription.topics


@given(st.builds(Assignment, owned, user_data), st.integers(0, 3))
def test_assignment_round_trip(assignment: Assignment, version: int) -> None:
    assert decode_assignment(encode_assignment(assignment, version)) == assignment


def test_newer_versions_are_decoded_as_the_newest_known_one() -> None:
    assert decode_subscription(pack(">h", 9) + FULL_BYTES[2:] + b"more") == FULL


def test_topics_are_decoded_whatever_follows_them() -> None:
    assert decode_subscribed_topics(FULL_BYTES[:14] + b"junk") == ("t",)


@pytest.mark.parametrize("version", [-32768, -1, 0, 3, 9])
def test_topics_are_decoded_in_any_version(version: int) -> None:
    assert decode_subscribed_topics(pack(">h", version) + FULL_BYTES[2:]) == ("t",)


@pytest.mark.parametrize("encoded", [b"", b"\0", b"\0\0", b"\0\0\xff\xff\xff\xff"])
def test_subscription_without_topics_is_an_error(encoded: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_subscribed_topics(encoded)


@pytest.mark.parametrize(
    "encoded", [b"", b"\0", b"\xff\xff", FULL_BYTES[:-1], b"\0\0\x7f\xff\xff\xff"]
)
def test_malformed_subscription_is_an_error(encoded: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_subscription(encoded)


@given(st.binary(max_size=60))
def test_random_bytes_are_decoded_or_rejected(encoded: bytes) -> None:
    for read in (decode_subscription, decode_assignment, decode_subscribed_topics):
        with contextlib.suppress(DecodeError):
            read(encoded)
