"""`AsyncKafka`: the harness for tests on an event loop. Its waits are coroutines.

Each wait runs in a thread, so that consumers on the test's event loop keep running. The classes
extend the synchronous classes and wrap only their waits (`awaited`). All other methods stay
synchronous, because they do not wait for clients. A synchronous wait on an event loop raises an
error (loop_thread.check_may_block). Cancelling a wait ends its thread. A wait called without
`await` fails the test (check_awaited).
"""

import asyncio
import inspect
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from .clock import ClockControl
from .fake_members.fake_member import FakeMember
from .faults.disk import Disk, DiskFault
from .faults.faults import Fault, Faults
from .group import Group
from .group_control import Hold
from .kafka import Kafka
from .loop_thread import CancelScope
from .transactions import MarkerHold, Transactions

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def awaited(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Return a version of the method that returns a coroutine."""

    @wraps(method)
    def wait(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        coroutine = _in_thread(partial(method, self, *args, **kwargs))
        caller = sys._getframe(1)
        place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        hint = "" if _on_loop() else " in a test that is not async: use the fixture kafka"
        _calls[:] = [*_not_started(), (coroutine, f"{place}: {method.__qualname__}(){hint}")]
        return coroutine

    return wait


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class NotAwaited(AssertionError):
    """A wait of an AsyncKafka was called without `await`. The message lists the calls."""


_calls: list[tuple[Coroutine[Any, Any, Any], str]] = []
"""Coroutines that may not have been awaited yet, each with the line and name of its call."""


def _not_started() -> list[tuple[Coroutine[Any, Any, Any], str]]:
    return [each for each in _calls if inspect.getcoroutinestate(each[0]) == inspect.CORO_CREATED]


def take_not_awaited() -> str:
    """Return the calls that were not awaited, one per line, and forget them."""
    calls = _not_started()
    _calls.clear()
    for coroutine, _ in calls:
        coroutine.close()  # prevents a RuntimeWarning
    return "\n".join(["`await` is missing at", *(call for _, call in calls)]) if calls else ""


def check_awaited() -> None:
    """Raise NotAwaited if calls were not awaited. The plugin calls this at the end of a test, and
    `async with AsyncKafka()` on exit."""
    if missing := take_not_awaited():
        raise NotAwaited(missing)


async def _in_thread(function: Callable[[], R]) -> R:
    # Not asyncio's default executor, because it has few threads and the test may need them.
    executor = ThreadPoolExecutor(1, "kohort-wait")
    scope = CancelScope()
    try:
        context = scope.context()
        return await asyncio.get_running_loop().run_in_executor(executor, context.run, function)
    finally:
        scope.cancel()
        executor.shutdown(wait=False)


class AsyncHold(Hold):
    """A Hold whose wait is a coroutine: `with group.hold_joins() as held: await held.wait()`."""

    wait = awaited(Hold.wait)  # type: ignore[assignment]


class AsyncGroup(Group):
    """A Group whose waits are coroutines: `await kafka.group("billing").wait_stable(members=1)`."""

    wait_stable = awaited(Group.wait_stable)  # type: ignore[assignment]
    wait_generation = awaited(Group.wait_generation)  # type: ignore[assignment]
    wait_epoch = awaited(Group.wait_epoch)  # type: ignore[assignment]
    wait_owner = awaited(Group.wait_owner)  # type: ignore[assignment]
    wait_committed = awaited(Group.wait_committed)  # type: ignore[assignment]
    wait_empty = awaited(Group.wait_empty)  # type: ignore[assignment]
    wait_gone = awaited(Group.wait_gone)  # type: ignore[assignment]

    def hold_joins(self) -> AsyncHold:
        """Like `Group.hold_joins`, but the hold's `wait` is a coroutine."""
        return AsyncHold(self._host, "JoinGroup", self.group_id)

    def hold_syncs(self) -> AsyncHold:
        """Like `Group.hold_syncs`, but the hold's `wait` is a coroutine."""
        return AsyncHold(self._host, "SyncGroup", self.group_id)

    def hold_heartbeats(self) -> AsyncHold:
        """Like `Group.hold_heartbeats`, but the hold's `wait` is a coroutine."""
        return AsyncHold(self._host, "ConsumerGroupHeartbeat", self.group_id)


class AsyncMarkerHold(MarkerHold):
    """A MarkerHold whose wait is a coroutine."""

    wait = awaited(MarkerHold.wait)  # type: ignore[assignment]


class AsyncTransactions(Transactions):
    """`kafka.transactions`: `await kafka.transactions.wait("billing-1", "committed")`."""

    wait = awaited(Transactions.wait)  # type: ignore[assignment]

    def hold_markers(self, transactional_id: str | None = None) -> AsyncMarkerHold:
        """Like `Transactions.hold_markers`, but the hold's `wait` is a coroutine."""
        return AsyncMarkerHold(self._host, transactional_id)


class AsyncFakeMember(FakeMember):
    """A FakeMember whose `wait_owned` is a coroutine."""

    wait_owned = awaited(FakeMember.wait_owned)  # type: ignore[assignment]


class AsyncFault(Fault):
    """A Fault whose wait is a coroutine: `await kafka.faults.drop("OffsetCommit").wait()`."""

    wait = awaited(Fault.wait)  # type: ignore[assignment]


class AsyncFaults(Faults[AsyncFault]):
    """`kafka.faults` of an AsyncKafka."""

    _type = AsyncFault


class AsyncDiskFault(DiskFault):
    """A DiskFault whose wait is a coroutine: `await kafka.disk.fail("append").wait()`."""

    wait = awaited(DiskFault.wait)  # type: ignore[assignment]


class AsyncDisk(Disk):
    """`kafka.disk` of an AsyncKafka."""

    _type = AsyncDiskFault


class AsyncClock(ClockControl):
    """`kafka.clock` of an AsyncKafka."""

    run_until = awaited(ClockControl.run_until)  # type: ignore[assignment]
    advance_with_heartbeats = awaited(ClockControl.advance_with_heartbeats)  # type: ignore[assignment]


def _async_fake_member(
    method: Callable[Concatenate[S, P], FakeMember],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, AsyncFakeMember]]:
    """Like `awaited`, for a method whose result is an AsyncFakeMember in an AsyncKafka."""
    return cast(
        "Callable[Concatenate[S, P], Coroutine[Any, Any, AsyncFakeMember]]", awaited(method)
    )


