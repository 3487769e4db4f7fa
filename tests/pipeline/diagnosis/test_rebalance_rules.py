"""The rules for rebalances, except those for members that left, at their limits."""

from collections.abc import Iterator

import pytest
from history_builder import (
    A_ALONE,
    COOPERATIVE,
    MINUTE,
    A,
    B,
    HistoryBuilder,
    last_cause,
    last_rebalance,
    member,
    partitions,
    without_b,
)
from kohort.pipeline.diagnosis.group_history import Member
from kohort.pipeline.diagnosis.rebalances import explain

# --- 1: a tombstone of the group

DAY = 24 * 60 * MINUTE


@pytest.mark.parametrize(
    ("empty_ms", "cause"),
    [(7 * DAY, "GROUP_EXPIRED"), (7 * DAY - 1, "GROUP_DELETED"), (1_000, "GROUP_DELETED")],
)
def test_a_group_expired_if_it_was_empty_for_the_offsets_retention(
    empty_ms: int, cause: str
) -> None:
    history = HistoryBuilder(A)
    history.commits(A, until=MINUTE)
    history.generation(at=2 * MINUTE)
    history.tombstone(at=2 * MINUTE + empty_ms)
    assert last_cause(history) == (cause, "high")


@pytest.mark.parametrize(
    ("unused_ms", "gap", "cause"),
    [
        (7 * DAY, None, "GROUP_EXPIRED"),
        (7 * DAY - 1, None, "GROUP_DELETED"),
        (7 * DAY, 99, "GROUP_DELETED_OR_EXPIRED"),  # later commits may have been removed
    ],
)
def test_a_group_without_members_expires_after_its_last_commit(
    unused_ms: int, gap: int | None, cause: str
) -> None:
    history = HistoryBuilder(A)
    history.commits(A, until=MINUTE)
    [history.activities[0]] = [a._replace(generation_log_offset=None) for a in history.activities]
    history.records.clear()
    history.tombstone(at=MINUTE + unused_ms)
    history.records[0] = history.records[0]._replace(last_gap=gap)
    assert last_cause(history)[0] == cause


def test_an_empty_group_without_offsets_was_deleted_or_expired() -> None:
    history = HistoryBuilder(A)
    history.generation(at=2 * MINUTE)
    history.tombstone(at=3 * MINUTE)
    assert last_cause(history)[0] == "GROUP_DELETED_OR_EXPIRED"


def test_a_tombstone_without_history_is_a_deletion_or_expiration() -> None:
    history = HistoryBuilder()
    history.tombstone(at=MINUTE)
    assert last_cause(history)[0] == "GROUP_DELETED_OR_EXPIRED"
    assert not last_rebalance(history).is_rebalance


# --- 2: no previous record


@pytest.mark.parametrize(
    ("number", "members", "cause"),
    [
        (0, (), "GROUP_CREATED"),
        (1, (A,), "GROUP_CREATED"),
        (2, (A,), "FIRST_SEEN"),
        (7, (), "FIRST_SEEN"),
    ],
)
def test_a_first_record_is_a_creation_only_with_generation_0_or_1(
    number: int, members: tuple[Member, ...], cause: str
) -> None:
    history = HistoryBuilder(*members, number=number)
    assert last_cause(history) == (cause, "high")
    assert not last_rebalance(history).is_rebalance


def test_a_group_is_created_after_a_tombstone_with_any_generation() -> None:
    history = HistoryBuilder()
    history.tombstone(at=0)
    history.generation(A, at=MINUTE, number=3)
    assert last_cause(history) == ("GROUP_CREATED", "high")
    assert last_rebalance(history).lost_generations == 2


def test_a_lower_generation_is_a_new_group() -> None:
    history = HistoryBuilder(A, number=8)
    history.generation(B, at=MINUTE, number=1)
    assert last_cause(history) == ("GROUP_CREATED", "high")
    assert [row.member_id for row in explain(history.build()).exits] == ["a-1"]


# --- 3: no members


def test_the_exit_of_the_last_member_explains_the_empty_group() -> None:
    history = HistoryBuilder(A)
    history.commits(A, until=5 * MINUTE)
    history.generation(at=5 * MINUTE + 100)
    assert last_cause(history) == ("GROUP_EMPTIED", "high")
    assert "LEFT_CLEANLY" in last_rebalance(history).evidence
    [row] = explain(history.build()).exits
    assert (row.cause, row.confidence, row.generation) == ("LEFT_CLEANLY", "medium", 1)


