"""Does an async service commit its offset and its output in one transaction?

The test uses aiokafka's consumer and producer. [transactions.md](transactions.md) covers
transactions in detail.
"""

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition


@pytest.mark.asyncio
async def test_the_offset_is_committed_with_the_output(async_kafka):
    async_kafka.topic("amounts", partitions=1).produce(["1"])
    servers = async_kafka.bootstrap_servers
    consumer = AIOKafkaConsumer(
        "amounts",
        bootstrap_servers=servers,
        group_id="exchange",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        fetch_max_wait_ms=50,
    )
    async with (
        consumer,
        AIOKafkaProducer(
            bootstrap_servers=servers, transactional_id="exchange-1", retry_backoff_ms=10
        ) as producer,
    ):
        message = await consumer.getone()
        async with producer.transaction():
            await producer.send_and_wait("cents", b"100")
            position = {TopicPartition("amounts", 0): message.offset + 1}
            await producer.send_offsets_to_transaction(position, "exchange")
            assert async_kafka.group("exchange").committed("amounts", 0) is None
    await async_kafka.transactions.wait("exchange-1", "committed")
    assert async_kafka.group("exchange").committed("amounts", 0) == 1
    assert [each.value for each in async_kafka.topic("cents").records()] == [b"100"]
