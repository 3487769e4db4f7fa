"""The next assignment of a member (reconcile.py): one row per case of Kafka's
CurrentAssignmentBuilder. The topic is `t`; `other` is a second topic that the member owned."""

from typing import Any, NamedTuple

import pytest
from kohort.coordinator.consumer.group import FREE, Member, MemberState
from kohort.coordinator.consumer.reconcile import Goal, is_subset, next_assignment
from kohort.protocol.errors import ApiError, ErrorCode

STABLE, UNREVOKED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS
UNRELEASED, UNKNOWN = MemberState.UNRELEASED_PARTITIONS, MemberState.UNKNOWN

Epochs = dict[int, int]


class Before(NamedTuple):
    """A member before the heartbeat: its owned and revoked partitions, with assignment epochs."""

    state: MemberState
    epoch: int
    owned: Epochs
    revoking: Epochs = {}  # noqa: RUF012


class Now(NamedTuple):
    """The input of the reconciliation. `used`: partitions that other members own."""

    epoch: int
    target: set[int]
    reported: set[int] | None = None
    used: tuple[int, ...] = ()


class After(NamedTuple):
    state: MemberState
    epoch: int
    previous_epoch: int
    owned: Epochs
    revoking: Epochs = {}  # noqa: RUF012


SAME = None

ROWS: dict[str, tuple[Before, Now, After | None]] = {
    # --- stable
    "stable at the target epoch: nothing to do": (
        Before(STABLE, 10, {1: 9, 2: 10}),
        Now(10, {1, 2}),
        SAME,
    ),
    "stable, a new epoch with the same target": (
        Before(STABLE, 10, {1: 9, 2: 10}),
        Now(11, {1, 2}),
        After(STABLE, 11, 10, {1: 9, 2: 10}),
    ),
    "stable, the target loses a partition: it is revoked at the old epoch": (
        Before(STABLE, 10, {1: 9, 2: 10}),
        Now(11, {1}),
        After(UNREVOKED, 10, 10, {1: 9}, {2: 10}),
    ),
    "stable, the target loses a partition that the member no longer owns": (
        Before(STABLE, 10, {1: 9, 2: 10}),
        Now(11, {1}, reported={1}),
        After(STABLE, 11, 10, {1: 9}),
    ),
    "stable, a new partition is free": (
        Before(STABLE, 10, {1: 9}),
        Now(11, {1, 2}),
        After(STABLE, 11, 10, {1: 9, 2: 11}),
    ),
    "stable, a new partition belongs to another member": (
        Before(STABLE, 10, {1: 9}),
        Now(11, {1, 2}, used=(2,)),
        After(UNRELEASED, 11, 10, {1: 9}),
    ),
    "stable, one new partition is free and another is not": (
        Before(STABLE, 10, {1: 9}),
        Now(11, {1, 2, 3}, used=(3,)),
        After(UNRELEASED, 11, 10, {1: 9, 2: 11}),
    ),
    "stable, partitions are exchanged: revoked first, new ones wait": (
        Before(STABLE, 10, {1: 9, 2: 10}),
        Now(11, {2, 3}),
        After(UNREVOKED, 10, 10, {2: 10}, {1: 9}),
    ),
    "a new member gets what is free": (
        Before(STABLE, 0, {}),
        Now(11, {1, 2}, reported=set()),
        After(STABLE, 11, 0, {1: 11, 2: 11}),
    ),
    "a member without a target": (
        Before(STABLE, 0, {}),
        Now(11, set(), reported=set()),
        After(STABLE, 11, 0, {}),
    ),
    # --- unrevoked
    "unrevoked, the member does not say what it owns": (
        Before(UNREVOKED, 10, {1: 9}, {2: 10}),
        Now(11, {1}),
        SAME,
    ),
    "unrevoked, the member still owns what it revokes": (
        Before(UNREVOKED, 10, {1: 9}, {2: 10}),
        Now(11, {1}, reported={1, 2}),
        SAME,
    ),
    "unrevoked, the member has revoked": (
        Before(UNREVOKED, 10, {1: 9}, {2: 10}),
        Now(11, {1}, reported={1}),
        After(STABLE, 11, 10, {1: 9}),
    ),
    "unrevoked, the member has revoked and gets what is free": (
        Before(UNREVOKED, 10, {1: 9}, {2: 10}),
        Now(11, {1, 3}, reported={1}),
        After(STABLE, 11, 10, {1: 9, 3: 11}),
    ),
    "unrevoked, the member has revoked and waits for others": (
        Before(UNREVOKED, 10, {1: 9}, {2: 10}),
        Now(11, {1, 3}, reported={1}, used=(3,)),
        After(UNRELEASED, 11, 10, {1: 9}),
    ),
    "unrevoked, a newer target takes more: it revokes again at the old epoch": (
        Before(UNREVOKED, 10, {1: 9, 3: 9}, {2: 10}),
        Now(12, {1}, reported={1, 3}),
        After(UNREVOKED, 10, 10, {1: 9}, {3: 9}),
    ),
    "unrevoked, a newer target gives back what was revoked": (
        Before(UNREVOKED, 10, {1: 9}, {2: 10}),
        Now(12, {1, 2}, reported={1}, used=(2,)),
        After(STABLE, 12, 10, {1: 9, 2: 12}),
    ),
    # --- unreleased
    "unreleased, nothing is free yet": (
        Before(UNRELEASED, 11, {1: 9}),
        Now(11, {1, 2}, used=(2,)),
        After(UNRELEASED, 11, 11, {1: 9}),
    ),
    "unreleased, some is free": (
        Before(UNRELEASED, 11, {1: 9}),
        Now(11, {1, 2, 3}, used=(3,)),
        After(UNRELEASED, 11, 11, {1: 9, 2: 11}),
    ),
    "unreleased, all is free": (
        Before(UNRELEASED, 11, {1: 9}),
        Now(11, {1, 2}),
        After(STABLE, 11, 11, {1: 9, 2: 11}),
    ),
    "unreleased, a newer target does not have the partition": (
        Before(UNRELEASED, 11, {1: 9}),
        Now(12, {1}, used=(2,)),
        After(STABLE, 12, 11, {1: 9}),
    ),
    "unreleased, a newer target takes a partition": (
        Before(UNRELEASED, 11, {1: 9, 4: 9}),
        Now(12, {1, 2}, used=(2,)),
        After(UNREVOKED, 11, 11, {1: 9}, {4: 9}),
    ),
    # --- unknown
    "unknown, the member owns nothing and starts again": (
        Before(UNKNOWN, 11, {3: 9}, {4: 9}),
        Now(12, {5}, reported=set()),
        After(STABLE, 12, 11, {5: 12}),
    ),
}


