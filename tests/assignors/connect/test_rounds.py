"""Rounds of a Connect group: what moves at once, what is held back, and for how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.connect.assignor import ConnectAssignor, backoff_ms
from kohort.assignors.connect.model import CONNECTOR_TASK, pieces

from .histories import WORKERS, history, replayed
from .workers import Workers, tasks

DELAY_MS = 300_000


def three_workers() -> Workers:
    """C1 has P0 and P3, C2 P1, C3 P2."""
    group = Workers({"P": 4})
    group.come("C1", "C2", "C3")
    group.settle()
    assert group.running["C1"] == tasks("P P-0,3")
    assert (group.running["C2"], group.running["C3"]) == (tasks("P-1"), tasks("P-2"))
    return group


def test_a_worker_that_returns_within_the_delay_gets_its_work_back_and_nobody_else_stops() -> None:
    group = three_workers()
    group.go("C2")
    first = group.rebalance()
    assert first.delay_ms == DELAY_MS
    assert not any(first.assigned.values())

    group.come("C2")
    second = group.rebalance(passed_ms=100_000)
    assert second.delay_ms == DELAY_MS - 100_000
    assert not any(second.assigned.values())

    third = group.rebalance(passed_ms=200_000)
    assert third.delay_ms == 0
    assert third.assigned == {"C1": [], "C2": tasks("P-1"), "C3": []}
    assert group.stopped == {"C1": [], "C2": [], "C3": []}


def test_the_work_of_a_worker_that_stays_away_goes_to_the_others_when_the_delay_is_over() -> None:
    group = three_workers()
    group.go("C2")
    group.rebalance()
    assert group.rebalance(passed_ms=100_000).delay_ms == 200_000
    third = group.rebalance(passed_ms=200_000)
    assert third.delay_ms == 0
    assert third.assigned == {"C1": [], "C3": tasks("P-1")}
    assert group.stopped == {"C1": [], "C2": [], "C3": []}


def test_what_is_held_back_is_given_to_whoever_came_with_nothing() -> None:
    group = three_workers()
    group.go("C2")
    group.rebalance()
    group.come("C4")
    group.rebalance(passed_ms=1)
    assert group.rebalance(passed_ms=DELAY_MS).assigned["C4"] == tasks("P-1")


def test_who_came_back_and_went_again_is_not_waited_for() -> None:
    group = three_workers()
    group.go("C2")
    group.rebalance()
    group.come("C2")
    group.rebalance(passed_ms=1)
    group.go("C2")
    last = group.rebalance(passed_ms=DELAY_MS)
    assert last.delay_ms == 0
    assert last.assigned == {"C1": [], "C3": tasks("P-1")}


def test_a_second_worker_gets_its_half_one_round_after_it_was_taken_from_the_first() -> None:
    group = Workers({"a": 4, "b": 4})
    group.come("worker1")
    group.rebalance()
    assert group.counts() == {"worker1": (2, 8)}
    group.come("worker2")
    first = group.rebalance()
    assert first.assigned["worker2"] == []
    assert len(first.revoked["worker1"]) == 5
    group.rebalance()
    assert group.counts() == {"worker1": (1, 4), "worker2": (1, 4)}


def test_nothing_waits_where_the_maximal_delay_is_zero() -> None:
    group = Workers({"a": 4, "b": 4}, max_delay_ms=0)
    group.come("worker1", "worker2")
    group.rebalance()
    group.go("worker2")
    decided = group.rebalance()
    assert decided.delay_ms == 0
    assert group.counts() == {"worker1": (2, 8)}


def test_work_taken_away_in_round_after_round_waits_longer_each_time() -> None:
    group = Workers({"a": 60})
    group.come("w0")
    group.rebalance()
    delays = []
    for number in range(1, 6):
        group.come(f"w{number}")
        decided = group.rebalance(passed_ms=group.assignor.memory.delay_ms)
        if decided.delay_ms == 0:
            assert any(decided.revoked.values())
            group.come(f"x{number}")
            decided = group.rebalance()
        assert not any(decided.revoked.values())
        delays.append(decided.delay_ms)
    assert delays == [40, 1600, 64_000, DELAY_MS, DELAY_MS]


def test_a_round_that_takes_nothing_away_ends_the_growing_of_the_delay() -> None:
    group = Workers({"a": 60})
    group.come("w0")
    group.rebalance()
    for number in range(4):
        group.come(f"v{number}")
        decided = group.rebalance(passed_ms=group.assignor.memory.delay_ms)
    assert group.assignor.memory.revoking_rounds > 1
    group.now_ms += decided.delay_ms
    group.settle()
    assert group.assignor.memory.revoking_rounds == 0


def test_a_worker_that_did_not_hear_of_its_work_gets_it_again_at_once() -> None:
    group = Workers({"a": 4})
    group.come("w1", "w2")
    group.rebalance(deaf=("w2",))
    decided = group.rebalance()
    assert decided.delay_ms == 0
    assert group.counts() == {"w1": (1, 2), "w2": (0, 2)}


def test_a_worker_that_did_not_hear_what_to_stop_is_told_again() -> None:
    group = Workers({"a": 4})
    group.come("w1")
    group.rebalance()
    group.come("w2")
    told = group.rebalance(deaf=("w1",)).revoked["w1"]
    assert told
    assert group.settle() < 10
    assert group.counts() == {"w1": (1, 2), "w2": (0, 2)}


def test_what_a_worker_should_have_stopped_is_taken_for_running() -> None:
    """Kafka believes the workers then, and no longer knows what else should be running: the work
    of who went away in the same round is taken for new."""
    group = Workers({"a": 9})
    group.come("w1", "w2")
    group.settle()
    went = group.running["w2"]
    group.come("w3")
    assert group.rebalance(deaf=("w1",)).revoked["w1"]
    group.go("w2")
    assigned = group.rebalance().assigned
    assert sorted(piece for work in assigned.values() for piece in work) == sorted(went)


def test_nothing_is_waited_for_once_the_work_of_who_went_is_running_again() -> None:
    """Not even where the round before took something away, which would begin a delay of its own."""
    group = Workers({"a": 8})
    group.come("w1", "w2")
    group.settle()
    group.come("w3")
    assert any(group.rebalance().revoked.values())
    away = group.running["w2"]
    group.go("w2")
    assert group.rebalance().delay_ms == DELAY_MS
    group.come("w2")
    group.running["w2"] = away  # it never stopped, it was only out of reach
    assert group.rebalance(passed_ms=1_000).delay_ms == 0


def test_those_that_came_with_nothing_share_what_was_held_back_whenever_they_came() -> None:
    group = Workers({"a": 6})
    group.come("w1", "w2")
    group.settle()
    went = [piece for piece in group.running["w2"] if piece[1] != CONNECTOR_TASK]
    group.go("w2")
    group.rebalance()
    group.come("w3")
    group.rebalance(passed_ms=1_000)
    group.come("w4")
    group.rebalance(passed_ms=1_000)
    given = group.rebalance(passed_ms=DELAY_MS).assigned
    assert (given["w3"], given["w4"]) == ([went[0], went[2]], [went[1]])


def test_a_delay_never_exceeds_the_maximum_even_where_time_goes_back() -> None:
    group = three_workers()
    group.go("C2")
    group.rebalance()
    assert group.rebalance(passed_ms=-50_000).delay_ms == DELAY_MS


def test_workers_are_in_the_order_of_java_whose_characters_are_utf_16() -> None:
    group = Workers({"a": 1})
    group.come("\uff01", "\U0001f600")
    group.rebalance()
    assert group.counts() == {"\U0001f600": (1, 1), "\uff01": (0, 0)}


def test_a_connector_that_was_deleted_stops_everywhere_and_is_not_held_back() -> None:
    group = Workers({"a": 2, "b": 2})
    group.come("w1", "w2")
    group.rebalance()
    del group.connectors["a"]
    decided = group.rebalance()
    assert sorted(p for work in decided.revoked.values() for p in work) == sorted(pieces({"a": 2}))
    assert decided.delay_ms == 0


def test_what_runs_twice_stops_on_both_and_is_given_again() -> None:
    group = Workers({"a": 2})
    group.come("w1", "w2")
    group.rebalance()
    group.running["w2"].append(("a", 0))
    decided = group.rebalance()
    assert [("a", 0) in decided.revoked[worker] for worker in ("w1", "w2")] == [True, True]
    group.settle()
    assert group.counts() == {"w1": (1, 1), "w2": (0, 1)}


def test_a_leader_that_did_not_lead_the_last_round_forgets_what_it_knew() -> None:
    group = three_workers()
    group.go("C2")
    group.generation += 5  # rounds that another worker led
    decided = group.rebalance()
    assert decided.delay_ms == 0
    assert decided.assigned["C3"] == tasks("P-1")


def test_the_order_in_which_workers_are_named_does_not_matter() -> None:
    def assigned(names: str) -> object:
        group = Workers({"a": 5, "b": 3})
        group.come(*names)
        group.rebalance()
        return {worker: sorted(work) for worker, work in group.running.items()}

    assert assigned("xyz") == assigned("zxy")


@pytest.mark.parametrize("rounds", range(1, 9))
def test_the_delay_after_revoking_rounds_never_exceeds_the_maximum(rounds: int) -> None:
    assert backoff_ms(rounds, DELAY_MS) == min(40**rounds, DELAY_MS)
    assert backoff_ms(rounds, 0) == 0


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 7), min_size=1),
    st.lists(st.sets(st.sampled_from(WORKERS), min_size=1), min_size=1, max_size=6),
)
def test_once_all_is_calm_each_piece_runs_once_and_loads_differ_by_one(
    connectors: dict[str, int], crowds: list[set[str]]
) -> None:
    group = Workers(connectors)
    for crowd in crowds:
        group.go(*sorted(group.running.keys() - crowd))
        group.come(*sorted(crowd - group.running.keys()))
        group.rebalance()
        all_running = [piece for work in group.running.values() for piece in work]
        assert len(all_running) == len(set(all_running))
    group.settle()
    everything = [piece for work in group.running.values() for piece in work]
    assert sorted(everything) == sorted(pieces(connectors))
    for kind in zip(*group.counts().values(), strict=True):
        assert max(kind) - min(kind) <= 1


def test_all_state_is_in_the_memory() -> None:
    drawn = history(seed=7)
    whole = replayed(drawn)
    assignor = ConnectAssignor(drawn["max_delay_ms"])
    for said, expected in zip(drawn["rounds"], whole, strict=True):
        decided = assignor.assign(
            said["connectors"],
            said["running"],
            now_ms=said["now_ms"],
            generation=said["generation"],
            last_completed_generation=said["last_completed_generation"],
        )
        assert decided.delay_ms == expected["delay_ms"]
        assignor = ConnectAssignor(drawn["max_delay_ms"], assignor.memory)  # its successor


def test_a_connector_without_tasks_runs_too() -> None:
    group = Workers({"a": 0})
    group.come("w1")
    assert group.rebalance().assigned == {"w1": [("a", CONNECTOR_TASK)]}
