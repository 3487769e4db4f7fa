"""Connect a client of each library with its settings, and ask it for the brokers."""

import asyncio
import contextlib
import gc
from collections.abc import Callable
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

ATTEMPTS = 20
Config = dict[str, Any]


class Refused(Exception):
    """The client cannot connect."""


def brokers_of_confluent(config: Config) -> int:
    problems: list[str] = []
    client = AdminClient({**config, "error_cb": lambda error: problems.append(error.str())})
    for _ in range(ATTEMPTS):
        client.poll(0)  # calls the callbacks
        try:
            return len(client.list_topics(timeout=0.5).brokers)
        except KafkaException:
            client.poll(0)
            if problems:
                raise Refused(problems[0]) from None
    raise Refused("no response")


def brokers_of_kafka_python(config: Config) -> int:
    try:
        client = KafkaAdminClient(**config, bootstrap_timeout_ms=3000)
    except KafkaError as error:
        problem = str(error)
    else:
        with contextlib.closing(client):
            return len(client.describe_cluster()["brokers"])
    gc.collect()  # it leaves its sockets open; the warnings are ignored during this test
    raise Refused(problem)


def brokers_of_aiokafka(config: Config) -> int:
    async def connect() -> int:
        client = AIOKafkaAdminClient(**config)
        try:
            await client.start()
            return len((await client.describe_cluster())["brokers"])
        except AioError as error:
            raise Refused(str(error)) from error
        finally:
            await client.close()

    return asyncio.run(connect())


CLIENTS: dict[str, Callable[[Config], int]] = {
    "confluent": brokers_of_confluent,
    "kafka-python": brokers_of_kafka_python,
    "aiokafka": brokers_of_aiokafka,
}
