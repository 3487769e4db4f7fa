"""Does a background task of an async service survive a rebalance?

The consumer runs in a task on the test's event loop, and the waits of `async_kafka` let it run. The
condition of `await async_kafka.wait(…)` is called in another thread. It may read plain data (a
list, a counter, a flag), but must not call asyncio objects or the consumer. `start_service` is like
the lifespan function that a web framework runs for an application.
"""

import asyncio
import contextlib

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener


class Listener(ConsumerRebalanceListener):
    def __init__(self):
        self.events = []

    async def on_partitions_revoked(self, revoked):
        self.events.append(("revoked", len(revoked)))

    async def on_partitions_assigned(self, assigned):
        self.events.append(("assigned", len(assigned)))


@contextlib.asynccontextmanager
async def start_service(bootstrap_servers, listener, charge):
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=100,
        fetch_max_wait_ms=50,
    )
    consumer.subscribe(["orders"], listener=listener)

    async def run():
        async for order in consumer:
            charge(order.value)
            await consumer.commit()

    await consumer.start()
    task = asyncio.create_task(run())
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await consumer.stop()


@pytest.mark.asyncio
async def test_the_task_continues_after_a_rebalance(async_kafka):
    orders = async_kafka.topic("orders", partitions=2)
    group, listener, charged = async_kafka.group("billing"), Listener(), []
    async with start_service(async_kafka.bootstrap_servers, listener, charged.append) as task:
        await group.wait_stable(members=1)
        other = await async_kafka.fake_member("billing", topics=["orders"])
        await group.wait_stable(members=2)
        await async_kafka.wait(lambda: listener.events[-1:] == [("assigned", 1)], "one partition")
        other.leave()
        await async_kafka.wait(lambda: listener.events[-1:] == [("assigned", 2)], "both again")
        orders.produce(["one", "two"])
        await async_kafka.wait(lambda: len(charged) == 2, "two charged orders")
        assert not task.done()
    assert sorted(charged) == [b"one", b"two"]