class AsyncKafka(Kafka):
    """A Kafka whose waits are coroutines, including `await kafka.fake_member(…)`. Use it with
    `async with`, or through the fixture `async_kafka`. `wait` calls its condition in another
    thread."""

    clock: AsyncClock
    disk: AsyncDisk
    faults: AsyncFaults
    _clock_type = AsyncClock
    _disk_type = AsyncDisk
    _faults_type = AsyncFaults
    _fake_member_type = AsyncFakeMember
    _transactions_type = AsyncTransactions
    transactions: AsyncTransactions

    wait = awaited(Kafka.wait)  # type: ignore[assignment]
    wait_request = awaited(Kafka.wait_request)  # type: ignore[assignment]
    fake_member = _async_fake_member(Kafka.fake_member)  # type: ignore[assignment]

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *raised: Any) -> None:
        try:
            if raised[1] is None:
                check_awaited()
            elif missing := take_not_awaited():
                raised[1].add_note(missing)  # otherwise, the next test would fail
        finally:
            await asyncio.to_thread(self.__exit__, *raised)

    def group(self, group_id: str) -> AsyncGroup:
        """The group, which need not exist yet; its waits are coroutines."""
        self._host.named_groups.add(group_id)
        return AsyncGroup(self._host, group_id)

    groups: list[AsyncGroup]  # type: ignore[assignment]
