"""Tests on an event loop: waits are awaited, and do not block the loop."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from kohort.testing import AsyncKafka, BarrierTimeout, Kafka, NotAwaited


@asynccontextmanager
async def consuming(kafka: Kafka, client_id: str = "mine") -> AsyncIterator[AIOKafkaConsumer]:
    """An aiokafka consumer on the loop of the test, which reads and commits."""
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

    # aiokafka's start() returns before it has joined.
    await consumer.start()
    reading = asyncio.create_task(read())
    try:
        yield consumer
    finally:
        reading.cancel()
        await consumer.stop()


@pytest.mark.clients
async def test_consumers_on_the_loop_run_during_an_awaited_wait(async_kafka: AsyncKafka) -> None:
    async_kafka.topic("orders", partitions=2).produce([b"a", b"b"])
    async with consuming(async_kafka), consuming(async_kafka, "other"):
        group = await async_kafka.group("billing").wait_stable(members=2)
        assert await group.wait_committed("orders", 1, 1) == 1
        assert (await group.wait_owner("orders", 0)).client_id in ("mine", "other")
        await async_kafka.wait_request("Heartbeat", count=2)
    await group.wait_empty()


@pytest.mark.clients
async def test_a_synchronous_broker_serves_consumers_on_the_loop(kafka: Kafka) -> None:
    """Reading state does not block, and a test may run waits in a thread itself."""
    kafka.topic("orders", partitions=1).produce([b"a"])
    async with consuming(kafka):
        group = await asyncio.to_thread(kafka.group("billing").wait_stable, members=1)
        kafka.clock.advance(minutes=5)
        assert group.generations[-1].cause == "session expired"
        await asyncio.to_thread(group.wait_stable, members=1)


async def test_a_timeout_explains_the_group(async_kafka: AsyncKafka) -> None:
    with pytest.raises(BarrierTimeout, match="neither members nor committed offsets"):
        await async_kafka.group("nobody").wait_stable(timeout=0.01)
    with pytest.raises(BarrierTimeout, match="waiting for an order"):
        await async_kafka.wait(lambda: False, "an order", timeout=0.01)


async def test_a_condition_may_read_state_of_the_loop(async_kafka: AsyncKafka) -> None:
    happened: list[str] = []
    calls: list[bool] = []
    asyncio.get_running_loop().call_soon(happened.append, "outside the broker")

    def is_third_call() -> bool:
        calls.append(True)
        return bool(happened) and len(calls) > 2

    # Without polling there would be only one more call, after the timeout.
    await async_kafka.wait(is_third_call, timeout=60)


@pytest.mark.clients
async def test_waits_of_faults_and_holds_do_not_block_the_loop(async_kafka: AsyncKafka) -> None:
    async_kafka.topic("orders", partitions=1).produce([b"a"])
    group = async_kafka.group("billing")
    async with consuming(async_kafka):
        await group.wait_stable(members=1)
        fault = async_kafka.faults.delay("Heartbeat", ms=1)
        assert await fault.wait() is fault  # the consumer on this loop sends the heartbeat
        with group.hold_joins() as held:
            group.rebalance()
            (request,) = await held.wait()
            assert request.client_id == "mine"
        await group.wait_generation(2)


async def test_run_until_is_awaited(async_kafka: AsyncKafka) -> None:
    async_kafka.topic("orders", partitions=1)
    fake = await async_kafka.fake_member("billing", topics=["orders"])
    await fake.wait_owned()
    fake.suspend()
    await async_kafka.clock.run_until(lambda: async_kafka.group("billing").state == "Empty")


@pytest.mark.parametrize(
    "wait",
    [
        lambda kafka: kafka.wait(lambda: True),
        lambda kafka: kafka.wait_request("Heartbeat"),
        lambda kafka: kafka.group("billing").wait_gone(),
        lambda kafka: kafka.group("billing").hold_joins().wait(0),
        lambda kafka: kafka.faults.drop("Heartbeat", times=None).wait(0),
        lambda kafka: kafka.disk.fail("append").wait(0),
        lambda kafka: kafka.fake_member("billing").wait_owned(0),
        lambda kafka: kafka.clock.run_until(lambda: True),
    ],
)
async def test_a_wait_that_would_block_the_loop_raises(wait: Callable[[Kafka], object]) -> None:
    """It raises even if it would return immediately, because an error must not depend on timing."""
    kafka = await asyncio.to_thread(Kafka().start)
    try:
        with pytest.raises(RuntimeError, match="would block the event loop"):
            wait(kafka)
        kafka.faults.clear()
    finally:
        await asyncio.to_thread(kafka.stop)


async def test_async_with_checks_for_missing_awaits() -> None:
    with pytest.raises(NotAwaited, match=r"test_async.py:\d+: Group.wait_empty\(\)"):
        async with AsyncKafka() as kafka:
            kafka.group("billing").wait_empty()
    with pytest.raises(ZeroDivisionError) as raised:  # noqa: PT012
        async with AsyncKafka() as kafka:
            kafka.group("billing").wait_empty()
            raise ZeroDivisionError
    assert "Group.wait_empty()" in raised.value.__notes__[0]
    async with AsyncKafka() as kafka:
        await asyncio.create_task(kafka.group("billing").wait_empty())


async def test_every_wait_of_an_async_broker_is_a_coroutine() -> None:
    async with AsyncExitStack() as stack:
        kafka = await stack.enter_async_context(AsyncKafka())
        group = kafka.group("nobody")
        fault = kafka.faults.drop("OffsetCommit")
        disk_fault = kafka.disk.fail("append")
        member, transactions = await kafka.fake_member("billing"), kafka.transactions
        parts = (kafka, group, member, fault, disk_fault, kafka.clock, transactions)
        begin_hold = (group.hold_joins, group.hold_syncs, transactions.hold_markers)
        holds = [stack.enter_context(hold()) for hold in begin_hold]
        waits: list[Callable[..., Awaitable[object]]] = [
            getattr(each, name)
            for each in (*parts, *holds)
            for name in dir(each)
            if name.startswith(("wait", "run_until"))
        ]
        assert len(waits) >= 16
        assert [wait.__name__ for wait in waits if not hasattr(wait, "__wrapped__")] == []
        kafka.faults.clear()  # nothing was held


async def test_waits_do_not_use_the_default_executor(async_kafka: AsyncKafka) -> None:
    """It has few threads, which clients (for DNS) and the test itself may need."""
    group = async_kafka.group("billing")
    waits = [asyncio.create_task(group.wait_stable(timeout=60)) for _ in range(40)]
    await asyncio.wait_for(asyncio.to_thread(int), 20)
    for each in waits:
        each.cancel()
    assert {type(each) for each in await asyncio.gather(*waits, return_exceptions=True)} == {
        asyncio.CancelledError
    }


@pytest.mark.parametrize("of_condition", [False, True])
async def test_cancelling_a_wait_ends_its_thread(
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


async def test_all_groups_of_an_async_broker_are_async(async_kafka: AsyncKafka) -> None:
    await async_kafka.fake_member("billing", topics=["orders"])
    for group in async_kafka.groups:
        await group.wait_stable(members=1)


async def test_a_coroutine_function_is_rejected_as_a_condition(async_kafka: AsyncKafka) -> None:
    """A coroutine object is always true."""

    async def has_charged() -> bool:
        return False

    with pytest.raises(TypeError, match=r"has_charged.* is called, not awaited"):
        await async_kafka.wait(has_charged)
    with pytest.raises(TypeError, match=r"has_charged.* is called, not awaited"):
        await async_kafka.clock.run_until(has_charged)