def test_generation_0_without_members_is_not_an_emptied_group() -> None:
    history = HistoryBuilder(number=0)
    history.generation(A, at=100)
    assert [row.cause for row in explain(history.build()).rebalances] == [
        "GROUP_CREATED",
        "MEMBER_JOINED",
    ]


# --- 4: a static member has a new id

S = member("s", 1, instance="s-1", id_="s-1-x")


def test_a_static_member_replaced_in_the_same_generation_needs_no_rebalance() -> None:
    history = HistoryBuilder(A, S)
    history.generation(A, S._replace(member_id="s-1-y"), at=MINUTE, number=1)
    row = last_rebalance(history)
    assert (row.cause, row.confidence, row.is_rebalance) == ("STATIC_REPLACED", "high", False)
    assert row.rejected_commits is None  # unknown without events
    assert explain(history.build()).exits == []


def test_a_static_member_replaced_in_a_new_generation_caused_a_rebalance() -> None:
    history = HistoryBuilder(A, S)
    history.generation(A, S._replace(member_id="s-1-y"), at=MINUTE)
    assert (last_rebalance(history).cause, last_rebalance(history).is_rebalance) == (
        "STATIC_REPLACED",
        True,
    )


def test_a_repeated_record_of_a_generation_is_no_rebalance() -> None:
    history = HistoryBuilder(A)
    history.generation(A, at=MINUTE, number=1)
    assert (last_rebalance(history).cause, last_rebalance(history).is_rebalance) == (
        "SAME_MEMBERS_UNKNOWN",
        False,
    )


# --- 5: another protocol


def test_a_changed_protocol_is_the_cause_even_if_members_joined_or_left() -> None:
    history = HistoryBuilder(A, B, protocol="range")
    history.generation(A_ALONE, at=MINUTE, protocol="cooperative-sticky")
    assert last_cause(history) == ("PROTOCOL_CHANGED", "high")
    assert "from range to cooperative-sticky" in last_rebalance(history).evidence


def test_the_protocol_of_an_empty_group_does_not_change() -> None:
    history = HistoryBuilder(A)
    history.generation(at=MINUTE)
    history.generation(B, at=2 * MINUTE, protocol="sticky")
    assert last_cause(history) == ("MEMBER_JOINED", "high")


# --- 11: a member joined


def test_an_additional_member_has_joined() -> None:
    history = HistoryBuilder(A_ALONE)
    history.generation(A, B, at=MINUTE)
    row = last_rebalance(history)
    assert (row.cause, row.confidence, row.client_id) == ("MEMBER_JOINED", "high", "b")
    assert (row.members_before, row.members_after, row.moved, row.kept) == (1, 2, 1, 1)


@pytest.mark.parametrize(("after_ms", "is_rejoin"), [(15 * MINUTE, True), (15 * MINUTE + 1, False)])
def test_a_member_that_joins_within_15_minutes_of_its_exit_has_rejoined(
    after_ms: int, is_rejoin: bool
) -> None:
    history = without_b(310_000)
    history.generation(A, B._replace(member_id="b-2"), at=10 * MINUTE + after_ms)
    row = last_rebalance(history)
    assert row.cause == "MEMBER_JOINED"
    assert ("REJOIN_AFTER_SLOW_POLL" in row.evidence) == is_rejoin
    [exit_] = explain(history.build()).exits
    assert exit_.rejoined_after_ms == (after_ms if is_rejoin else None)


# --- 12 to 15: the same members


def test_other_topics_are_a_changed_subscription() -> None:
    history = HistoryBuilder(A, B)
    history.generation(A, B._replace(topics=("orders", "refunds")), at=MINUTE)
    row = last_rebalance(history)
    assert (row.cause, row.confidence, row.client_id) == ("SUBSCRIPTION_CHANGED", "high", "b")
    assert "refunds" in row.evidence


