"""Timers on the event loop: due timers run, cancelled ones are removed soon."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from itertools import count

import pytest
from kohort.broker.event_loop.timers import (
    READ_ITERATIONS,
    READ_ITERATIONS_MAX,
    STALL_MS,
    SystemClock,
    Timer,
    Timers,
)
from kohort.broker.event_loop.watchdog import Watchdog
from support.runtime import ManualClock

HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def timers(clock: ManualClock) -> AsyncIterator[Timers]:
    timers = Timers(clock, Watchdog())
    yield timers
    timers.close()


def must_not_run() -> None:
    raise AssertionError("a cancelled timer ran")


@pytest.mark.parametrize("correction_ms", [-3 * HOUR_MS, 3 * HOUR_MS])
def test_a_correction_of_the_system_clock_changes_no_deadline(
    monkeypatch: pytest.MonkeyPatch, correction_ms: int
) -> None:
    """A suspend has the same effect, because the monotonic clock stops."""
    clock = SystemClock()
    before, wall_before_ns = clock.now_ms(), time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: wall_before_ns + correction_ms * 1_000_000)
    assert clock.wall_ms() == wall_before_ns // 1_000_000 + correction_ms
    assert 0 <= clock.now_ms() - before < HOUR_MS


async def test_cancelled_timers_are_removed_before_their_time(
    timers: Timers, clock: ManualClock
) -> None:
    """Two thousand long polls of an hour that get their responses immediately."""
    for _ in range(2_000):
        timers.call_at(clock.ms + HOUR_MS, must_not_run).cancel()
    assert len(timers._deadlines._heap) <= 1_025


async def test_timers_fire_at_their_time_in_order(timers: Timers, clock: ManualClock) -> None:
    fired: list[int] = []
    left: list[int] = []

    def due(number: int) -> int:
        return number * 37 % 100

    for number in range(1_000):
        deadline_ms = clock.ms + due(number)
        timer = timers.call_at(deadline_ms, partial(fired.append, number))
        if number % 5:
            timer.cancel()
        else:
            left.append(number)
    clock.ms += 49
    timers.fire()
    assert fired == [number for number in sorted(left, key=due) if due(number) < 50]
    clock.ms += 50
    timers.fire()
    assert fired == sorted(left, key=due)


async def test_fired_and_cancelled_timers_may_be_cancelled_again(
    timers: Timers, clock: ManualClock
) -> None:
    """A long poll that timed out cancels its timer as well."""
    fired: list[int] = []
    ran = [timers.call_at(clock.ms, lambda: None) for _ in range(200)]
    timers.fire()
    left = [timers.call_at(clock.ms + 1, partial(fired.append, each)) for each in range(200)]
    for timer in (*ran, *ran, left[0], left[0]):
        timer.cancel()
    clock.ms += 1
    timers.fire()
    assert fired == list(range(1, 200))


async def test_a_callback_may_cancel_other_due_timers(timers: Timers, clock: ManualClock) -> None:
    others: list[Timer] = []
    fired: list[str] = []

    def first() -> None:
        fired.append("first")
        for timer in others:
            timer.cancel()

    timers.call_at(clock.ms, first)
    others += [timers.call_at(clock.ms, must_not_run) for _ in range(500)]
    timers.call_at(clock.ms, lambda: fired.append("last"))
    timers.fire()
    assert (fired, dict(timers._deadlines.pending)) == (["first", "last"], {})


async def test_late_timers_fire_after_sockets_are_read(timers: Timers, clock: ManualClock) -> None:
    """This also holds if the event loop stalls again while sockets are read."""
    fired: list[int] = []
    iteration = 0
    timers.call_at(clock.ms, lambda: fired.append(iteration))
    clock.ms += STALL_MS
    for iteration in range(2 * READ_ITERATIONS + 4):
        if iteration == READ_ITERATIONS // 2:
            clock.ms += STALL_MS
        await asyncio.sleep(0)
    assert fired
    assert fired[0] >= READ_ITERATIONS * 3 // 2


async def test_late_timers_fire_in_an_overloaded_broker(timers: Timers, clock: ManualClock) -> None:
    fired: list[int] = []
    timers.call_at(clock.ms, lambda: fired.append(clock.ms))
    for _ in range(READ_ITERATIONS_MAX + 4):
        clock.ms += STALL_MS
        await asyncio.sleep(0)
    assert fired


async def test_other_callbacks_run_between_timers_that_are_due_at_once(
    timers: Timers, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of sessions may expire at the same time."""
    ran: list[str] = []
    loop = asyncio.get_running_loop()
    all_fired = loop.create_future()

    def fire(number: int) -> None:
        ran.append("timer")
        loop.call_soon(ran.append, "other")
        if number == 2:
            all_fired.set_result(None)

    # Each callback takes a second.
    seconds = count()
    monkeypatch.setattr("kohort.broker.event_loop.timers.seconds", lambda: next(seconds))
    for number in range(3):
        timers.call_at(clock.ms, partial(fire, number))
    await all_fired
    assert ran[:5] == ["timer", "other", "timer", "other", "timer"]
