"""Calls and waits of other threads while the broker is replaced by the next one."""

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
def test_a_wait_continues_across_crashes_and_restarts(
    do: Callable[[Kafka], object], durability: Durability
) -> None:
    with Kafka(durability=durability) as kafka, ThreadPoolExecutor(1) as threads:
        kafka.topic("orders", partitions=1)
        fake = kafka.fake_member("billing", topics=["orders"])
        waiting = threads.submit(do, kafka)
        for number in range(TIMES):
            kafka.crash() if number % 2 else kafka.restart()
            fake.commit("orders", 0, number)
            assert not waiting.done(), waiting.exception()
        # Each wait is for one of these.
        fake.commit("orders", 0, TIMES + 1)
        fake.leave()
        waiting.result(30)


@pytest.mark.parametrize(
    "call",
    [
        lambda kafka: kafka.groups,
        lambda kafka: kafka.group("billing").explain(verbose=True),
        lambda kafka: kafka.topic("orders", partitions=1),
        lambda kafka: kafka.clock.advance(ms=1),
    ],
)
def test_calls_during_a_restart_wait_for_the_next_broker(call: Callable[[Kafka], object]) -> None:
    with Kafka(durability="os") as kafka, ThreadPoolExecutor(1) as threads:
        stopping = threading.Event()

        def call_repeatedly() -> None:
            while not stopping.is_set():
                call(kafka)

        calling = threads.submit(call_repeatedly)
        try:
            for _ in range(TIMES):
                kafka.crash()
                kafka.restart()
                kafka.reset()
        finally:
            stopping.set()
        calling.result(30)
