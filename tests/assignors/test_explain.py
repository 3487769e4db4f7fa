"""Each reason by itself: two rounds, and an assignor that answers as it is told."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from kohort.assignors.builtin import BUILTIN
from kohort.assignors.explain import PROBE, Move, Reason, compare, is_forgetful, moves
from kohort.assignors.finding import find
from kohort.assignors.model import Assignment, Subscription, TopicPartition, Topics

OWN = [f"kohort.assignors.examples.{path}" for path in ("weighted:Weighted", "in_rack:InRack")]
Answers = Callable[[Topics, Mapping[str, Subscription]], Assignment]


@dataclass(frozen=True)
class Told:
    answers: Answers
    name: str = "told"
    cooperative: bool = False
    forgetful: bool = False

    def user_data(
        self, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int | None
    ) -> bytes | None:
        return None

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        if topics is PROBE and not self.forgetful:
            return {name: list(member.owned) for name, member in members.items()}
        return self.answers(topics, members)


def t(*partitions: int) -> list[TopicPartition]:
    return [("t", partition) for partition in partitions]


def group(before: Assignment, *members: str) -> dict[str, Subscription]:
    """Subscribed to t, owning what they had."""
    return {
        member: Subscription(("t",), owned=tuple(before.get(member, ())), generation=1)
        for member in members
    }


def only_move(
    before: Assignment,
    after: Assignment,
    members: Mapping[str, Subscription] | None = None,
    topics: Topics | None = None,
    assignor: Told | None = None,
) -> Move:
    (move,) = moves(
        assignor or Told(lambda topics, members: after),
        topics or Topics({"t": 4}),
        group(before, *after) if members is None else members,
        before,
        after,
    )
    return move


def test_what_stays_is_no_move() -> None:
    before, after = {"A": t(0, 1), "B": t(2)}, {"A": t(0), "B": t(1, 2)}
    assert compare(before, after) == (t(0, 2), t(1))


def test_a_partition_that_two_had_is_not_kept_by_one_of_them() -> None:
    assert compare({"A": t(0), "B": t(0)}, {"A": t(0), "B": []}) == ([], t(0))


def test_nobody_had_it() -> None:
    move = only_move({"A": t(0)}, {"A": t(0, 1)})
    assert move == Move(("t", 1), (), "A", Reason.NOBODY_HAD_IT, "nobody had it")


def test_its_owner_left() -> None:
    move = only_move({"A": t(0), "B": t(1)}, {"A": t(0, 1)})
    assert move == Move(("t", 1), ("B",), "A", Reason.OWNER_LEFT, "B left the group")


def test_its_owner_unsubscribed() -> None:
    before, after = {"A": t(0), "B": t(1)}, {"A": t(0, 1), "B": []}
    members = group(before, "A", "B")
    members["B"] = replace(members["B"], topics=("u",))
    move = only_move(before, after, members)
    assert move.reason is Reason.OWNER_UNSUBSCRIBED
    assert move.words == "B does not subscribe to t any more"


@pytest.mark.parametrize(
    ("topics", "words"),
    [
        (Topics({"t": 2}), "t has only 2 partitions"),
        (Topics({"t": 1}), "t has only 1 partition"),
        (Topics({"t": 0}), "there is no topic t any more"),
        (Topics({}), "there is no topic t any more"),
    ],
)
def test_the_partition_is_gone(topics: Topics, words: str) -> None:
    move = only_move({"A": t(3)}, {"A": []}, topics=topics)
    assert (move.member, move.reason, move.words) == (None, Reason.PARTITION_GONE, words)


def test_nobody_wants_it_any_more() -> None:
    members = {"A": Subscription(("u",))}
    move = only_move({"A": t(0)}, {"A": []}, members)
    assert (move.reason, move.words) == (Reason.NOT_WANTED, "nobody subscribes to t")


def test_two_of_one_generation_claim_it() -> None:
    move = only_move({"A": t(0), "B": t(0)}, {"A": [], "B": [], "C": t(0)})
    assert (move.before, move.member, move.reason) == (("A", "B"), "C", Reason.CLAIMED_TWICE)
    assert move.words == "A and B claim it, and one can have it"


def test_the_newer_of_two_claims_holds() -> None:
    before, after = {"A": t(0), "B": t(0)}, {"A": [], "B": t(0)}
    members = group(before, "A", "B")
    members["B"] = replace(members["B"], generation=2)
    move = only_move(before, after, members)
    assert (move.reason, move.words) == (Reason.OLD_CLAIM, "B's claim is newer than that of A")


def test_the_newer_claim_counts_though_its_owner_wants_it_no_longer() -> None:
    before, after = {"A": t(0), "B": t(0)}, {"A": [], "B": [], "C": t(0)}
    members = group(before, *after)
    members["B"] = replace(members["B"], generation=2, topics=())
    move = only_move(before, after, members)
    assert move.reason is Reason.OLD_CLAIM
    assert move.words == "B's claim is newer than that of A, but it wants no t any more"


def test_a_member_that_wants_it_no_longer_spoils_the_claim_of_another() -> None:
    before, after = {"A": t(0), "B": t(0)}, {"A": [], "B": [], "C": t(0)}
    members = group(before, *after)
    members["B"] = replace(members["B"], topics=())
    assert only_move(before, after, members).reason is Reason.CLAIMED_TWICE


def test_of_two_owners_one_unsubscribed() -> None:
    before, after = {"A": t(0), "B": t(0)}, {"A": [], "B": t(0)}
    members = group(before, *after)
    members["A"] = replace(members["A"], topics=())
    move = only_move(before, after, members)
    assert move.reason is Reason.OWNER_UNSUBSCRIBED
    assert move.words == "A does not subscribe to t any more"


def test_of_two_owners_one_left() -> None:
    move = only_move({"A": t(0), "B": t(0)}, {"B": t(0)})
    assert (move.reason, move.words) == (Reason.OWNER_LEFT, "A left the group")


def test_balance_is_told_with_both_counts() -> None:
    move = only_move({"A": t(0, 1, 2, 3)}, {"A": t(0, 1, 2), "B": t(3)})
    assert move.reason is Reason.BALANCE
    assert move.words == "balance: A has 3 without it, B 1 with it"


def test_balance_is_told_by_what_there_was_to_keep_where_more_of_it_went() -> None:
    """A had 4 when B took its third; C took the other."""
    before = {"A": t(0, 1, 2, 3), "B": [("u", 0), ("u", 1)]}
    after = {"A": t(0, 1), "B": [*t(2), ("u", 0), ("u", 1)], "C": t(3)}
    first, second = moves(
        Told(lambda topics, members: after),
        Topics({"t": 4, "u": 2}),
        group(before, *after),
        before,
        after,
    )
    assert first.words == "balance: A had 4 to keep, B has 3 with it"
    assert second.words == "balance: A has 2 without it, C 1 with it"


def test_balance_may_be_that_of_its_topic() -> None:
    before = {"A": [*t(0, 1), ("u", 0)], "B": [("u", 1), ("u", 2), ("u", 3)]}
    after = {"A": [*t(0), ("u", 0)], "B": [*t(1), ("u", 1), ("u", 2), ("u", 3)]}
    move = only_move(before, after, topics=Topics({"t": 2, "u": 4}))
    assert move.reason is Reason.BALANCE
    assert move.words == "balance: of t A has 1 without it, B 1 with it"


def test_what_would_not_have_been_out_of_balance_is_not_called_balance() -> None:
    """A had no more with it than B has without it, and got nothing in its place."""
    move = only_move({"A": t(0), "B": t(1, 2)}, {"A": [], "B": t(0, 1, 2)})
    assert (move.reason, move.words) == (Reason.CHOICE, "told gives it to B")


def test_balance_is_no_reason_where_the_owner_was_not_ahead_with_all_it_had() -> None:
    move = only_move({"A": t(0, 1), "B": t(2)}, {"A": t(0), "B": t(1, 2)})
    assert move.reason is Reason.CHOICE


def test_other_partitions_came_in_its_place() -> None:
    before = {"A": t(0), "B": t(1, 2), "C": t(3)}
    after = {"A": t(3), "B": t(0, 1, 2)}
    first, second = moves(
        Told(lambda topics, members: after), Topics({"t": 4}), group(before, *after), before, after
    )
    assert (first.reason, first.words) == (Reason.EXCHANGE, "A got t-3 in its place")
    assert second.reason is Reason.OWNER_LEFT


def test_an_assignor_that_leaves_it_to_nobody_says_no_more() -> None:
    move = only_move({"A": t(0, 1)}, {"A": t(0)})
    assert (move.member, move.reason) == (None, Reason.CHOICE)
    assert move.words == "told gives it to nobody"


def test_an_assignor_that_looks_at_no_owner_moves_without_another_reason() -> None:
    after = {"A": t(0, 1), "B": t(2, 3)}
    told = Told(lambda topics, members: after, forgetful=True)
    move = only_move({"A": t(0, 1, 2), "B": t(3)}, after, assignor=told)
    assert move.reason is Reason.FORGETFUL
    assert move.words == "told deals all partitions out anew, whoever had them"


@pytest.mark.parametrize("name", [*BUILTIN, *OWN])
def test_strategies_without_a_memory_are_known_by_what_they_answer(name: str) -> None:
    remembering = {"sticky", "cooperative-sticky", "uniform"}
    assert is_forgetful(find(name)) == (name not in remembering)


RACKS = Topics({"t": 2}, {"t": (("a",), ("b",))})
BEFORE, NEAR = {"A": t(1), "B": t(0)}, {"A": t(0), "B": t(1)}


def in_racks(before: Assignment, **racks: str) -> dict[str, Subscription]:
    members = group(before, *racks)
    return {name: replace(member, rack=racks[name]) for name, member in members.items()}


def test_it_goes_to_a_rack_that_has_a_replica() -> None:
    told = Told(lambda topics, members: NEAR if topics.replica_racks else BEFORE)
    found = moves(told, RACKS, in_racks(BEFORE, A="a", B="b"), BEFORE, NEAR)
    assert {move.reason for move in found} == {Reason.RACK}
    assert found[1].words == "no replica is in A's rack a, one is in B's b"


def test_racks_are_a_reason_for_assignors_without_a_memory_too() -> None:
    told = Told(lambda topics, members: NEAR if topics.replica_racks else BEFORE, forgetful=True)
    found = moves(told, RACKS, in_racks(BEFORE, A="a", B="b"), BEFORE, NEAR)
    assert {move.reason for move in found} == {Reason.RACK}


def test_it_leaves_a_far_rack_though_the_new_one_is_no_nearer() -> None:
    told = Told(lambda topics, members: NEAR if topics.replica_racks else BEFORE)
    found = moves(told, RACKS, in_racks(BEFORE, A="a", B="c"), BEFORE, NEAR)
    assert found[1].words == "no replica is in A's rack a"


def test_racks_are_no_reason_where_it_had_moved_without_them() -> None:
    told = Told(lambda topics, members: NEAR)
    found = moves(told, RACKS, in_racks(BEFORE, A="a", B="b"), BEFORE, NEAR)
    assert {move.reason for move in found} == {Reason.EXCHANGE}


def test_racks_are_no_reason_where_the_old_owner_is_near_as_well() -> None:
    told = Told(lambda topics, members: NEAR if topics.replica_racks else BEFORE)
    found = moves(told, RACKS, in_racks(BEFORE, A="b", B="b"), BEFORE, NEAR)
    assert found[1].reason is Reason.EXCHANGE


def rounds(first: Assignment, second: Assignment) -> Told:
    """`second` follows when all own what they got by `first`."""

    def answers(topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        given = {name: sorted(member.owned) for name, member in members.items()}
        return second if given == first else first

    return Told(answers, cooperative=True)


def test_it_is_held_back_until_its_owner_has_given_it_back() -> None:
    before = {"A": t(0, 1, 2, 3)}
    first, second = {"A": t(0, 1, 2), "B": []}, {"A": t(0, 1, 2), "B": t(3)}
    move = only_move(before, first, assignor=rounds(first, second))
    assert (move.member, move.reason) == (None, Reason.HELD_BACK)
    assert move.words == (
        "A has to give it back first, B gets it in the next round: "
        "balance: A has 3 without it, B 1 with it"
    )


def test_what_two_claim_is_held_back_until_both_have_given_it_back() -> None:
    before = {"A": t(0), "B": t(0)}
    first, second = {"A": [], "B": []}, {"A": t(0), "B": []}
    move = only_move(before, first, assignor=rounds(first, second))
    assert move.words == (
        "A and B have to give it back first, A gets it in the next round: "
        "A and B claim it, and one can have it"
    )


def test_nothing_is_held_back_for_one_who_left() -> None:
    told = Told(lambda topics, members: {"A": []}, cooperative=True)
    move = only_move({"B": t(0)}, {"A": []}, assignor=told)
    assert move.reason is Reason.OWNER_LEFT


def test_moves_come_by_partition_and_name_every_owner_before() -> None:
    before = {"B": t(2), "A": t(1, 2)}
    found = moves(
        Told(lambda topics, members: {"C": t(1, 2)}),
        Topics({"t": 3}),
        group(before, "C"),
        before,
        {"C": t(1, 2)},
    )
    assert [(move.partition, move.before) for move in found] == [
        (("t", 1), ("A",)),
        (("t", 2), ("A", "B")),
    ]
    assert found[1].words == "A and B left the group"
