"""What does a quota (a throttled client) look like to a consumer?

With `throttle`, the broker handles the request, adds a throttle time to its response, and then
stops reading from the connection for that time. A Fetch that is already waiting can still deliver
records. librdkafka and kafka-python wait before they send the next request; aiokafka ignores the
throttle time, and its next request waits at the broker. `fault.wait()` returns when a request has
arrived, before it has a response. To see the response, wait for `request.response`. The fields of
`message` and `response` use kio's names (snake_case; the throttle time is a timedelta,
`throttle_time`).
"""

from datetime import timedelta

import pytest
from aiokafka import AIOKafkaConsumer


@pytest.mark.asyncio
async def test_a_throttled_consumer_gets_its_records(async_kafka):
    async_kafka.topic("orders", partitions=1).produce(["one", "two"])
    throttled = async_kafka.faults.throttle("Fetch", ms=200, client_id="till")
    async with AIOKafkaConsumer(
        "orders",
        bootstrap_servers=async_kafka.bootstrap_servers,
        client_id="till",
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
    ) as consumer:
        assert [(await consumer.getone()).value for _ in range(2)] == [b"one", b"two"]
        await throttled.wait()
        (request,) = throttled.fired
        await async_kafka.wait(lambda: request.response is not None, "the response")
        assert request.response.throttle_time == timedelta(milliseconds=200)
        async_kafka.topic("orders").produce(["three"])
        assert (await consumer.getone()).value == b"three"
