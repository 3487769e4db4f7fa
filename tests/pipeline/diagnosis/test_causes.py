"""Each rule but those of members that went; what just falls under it, and what just does not."""

import pytest
from group_stories import A_ALONE, MINUTE, A, B, Tale, last, member, parts, told, without_b
from kohort.pipeline.diagnosis.causes import RULES
from kohort.pipeline.diagnosis.rebalances import exits, rebalances
from kohort.pipeline.diagnosis.story import Member

# --- 1: the group's record is deleted

DAY = 24 * 60 * MINUTE


@pytest.mark.parametrize(
    ("empty_ms", "cause"),
    [(7 * DAY, "GROUP_EXPIRED"), (7 * DAY - 1, "GROUP_DELETED"), (1_000, "GROUP_DELETED")],
)
def test_a_group_expires_when_it_was_empty_for_as_long_as_offsets_are_kept(
    empty_ms: int, cause: str
) -> None:
    tale = Tale()
    tale.generation(A)
    tale.commits(A, until=MINUTE)
    tale.generation(at=2 * MINUTE)
    tale.tombstone(at=2 * MINUTE + empty_ms)
    assert told(tale) == (cause, "high")


def test_without_offsets_an_empty_group_goes_of_itself_so_nobody_knows() -> None:
    tale = Tale()
    tale.generation(A)
    tale.generation(at=2 * MINUTE)
    tale.tombstone(at=3 * MINUTE)
    assert told(tale)[0] == "GROUP_DELETED_OR_EXPIRED"


def test_a_lone_tombstone_is_one_of_either() -> None:
    tale = Tale()
    tale.tombstone(at=MINUTE)
    assert told(tale)[0] == "GROUP_DELETED_OR_EXPIRED"
    assert not last(tale).is_rebalance


# --- 2: there is no record before


@pytest.mark.parametrize(
    ("number", "members", "cause"),
    [
        (0, (), "GROUP_CREATED"),
        (1, (A,), "GROUP_CREATED"),
        (2, (A,), "FIRST_SEEN"),
        (7, (), "FIRST_SEEN"),
    ],
)
def test_a_first_record_is_a_creation_or_the_middle_of_a_story(
    number: int, members: tuple[Member, ...], cause: str
) -> None:
    tale = Tale()
    tale.generation(*members, number=number)
    assert told(tale) == (cause, "high")
    assert not last(tale).is_rebalance


def test_after_a_tombstone_a_group_is_created_anew_whatever_its_generation() -> None:
    tale = Tale()
    tale.tombstone(at=0)
    tale.generation(A, at=MINUTE, number=3)
    assert told(tale) == ("GROUP_CREATED", "high")
    assert last(tale).lost_generations == 2


def test_a_generation_that_goes_back_is_a_group_created_anew() -> None:
    tale = Tale()
    tale.generation(A, number=8)
    tale.generation(B, at=MINUTE, number=1)
    assert told(tale) == ("GROUP_CREATED", "high")
    assert [row.member_id for row in exits(tale.story())] == ["a-1"]


# --- 3: nobody is left


def test_the_last_member_that_goes_leaves_an_empty_group_and_its_exit_has_the_cause() -> None:
    tale = Tale()
    tale.generation(A)
    tale.commits(A, until=5 * MINUTE)
    tale.generation(at=5 * MINUTE + 100)
    assert told(tale) == ("GROUP_EMPTIED", "high")
    assert "LEFT_CLEANLY" in last(tale).evidence
    [row] = exits(tale.story())
    assert (row.cause, row.confidence, row.generation) == ("LEFT_CLEANLY", "medium", 1)


def test_generation_zero_without_members_is_no_group_that_was_emptied() -> None:
    tale = Tale()
    tale.generation(number=0)
    tale.generation(A, at=100)
    assert [row.cause for row in rebalances(tale.story())] == ["GROUP_CREATED", "MEMBER_JOINED"]


# --- 4: a static member has a new id

S = member("s", 1, instance="s-1", id_="s-1-x")


def test_a_static_member_under_the_same_generation_is_replaced_without_a_rebalance() -> None:
    tale = Tale()
    tale.generation(A, S)
    tale.generation(A, S._replace(member_id="s-1-y"), at=MINUTE, number=1)
    row = last(tale)
    assert (row.cause, row.confidence, row.is_rebalance) == ("STATIC_REPLACED", "high", False)
    assert exits(tale.story()) == []


def test_a_static_member_replaced_in_a_new_generation_has_cost_a_rebalance() -> None:
    tale = Tale()
    tale.generation(A, S)
    tale.generation(A, S._replace(member_id="s-1-y"), at=MINUTE)
    assert (last(tale).cause, last(tale).is_rebalance) == ("STATIC_REPLACED", True)


def test_a_dynamic_member_with_a_new_id_is_no_replacement() -> None:
    assert told(without_b(1_000, back=True))[0] == "RESTARTED"


def test_a_generation_written_again_as_it_was_is_no_rebalance() -> None:
    tale = Tale()
    tale.generation(A)
    tale.generation(A, at=MINUTE, number=1)
    assert (last(tale).cause, last(tale).is_rebalance) == ("SAME_MEMBERS_UNKNOWN", False)


# --- 5: the protocol is another


def test_another_protocol_is_the_cause_whoever_came_or_went_with_it() -> None:
    tale = Tale()
    tale.generation(A, B, protocol="range")
    tale.generation(A_ALONE, at=MINUTE, protocol="cooperative-sticky")
    assert told(tale) == ("PROTOCOL_CHANGED", "high")
    assert "from range to cooperative-sticky" in last(tale).evidence


