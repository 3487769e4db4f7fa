"""Rebalance storms."""

import pytest
from history_builder import COOPERATIVE, MINUTE, A, B, HistoryBuilder, member
from kohort.pipeline.diagnosis.group_history import Member
from kohort.pipeline.diagnosis.rebalances import explain
from kohort.pipeline.diagnosis.rows import Storm
from kohort.pipeline.diagnosis.status import CurrentGroup, group_status
from kohort.pipeline.diagnosis.storms import WITHIN_MS, storms

C = member("c")


def storms_of(*minutes: float, lost: int = 0, second: Member = B) -> list[Storm]:
    """Storms of a group whose second member joins and leaves at these minutes."""
    history = HistoryBuilder(A)
    number = 1
    for count, minute in enumerate(minutes):
        number += 1 + lost
        members = (A, second) if count % 2 == 0 else (A,)
        history.generation(*members, at=int(minute * MINUTE), number=number)
    return storms(*explain(history.build()))


def test_three_rebalances_in_five_minutes_are_a_storm() -> None:
    [storm] = storms_of(10, 12, 15)
    assert (storm.rebalances, storm.to_ts - storm.from_ts) == (3, 5 * MINUTE + 20)
    assert storm.distinct_members == 1
    # A rejoin is counted under the cause of the exit.
    assert storm.dominant_cause == "LEFT_UNKNOWN"


def test_the_exit_of_the_only_member_is_the_cause_and_not_the_empty_group() -> None:
    history = HistoryBuilder(A)
    for minute in (1, 2):
        history.commits(A, until=minute * MINUTE)
        history.generation(at=minute * MINUTE + 1_000)
        history.generation(A, at=minute * MINUTE + 5_000)
    [storm] = storms(*explain(history.build()))
    assert storm.dominant_cause == "LEFT_CLEANLY"


def test_a_client_id_does_not_determine_the_cause() -> None:
    [storm] = storms_of(10, 15.1, 20, 20.1, 20.2, second=member("x (REJOIN_AFTER_FOO)", 1))
    assert storm.dominant_cause == "LEFT_UNKNOWN"


@pytest.mark.parametrize("minutes", [(), (10,), (10, 12), (10, 12.4, 15.1)])
def test_fewer_or_slower_rebalances_are_no_storm(minutes: tuple[float, ...]) -> None:
    assert storms_of(*minutes) == []


def test_lost_generations_count_as_rebalances() -> None:
    [storm] = storms_of(10, lost=2)
    assert storm.rebalances == 3


def test_the_status_of_a_group_counts_rebalances_like_its_storms() -> None:
    history = HistoryBuilder(A)
    history.generation(A, B, at=10 * MINUTE, number=4)  # two generations were lost
    history.generation(A, at=11 * MINUTE, number=5)
    rebalances, exits = explain(history.build())
    [storm] = storms(rebalances, exits)
    now = CurrentGroup("test", "g", 12 * MINUTE + storm.from_ts, None, "Stable")
    status = group_status(now, [], rebalances)
    assert status.rebalances_1h == storm.rebalances == 4


def test_storms_less_than_five_minutes_apart_are_merged() -> None:
    assert [storm.rebalances for storm in storms_of(10, 11, 12, 16.9, 17, 18)] == [6]
    assert [storm.rebalances for storm in storms_of(10, 11, 12, 17.1, 17.5, 18)] == [3, 3]


def test_a_storm_is_extended_from_its_own_rebalances_and_divided_after_a_day() -> None:
    history = HistoryBuilder(A)
    for number in range(1, 30 * 60, 2):
        history.generation(A, *[B] * (number % 4 == 1), at=number * MINUTE)
    rebalances, exits = explain(history.build())
    whole = storms(rebalances, exits)
    day = 24 * 60 * MINUTE
    assert [storm.from_ts - whole[0].from_ts for storm in whole] == [0, day]
    assert sum(storm.rebalances for storm in whole) == 900
    for storm in whole:
        since = storm.from_ts - WITHIN_MS
        recent = [row for row in rebalances if (row.joined_at or 0) >= since]
        assert storms(recent, exits, storm.from_ts)[0] == storm


def test_a_cooperative_second_phase_does_not_count() -> None:
    both = A._replace(assigned=(*(A.assigned or ()), *(B.assigned or ())))
    history = HistoryBuilder(both, protocol=COOPERATIVE)
    waiting = B._replace(assigned=())
    history.generation(A, waiting, at=MINUTE, protocol=COOPERATIVE)
    history.generation(A, B, at=MINUTE + 100, protocol=COOPERATIVE)
    history.generation(A, B, C, at=2 * MINUTE, protocol=COOPERATIVE)
    rebalances, exits = explain(history.build())
    assert [row.cause for row in rebalances][2] == "COOPERATIVE_FOLLOWUP"
    assert storms(rebalances, exits) == []


def test_of_equally_frequent_causes_that_of_an_exit_dominates() -> None:
    storm = storms_of(10, 10.5, 11, 11.5)[0]
    assert storm.dominant_cause == "LEFT_CLEANLY"
