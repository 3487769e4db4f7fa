"""Anomalies of groups, in histories of a few operations."""

from support.tiny_histories import (
    anomalies,
    assigned,
    commit,
    delivered,
    end,
    heartbeat,
    joined,
    left,
    read,
)


def test_a_partition_has_one_owner_in_a_generation() -> None:
    assert anomalies(assigned("a", 1, 0, leader="a"), assigned("b", 1, 0, leader="a")) == {
        "two-owners"
    }
    assert anomalies(assigned("a", 1, 0, leader="a"), assigned("b", 1, 1, leader="a")) == set()
    assert anomalies(assigned("a", 1, 0, leader="a"), assigned("b", 2, 0, leader="a")) == set()


def test_an_owner_whose_heartbeats_are_accepted_keeps_the_partition() -> None:
    grants = assigned("a", 1, 0), assigned("b", 2, 0)
    assert anomalies(*grants, heartbeat("a", 1, 0)) == {"two-owners"}
    assert anomalies(*grants, heartbeat("a", 1, 0, error="FENCED_MEMBER_EPOCH")) == set()
    assert anomalies(grants[0], heartbeat("a", 1), grants[1], heartbeat("a", 2)) == set()


def test_a_member_of_an_earlier_generation_must_not_commit() -> None:
    later = assigned("b", 2, leader="b")
    assert anomalies(later, commit("c1", 0, generation=1)) == {"fenced-commit"}
    assert anomalies(later, commit("c1", 0, generation=1, outcome="fail")) == set()
    assert anomalies((later, commit("c1", 0, generation=1))) == set()


def test_a_member_that_has_left_or_was_fenced_must_not_commit() -> None:
    late = commit("c1", 0, member="a", is_classic=False)
    assert anomalies(left("a"), late) == {"fenced-commit"}
    assert anomalies(heartbeat("a", 1, error="UNKNOWN_MEMBER_ID"), late) == {"fenced-commit"}
    assert anomalies(late, left("a")) == set()


def test_a_member_must_not_commit_with_the_epoch_before_it_gave_up_the_partition() -> None:
    late = commit("c1", 0, member="a", generation=1, is_classic=False)
    owned, given_up = heartbeat("a", 1, 0, 1, epoch=1), heartbeat("a", 1, 1, epoch=2)
    assert anomalies(owned, given_up, late) == {"fenced-commit"}
    assigned_again = heartbeat("a", 2, 0, epoch=3)
    assert anomalies(owned, given_up, assigned_again, late) == {"fenced-commit"}
    assert anomalies(owned, (given_up, late)) == set()
    assert anomalies(owned, heartbeat("a", 1, 1, epoch=1), late) == set()
    # The member still owns it (KIP-1251), or another member gave it up.
    assert anomalies(owned, heartbeat("a", 1, 0, epoch=2), late) == set()
    assert anomalies(owned, heartbeat("b", 1, 1, epoch=2), late) == set()


def test_the_transactional_commit_of_a_fenced_member_must_not_take_effect() -> None:
    late = commit("c1", 0, member="a", transaction="t1")
    assert anomalies(left("a"), late, end("t1")) == {"fenced-commit"}
    assert anomalies(left("a"), late, end("t1", commit=False)) == set()


def test_a_rejected_or_aborted_commit_is_not_visible() -> None:
    progress = delivered(5)
    rejected = commit("c1", 5, outcome="fail")
    assert anomalies(progress, rejected, read("c1", 5)) == {"failed-commit-visible"}
    in_transaction = commit("c1", 5, transaction="t1")
    aborted = end("t1", commit=False)
    assert anomalies(progress, in_transaction, aborted, read("c1", 5)) == {"failed-commit-visible"}
    assert anomalies(progress, read("c9", 5)) == {"failed-commit-visible"}


def test_a_commit_in_a_transaction_is_not_visible_before_its_end() -> None:
    pending = commit("c1", 5, transaction="t1")
    found = anomalies(delivered(5), pending, read("c1", 5), end("t1"))
    assert found == {"failed-commit-visible"}
    assert anomalies(delivered(5), pending, (read("c1", 5), end("t1"))) == set()


def test_an_acknowledged_commit_is_not_lost() -> None:
    progress, first, second = delivered(5), commit("c1", 3), commit("c2", 5)
    assert anomalies(progress, first, read()) == {"lost-commit"}
    assert anomalies(progress, first, second, read("c1", 3)) == {"lost-commit"}
    assert anomalies(progress, first, second, read("c2", 5)) == set()
    assert anomalies(progress, (first, second), read("c1", 3)) == set()
    assert anomalies(progress, first, (second, read("c1", 3))) == set()


def test_a_commit_that_was_read_is_not_lost() -> None:
    progress, first = delivered(5), commit("c1", 3)
    unknown = commit("c2", 5, outcome="info")
    assert anomalies(progress, first, unknown, read("c1", 3)) == set()
    found = anomalies(progress, first, unknown, read("c2", 5), read("c1", 3))
    assert found == {"lost-commit"}


def test_a_commit_with_unknown_outcome_may_be_late() -> None:
    unknown, later = commit("c1", 3, outcome="info"), commit("c2", 5)
    assert anomalies(delivered(5), unknown, later, read("c1", 3)) == set()


def test_a_commit_with_unknown_outcome_that_was_read_does_not_come_back() -> None:
    progress, unknown, later = delivered(5), commit("c1", 3, outcome="info"), commit("c2", 5)
    found = anomalies(progress, unknown, read("c1", 3), later, read("c1", 3))
    assert found == {"lost-commit"}
    concurrent = read("c1", 3), later
    assert anomalies(progress, unknown, concurrent, read("c1", 3)) == set()


def test_the_committed_offset_is_not_ahead_of_delivery() -> None:
    assert anomalies(delivered(5), commit("c1", 7), read("c1", 7)) == {"commit-ahead"}
    assert anomalies(delivered(5), commit("c1", 5), read("c1", 5)) == set()


def test_the_committed_offset_is_that_of_its_commit() -> None:
    assert anomalies(delivered(9), commit("c1", 5), read("c1", 6)) == {"commit-ahead"}


def test_records_are_consumed_in_one_committed_transaction() -> None:
    first = commit("c1", 5, begin=0, transaction="t1")
    second = commit("c2", 8, begin=4, transaction="t2")
    ends = end("t1"), end("t2")
    assert anomalies(first, second, *ends) == {"consumed-twice"}
    assert anomalies(first, second, ends[0], end("t2", commit=False)) == set()
    following = commit("c2", 8, begin=5, transaction="t2")
    assert anomalies(first, following, *ends) == set()


def test_generations_grow_and_are_used_once() -> None:
    assert anomalies(assigned("a", 3, leader="a"), joined("a", 2)) == {"generation"}
    assert anomalies(assigned("a", 3, leader="a"), joined("a", 4)) == set()
    assert anomalies(assigned("a", 3, leader="a"), assigned("b", 3, leader="b")) == {"generation"}
    shares = assigned("a", 3, 0, leader="a"), assigned("a", 3, 0, 1, leader="a")
    assert anomalies(*shares) == {"generation"}


def test_a_generation_that_was_never_assigned_may_be_used_again() -> None:
    """The broker had not stored it when it crashed."""
    assert anomalies(joined("a", 3), joined("b", 3), assigned("b", 3, leader="b")) == set()


def test_member_epochs_do_not_go_back() -> None:
    assert anomalies(heartbeat("a", 1, epoch=3), heartbeat("a", 3, epoch=2)) == {"generation"}
    assert anomalies(heartbeat("a", 1, epoch=3), heartbeat("a", 3, epoch=3)) == set()
