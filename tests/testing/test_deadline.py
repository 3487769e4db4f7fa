"""When a wait is over on a busy machine."""

import time

import pytest
from kohort.testing import deadline
from kohort.testing.deadline import STRETCH_MAX, Deadline


class BusyMachine:
    """Stands in for the clock, and for what the kernel measures of each thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.delays = {"1": 5.0, "2": 0.0}
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(deadline, "_cpu_delays", lambda: dict(self.delays))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> BusyMachine:
    return BusyMachine(monkeypatch)


def test_a_deadline_is_over_after_its_timeout(machine: BusyMachine) -> None:
    ends = Deadline(10)
    machine.now += 9
    assert (ends.is_over(), ends.left) == (False, 1)
    machine.now += 1
    assert (ends.is_over(), ends.left) == (True, 0)


def test_time_without_a_cpu_does_not_count(machine: BusyMachine) -> None:
    ends = Deadline(10)
    machine.now += 10
    machine.delays = {"1": 5.5, "2": 8.0, "3": 2.0}  # the third thread is new
    assert (ends.is_over(), ends.left) == (False, 8)
    machine.now += 8
    machine.delays["2"] = 9.0
    assert (ends.is_over(), ends.left) == (False, 1)
    machine.now += 1
    assert ends.is_over()


def test_a_deadline_is_over_at_last(machine: BusyMachine) -> None:
    ends = Deadline(10)
    machine.now += 10
    machine.delays["1"] += 1_000
    assert (ends.is_over(), ends.left) == (False, 10 * STRETCH_MAX - 10)
    machine.now += ends.left
    assert ends.is_over()


def test_the_kernel_measures_the_threads_of_this_process() -> None:
    assert all(delay >= 0 for delay in deadline._cpu_delays().values())
