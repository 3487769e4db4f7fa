"""Who asks, waits or steers while a broker takes another's place is answered by the new one."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from kohort.log.group_commit import Durability
from kohort.testing import Kafka

TIMES = 20


@pytest.mark.parametrize("durability", ["none", "fsync"])
@pytest.mark.parametrize(
    "do",
    [
        lambda kafka: kafka.wait_request("LeaveGroup", timeout=30),
        lambda kafka: kafka.group("billing").wait_committed("orders", 0, TIMES + 1, timeout=30),
    ],
)
def test_a_wait_rides_through_crashes_and_restarts(
    do: Callable[[Kafka], object], durability: Durability
) -> None:
    with Kafka(durability=durability) as kafka, ThreadPoolExecutor(1) as threads:
        kafka.topic("orders", partitions=1)
        puppet = kafka.puppet("billing", topics=["orders"])
        waiting = threads.submit(do, kafka)
        for number in range(TIMES):
            kafka.crash() if number % 2 else kafka.restart()
            puppet.commit("orders", 0, number)
            assert not waiting.done(), waiting.exception()
        # One of these is waited for.
        puppet.commit("orders", 0, TIMES + 1)
        puppet.leave()
        waiting.result(30)


@pytest.mark.parametrize(
    "ask",
    [
        lambda kafka: kafka.groups,
        lambda kafka: kafka.group("billing").story(),
        lambda kafka: kafka.topic("orders", partitions=1),
        lambda kafka: kafka.clock.advance(ms=1),
    ],
)
def test_who_asks_meanwhile_is_answered(ask: Callable[[Kafka], object]) -> None:
    with Kafka(durability="os") as kafka, ThreadPoolExecutor(1) as threads:
        is_over = threading.Event()

        def asking() -> None:
            while not is_over.is_set():
                ask(kafka)

        asked = threads.submit(asking)
        try:
            for _ in range(TIMES):
                kafka.crash()
                kafka.restart()
                kafka.reset()
        finally:
            is_over.set()
        asked.result(30)
