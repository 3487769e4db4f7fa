"""The user data of sticky members, and which of two claims takes precedence."""

import struct
from dataclasses import replace

import pytest
from kohort.assignors.model import Subscription, Topics
from kohort.assignors.resolve import BUILTIN
from kohort.assignors.sticky.ownership import (
    MemberData,
    cooperative_member_data,
    sticky_member_data,
)

from .groups import assign, group, owning, partitions, shares

OWNED = partitions("t-0,2 u-1")
VERSION_0 = bytes.fromhex("00000002 000174 00000002 00000000 00000002 000175 00000001 00000001")
VERSION_1 = VERSION_0 + bytes.fromhex("00000007")


def subscription(data: bytes | None, generation: int | None = None) -> Subscription:
    return Subscription(("t",), tuple(partitions("t-1")), generation, user_data=data)


def test_sticky_writes_owned_partitions_and_generation() -> None:
    assert BUILTIN["sticky"].subscription_user_data(["t"], list(reversed(OWNED)), 7) == VERSION_1
    assert BUILTIN["sticky"].subscription_user_data(["t"], [], None) is None


def test_sticky_reads_both_versions() -> None:
    assert sticky_member_data(subscription(VERSION_1)) == MemberData(OWNED, 7)
    assert sticky_member_data(subscription(VERSION_0)) == MemberData(OWNED, None)


@pytest.mark.parametrize("data", [None, b""])
def test_a_sticky_member_without_user_data_owns_nothing(data: bytes | None) -> None:
    assert sticky_member_data(subscription(data, generation=3)) == MemberData((), None)


GARBAGE = [
    b"x",
    VERSION_0[:-1],
    struct.pack(">i", -1),
    struct.pack(">i", 2**31 - 1),
    bytes.fromhex("00000001 000174 7fffffff"),
    bytes.fromhex("00000001 ffff"),
    bytes.fromhex("00000001 0001ff 00000000"),
]


@pytest.mark.parametrize("data", GARBAGE)
def test_undecodable_user_data_has_no_partitions_and_no_generation(data: bytes) -> None:
    assert sticky_member_data(subscription(data)) == MemberData((), -1)


def test_cooperative_sticky_writes_its_generation() -> None:
    assert BUILTIN["cooperative-sticky"].subscription_user_data(["t"], OWNED, 7) == b"\0\0\0\7"
    assert BUILTIN["cooperative-sticky"].subscription_user_data(["t"], [], None) == b"\xff" * 4


def test_cooperative_sticky_reads_the_generation_if_the_subscription_has_none() -> None:
    owned = tuple(partitions("t-1"))
    assert cooperative_member_data(subscription(b"\0\0\0\7", generation=8)) == MemberData(owned, 8)
    assert cooperative_member_data(subscription(b"\0\0\0\7")) == MemberData(owned, 7)
    assert cooperative_member_data(subscription(b"\0\0\0\7", generation=-1)) == MemberData(owned, 7)
    assert cooperative_member_data(subscription(b"\7")) == MemberData(owned, -1)
    assert cooperative_member_data(subscription(None)) == MemberData(owned, None)


def test_sticky_uses_the_user_data_and_cooperative_sticky_the_subscription() -> None:
    members = owning("sticky", group(a="t", b="t"), shares(a="t-0", b="t-1"))
    members["a"] = replace(members["a"], owned_partitions=(("t", 1),))
    members["b"] = replace(members["b"], owned_partitions=(("t", 0),))
    topics = Topics({"t": 2})
    assert assign("sticky", topics, members) == shares(a="t-0", b="t-1")
    assert assign("cooperative-sticky", topics, members) == shares(a="t-1", b="t-0")


def test_conflicting_claims_are_resolved_by_the_subscriptions_generation() -> None:
    """As in Kafka, this also applies if the user data has another generation."""
    members = owning("sticky", group(a="t", b="t"), shares(a="t-0", b="t-0"), generation=5)
    members = {name: replace(member, generation_id=7) for name, member in members.items()}
    # The first member keeps it: 5 (the second claim) is less than 7 (the first subscription).
    assert assign("sticky", Topics({"t": 2}), members) == shares(a="t-0", b="t-1")


def test_of_cooperative_members_of_version_1_the_newest_claim_counts() -> None:
    """Kafka assigns it by the last claim, although the other owner may still be reading it."""
    members = owning("cooperative-sticky", group(a="t", b="t"), shares(a="t-0"), generation=5)
    members |= owning("cooperative-sticky", group(b="t"), shares(b="t-0"), generation=3)
    members = {name: replace(member, generation_id=None) for name, member in members.items()}
    assert assign("cooperative-sticky", Topics({"t": 2}), members) == shares(a="t-0", b="t-1")
