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

    kafka = Kafka(loop=_kafka_loop).start()
    yield kafka
    kafka.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """What a broker of the test has to say against it: a fault that never fired."""
    yield
    for kafka in _brokers_of(item):
        kafka.faults.check()


def _brokers_of(item: pytest.Item) -> "list[Kafka]":
    values = getattr(item, "funcargs", {}).values()
    # Without a broker among them the harness has not been imported, and need not be.
    return [each for each in values if type(each).__module__ == "kohort.testing.kafka"]
