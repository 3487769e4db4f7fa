"""What sticky members write about themselves, byte by byte, and what is read there."""

import struct
from dataclasses import replace

import pytest
from kohort.assignors.builtin import BUILTIN
from kohort.assignors.model import Subscription, Topics
from kohort.assignors.sticky.user_data import Owned, read_cooperative, read_sticky

from .groups import assigned, group, having, partitions, shares

OWNED = partitions("t-0,2 u-1")
VERSION_0 = bytes.fromhex("00000002 000174 00000002 00000000 00000002 000175 00000001 00000001")
VERSION_1 = VERSION_0 + bytes.fromhex("00000007")


def told(data: bytes | None, generation: int | None = None) -> Subscription:
    return Subscription(("t",), tuple(partitions("t-1")), generation, user_data=data)


def test_sticky_writes_what_it_owns_and_since_when() -> None:
    assert BUILTIN["sticky"].user_data(["t"], list(reversed(OWNED)), 7) == VERSION_1
    assert BUILTIN["sticky"].user_data(["t"], [], None) is None


def test_sticky_reads_both_versions_of_it() -> None:
    assert read_sticky(told(VERSION_1)) == Owned(OWNED, 7)
    assert read_sticky(told(VERSION_0)) == Owned(OWNED, None)


@pytest.mark.parametrize("data", [None, b""])
def test_a_sticky_member_without_user_data_owns_nothing(data: bytes | None) -> None:
    assert read_sticky(told(data, generation=3)) == Owned((), None)


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
def test_garbage_owns_nothing_and_has_no_generation(data: bytes) -> None:
    assert read_sticky(told(data)) == Owned((), -1)


def test_cooperative_sticky_writes_its_generation() -> None:
    assert BUILTIN["cooperative-sticky"].user_data(["t"], OWNED, 7) == b"\0\0\0\7"
    assert BUILTIN["cooperative-sticky"].user_data(["t"], [], None) == b"\xff" * 4


def test_cooperative_sticky_reads_its_generation_where_the_subscription_has_none() -> None:
    owned = tuple(partitions("t-1"))
    assert read_cooperative(told(b"\0\0\0\7", generation=8)) == Owned(owned, 8)
    assert read_cooperative(told(b"\0\0\0\7")) == Owned(owned, 7)
    assert read_cooperative(told(b"\0\0\0\7", generation=-1)) == Owned(owned, 7)
    assert read_cooperative(told(b"\7")) == Owned(owned, -1)
    assert read_cooperative(told(None)) == Owned(owned, None)


def test_sticky_trusts_the_user_data_and_cooperative_sticky_the_subscription() -> None:
    members = having("sticky", group(a="t", b="t"), shares(a="t-0", b="t-1"))
    members["a"] = replace(members["a"], owned=(("t", 1),))
    members["b"] = replace(members["b"], owned=(("t", 0),))
    topics = Topics({"t": 2})
    assert assigned("sticky", topics, members) == shares(a="t-0", b="t-1")
    assert assigned("cooperative-sticky", topics, members) == shares(a="t-1", b="t-0")


def test_a_dispute_is_settled_by_the_generation_of_the_subscription() -> None:
    """Upstream's own way, seen where a member's user data is of another generation."""
    members = having("sticky", group(a="t", b="t"), shares(a="t-0", b="t-0"), generation=5)
    members = {name: replace(member, generation=7) for name, member in members.items()}
    # Whoever is met first has it: 5 is less than 7.
    assert assigned("sticky", Topics({"t": 2}), members) == shares(a="t-0", b="t-1")


def test_of_cooperative_members_that_speak_version_1_the_newest_claim_counts() -> None:
    """Upstream lets the last one count that it meets, beside an owner that still reads."""
    members = having("cooperative-sticky", group(a="t", b="t"), shares(a="t-0"), generation=5)
    members |= having("cooperative-sticky", group(b="t"), shares(b="t-0"), generation=3)
    members = {name: replace(member, generation=None) for name, member in members.items()}
    assert assigned("cooperative-sticky", Topics({"t": 2}), members) == shares(a="t-0", b="t-1")