def test_the_order_of_topics_does_not_matter() -> None:
    history = HistoryBuilder(A._replace(topics=("a", "b")))
    history.generation(A._replace(topics=("b", "a")), at=MINUTE)
    assert last_cause(history) == ("SAME_MEMBERS_UNKNOWN", "low")


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"])
def test_a_partition_assigned_for_the_first_time_was_added(protocol: str) -> None:
    history = HistoryBuilder(A, B, protocol=protocol)
    history.generation(A, B._replace(assigned=partitions(1, 2)), at=MINUTE, protocol=protocol)
    assert last_cause(history) == ("PARTITIONS_ADDED", "medium")


@pytest.mark.parametrize(
    ("protocol", "cause"),
    [("cooperative-sticky", "COOPERATIVE_FOLLOWUP"), ("range", "SAME_MEMBERS_UNKNOWN")],
)
def test_a_revoked_partition_is_assigned_in_the_second_phase_if_cooperative(
    protocol: str, cause: str
) -> None:
    history = HistoryBuilder(A_ALONE, protocol=protocol)
    history.generation(A, B._replace(assigned=()), at=MINUTE, protocol=protocol)
    history.generation(A, B, at=MINUTE + 100, protocol=protocol)
    rows = explain(history.build()).rebalances
    assert [row.cause for row in rows[1:]] == ["MEMBER_JOINED", cause]


def test_a_custom_assignor_is_cooperative_if_members_join_with_owned_partitions() -> None:
    a_alone = A_ALONE._replace(owned=partitions(0, 1))
    history = HistoryBuilder(a_alone, number=4, protocol="custom")
    history.generation(
        a_alone._replace(assigned=partitions(0)),
        B._replace(assigned=()),
        at=MINUTE,
        protocol="custom",
    )
    history.generation(A._replace(owned=partitions(0)), B, at=MINUTE + 100, protocol="custom")
    assert last_cause(history) == ("COOPERATIVE_FOLLOWUP", "high")


def test_owned_partitions_show_the_second_phase_where_the_log_begins() -> None:
    history = HistoryBuilder(
        A._replace(owned=partitions(0, 1)), B._replace(assigned=()), number=9, protocol=COOPERATIVE
    )
    history.generation(A._replace(owned=partitions(0)), B, at=100, protocol=COOPERATIVE)
    assert last_cause(history) == ("COOPERATIVE_FOLLOWUP", "high")


def test_without_a_visible_change_the_cause_is_unknown() -> None:
    history = HistoryBuilder(A, B)
    history.generation(A, B, at=MINUTE)
    assert last_cause(history) == ("SAME_MEMBERS_UNKNOWN", "low")


class CountedMembers(tuple[Member, ...]):
    """Counts how often the members of a record are read."""

    reads = 0

    def __iter__(self) -> Iterator[Member]:
        CountedMembers.reads += 1
        return super().__iter__()


def test_many_rebalances_of_the_same_members_are_explained_in_linear_time() -> None:
    history, count = HistoryBuilder(), 200
    for number in range(count):
        members = CountedMembers((A, B))
        history.generation(*members, at=number * MINUTE, members=members)
    CountedMembers.reads = 0
    assert last_cause(history) == ("SAME_MEMBERS_UNKNOWN", "low")
    assert CountedMembers.reads < 50 * count


# --- lost generations


@pytest.mark.parametrize(
    ("number", "complete", "lost"), [(2, True, 0), (5, True, 3), (5, False, None)]
)
def test_missing_generations_are_lost_if_the_history_is_complete(
    number: int, complete: bool, lost: int | None
) -> None:
    history = HistoryBuilder(A)
    history.generation(A, B, at=MINUTE, number=number, history_complete=complete)
    assert last_rebalance(history).lost_generations == lost
    assert ("never reached an assignment" in last_rebalance(history).evidence) == bool(lost)


def test_a_revoked_partition_without_a_new_owner_still_has_a_second_phase() -> None:
    old = (*partitions(0), ("refunds", 0))
    history = HistoryBuilder(
        A._replace(assigned=old, topics=("orders", "refunds")), protocol=COOPERATIVE
    )
    history.generation(A._replace(owned=old), at=MINUTE, protocol=COOPERATIVE)
    history.generation(A._replace(owned=partitions(0)), at=MINUTE + 100, protocol=COOPERATIVE)
    causes = [row.cause for row in explain(history.build()).rebalances[1:]]
    assert causes == ["SUBSCRIPTION_CHANGED", "COOPERATIVE_FOLLOWUP"]