@pytest.mark.parametrize(("before", "now", "after"), ROWS.values(), ids=ROWS)
def test_the_next_assignment_is_kafkas(before: Before, now: Now, after: After | None) -> None:
    member = Member(
        "a",
        epoch=before.epoch,
        previous_epoch=before.epoch,
        state=before.state,
        assigned={"t": before.owned},
        pending_revocation={"t": before.revoking} if before.revoking else {},
    )
    goal = Goal(
        now.epoch,
        {"t": now.target},
        {"t"},
        True,
        lambda _topic, partition: 5 if partition in now.used else FREE,
    )
    reported = None
    if now.reported is not None:
        reported = {"t": now.reported} if now.reported else {}
    found = next_assignment(member, goal, reported, subscription_changed=False)
    if after is None:
        assert found is member
        return
    assert found[2:5] == (after.epoch, after.previous_epoch, after.state)
    assert found.assigned.get("t", {}) == after.owned
    assert found.pending_revocation.get("t", {}) == after.revoking


@pytest.mark.parametrize("reported", [None, {"t": {1}}])
def test_a_member_in_an_unknown_state_must_join_again(reported: dict[str, set[int]] | None) -> None:
    member = Member("a", epoch=11, state=UNKNOWN, assigned={"t": {1: 9}})
    goal = Goal(12, {}, set(), True, lambda *_: FREE)
    with pytest.raises(ApiError) as raised:
        next_assignment(member, goal, reported, subscription_changed=False)
    assert raised.value.error is ErrorCode.fenced_member_epoch


# --- a subscription that has changed, before the new target assignment


def member_of_two_topics(state: MemberState, **more: object) -> Member:
    owned = {"t": {1: 9}, "other": {7: 9}}
    return Member("a", epoch=10, previous_epoch=9, state=state, assigned=owned)._replace(**more)


def changed(member: Member, reported: dict[str, set[int]] | None, *subscribed: str) -> Member:
    existing = set(subscribed) - {"unknown"}
    goal = Goal(10, {"t": {1}, "other": {7}}, existing, bool(subscribed), lambda *_: FREE)
    return next_assignment(member, goal, reported, subscription_changed=True)


def test_partitions_of_a_topic_without_subscription_are_revoked_at_once() -> None:
    after = changed(member_of_two_topics(STABLE), None, "t")
    assert (after.state, after.epoch, after.previous_epoch) == (UNREVOKED, 10, 10)
    assert after.assigned == {"t": {1: 9}}
    assert after.pending_revocation == {"other": {7: 9}}


def test_partitions_to_revoke_are_dropped_if_the_member_does_not_own_them() -> None:
    after = changed(member_of_two_topics(STABLE), {"t": {1}}, "t")
    assert (after.state, after.assigned, after.pending_revocation) == (STABLE, {"t": {1: 9}}, {})


def test_more_partitions_may_be_added_to_a_revocation() -> None:
    member = member_of_two_topics(UNREVOKED, pending_revocation={"other": {8: 3}})
    after = changed(member, None, "t")
    assert after.pending_revocation == {"other": {8: 3, 7: 9}}


def test_a_wider_subscription_changes_nothing_yet() -> None:
    member = member_of_two_topics(STABLE)
    assert changed(member, None, "t", "other", "third") is member


@pytest.mark.parametrize("reported", [None, {}])
def test_a_member_without_partitions_has_nothing_to_revoke(reported: Any) -> None:
    member = member_of_two_topics(STABLE, assigned={})
    assert changed(member, reported, "unknown") is member
    assert changed(member, reported) == member._replace(previous_epoch=10)


def test_a_target_of_a_topic_without_subscription_is_revoked() -> None:
    """The target is older than the subscription."""
    goal = Goal(11, {"t": {1}, "other": {7}}, {"t"}, True, lambda *_: FREE)
    after = next_assignment(member_of_two_topics(STABLE), goal, None, subscription_changed=True)
    assert after.pending_revocation == {"other": {7: 9}}


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (None, False),
        ({}, True),
        ({"t": {1}}, True),
        ({"t": {1, 2}}, False),
        ({"other": {1}}, False),
    ],
)
def test_a_member_owns_only_its_assignment(
    reported: dict[str, set[int]] | None, expected: bool
) -> None:
    assert is_subset(reported, {"t": {1: 9}}) is expected
