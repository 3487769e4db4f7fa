"""Tests on an event loop: waits are awaited, and what runs on the loop lives on meanwhile."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from kohort.testing import AsyncKafka, BarrierTimeout, Kafka


@asynccontextmanager
async def consuming(kafka: Kafka, client_id: str = "mine") -> AsyncIterator[AIOKafkaConsumer]:
    """An aiokafka consumer on this very loop, which reads and commits."""
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        group_id="billing",
        client_id=client_id,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=50,
        enable_auto_commit=False,
    )

    async def read() -> None:
        async for _ in consumer:
            await consumer.commit()

    # aiokafka's start() returns without a group; it joins while the loop turns.
    await consumer.start()
    reading = asyncio.create_task(read())
    try:
        yield consumer
    finally:
        reading.cancel()
        await consumer.stop()


@pytest.mark.clients
async def test_a_consumer_on_the_loop_lives_on_while_a_wait_is_awaited(
    async_kafka: AsyncKafka,
) -> None:
    async_kafka.topic("orders", partitions=2).produce([b"a", b"b"])
    async with consuming(async_kafka), consuming(async_kafka, "other"):
        group = await async_kafka.group("billing").wait_stable(members=2)
        assert await group.wait_committed("orders", 1, 1) == 1
        assert (await group.wait_owner("orders", 0)).client_id in ("mine", "other")
        await async_kafka.wait_request("Heartbeat", count=2)
    await group.wait_empty()


@pytest.mark.clients
async def test_the_blocking_broker_serves_consumers_on_the_loop_all_the_same(kafka: Kafka) -> None:
    """What only asks returns at once, and a wait may be put into a thread by hand."""
    kafka.topic("orders", partitions=1).produce([b"a"])
    async with consuming(kafka):
        group = await asyncio.to_thread(kafka.group("billing").wait_stable, members=1)
        kafka.clock.advance(minutes=5)
        assert group.generations[-1].cause == "session expired"
        await asyncio.to_thread(group.wait_stable, members=1)


async def test_a_wait_in_vain_tells_the_story_of_the_group(async_kafka: AsyncKafka) -> None:
    with pytest.raises(BarrierTimeout, match="nobody has joined it"):
        await async_kafka.group("nobody").wait_stable(timeout=0.01)
    with pytest.raises(BarrierTimeout, match="the moon was waited for"):
        await async_kafka.wait(lambda: False, "the moon", timeout=0.01)


async def test_a_condition_may_be_of_the_loop_itself(async_kafka: AsyncKafka) -> None:
    happened: list[str] = []
    asked: list[bool] = []
    asyncio.get_running_loop().call_soon(happened.append, "outside the broker")

    def is_asked_a_third_time() -> bool:
        asked.append(True)
        return bool(happened) and len(asked) > 2

    # Nothing happens in the broker. When the time is up it would be asked a second time only.
    await async_kafka.wait(is_asked_a_third_time, timeout=60)


@pytest.mark.clients
async def test_a_fault_and_a_hold_are_waited_for_while_the_loop_goes_on(
    async_kafka: AsyncKafka,
) -> None:
    async_kafka.topic("orders", partitions=1).produce([b"a"])
    group = async_kafka.group("billing")
    async with consuming(async_kafka):
        await group.wait_stable(members=1)
        fault = async_kafka.faults.delay("Heartbeat", ms=1)
        assert await fault.wait() is fault  # this loop's consumer has to send it
        with group.hold_joins() as held:
            group.rebalance()
            (asked,) = await held.wait()
            assert asked.client_id == "mine"
        await group.wait_generation(2)


async def test_time_passes_until_something_is_so(async_kafka: AsyncKafka) -> None:
    async_kafka.topic("orders", partitions=1)
    puppet = await async_kafka.puppet("billing", topics=["orders"])
    await puppet.wait_owned()
    puppet.silence()
    await async_kafka.clock.run_until(lambda: async_kafka.group("billing").state == "Empty")


@pytest.mark.parametrize(
    "wait",
    [
        lambda kafka: kafka.wait(lambda: True),
        lambda kafka: kafka.wait_request("Heartbeat"),
        lambda kafka: kafka.group("billing").wait_gone(),
        lambda kafka: kafka.group("billing").hold_joins().wait(0),
        lambda kafka: kafka.faults.drop("Heartbeat", times=None).wait(0),
        lambda kafka: kafka.puppet("billing").wait_owned(0),
        lambda kafka: kafka.clock.run_until(lambda: True),
    ],
)
async def test_a_wait_that_would_hold_up_the_loop_is_refused(
    wait: Callable[[Kafka], object],
) -> None:
    """Whether or not it would have to wait: a test shall not depend on that."""
    kafka = await asyncio.to_thread(Kafka().start)
    try:
        with pytest.raises(RuntimeError, match="you are on an event loop"):
            wait(kafka)
        kafka.faults.clear()
    finally:
        await asyncio.to_thread(kafka.stop)


async def test_every_wait_of_what_an_async_broker_gives_is_awaited() -> None:
    async with AsyncExitStack() as stack:
        kafka = await stack.enter_async_context(AsyncKafka())
        group = kafka.group("nobody")
        fault = kafka.faults.drop("OffsetCommit")
        fault.cancel()
        parts = (kafka, group, await kafka.puppet("billing"), fault, kafka.clock)
        holds = [stack.enter_context(hold()) for hold in (group.hold_joins, group.hold_syncs)]
        waits: list[Callable[..., Awaitable[object]]] = [
            getattr(each, name)
            for each in (*parts, *holds)
            for name in dir(each)
            if name.startswith(("wait", "run_until"))
        ]
        assert len(waits) >= 13
        assert [wait.__name__ for wait in waits if not asyncio.iscoroutinefunction(wait)] == []


async def test_waits_leave_the_threads_of_the_loop_to_others(async_kafka: AsyncKafka) -> None:
    """asyncio has few; a client that asks for an address, or the test itself, may want one."""
    group = async_kafka.group("billing")
    waits = [asyncio.create_task(group.wait_stable(timeout=60)) for _ in range(40)]
    await asyncio.wait_for(asyncio.to_thread(int), 20)
    for each in waits:
        each.cancel()
    assert {type(each) for each in await asyncio.gather(*waits, return_exceptions=True)} == {
        asyncio.CancelledError
    }


@pytest.mark.parametrize("of_condition", [False, True])
async def test_the_thread_of_a_wait_that_is_cancelled_ends(
    async_kafka: AsyncKafka, of_condition: bool
) -> None:
    def waiting() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each.name.startswith("kohort-wait")]

    async def wait() -> None:
        if of_condition:
            await async_kafka.wait(lambda: False, timeout=600)
        await async_kafka.group("billing").wait_stable(timeout=600)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(wait(), 0.1)
    for each in waiting():
        await asyncio.to_thread(each.join, 20)
    assert waiting() == []


async def test_all_groups_of_an_async_broker_are_awaited(async_kafka: AsyncKafka) -> None:
    await async_kafka.puppet("billing", topics=["orders"])
    for group in async_kafka.groups:
        await group.wait_stable(members=1)


async def test_a_condition_that_would_have_to_be_awaited_is_refused(
    async_kafka: AsyncKafka,
) -> None:
    """What it returns is true before it has been asked."""

    async def has_charged() -> bool:
        return False

    with pytest.raises(TypeError, match=r"has_charged.* is asked and not awaited"):
        await async_kafka.wait(has_charged)
    with pytest.raises(TypeError, match=r"has_charged.* is asked and not awaited"):
        await async_kafka.clock.run_until(has_charged)
