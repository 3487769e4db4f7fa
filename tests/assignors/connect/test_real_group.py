"""A worker that leaves and returns, or does not, in a real group: members over sockets, real
requests, Kafka Connect's encoding, and a clock that skips five minutes."""

import contextlib
from collections.abc import AsyncIterator

from kohort.assignors.connect.protocol import WorkItem
from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig
from support.runtime import ManualClock

from ...parity.brokers import KohortBroker
from .socket_workers import HEARTBEAT_MS, SocketWorkers
from .workers import tasks

DELAY_MS = 300_000
INITIAL_DELAY_MS = 3_000
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": str(INITIAL_DELAY_MS),
    "offsets.topic.num.partitions": "5",
}


@contextlib.asynccontextmanager
async def three_workers() -> AsyncIterator[SocketWorkers]:
    """C1 runs P0 and P3, C2 P1, C3 P2; C1 leads."""
    clock = ManualClock()
    broker = Broker(BrokerConfig(SETTINGS), clock=clock)
    await broker.start("127.0.0.1", 0)
    try:
        served = KohortBroker(broker, clock)
        await served.prepare()
        async with SocketWorkers(served, clock, {"P": 4}) as group:
            await group.join("C1", "C2", "C3")
            await group.complete_first_rebalance(INITIAL_DELAY_MS)
            assert running(group) == {
                "C1": tasks("P P-0,3"),
                "C2": tasks("P-1"),
                "C3": tasks("P-2"),
            }
            assert {each.leader_url for each in group.rebalances[0].values()} == {"http://C1"}
            yield group
    finally:
        await broker.stop()


def running(group: SocketWorkers) -> dict[str, list[WorkItem]]:
    return {name: worker.running for name, worker in group.workers.items()}


def stopped(group: SocketWorkers) -> list[WorkItem]:
    return [item for worker in group.workers.values() for item in worker.stopped]


async def test_a_returning_worker_gets_its_work_back_and_the_others_never_stop() -> None:
    async with three_workers() as group:
        group.die("C2")
        await group.run_until_rebalance(2)
        first = group.rebalances[1]
        assert {name: each.delay_ms for name, each in first.items()} == {
            "C1": DELAY_MS,
            "C3": DELAY_MS,
        }
        assert not any(each.assigned or each.revoked for each in first.values())

        await group.run(100 * 1_000)
        await group.join("C2")
        await group.run_until_rebalance(3)
        second = group.rebalances[2]
        assert second.keys() == {"C1", "C2", "C3"}
        passed_ms = {DELAY_MS - each.delay_ms for each in second.values()}
        assert passed_ms == {99_000 + HEARTBEAT_MS}  # heartbeats for 100 s, and one more
        assert not any(each.assigned or each.revoked for each in second.values())

        await group.run_until_rebalance(4)
        third = group.rebalances[3]
        assert {name: each.assigned for name, each in third.items()} == {
            "C1": (),
            "C2": (("P", 1),),
            "C3": (),
        }
        assert {each.delay_ms for each in third.values()} == {0}
        assert running(group) == {
            "C1": tasks("P P-0,3"),
            "C2": tasks("P-1"),
            "C3": tasks("P-2"),
        }
        assert stopped(group) == []
        await group.run(DELAY_MS)
        assert len(group.rebalances) == 4, "no further rebalance"


async def test_work_of_a_worker_that_does_not_return_is_reassigned() -> None:
    async with three_workers() as group:
        group.die("C2")
        await group.run_until_rebalance(3)
        first, second = group.rebalances[1:]
        assert {each.delay_ms for each in first.values()} == {DELAY_MS}
        assert {each.delay_ms for each in second.values()} == {0}
        assert running(group) == {"C1": tasks("P P-0,3"), "C3": tasks("P-1,2")}
        assert stopped(group) == []
