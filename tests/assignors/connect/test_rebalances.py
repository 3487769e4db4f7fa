"""Rebalances of a Connect group: what moves immediately, what is delayed, and for how long."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.connect.assignor import (
    ConnectAssignor,
    LeaderState,
    backoff_ms,
    work_items,
    worker_assignments,
)
from kohort.assignors.connect.protocol import (
    CONFIG_MISMATCH,
    CONNECTOR_TASK,
    WorkerAssignment,
    WorkerState,
)

from .workers import WORKERS, Workers, history, replayed, tasks

DELAY_MS = 300_000
PAGE = Path(__file__).parents[3] / "docs" / "assignors.md"


def three_workers() -> Workers:
    """C1 has P0 and P3, C2 P1, C3 P2."""
    group = Workers({"P": 4})
    group.join("C1", "C2", "C3")
    group.settle()
    assert group.running["C1"] == tasks("P P-0,3")
    assert (group.running["C2"], group.running["C3"]) == (tasks("P-1"), tasks("P-2"))
    return group


def test_a_worker_that_returns_within_the_delay_gets_its_work_back() -> None:
    group = three_workers()
    group.leave("C2")
    first = group.rebalance()
    assert first.delay_ms == DELAY_MS
    assert not any(first.assigned.values())

    group.join("C2")
    second = group.rebalance(passed_ms=100_000)
    assert second.delay_ms == DELAY_MS - 100_000
    assert not any(second.assigned.values())

    third = group.rebalance(passed_ms=200_000)
    assert third.delay_ms == 0
    assert third.assigned == {"C1": [], "C2": tasks("P-1"), "C3": []}
    assert group.stopped == {"C1": [], "C2": [], "C3": []}


def test_work_of_a_worker_that_does_not_return_is_reassigned_after_the_delay() -> None:
    group = three_workers()
    group.leave("C2")
    group.rebalance()
    assert group.rebalance(passed_ms=100_000).delay_ms == 200_000
    third = group.rebalance(passed_ms=200_000)
    assert third.delay_ms == 0
    assert third.assigned == {"C1": [], "C3": tasks("P-1")}
    assert group.stopped == {"C1": [], "C2": [], "C3": []}


def test_a_second_worker_gets_its_half_one_rebalance_after_the_revocation() -> None:
    group = Workers({"a": 4, "b": 4})
    group.join("worker1")
    group.rebalance()
    assert group.counts() == {"worker1": (2, 8)}
    group.join("worker2")
    first = group.rebalance()
    assert first.assigned["worker2"] == []
    assert len(first.revoked["worker1"]) == 5
    group.rebalance()
    assert group.counts() == {"worker1": (1, 4), "worker2": (1, 4)}


def test_successive_revoking_rebalances_are_delayed_longer_each_time() -> None:
    group = Workers({"a": 60})
    group.join("w0")
    group.rebalance()
    delays = []
    for number in range(1, 6):
        group.join(f"w{number}")
        result = group.rebalance(passed_ms=group.assignor.state.delay_ms)
        if result.delay_ms == 0:
            assert any(result.revoked.values())
            group.join(f"x{number}")
            result = group.rebalance()
        assert not any(result.revoked.values())
        delays.append(result.delay_ms)
    assert delays == [40, 1600, 64_000, DELAY_MS, DELAY_MS]


def test_a_rebalance_without_revocations_resets_the_backoff() -> None:
    group = Workers({"a": 60})
    group.join("w0")
    group.rebalance()
    for number in range(4):
        group.join(f"v{number}")
        result = group.rebalance(passed_ms=group.assignor.state.delay_ms)
    assert group.assignor.state.successive_revoking_rebalances > 1
    group.now_ms += result.delay_ms
    group.settle()
    assert group.assignor.state.successive_revoking_rebalances == 0


def test_work_that_should_have_been_revoked_counts_as_running() -> None:
    """Kafka then treats the running work as the previous assignment, so the work of a worker that
    left at the same time is treated as new."""
    group = Workers({"a": 9})
    group.join("w1", "w2")
    group.settle()
    lost = group.running["w2"]
    group.join("w3")
    assert group.rebalance(missed_by=("w1",)).revoked["w1"]
    group.leave("w2")
    assigned = group.rebalance().assigned
    assert sorted(item for work in assigned.values() for item in work) == sorted(lost)


def test_the_delay_ends_when_the_lost_work_is_running_again() -> None:
    """The delay ends even if the previous rebalance revoked work, which would start a delay."""
    group = Workers({"a": 8})
    group.join("w1", "w2")
    group.settle()
    group.join("w3")
    assert any(group.rebalance().revoked.values())
    away = group.running["w2"]
    group.leave("w2")
    assert group.rebalance().delay_ms == DELAY_MS
    group.join("w2")
    group.running["w2"] = away  # it kept running while it was unreachable
    assert group.rebalance(passed_ms=1_000).delay_ms == 0


def test_workers_that_joined_with_nothing_share_the_delayed_work() -> None:
    group = Workers({"a": 6})
    group.join("w1", "w2")
    group.settle()
    lost = [item for item in group.running["w2"] if item[1] != CONNECTOR_TASK]
    group.leave("w2")
    group.rebalance()
    group.join("w3")
    group.rebalance(passed_ms=1_000)
    group.join("w4")
    group.rebalance(passed_ms=1_000)
    assigned = group.rebalance(passed_ms=DELAY_MS).assigned
    assert (assigned["w3"], assigned["w4"]) == ([lost[0], lost[2]], [lost[1]])


def test_a_delay_never_exceeds_the_maximum_even_if_the_clock_goes_back() -> None:
    group = three_workers()
    group.leave("C2")
    group.rebalance()
    assert group.rebalance(passed_ms=-50_000).delay_ms == DELAY_MS


def test_workers_are_sorted_by_utf_16_code_units_as_in_java() -> None:
    group = Workers({"a": 1})
    group.join("\uff01", "\U0001f600")
    group.rebalance()
    assert group.counts() == {"\U0001f600": (1, 1), "\uff01": (0, 0)}


def test_a_leader_that_did_not_lead_the_last_rebalance_discards_its_state() -> None:
    group = three_workers()
    group.leave("C2")
    group.generation += 5  # rebalances led by another worker
    result = group.rebalance()
    assert result.delay_ms == 0
    assert result.assigned["C3"] == tasks("P-1")


@pytest.mark.parametrize("rebalances", range(1, 9))
def test_the_backoff_never_exceeds_the_maximum(rebalances: int) -> None:
    assert backoff_ms(rebalances, DELAY_MS) == min(40**rebalances, DELAY_MS)
    assert backoff_ms(rebalances, 0) == 0


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 7), min_size=1),
    st.lists(st.sets(st.sampled_from(WORKERS), min_size=1), min_size=1, max_size=6),
)
def test_a_settled_group_runs_everything_once_and_loads_differ_by_one(
    connectors: dict[str, int], memberships: list[set[str]]
) -> None:
    group = Workers(connectors)
    for members in memberships:
        group.leave(*sorted(group.running.keys() - members))
        group.join(*sorted(members - group.running.keys()))
        group.rebalance()
        all_running = [item for work in group.running.values() for item in work]
        assert len(all_running) == len(set(all_running))
    group.settle()
    everything = [item for work in group.running.values() for item in work]
    assert sorted(everything) == sorted(work_items(connectors))
    for kind in zip(*group.counts().values(), strict=True):
        assert max(kind) - min(kind) <= 1


def test_an_assignor_can_be_replaced_by_one_with_the_same_state() -> None:
    drawn = history(seed=7)
    whole = replayed(drawn)
    assignor = ConnectAssignor(drawn["max_delay_ms"])
    for step, expected in zip(drawn["rounds"], whole, strict=True):
        result = assignor.assign(
            step["connectors"],
            step["running"],
            now_ms=step["now_ms"],
            generation=step["generation"],
            last_completed_generation=step["last_completed_generation"],
        )
        assert result.delay_ms == expected["delay_ms"]
        assignor = ConnectAssignor(drawn["max_delay_ms"], assignor.state)


TIMES = {"now_ms": 5, "generation": 1, "last_completed_generation": -1}


def test_assignments_contain_the_leader_and_what_to_start() -> None:
    workers = {"w1": WorkerState("http://w1", 3), "w2": WorkerState("http://w2", 4)}
    assigned = worker_assignments(
        ConnectAssignor(), "w2", workers, {"c": 2}, config_offset=4, **TIMES
    )
    assert assigned == {
        "w1": WorkerAssignment("w2", "http://w2", 4, (("c", -1), ("c", 0))),
        "w2": WorkerAssignment("w2", "http://w2", 4, (("c", 1),)),
    }


def test_a_worker_is_assigned_only_what_it_does_not_run_yet() -> None:
    running = WorkerAssignment("w1", "u", 3, (("c", -1), ("c", 0)))
    workers = {"w1": WorkerState("u", 3, running)}
    assigned = worker_assignments(
        ConnectAssignor(), "w1", workers, {"c": 2}, config_offset=3, **TIMES
    )
    assert assigned["w1"].assigned == (("c", 1),)


def test_a_leader_with_an_older_configuration_assigns_nothing() -> None:
    assignor = ConnectAssignor()
    workers = {"w1": WorkerState("u", 3), "w2": WorkerState("v", 8)}
    assigned = worker_assignments(assignor, "w1", workers, {"c": 2}, config_offset=7, **TIMES)
    assert assigned == dict.fromkeys(workers, WorkerAssignment("w1", "u", 8, error=CONFIG_MISMATCH))
    assert assignor.state == LeaderState()


def test_the_example_in_the_docs_runs() -> None:
    section = PAGE.read_text().split("## Kafka Connect\n")[1].split("\n## ")[0]
    (program,) = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert program.count("assert ") == 4
    exec(program, {})
