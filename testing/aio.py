"""The same for tests that run on an event loop: what waits is awaited, all else is as it was.

A wait runs in a thread of its own, so that the consumers of the test live on while it lasts, and
nothing has to be written twice: a twin is its class with the waits `awaited`, typed as they were.
What asks or steers stays a plain call: it takes less than a millisecond. A wait that is not awaited
is refused on an event loop (waiting.may_wait).

A wait that is cancelled is given up, and its thread ends.
"""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from .choreography import Hold
from .clock import ClockControl
from .fake_members.puppet import Puppet
from .faults import Fault, Faults
from .group import Group
from .kafka import Kafka
from .loop_thread import Waiter

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def awaited(
    waits: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """The same method, to be awaited."""

    @wraps(waits)
    async def wait(self: S, /, *args: P.args, **named: P.kwargs) -> R:
        return await _in_thread(partial(waits, self, *args, **named))

    return wait


async def _in_thread(what: Callable[[], R]) -> R:
    # Not one of asyncio's own: those are few, and the loop has use for them.
    threads = ThreadPoolExecutor(1, "kohort-wait")
    waiter = Waiter()
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, waiter.begin().run, what)
    finally:
        waiter.give_up()
        threads.shutdown(wait=False)


class AsyncHold(Hold):
    """A Hold whose wait is awaited: `with group.hold_joins() as held: await held.wait()`."""

    wait = awaited(Hold.wait)  # type: ignore[assignment]


class AsyncGroup(Group):
    """A Group whose waits are awaited: `await kafka.group("billing").wait_stable(members=1)`."""

    wait_stable = awaited(Group.wait_stable)  # type: ignore[assignment]
    wait_generation = awaited(Group.wait_generation)  # type: ignore[assignment]
    wait_owner = awaited(Group.wait_owner)  # type: ignore[assignment]
    wait_committed = awaited(Group.wait_committed)  # type: ignore[assignment]
    wait_empty = awaited(Group.wait_empty)  # type: ignore[assignment]
    wait_gone = awaited(Group.wait_gone)  # type: ignore[assignment]

    def hold_joins(self) -> AsyncHold:
        """As `Group.hold_joins`; its wait is awaited."""
        return AsyncHold(self.kafka, "JoinGroup", self.group_id)

    def hold_syncs(self) -> AsyncHold:
        """As `Group.hold_syncs`; its wait is awaited."""
        return AsyncHold(self.kafka, "SyncGroup", self.group_id)


class AsyncPuppet(Puppet):
    """A Puppet whose wait is awaited."""

    wait_owned = awaited(Puppet.wait_owned)  # type: ignore[assignment]


class AsyncFault(Fault):
    """A Fault whose wait is awaited: `await kafka.faults.drop("OffsetCommit").wait()`."""

    wait = awaited(Fault.wait)  # type: ignore[assignment]


class AsyncFaults(Faults[AsyncFault]):
    """`kafka.faults`."""

    _type = AsyncFault


class AsyncClock(ClockControl):
    """`kafka.clock`."""

    run_until = awaited(ClockControl.run_until)  # type: ignore[assignment]


def _async_puppet(
    makes: Callable[Concatenate[S, P], Puppet],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, AsyncPuppet]]:
    """The same method `awaited`, of a Kafka that makes these."""
    return cast("Callable[Concatenate[S, P], Coroutine[Any, Any, AsyncPuppet]]", awaited(makes))


class AsyncKafka(Kafka):
    """A Kafka whose waits are awaited, `await kafka.puppet(…)` too, for `async with` and for the
    fixture `async_kafka`.

    The condition of `wait` is asked in another thread than the test's."""

    clock: AsyncClock
    faults: AsyncFaults
    _clock_type = AsyncClock
    _faults_type = AsyncFaults

    wait = awaited(Kafka.wait)  # type: ignore[assignment]
    wait_request = awaited(Kafka.wait_request)  # type: ignore[assignment]
    puppet = _async_puppet(Kafka.puppet)  # type: ignore[assignment]
    _puppet_type = AsyncPuppet

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *raised: object) -> None:
        await asyncio.to_thread(self.__exit__, *raised)

    def group(self, group_id: str) -> AsyncGroup:
        """The group, which need not exist yet; its waits are awaited."""
        return AsyncGroup(self, group_id)

    groups: list[AsyncGroup]  # type: ignore[assignment]
