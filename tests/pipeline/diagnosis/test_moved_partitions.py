"""Moved and kept partitions, and stickiness."""

import pytest
from history_builder import (
    COOPERATIVE,
    MINUTE,
    A,
    B,
    HistoryBuilder,
    last_rebalance,
    member,
    partitions,
)
from kohort.pipeline.diagnosis.group_history import Member
from kohort.pipeline.diagnosis.rows import Rebalance

C = member("c")


def owner(member_: Member, *numbers: int) -> Member:
    return member_._replace(assigned=partitions(*numbers))


def after(before: list[Member], now: list[Member], protocol: str = "range") -> Rebalance:
    history = HistoryBuilder(*before, protocol=protocol)
    history.generation(*now, at=MINUTE, protocol=protocol)
    return last_rebalance(history)


@pytest.mark.parametrize(
    ("before", "now", "moved", "kept", "stickiness"),
    [
        # A third member: two of six partitions must move, and no more do.
        ([(A, 0, 1, 2), (B, 3, 4, 5)], [(A, 0, 1), (B, 3, 4), (C, 2, 5)], 2, 4, 1.0),
        # Range moves three, two would be enough.
        ([(A, 0, 1, 2), (B, 3, 4, 5)], [(A, 0, 1), (B, 2, 3), (C, 4, 5)], 3, 3, 5 / 6),
        # A member left: its partitions must move.
        ([(A, 0, 1), (B, 2, 3)], [(A, 0, 1, 2, 3)], 2, 2, 1.0),
        # Two needless moves.
        ([(A, 0), (B, 1)], [(A, 1), (B, 0)], 2, 0, 0.0),
        # Seven partitions of three members with 3, 3 and 1: one must move.
        ([(A, 0, 1, 2), (B, 3, 4, 5), (C, 6)], [(A, 0, 1, 2), (B, 3, 4), (C, 5, 6)], 1, 6, 1.0),
        # No previous owners.
        ([(A,)], [(A, 0)], 0, 0, None),
    ],
)
def test_stickiness_compares_moves_with_the_minimum_for_balance(
    before: list[tuple[Member, int]],
    now: list[tuple[Member, int]],
    moved: int,
    kept: int,
    stickiness: float | None,
) -> None:
    row = after([owner(*each) for each in before], [owner(*each) for each in now])
    assert (row.moved, row.kept) == (moved, kept)
    assert row.stickiness == (None if stickiness is None else pytest.approx(stickiness))


def test_a_restarted_member_keeps_its_partitions() -> None:
    again = A._replace(member_id="a-2")
    row = after([A, B], [again, B])
    assert (row.moved, row.kept, row.stickiness) == (0, 2, 1.0)


def test_members_with_the_same_client_id_and_host_are_distinguished_by_member_id() -> None:
    one = A._replace(member_id="x-1", client_id="rdkafka", client_host="/10.0.0.1")
    two = one._replace(member_id="x-2")
    row = after([owner(one, 0), owner(two, 1)], [owner(one, 1), owner(two, 0)])
    assert row.moved == 2


def test_an_eager_protocol_revokes_and_returns_all_partitions() -> None:
    assert after([A, B], [A, B]).revoked_then_returned == 2
    assert after([A, B], [A, B], "cooperative-sticky").revoked_then_returned == 0


def test_a_cooperative_protocol_may_revoke_and_return_a_partition() -> None:
    history = HistoryBuilder(owner(A, 0, 1), B, protocol=COOPERATIVE)
    history.generation(owner(A, 0), B, C, at=MINUTE, protocol=COOPERATIVE)
    history.generation(owner(A, 0, 1), B, at=2 * MINUTE, protocol=COOPERATIVE)
    row = last_rebalance(history)
    assert row.revoked_then_returned == 0  # b owned it in between
    history = HistoryBuilder(owner(A, 0, 1), protocol=COOPERATIVE)
    history.generation(owner(A, 0), C, at=MINUTE, protocol=COOPERATIVE)
    history.generation(owner(A, 0, 1), C, at=2 * MINUTE, protocol=COOPERATIVE)
    assert last_rebalance(history).revoked_then_returned == 1


def test_moves_are_unknown_if_an_assignment_is_undecodable() -> None:
    row = after([A, B], [A, B._replace(assigned=None)])
    assert (row.moved, row.kept, row.stickiness) == (None, None, None)
