"""Each reason separately: two assignments and an assignor with scripted results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from kohort.assignors.explain import PROBE, Move, Reason, compare, is_sticky, moves
from kohort.assignors.model import Assignment, Subscription, TopicPartition, Topics
from kohort.assignors.resolve import BUILTIN, resolve

EXAMPLES = ("kohort.assignors.examples:Weighted", "kohort.assignors.examples:InRack")
Assign = Callable[[Topics, Mapping[str, Subscription]], Assignment]


@dataclass(frozen=True)
class Scripted:
    result: Assign
    name: str = "scripted"
    cooperative: bool = False
    sticky: bool = True

    def subscription_user_data(
        self,
        topics: Sequence[str],
        owned_partitions: Sequence[TopicPartition],
        generation_id: int | None,
    ) -> bytes | None:
        return None

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        if topics is PROBE and self.sticky:
            return {name: list(member.owned_partitions) for name, member in members.items()}
        return self.result(topics, members)


def t(*partitions: int) -> list[TopicPartition]:
    return [("t", partition) for partition in partitions]


def group(before: Assignment, *members: str) -> dict[str, Subscription]:
    """Members subscribed to t that own their previous partitions."""
    return {
        member: Subscription(
            ("t",), owned_partitions=tuple(before.get(member, ())), generation_id=1
        )
        for member in members
    }


def only_move(
    before: Assignment,
    after: Assignment,
    members: Mapping[str, Subscription] | None = None,
    topics: Topics | None = None,
    assignor: Scripted | None = None,
) -> Move:
    (move,) = moves(
        assignor or Scripted(lambda topics, members: after),
        topics or Topics({"t": 4}),
        group(before, *after) if members is None else members,
        before,
        after,
    )
    return move


def test_a_partition_that_stays_is_not_a_move() -> None:
    before, after = {"A": t(0, 1), "B": t(2)}, {"A": t(0), "B": t(1, 2)}
    assert compare(before, after) == (t(0, 2), t(1))


def test_a_partition_with_two_previous_owners_is_not_kept_by_one_of_them() -> None:
    assert compare({"A": t(0), "B": t(0)}, {"A": t(0), "B": []}) == ([], t(0))


def test_a_partition_without_a_previous_owner() -> None:
    move = only_move({"A": t(0)}, {"A": t(0, 1)})
    assert move == Move(("t", 1), (), "A", Reason.NO_PREVIOUS_OWNER, "no previous owner")


def test_the_owner_left() -> None:
    move = only_move({"A": t(0), "B": t(1)}, {"A": t(0, 1)})
    assert move == Move(("t", 1), ("B",), "A", Reason.OWNER_LEFT, "B left the group")


def test_the_owner_unsubscribed() -> None:
    before, after = {"A": t(0), "B": t(1)}, {"A": t(0, 1), "B": []}
    members = group(before, "A", "B")
    members["B"] = replace(members["B"], topics=("u",))
    move = only_move(before, after, members)
    assert move.reason is Reason.OWNER_UNSUBSCRIBED
    assert move.explanation == "B unsubscribed from t"


@pytest.mark.parametrize(
    ("topics", "explanation"),
    [
        (Topics({"t": 2}), "t has only 2 partitions"),
        (Topics({"t": 1}), "t has only 1 partition"),
        (Topics({"t": 0}), "topic t no longer exists"),
        (Topics({}), "topic t no longer exists"),
    ],
)
def test_the_partition_does_not_exist_any_more(topics: Topics, explanation: str) -> None:
    move = only_move({"A": t(3)}, {"A": []}, topics=topics)
    assert (move.member, move.reason, move.explanation) == (
        None,
        Reason.PARTITION_GONE,
        explanation,
    )


def test_the_topic_has_no_subscriber() -> None:
    members = {"A": Subscription(("u",))}
    move = only_move({"A": t(0)}, {"A": []}, members)
    assert (move.reason, move.explanation) == (Reason.NO_SUBSCRIBER, "no member subscribes to t")


def test_two_members_of_one_generation_claim_it() -> None:
    move = only_move({"A": t(0), "B": t(0)}, {"A": [], "B": [], "C": t(0)})
    assert (move.before, move.member, move.reason) == (("A", "B"), "C", Reason.CLAIMED_TWICE)
    assert move.explanation == "A and B claim it in the same generation"


def test_the_newer_of_two_claims_counts() -> None:
    before, after = {"A": t(0), "B": t(0)}, {"A": [], "B": t(0)}
    members = group(before, "A", "B")
    members["B"] = replace(members["B"], generation_id=2)
    move = only_move(before, after, members)
    assert (move.reason, move.explanation) == (
        Reason.STALE_CLAIM,
        "the claim of B is newer than that of A",
    )


def test_the_newer_claim_counts_although_its_owner_unsubscribed() -> None:
    before, after = {"A": t(0), "B": t(0)}, {"A": [], "B": [], "C": t(0)}
    members = group(before, *after)
    members["B"] = replace(members["B"], generation_id=2, topics=())
    move = only_move(before, after, members)
    assert move.reason is Reason.STALE_CLAIM
    assert move.explanation == "the claim of B is newer than that of A, but B unsubscribed from t"


def test_a_member_that_unsubscribed_invalidates_the_claim_of_another() -> None:
    before, after = {"A": t(0), "B": t(0)}, {"A": [], "B": [], "C": t(0)}
    members = group(before, *after)
    members["B"] = replace(members["B"], topics=())
    assert only_move(before, after, members).reason is Reason.CLAIMED_TWICE


def test_one_of_two_owners_unsubscribed() -> None:
    before, after = {"A": t(0), "B": t(0)}, {"A": [], "B": t(0)}
    members = group(before, *after)
    members["A"] = replace(members["A"], topics=())
    move = only_move(before, after, members)
    assert move.reason is Reason.OWNER_UNSUBSCRIBED
    assert move.explanation == "A unsubscribed from t"


def test_one_of_two_owners_left() -> None:
    move = only_move({"A": t(0), "B": t(0)}, {"B": t(0)})
    assert (move.reason, move.explanation) == (Reason.OWNER_LEFT, "A left the group")


def test_balance_is_explained_by_both_counts() -> None:
    move = only_move({"A": t(0, 1, 2, 3)}, {"A": t(0, 1, 2), "B": t(3)})
    assert move.reason is Reason.BALANCE
    assert move.explanation == "balance: A has 3 without it, B 1 with it"


def test_balance_is_explained_by_what_the_owner_could_have_kept() -> None:
    """A had 4 partitions; one moved to B, which now has 3, and one to C."""
    before = {"A": t(0, 1, 2, 3), "B": [("u", 0), ("u", 1)]}
    after = {"A": t(0, 1), "B": [*t(2), ("u", 0), ("u", 1)], "C": t(3)}
    first, second = moves(
        Scripted(lambda topics, members: after),
        Topics({"t": 4, "u": 2}),
        group(before, *after),
        before,
        after,
    )
    assert first.explanation == "balance: A could have kept 4, B has 3 with it"
    assert second.explanation == "balance: A has 2 without it, C 1 with it"


def test_balance_may_be_that_of_the_topic() -> None:
    before = {"A": [*t(0, 1), ("u", 0)], "B": [("u", 1), ("u", 2), ("u", 3)]}
    after = {"A": [*t(0), ("u", 0)], "B": [*t(1), ("u", 1), ("u", 2), ("u", 3)]}
    move = only_move(before, after, topics=Topics({"t": 2, "u": 4}))
    assert move.reason is Reason.BALANCE
    assert move.explanation == "balance: of t, A has 1 without it, B 1 with it"


def test_a_move_that_does_not_improve_the_balance_is_the_assignors_choice() -> None:
    """A had no more partitions before the move than B without it, and received no others
    instead."""
    move = only_move({"A": t(0), "B": t(1, 2)}, {"A": [], "B": t(0, 1, 2)})
    assert (move.reason, move.explanation) == (Reason.ASSIGNOR_CHOICE, "scripted assigns it to B")


def test_balance_is_not_the_reason_if_the_owner_had_no_more_than_the_others() -> None:
    move = only_move({"A": t(0, 1), "B": t(2)}, {"A": t(0), "B": t(1, 2)})
    assert move.reason is Reason.ASSIGNOR_CHOICE


def test_the_owner_got_another_partition_instead() -> None:
    before = {"A": t(0), "B": t(1, 2), "C": t(3)}
    after = {"A": t(3), "B": t(0, 1, 2)}
    first, second = moves(
        Scripted(lambda topics, members: after),
        Topics({"t": 4}),
        group(before, *after),
        before,
        after,
    )
    assert (first.reason, first.explanation) == (Reason.EXCHANGE, "A got t-3 instead")
    assert second.reason is Reason.OWNER_LEFT


def test_an_assignor_that_leaves_it_unassigned() -> None:
    move = only_move({"A": t(0, 1)}, {"A": t(0)})
    assert (move.member, move.reason) == (None, Reason.ASSIGNOR_CHOICE)
    assert move.explanation == "scripted leaves it unassigned"


def test_an_assignor_that_is_not_sticky_needs_no_other_reason() -> None:
    after = {"A": t(0, 1), "B": t(2, 3)}
    assignor = Scripted(lambda topics, members: after, sticky=False)
    move = only_move({"A": t(0, 1, 2), "B": t(3)}, after, assignor=assignor)
    assert move.reason is Reason.NOT_STICKY
    assert move.explanation == "scripted ignores previous owners"


@pytest.mark.parametrize("name", [*BUILTIN, *EXAMPLES])
def test_sticky_assignors_are_recognized_by_their_results(name: str) -> None:
    sticky = {"sticky", "cooperative-sticky", "uniform"}
    assert is_sticky(resolve(name)) == (name in sticky), "a new sticky assignor belongs in the set"


RACKS = Topics({"t": 2}, {"t": (("a",), ("b",))})
BEFORE, IN_RACK = {"A": t(1), "B": t(0)}, {"A": t(0), "B": t(1)}


def in_racks(before: Assignment, **racks: str) -> dict[str, Subscription]:
    members = group(before, *racks)
    return {name: replace(member, rack_id=racks[name]) for name, member in members.items()}


def test_it_moves_to_a_rack_with_a_replica() -> None:
    assignor = Scripted(lambda topics, members: IN_RACK if topics.replica_racks else BEFORE)
    found = moves(assignor, RACKS, in_racks(BEFORE, A="a", B="b"), BEFORE, IN_RACK)
    assert {move.reason for move in found} == {Reason.RACK}
    assert found[1].explanation == "no replica in A's rack a, one in B's rack b"


def test_racks_are_a_reason_for_assignors_that_are_not_sticky_as_well() -> None:
    assignor = Scripted(
        lambda topics, members: IN_RACK if topics.replica_racks else BEFORE, sticky=False
    )
    found = moves(assignor, RACKS, in_racks(BEFORE, A="a", B="b"), BEFORE, IN_RACK)
    assert {move.reason for move in found} == {Reason.RACK}


def test_it_leaves_a_rack_without_a_replica_for_another_one_without() -> None:
    assignor = Scripted(lambda topics, members: IN_RACK if topics.replica_racks else BEFORE)
    found = moves(assignor, RACKS, in_racks(BEFORE, A="a", B="c"), BEFORE, IN_RACK)
    assert found[1].explanation == "no replica in A's rack a"


def test_racks_are_not_the_reason_if_it_would_have_moved_without_them() -> None:
    assignor = Scripted(lambda topics, members: IN_RACK)
    found = moves(assignor, RACKS, in_racks(BEFORE, A="a", B="b"), BEFORE, IN_RACK)
    assert {move.reason for move in found} == {Reason.EXCHANGE}


def test_racks_are_not_the_reason_if_the_owner_is_in_the_same_rack() -> None:
    assignor = Scripted(lambda topics, members: IN_RACK if topics.replica_racks else BEFORE)
    found = moves(assignor, RACKS, in_racks(BEFORE, A="b", B="b"), BEFORE, IN_RACK)
    assert found[1].reason is Reason.EXCHANGE


def in_two_rebalances(first: Assignment, second: Assignment) -> Scripted:
    """`second` is the result if all members own what `first` assigned."""

    def result(topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        owned = {name: sorted(member.owned_partitions) for name, member in members.items()}
        return second if owned == first else first

    return Scripted(result, cooperative=True)


def test_it_is_unassigned_until_its_owner_has_revoked_it() -> None:
    before = {"A": t(0, 1, 2, 3)}
    first, second = {"A": t(0, 1, 2), "B": []}, {"A": t(0, 1, 2), "B": t(3)}
    move = only_move(before, first, assignor=in_two_rebalances(first, second))
    assert (move.member, move.reason) == (None, Reason.PENDING_REVOCATION)
    assert move.explanation == (
        "A must revoke it first; the next rebalance assigns it to B: "
        "balance: A has 3 without it, B 1 with it"
    )


def test_it_is_unassigned_until_both_claimants_have_revoked_it() -> None:
    before = {"A": t(0), "B": t(0)}
    first, second = {"A": [], "B": []}, {"A": t(0), "B": []}
    move = only_move(before, first, assignor=in_two_rebalances(first, second))
    assert move.explanation == (
        "A and B must revoke it first; the next rebalance assigns it to A: "
        "A and B claim it in the same generation"
    )


def test_no_revocation_is_pending_if_the_owner_left() -> None:
    assignor = Scripted(lambda topics, members: {"A": []}, cooperative=True)
    move = only_move({"B": t(0)}, {"A": []}, assignor=assignor)
    assert move.reason is Reason.OWNER_LEFT


def test_moves_are_sorted_and_have_all_previous_owners() -> None:
    before = {"B": t(2), "A": t(1, 2)}
    found = moves(
        Scripted(lambda topics, members: {"C": t(1, 2)}),
        Topics({"t": 3}),
        group(before, "C"),
        before,
        {"C": t(1, 2)},
    )
    assert [(move.partition, move.before) for move in found] == [
        (("t", 1), ("A",)),
        (("t", 2), ("A", "B")),
    ]
    assert found[1].explanation == "A and B left the group"
