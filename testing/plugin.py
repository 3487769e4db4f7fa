"""The pytest plugin: the fixture `kafka`. Nothing of the broker is imported before it is used."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .kafka import Kafka
    from .loop_thread import LoopThread


@pytest.fixture(scope="session")
def _kafka_loop() -> "Iterator[LoopThread]":
    from .loop_thread import LoopThread

    with LoopThread() as loop:
        yield loop


@pytest.fixture
def kafka(_kafka_loop: "LoopThread") -> "Iterator[Kafka]":
    """A broker as new, for this test alone: on a port of its own, so that a client which another
    test has forgotten to close does not come here."""
    from .kafka import Kafka

    with Kafka(loop=_kafka_loop) as kafka:
        yield kafka
