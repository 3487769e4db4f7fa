"""Storms, from rebalances that stand in the lake."""

import pytest
from group_stories import MINUTE, A, B, Tale, member
from kohort.pipeline.diagnosis.rebalances import account
from kohort.pipeline.diagnosis.rows import Storm
from kohort.pipeline.diagnosis.storms import storms

C = member("c")


def of(*minutes: float, lost: int = 0) -> list[Storm]:
    """A group whose second member comes and goes at these minutes."""
    tale = Tale()
    tale.generation(A)
    number = 1
    for count, minute in enumerate(minutes):
        number += 1 + lost
        members = (A, B) if count % 2 == 0 else (A,)
        tale.generation(*members, at=int(minute * MINUTE), number=number)
    return storms(*account(tale.story()))


def test_three_rebalances_in_five_minutes_are_a_storm() -> None:
    [storm] = of(10, 12, 15)
    assert (storm.rebalances, storm.to_ts - storm.from_ts) == (3, 5 * MINUTE + 20)
    assert storm.distinct_members == 1
    # Who comes back is there for the same reason as it went.
    assert storm.dominant_cause == "LEFT_UNKNOWN"


@pytest.mark.parametrize("minutes", [(), (10,), (10, 12), (10, 12.4, 15.1)])
def test_fewer_or_slower_ones_are_none(minutes: tuple[float, ...]) -> None:
    assert of(*minutes) == []


def test_rounds_that_came_to_no_assignment_count() -> None:
    [storm] = of(10, lost=2)
    assert storm.rebalances == 3


def test_storms_less_than_five_minutes_apart_are_one() -> None:
    assert [storm.rebalances for storm in of(10, 11, 12, 16.9, 17, 18)] == [6]
    assert [storm.rebalances for storm in of(10, 11, 12, 17.1, 17.5, 18)] == [3, 3]


def test_a_cooperative_second_phase_does_not_make_a_storm() -> None:
    tale = Tale()
    coop = "cooperative-sticky"
    both = A._replace(assigned=(*(A.assigned or ()), *(B.assigned or ())))
    tale.generation(both, protocol=coop)
    waiting = B._replace(assigned=())
    tale.generation(A, waiting, at=MINUTE, protocol=coop)
    tale.generation(A, B, at=MINUTE + 100, protocol=coop)
    tale.generation(A, B, C, at=2 * MINUTE, protocol=coop)
    rows, gone = account(tale.story())
    assert [row.cause for row in rows][2] == "COOPERATIVE_FOLLOWUP"
    assert storms(rows, gone) == []


def test_of_causes_as_frequent_what_made_somebody_go_dominates() -> None:
    storm = of(10, 10.5, 11, 11.5)[0]
    assert storm.dominant_cause == "LEFT_CLEANLY"
