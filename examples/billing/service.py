"""A billing service: charges orders from Kafka, and commits the orders that are done.

It is an ordinary service, an aiokafka consumer on an event loop in a thread, and contains no code
for tests.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.errors import CommitFailedError

log = logging.getLogger("billing")


class Poison(Exception):
    """An order that can never be charged."""


class Billing:
    """`charge(order)` may raise Poison, which sends the order to `orders.dead`, or any other
    exception, after which the service retries. An order is committed when it is done. `settings`
    are settings of aiokafka's consumer."""

    def __init__(
        self, bootstrap_servers: str, charge: Callable[[bytes], None], **settings: Any
    ) -> None:
        self._charge = charge
        self._bootstrap_servers = bootstrap_servers
        self._settings = {
            "group_id": "billing",
            "client_id": "billing",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 100,
            "retry_backoff_ms": 10,
            # aiokafka sends FindCoordinator on the connection on which a fetch is waiting.
            "fetch_max_wait_ms": 50,
            **settings,
        }
        self.rejected_commits = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="billing")
        self._thread.start()

    def stop(self) -> None:
        """Finish the current order, commit it unless the charge failed, and leave the group."""
        self._stopping.set()
        self._thread.join()

    def __enter__(self) -> "Billing":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=self._bootstrap_servers, **self._settings
        )
        async with consumer:
            while not self._stopping.is_set():
                for partition, records in (await consumer.getmany(timeout_ms=10)).items():
                    for record in records:
                        if await self._process(record):
                            await self._commit(consumer, partition, record.offset + 1)

    async def _process(self, record: ConsumerRecord) -> bool:
        handle = self._charge_in_thread
        while not self._stopping.is_set():
            try:
                await handle(record.value)
            except Poison:
                handle = self._bury
            except Exception:
                log.exception("Handling %r failed; retrying", record.value)
            else:
                return True
        return False

    async def _charge_in_thread(self, order: bytes) -> None:
        """Charge in a thread, so that heartbeats continue."""
        await asyncio.to_thread(self._charge, order)

    async def _bury(self, order: bytes) -> None:
        async with AIOKafkaProducer(bootstrap_servers=self._bootstrap_servers) as producer:
            await producer.send_and_wait("orders.dead", order)

    async def _commit(
        self, consumer: AIOKafkaConsumer, partition: TopicPartition, offset: int
    ) -> None:
        try:
            await consumer.commit({partition: offset})
        except CommitFailedError:
            # The partition was reassigned; its new owner charges the order again.
            self.rejected_commits += 1
