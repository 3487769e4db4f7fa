"""Moved, kept, given up for nothing; and how many moves were needed."""

import pytest
from group_stories import MINUTE, A, B, Tale, last, member, parts
from kohort.pipeline.diagnosis.rows import Rebalance
from kohort.pipeline.diagnosis.story import Member

C = member("c")


def holding(who: Member, *numbers: int) -> Member:
    return who._replace(assigned=parts(*numbers))


def after(before: list[Member], now: list[Member], protocol: str = "range") -> Rebalance:
    tale = Tale()
    tale.generation(*before, protocol=protocol)
    tale.generation(*now, at=MINUTE, protocol=protocol)
    return last(tale)


@pytest.mark.parametrize(
    ("before", "now", "moved", "kept", "stickiness"),
    [
        # One more member of three: two of six must move, and no more do.
        ([(A, 0, 1, 2), (B, 3, 4, 5)], [(A, 0, 1), (B, 3, 4), (C, 2, 5)], 2, 4, 1.0),
        # Range moves three where two would do.
        ([(A, 0, 1, 2), (B, 3, 4, 5)], [(A, 0, 1), (B, 2, 3), (C, 4, 5)], 3, 3, 5 / 6),
        # Somebody goes: what he had must move.
        ([(A, 0, 1), (B, 2, 3)], [(A, 0, 1, 2, 3)], 2, 2, 1.0),
        # Two swap for nothing.
        ([(A, 0), (B, 1)], [(A, 1), (B, 0)], 2, 0, 0.0),
        # Seven of three members who have 3, 3 and 1: one has too many, whoever it is.
        ([(A, 0, 1, 2), (B, 3, 4, 5), (C, 6)], [(A, 0, 1, 2), (B, 3, 4), (C, 5, 6)], 1, 6, 1.0),
        # Nobody had anything.
        ([(A,)], [(A, 0)], 0, 0, None),
    ],
)
def test_moves_are_counted_against_the_fewest_that_balance_asks_for(
    before: list[tuple[Member, int]],
    now: list[tuple[Member, int]],
    moved: int,
    kept: int,
    stickiness: float | None,
) -> None:
    row = after([holding(*one) for one in before], [holding(*one) for one in now])
    assert (row.moved, row.kept) == (moved, kept)
    assert row.stickiness == (None if stickiness is None else pytest.approx(stickiness))


def test_a_restart_is_no_move() -> None:
    again = A._replace(member_id="a-2")
    row = after([A, B], [again, B])
    assert (row.moved, row.kept, row.stickiness) == (0, 2, 1.0)


def test_clients_of_one_name_and_host_that_stay_are_told_apart_by_their_ids() -> None:
    one = A._replace(member_id="x-1", client_id="rdkafka", client_host="/10.0.0.1")
    two = one._replace(member_id="x-2")
    row = after([holding(one, 0), holding(two, 1)], [holding(one, 1), holding(two, 0)])
    assert row.moved == 2


def test_an_eager_protocol_takes_everything_away_and_gives_it_back() -> None:
    assert after([A, B], [A, B]).revoked_then_returned == 2
    assert after([A, B], [A, B], "cooperative-sticky").revoked_then_returned == 0


def test_a_cooperative_one_may_take_a_partition_away_only_to_give_it_back() -> None:
    tale = Tale()
    coop = "cooperative-sticky"
    tale.generation(holding(A, 0, 1), B, protocol=coop)
    tale.generation(holding(A, 0), B, C, at=MINUTE, protocol=coop)
    tale.generation(holding(A, 0, 1), B, at=2 * MINUTE, protocol=coop)
    row = last(tale)
    assert row.revoked_then_returned == 0  # b had it in the meantime
    tale = Tale()
    tale.generation(holding(A, 0, 1), protocol=coop)
    tale.generation(holding(A, 0), C, at=MINUTE, protocol=coop)
    tale.generation(holding(A, 0, 1), C, at=2 * MINUTE, protocol=coop)
    assert last(tale).revoked_then_returned == 1


def test_where_an_assignment_cannot_be_read_nothing_is_compared() -> None:
    row = after([A, B], [A, B._replace(assigned=None)])
    assert (row.moved, row.kept, row.stickiness) == (None, None, None)
