"""Event loop callbacks are counted by duration, and the long ones are logged."""

import asyncio
import logging

import pytest
from kohort.broker.event_loop.scheduler import Scheduler
from kohort.broker.event_loop.watchdog import BOUNDS_MS, LONG_SECONDS, Watchdog
from support.connection import Peer, frame


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kohort.event_loop")


def counted(watchdog: Watchdog) -> dict[int | None, int]:
    return {bound: count for bound, count in watchdog.callback_times.below if count}


def test_callbacks_are_counted_by_duration() -> None:
    watchdog = Watchdog()
    watchdog.short = 7
    for milliseconds in (0.5, 1.5, 99, 1000, 5000):
        watchdog.ended(milliseconds / 1000, lambda: "a request")
    assert counted(watchdog) == {1: 8, 2: 1, 100: 1, None: 2}
    assert watchdog.callback_times.total == 12
    assert watchdog.callback_times.longest_ms == 5000
    assert str(watchdog.callback_times) == (
        "12 callbacks, the longest 5000.0 ms: "
        f"8 below 1, 1 below 2, 1 below 100, 2 of {BOUNDS_MS[-1]} ms or more"
    )


def test_there_are_no_durations_before_the_first_callback() -> None:
    assert str(Watchdog().callback_times) == "0 callbacks, the longest 0.0 ms: none"


def test_a_long_callback_is_logged_once_with_its_request(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog()
    watchdog.ended(LONG_SECONDS * 0.99, lambda: "Heartbeat v4")
    assert not caplog.messages
    watchdog.ended(LONG_SECONDS, lambda: "Metadata v9")
    assert caplog.messages == [
        "No client was served for 100 ms: Metadata v9 kept the event loop busy"
    ]


class Slow:
    """A clock that advances by a second with each call."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


async def test_requests_of_a_connection_are_timed_together(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = Peer()
    peer.send(1)
    assert peer.watchdog.callback_times.total == 1
    monkeypatch.setattr("kohort.broker.network.connection.seconds", Slow())
    peer.send(2, 3)
    assert counted(peer.watchdog)[None] == 1
    (line,) = caplog.messages
    assert "Heartbeat v0 from" in line
    peer.connection.data_received(frame(4)[:5])
    assert "a part of a request from" in caplog.messages[-1]


def test_a_slice_of_a_task_is_timed(caplog: pytest.LogCaptureFixture) -> None:
    watchdog, callbacks = Watchdog(), []
    scheduler = Scheduler(
        callbacks.append,
        lambda _work, _done: None,
        seconds=Slow(),
        on_slice=lambda duration, task: watchdog.ended(duration, lambda: str(task.name)),
    )

    def compaction():
        yield

    scheduler.spawn(compaction())
    scheduler.spawn(compaction(), name="Metadata v9 from /127.0.0.1")
    while callbacks:
        callbacks.pop(0)()
    assert counted(watchdog)[None] == 4  # a step and the end of each task
    assert ".compaction kept" in caplog.messages[0]
    assert "Metadata v9 from /127.0.0.1 kept" in caplog.messages[1]


async def test_a_callback_is_timed_even_if_it_fails(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    watchdog = Watchdog()

    def flush() -> None:
        raise OSError("full")

    monkeypatch.setattr("kohort.broker.event_loop.watchdog.seconds", Slow())
    loop = asyncio.get_running_loop()
    failures: list[object] = []
    loop.set_exception_handler(lambda _loop, context: failures.append(context["exception"]))
    watchdog.call_soon(flush)
    await asyncio.sleep(0)
    assert "flush kept the event loop busy" in caplog.messages[0]
    assert isinstance(failures[0], OSError)
    assert watchdog.callback_times.total == 1
