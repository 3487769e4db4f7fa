"""New clients of each library, which request the list of brokers."""

import asyncio
import contextlib
import gc
import json
import logging
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
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


class KafkaPythonAdmin(KafkaAdminClient):
    """kafka-python's own class leaves its thread and its sockets behind if it cannot connect."""

    def __init__(self, **config: Any) -> None:
        try:
            super().__init__(**config)
        except KafkaError:
            self._closed = False
            self.close()
            raise


def ask_kafka_python(config: Config) -> None:
    try:
        client = KafkaPythonAdmin(**config, bootstrap_timeout_ms=1000)
    except KafkaError as error:
        problem = repr(error)
    else:
        with contextlib.closing(client):
            assert client.describe_cluster()["brokers"]
        return
    raise Refused(problem)  # not chained, because the error's traceback would keep sockets open


def ask_aiokafka(config: Config) -> None:
    async def connect() -> str | None:
        client = AIOKafkaAdminClient(**config)
        try:
            await client.start()
            assert (await client.describe_cluster())["brokers"]
        except AioError as error:
            return str(error)
        finally:
            await client.close()
        return None

    problem = asyncio.run(connect())
    if problem is not None:
        raise Refused(problem)


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


# --- fixtures

LOGGERS = ("confluent", "kafka", "aiokafka")


@pytest.fixture(params=[*CLIENTS, pytest.param("java", marks=pytest.mark.java)])
def library(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def java_client(kafka_jars: Path) -> Iterator[JavaClient]:
    client = JavaClient(kafka_jars)
    yield client
    client.close()


class Messages(logging.Handler):
    """The log messages of a client. Log records would keep tracebacks alive, and tracebacks would
    keep the sockets alive that the client leaves open."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """Keep the records from pytest, which adds its handlers to the root logger, and to loggers
        that do not propagate when the test begins."""
        loggers = list(map(logging.getLogger, LOGGERS))
        for logger in loggers:
            logger.propagate = False
            logger.addHandler(self)
        try:
            yield
        finally:
            for logger in loggers:
                logger.propagate = True
                logger.removeHandler(self)


@pytest.fixture
def connect(
    library: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> Iterator[Callable[[Config], None]]:
    """`connect(config)` lets a new client of the library request the list of brokers. It raises
    Refused with the client's exception and log messages."""
    for name in LOGGERS:
        caplog.set_level(logging.INFO, name)  # the command line disables kafka-python's messages
    caplog.set_level(logging.INFO, "kohort")
    if library == "java":
        ask = partial(ask_java, request.getfixturevalue("java_client"))
    else:
        ask = CLIENTS[library]

    def connect(config: Config) -> None:
        messages = Messages()
        with messages.collected():
            try:
                ask(config)
            except Refused as refused:
                problem = str(refused)
            else:
                return
        raise Refused("\n".join([problem, *messages.texts]))

    yield connect
    gc.collect()  # closes the sockets that kafka-python leaves open, whose warnings are ignored
