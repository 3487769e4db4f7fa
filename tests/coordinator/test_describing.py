"""DescribeGroups and ListGroups: what an operator sees of a group."""

import pytest
from kohort.coordinator.admin import merge_lists
from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import DescribedMember, DescribeResult, ListedGroup, ListResult
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, World

E = ErrorCode
NONE = ErrorCode.none


def member(member_id: str, metadata: bytes, assignment: bytes) -> DescribedMember:
    instance_id = "i" if member_id.startswith("i-") else None
    return DescribedMember(member_id, instance_id, "client", "/127.0.0.1", metadata, assignment)


def test_a_stable_group_tells_all(w: World) -> None:
    a, b = w.stable(None, "i")
    members = (member(a, b"r", a.encode()), member(b, b"r", b.encode()))
    assert w.describe() == DescribeResult(NONE, "Stable", "consumer", "range", members)
    w.restart()
    assert w.describe() == DescribeResult(NONE, "Stable", "consumer", "range", members)


def test_an_open_round_hides_what_members_said_and_shows_their_old_assignments(w: World) -> None:
    (a,) = w.stable(None)
    b = w.new_id()
    w.join(b)
    preparing = DescribeResult(
        NONE,
        "PreparingRebalance",
        "consumer",
        "",
        (member(a, b"", a.encode()), member(b, b"", b"")),
    )
    assert w.describe() == preparing
    w.join(a)
    completing = w.describe()
    assert (completing.state, completing.protocol_name) == ("CompletingRebalance", "")
    assert {m.metadata for m in completing.members} == {b""}


def test_who_was_only_given_an_id_is_no_member(w: World) -> None:
    w.new_id()
    assert w.describe() == DescribeResult(NONE, "Empty", "", "", ())


def test_a_group_that_all_have_left_keeps_its_protocol_type(w: World) -> None:
    w.leave(*w.stable(None))
    assert w.describe() == DescribeResult(NONE, "Empty", "consumer", "", ())


@pytest.mark.parametrize("group_id", ["simple", ""])
def test_a_group_of_nothing_but_offsets_is_empty(w: World, group_id: str) -> None:
    w.commit(group_id=group_id)
    assert w.describe(group_id) == DescribeResult(NONE, "Empty", "", "", ())
    assert w.list_groups() == (ListedGroup(group_id, "", "Empty", "classic"),)
    assert not w.coordinator.groups


def test_a_group_that_does_not_exist_is_dead(w: World) -> None:
    assert w.describe() == DescribeResult(E.group_id_not_found, "Dead", "", "", ())


def test_each_group_is_listed_once(w: World) -> None:
    w.stable(None)
    w.commit(group_id="simple")
    w.join(group_id="connect", protocol_type="connect", version=3)
    w.commit(member_id=next(iter(w.group.members)), generation=1)
    assert set(w.list_groups()) == {
        ListedGroup(GROUP, "consumer", "Stable", "classic"),
        ListedGroup("connect", "connect", "PreparingRebalance", "classic"),
        ListedGroup("simple", "", "Empty", "classic"),
    }
    assert len(w.list_groups()) == 3


def test_a_protocol_may_have_an_empty_name(w: World) -> None:
    joined = w.enter(protocols=(("", b"said"),))
    w.sleep(0)
    member_id = w.answers[joined].member_id
    w.sync(member_id, 1, {member_id: b"given"})
    (member,) = w.describe().members
    assert (w.describe().protocol_name, member.metadata, member.assignment) == (
        "",
        b"said",
        b"given",
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
def test_states_are_chosen_by_their_names_however_written(
    w: World, states: tuple[str, ...], found: set[str]
) -> None:
    w.stable(None)
    w.commit(group_id="simple")
    assert {group.group_id for group in w.list_groups(*states)} == found


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
def test_types_are_chosen_by_their_names_which_are_not_trimmed(
    w: World, types: tuple[str, ...], is_found: bool
) -> None:
    w.commit()
    assert bool(w.list_groups(types=types)) is is_found


def test_partitions_are_merge_lists() -> None:
    one, two = (ListedGroup(name, "", State.EMPTY, "classic") for name in "ab")
    parts = [ListResult(NONE, (one,)), ListResult(E.not_coordinator, ()), ListResult(NONE, (two,))]
    assert merge_lists(parts) == ListResult(NONE, (one, two))
    assert merge_lists([]) == ListResult(NONE, ())
    loading = ListResult(E.coordinator_load_in_progress, ())
    assert merge_lists([*parts, loading]) == loading
