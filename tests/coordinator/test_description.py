"""DescribeGroups and ListGroups."""

import pytest
from kohort.coordinator.admin import merge_lists
from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import DescribedMember, DescribeResult, ListedGroup, ListResult
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness

E = ErrorCode
NONE = ErrorCode.none


def member(member_id: str, metadata: bytes, assignment: bytes) -> DescribedMember:
    instance_id = "i" if member_id.startswith("i-") else None
    return DescribedMember(member_id, instance_id, "client", "/127.0.0.1", metadata, assignment)


def test_a_stable_group_is_described_completely(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group(None, "i")
    members = (member(a, b"r", a.encode()), member(b, b"r", b.encode()))
    assert harness.describe() == DescribeResult(NONE, "Stable", "consumer", "range", members)
    harness.restart()
    assert harness.describe() == DescribeResult(NONE, "Stable", "consumer", "range", members)


def test_during_a_rebalance_only_old_assignments_are_described(
    harness: CoordinatorHarness,
) -> None:
    (a,) = harness.stable_group(None)
    b = harness.request_member_id()
    harness.join(b)
    preparing = DescribeResult(
        NONE,
        "PreparingRebalance",
        "consumer",
        "",
        (member(a, b"", a.encode()), member(b, b"", b"")),
    )
    assert harness.describe() == preparing
    harness.join(a)
    completing = harness.describe()
    assert (completing.state, completing.protocol_name) == ("CompletingRebalance", "")
    assert {m.member_metadata for m in completing.members} == {b""}


def test_a_pending_member_is_not_described(harness: CoordinatorHarness) -> None:
    harness.request_member_id()
    assert harness.describe() == DescribeResult(NONE, "Empty", "", "", ())


def test_an_empty_group_keeps_its_protocol_type(harness: CoordinatorHarness) -> None:
    harness.leave(*harness.stable_group(None))
    assert harness.describe() == DescribeResult(NONE, "Empty", "consumer", "", ())


@pytest.mark.parametrize("group_id", ["simple", ""])
def test_a_group_of_offsets_is_described_as_empty(
    harness: CoordinatorHarness, group_id: str
) -> None:
    harness.commit(group_id=group_id)
    assert harness.describe(group_id) == DescribeResult(NONE, "Empty", "", "", ())
    assert harness.list_groups() == (ListedGroup(group_id, "", "Empty", "classic"),)
    assert not harness.coordinator.groups


def test_an_unknown_group_is_described_as_dead(harness: CoordinatorHarness) -> None:
    message = f"Group {GROUP} not found."
    assert harness.describe() == DescribeResult(E.group_id_not_found, "Dead", "", "", (), message)


def test_each_group_is_listed_once(harness: CoordinatorHarness) -> None:
    harness.stable_group(None)
    harness.commit(group_id="simple")
    harness.join(group_id="connect", protocol_type="connect", version=3)
    harness.commit(member_id=next(iter(harness.group.members)), generation=1)
    assert set(harness.list_groups()) == {
        ListedGroup(GROUP, "consumer", "Stable", "classic"),
        ListedGroup("connect", "connect", "PreparingRebalance", "classic"),
        ListedGroup("simple", "", "Empty", "classic"),
    }
    assert len(harness.list_groups()) == 3


def test_a_protocol_may_have_an_empty_name(harness: CoordinatorHarness) -> None:
    joined = harness.join_dynamic(protocols=(("", b"subscription"),))
    harness.advance(0)
    member_id = harness.results[joined].member_id
    harness.sync(member_id, 1, {member_id: b"assigned"})
    (member,) = harness.describe().members
    assert (harness.describe().protocol_name, member.member_metadata, member.member_assignment) == (
        "",
        b"subscription",
        b"assigned",
    )


@pytest.mark.parametrize(
    ("states", "found"),
    [
        ((), {GROUP, "simple"}),
        (("Stable",), {GROUP}),
        ((" sTABLE ", "empty"), {GROUP, "simple"}),
        (("Empty", "junk"), {"simple"}),
        (("Dead",), set()),
        (("Assigning",), set()),
        (("",), set()),
        (("\0\tstable",), {GROUP}),
        (("\u00a0Stable", "\u3000Empty"), set()),
    ],
)
def test_state_filters_ignore_case_and_ascii_whitespace(
    harness: CoordinatorHarness, states: tuple[str, ...], found: set[str]
) -> None:
    harness.stable_group(None)
    harness.commit(group_id="simple")
    assert {group.group_id for group in harness.list_groups(*states)} == found


@pytest.mark.parametrize(
    ("types", "is_found"),
    [
        ((), True),
        (("classic",), True),
        (("CLASSIC", "junk"), True),
        ((" classic ",), False),
        (("consumer", "share", "streams"), False),
        (("",), False),
    ],
)
def test_type_filters_ignore_case_but_not_whitespace(
    harness: CoordinatorHarness, types: tuple[str, ...], is_found: bool
) -> None:
    harness.commit()
    assert bool(harness.list_groups(types=types)) is is_found


def test_lists_of_partitions_are_merged() -> None:
    one, two = (ListedGroup(name, "", State.EMPTY, "classic") for name in "ab")
    parts = [ListResult(NONE, (one,)), ListResult(E.not_coordinator, ()), ListResult(NONE, (two,))]
    assert merge_lists(parts) == ListResult(NONE, (one, two))
    assert merge_lists([]) == ListResult(NONE, ())
    loading = ListResult(E.coordinator_load_in_progress, ())
    assert merge_lists([*parts, loading]) == loading
