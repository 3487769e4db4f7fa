"""How do async tests share one broker for the session?

The fixtures and the tests must run on the same event loop, so both have `loop_scope="session"`.
"""

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaProducer
from kohort.testing import AsyncKafka


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_kafka():
    async with AsyncKafka() as kafka:
        yield kafka


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def producer(shared_kafka):
    async with AIOKafkaProducer(bootstrap_servers=shared_kafka.bootstrap_servers) as producer:
        yield producer


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("order", [b"one", b"two"])
async def test_orders_are_sent(shared_kafka, producer, order):
    await producer.send_and_wait("orders", order)
    assert order in [record.value for record in shared_kafka.topic("orders").records()]