def test_a_group_that_was_empty_has_no_protocol_to_change() -> None:
    tale = Tale()
    tale.generation(A)
    tale.generation(at=MINUTE)
    tale.generation(B, at=2 * MINUTE, protocol="sticky")
    assert told(tale) == ("MEMBER_JOINED", "high")


# --- 11: somebody came


def test_a_member_more_is_a_member_that_joined() -> None:
    tale = Tale()
    tale.generation(A_ALONE)
    tale.generation(A, B, at=MINUTE)
    row = last(tale)
    assert (row.cause, row.confidence, row.client_id) == ("MEMBER_JOINED", "high", "b")
    assert (row.members_before, row.members_after, row.moved, row.kept) == (1, 2, 1, 1)


@pytest.mark.parametrize(("after_ms", "told_so"), [(15 * MINUTE, True), (15 * MINUTE + 1, False)])
def test_a_member_that_comes_back_within_a_quarter_of_an_hour_has_come_back(
    after_ms: int, told_so: bool
) -> None:
    tale = without_b(310_000)
    tale.generation(A, B._replace(member_id="b-2"), at=10 * MINUTE + after_ms)
    row = last(tale)
    assert row.cause == "MEMBER_JOINED"
    assert ("REJOIN_AFTER_SLOW_POLL" in row.evidence) == told_so
    [exit_] = exits(tale.story())
    assert exit_.came_back_after_ms == (after_ms if told_so else None)


# --- 12 to 15: the same members


def test_other_topics_are_another_subscription() -> None:
    tale = Tale()
    tale.generation(A, B)
    tale.generation(A, B._replace(topics=("orders", "refunds")), at=MINUTE)
    row = last(tale)
    assert (row.cause, row.confidence, row.client_id) == ("SUBSCRIPTION_CHANGED", "high", "b")
    assert "refunds" in row.evidence


def test_the_same_topics_in_another_order_are_the_same_subscription() -> None:
    tale = Tale()
    tale.generation(A._replace(topics=("a", "b")))
    tale.generation(A._replace(topics=("b", "a")), at=MINUTE)
    assert told(tale) == ("SAME_MEMBERS_UNKNOWN", "low")


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"])
def test_a_partition_never_seen_before_was_added(protocol: str) -> None:
    tale = Tale()
    tale.generation(A, B, protocol=protocol)
    tale.generation(A, B._replace(assigned=parts(1, 2)), at=MINUTE, protocol=protocol)
    assert told(tale) == ("PARTITIONS_ADDED", "medium")


@pytest.mark.parametrize(
    ("protocol", "cause"),
    [("cooperative-sticky", "COOPERATIVE_FOLLOWUP"), ("range", "SAME_MEMBERS_UNKNOWN")],
)
def test_a_partition_that_waited_for_an_owner_is_given_away_in_the_second_phase(
    protocol: str, cause: str
) -> None:
    tale = Tale()
    tale.generation(A_ALONE, protocol=protocol)
    tale.generation(A, B._replace(assigned=()), at=MINUTE, protocol=protocol)
    tale.generation(A, B, at=MINUTE + 100, protocol=protocol)
    rows = rebalances(tale.story())
    assert [row.cause for row in rows[1:]] == ["MEMBER_JOINED", cause]


def test_a_custom_assignor_is_cooperative_if_its_members_own_something_when_they_join() -> None:
    tale = Tale()
    mine = A_ALONE._replace(owned=parts(0, 1))
    tale.generation(mine, number=4, protocol="ours")
    tale.generation(
        mine._replace(assigned=parts(0)), B._replace(assigned=()), at=MINUTE, protocol="ours"
    )
    tale.generation(A._replace(owned=parts(0)), B, at=MINUTE + 100, protocol="ours")
    assert told(tale) == ("COOPERATIVE_FOLLOWUP", "high")


def test_where_the_log_begins_in_the_middle_what_members_owned_tells_the_second_phase() -> None:
    tale = Tale()
    coop = "cooperative-sticky"
    tale.generation(A._replace(owned=parts(0, 1)), B._replace(assigned=()), number=9, protocol=coop)
    tale.generation(A._replace(owned=parts(0)), B, at=100, protocol=coop)
    assert told(tale) == ("COOPERATIVE_FOLLOWUP", "high")


def test_nothing_to_be_seen_is_said_to_be_nothing() -> None:
    tale = Tale()
    tale.generation(A, B)
    tale.generation(A, B, at=MINUTE)
    assert told(tale) == ("SAME_MEMBERS_UNKNOWN", "low")


# --- lost generations, and the table itself


@pytest.mark.parametrize(
    ("number", "complete", "lost"), [(2, True, 0), (5, True, 3), (5, False, None)]
)
def test_generations_that_are_missing_never_came_to_an_assignment(
    number: int, complete: bool, lost: int | None
) -> None:
    tale = Tale()
    tale.generation(A)
    tale.generation(A, B, at=MINUTE, number=number, history_complete=complete)
    assert last(tale).lost_generations == lost
    assert ("came to no assignment" in last(tale).evidence) == bool(lost)


def test_the_rules_are_fifteen_and_numbered_in_their_order() -> None:
    assert [rule.number for rule in RULES] == list(range(1, 16))


def test_what_was_given_up_and_nobody_wants_is_followed_up_all_the_same() -> None:
    tale = Tale()
    coop = "cooperative-sticky"
    old = (*parts(0), ("refunds", 0))
    tale.generation(A._replace(assigned=old, topics=("orders", "refunds")), protocol=coop)
    tale.generation(A._replace(owned=old), at=MINUTE, protocol=coop)
    tale.generation(A._replace(owned=parts(0)), at=MINUTE + 100, protocol=coop)
    told_ = [row.cause for row in rebalances(tale.story())[1:]]
    assert told_ == ["SUBSCRIPTION_CHANGED", "COOPERATIVE_FOLLOWUP"]
