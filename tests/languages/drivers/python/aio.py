"""The driver of aiokafka. All consumers and producers share an event loop; their methods are called
from the threads of the driver."""

import asyncio
import inspect
import ssl
import threading
from collections.abc import Coroutine
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from protocol import Command, Events, Library, Unsupported, run

TIMEOUT_SECONDS = 20

loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


def wait(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result(TIMEOUT_SECONDS)


def config(command: Command, **more: Any) -> dict[str, Any]:
    given = {"bootstrap_servers": command["servers"].split(","), "retry_backoff_ms": 20, **more}
    security = command.get("security")
    if security is None:
        return given
    return {
        **given,
        "security_protocol": security["protocol"],
        "sasl_mechanism": security["mechanism"],
        "sasl_plain_username": security["user"],
        "sasl_plain_password": security["password"],
        "ssl_context": ssl.create_default_context(cafile=security["ca"]),
    }


class Member(ConsumerRebalanceListener):
    def __init__(self, command: Command, events: Events) -> None:
        self._events = events
        if command.get("consumer_protocol"):
            raise Unsupported("no consumer protocol (KIP-848)")
        if command.get("cooperative"):
            raise Unsupported("no cooperative rebalances (KIP-429)")
        settings = {
            "group_id": command["group"],
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "metadata_max_age_ms": 500,
            "fetch_max_wait_ms": 100,
            "session_timeout_ms": command["session_ms"],
            "heartbeat_interval_ms": command["heartbeat_ms"],
            "isolation_level": "read_"
            + ("" if command.get("read_committed") else "un")
            + "committed",
        }
        if "instance" in command:
            if "group_instance_id" not in inspect.signature(AIOKafkaConsumer).parameters:
                raise Unsupported("no static members (KIP-345)")
            settings["group_instance_id"] = command["instance"]
        wait(self._start(command, settings))

    async def _start(self, command: Command, settings: dict[str, Any]) -> None:
        self._consumer = AIOKafkaConsumer(**config(command, **settings))
        given = {key: command[key] for key in ("topics", "pattern") if key in command}
        self._consumer.subscribe(**given, listener=self)
        await self._consumer.start()

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._events.assignment((each.topic, each.partition) for each in assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._events.assignment(())

    def poll(self) -> None:
        for records in wait(self._consumer.getmany(timeout_ms=50)).values():
            for each in records:
                self._events.record(each.topic, each.partition, each.offset, each.value)

    def commit(self, topic: str, partition: int, offset: int) -> None:
        wait(self._consumer.commit({TopicPartition(topic, partition): offset}))

    def close(self) -> None:
        wait(self._consumer.stop())


async def start(producer_config: dict[str, Any]) -> AIOKafkaProducer:
    producer = AIOKafkaProducer(**producer_config)
    try:
        await producer.start()
    except BaseException:
        await producer.stop()
        raise
    return producer


async def send(producer: AIOKafkaProducer, topic: str, partition: int, values: list[str]) -> None:
    for value in values:
        await producer.send_and_wait(topic, value.encode(), partition=partition)


class TransactionalProducer:
    def __init__(self, command: Command) -> None:
        given = config(command, transactional_id=command["transactional_id"])
        self._producer = wait(start(given))

    def begin(self) -> None:
        wait(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, values: list[str]) -> None:
        wait(send(self._producer, topic, partition, values))

    def end(self, commit: bool) -> None:
        producer = self._producer
        wait(producer.commit_transaction() if commit else producer.abort_transaction())


class Aiokafka(Library):
    subscribe = staticmethod(Member)
    producer = staticmethod(TransactionalProducer)

    def produce(self, command: Command) -> None:
        async def produce() -> None:
            producer = await start(config(command))
            try:
                await send(producer, command["topic"], command["partition"], command["values"])
            finally:
                await producer.stop()

        wait(produce())

    def describe(self, command: Command) -> dict[str, Any]:
        async def describe() -> dict[str, Any]:
            admin = AIOKafkaAdminClient(**config(command))
            await admin.start()
            try:
                listed = await admin.list_consumer_groups()
                (response,) = await admin.describe_consumer_groups([command["group"]])
                (described,) = response.to_object()["groups"]
                offsets = await admin.list_consumer_group_offsets(command["group"])
                return {
                    "groups": [name for name, *_ in listed],
                    "state": described["state"],
                    "members": len(described["members"]),
                    "offsets": [[p.topic, p.partition, at.offset] for p, at in offsets.items()],
                }
            finally:
                await admin.close()

        found: dict[str, Any] = wait(describe())
        return found


run(Aiokafka())
