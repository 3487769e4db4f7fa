"""Request the brokers with a new client of each library. Each function raises Refused if the client
cannot connect."""

import asyncio
import contextlib
import json
import logging
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from support.java import FLAGS

ATTEMPTS = 20
PROGRAM = Path(__file__).with_name("JavaClient.java")
Config = dict[str, Any]


class Refused(Exception):
    """The client cannot connect."""


def ask_confluent(config: Config) -> None:
    problems: list[str] = []
    callbacks = {"error_cb": lambda error: problems.append(error.str())}
    client = AdminClient({**config, **callbacks}, logger=logging.getLogger("confluent"))
    for _ in range(ATTEMPTS):
        client.poll(0)  # calls the callbacks
        try:
            assert client.list_topics(timeout=0.5).brokers
        except KafkaException:
            client.poll(0)
            if problems:
                raise Refused("\n".join(problems)) from None
        else:
            return
    raise Refused("no response")


def ask_kafka_python(config: Config) -> None:
    try:
        client = KafkaAdminClient(**config, bootstrap_timeout_ms=1000)
    except KafkaError as error:
        problem = repr(error)
    else:
        with contextlib.closing(client):
            assert client.describe_cluster()["brokers"]
        return
    raise Refused(problem)  # not chained, because the error's traceback would keep sockets open


def ask_aiokafka(config: Config) -> None:
    async def connect() -> None:
        client = AIOKafkaAdminClient(**config)
        try:
            await client.start()
            assert (await client.describe_cluster())["brokers"]
        except AioError as error:
            raise Refused(str(error)) from error
        finally:
            await client.close()

    asyncio.run(connect())


class JavaClient:
    """Java's clients, all in one JVM."""

    def __init__(self, jars: Path) -> None:
        self._process = subprocess.Popen(
            ["java", *FLAGS, "-cp", f"{jars}/*", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, action: str, config: dict[str, Any], **values: str) -> str | None:
        """Return the classes and messages of the client's error and its causes, or None without an
        error. JavaClient.java lists the actions."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"action": action, "config": config, **values}) + "\n")
        stdin.flush()
        error: str | None = json.loads(stdout.readline())
        return error

    def close(self) -> None:
        self._process.communicate()


def ask_java(client: JavaClient, config: Config) -> None:
    error = client.run("brokers", config)
    if error is not None:
        raise Refused(error)


CLIENTS: dict[str, Callable[[Config], None]] = {
    "confluent": ask_confluent,
    "kafka-python": ask_kafka_python,
    "aiokafka": ask_aiokafka,
}
