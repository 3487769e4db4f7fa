"""DescribeGroups and ListGroups."""

import pytest
from kohort.coordinator.admin import merge_lists
from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import ListedGroup, ListResult
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness

E = ErrorCode
NONE = ErrorCode.none


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


def test_lists_of_partitions_are_merged() -> None:
    one, two = (ListedGroup(name, "", State.EMPTY, "classic") for name in "ab")
    parts = [ListResult(NONE, (one,)), ListResult(E.not_coordinator, ()), ListResult(NONE, (two,))]
    assert merge_lists(parts) == ListResult(NONE, (one, two))
    assert merge_lists([]) == ListResult(NONE, ())
    loading = ListResult(E.coordinator_load_in_progress, ())
    assert merge_lists([*parts, loading]) == loading
