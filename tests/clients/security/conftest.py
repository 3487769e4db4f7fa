"""The clients of the tests in this folder."""

import gc
import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from .connecting import CLIENTS, Config, JavaClient, Refused, ask_java

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
    """Log messages of a client. Log records would keep tracebacks alive, and tracebacks would keep
    the sockets alive that the client leaves open."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture
def connect(
    library: str,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[Config], None]]:
    """`connect(config)` lets a new client of the library request the brokers. It raises Refused
    with the client's exception and log messages."""
    messages = Messages()
    for name in LOGGERS:
        logger = logging.getLogger(name)
        caplog.set_level(logging.INFO, name)  # the command line disables kafka-python's messages
        monkeypatch.setattr(logger, "propagate", False)
        logger.addHandler(messages)
    caplog.set_level(logging.INFO, "kohort")
    if library == "java":
        ask = partial(ask_java, request.getfixturevalue("java_client"))
    else:
        ask = CLIENTS[library]

    def connect(config: Config) -> None:
        messages.texts.clear()
        try:
            ask(config)
        except Refused as refused:
            raise Refused("\n".join([str(refused), *messages.texts])) from None

    yield connect
    for name in LOGGERS:
        logging.getLogger(name).removeHandler(messages)
    gc.collect()  # closes the sockets that kafka-python leaves open, whose warnings are ignored
