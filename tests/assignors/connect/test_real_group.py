"""The three rounds of a worker that goes and returns, or does not, as a real group: members over
sockets, real join and sync requests, Kafka Connect's bytes, and five minutes that pass at once."""

import contextlib
from collections.abc import AsyncIterator

from kohort.assignors.connect.model import Piece
from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig

from ...parity.peers import HandClock, Ours, prepare
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
    clock = HandClock()
    broker = Broker(BrokerConfig(SETTINGS), clock=clock)
    await broker.start("127.0.0.1", 0)
    try:
        peer = Ours(broker, clock)
        await prepare(peer)
        async with SocketWorkers(peer, clock, {"P": 4}) as group:
            await group.come("C1", "C2", "C3")
            await group.form(INITIAL_DELAY_MS)
            assert running(group) == {
                "C1": tasks("P P-0,3"),
                "C2": tasks("P-1"),
                "C3": tasks("P-2"),
            }
            assert {told.leader_url for told in group.rounds[0].values()} == {"http://C1"}
            yield group
    finally:
        await broker.stop()


def running(group: SocketWorkers) -> dict[str, list[Piece]]:
    return {name: worker.running for name, worker in group.workers.items()}


def stopped(group: SocketWorkers) -> list[Piece]:
    return [piece for worker in group.workers.values() for piece in worker.stopped]


async def test_a_worker_that_returns_gets_its_work_back_and_the_others_never_stop() -> None:
    async with three_workers() as group:
        group.die("C2")
        await group.live_until_round(2)
        first = group.rounds[1]
        assert {name: told.delay_ms for name, told in first.items()} == {
            "C1": DELAY_MS,
            "C3": DELAY_MS,
        }
        assert not any(told.assigned or told.revoked for told in first.values())

        await group.live(100 * 1_000)
        await group.come("C2")
        await group.live_until_round(3)
        second = group.rounds[2]
        assert second.keys() == {"C1", "C2", "C3"}
        passed_ms = {DELAY_MS - told.delay_ms for told in second.values()}
        assert passed_ms == {99_000 + HEARTBEAT_MS}  # heartbeats of 100 s, and the next one
        assert not any(told.assigned or told.revoked for told in second.values())

        await group.live_until_round(4)
        third = group.rounds[3]
        assert {name: told.assigned for name, told in third.items()} == {
            "C1": (),
            "C2": (("P", 1),),
            "C3": (),
        }
        assert {told.delay_ms for told in third.values()} == {0}
        assert running(group) == {
            "C1": tasks("P P-0,3"),
            "C2": tasks("P-1"),
            "C3": tasks("P-2"),
        }
        assert stopped(group) == []
        await group.live(DELAY_MS)
        assert len(group.rounds) == 4, "it has come to rest"


async def test_the_work_of_a_worker_that_stays_away_goes_to_the_others() -> None:
    async with three_workers() as group:
        group.die("C2")
        await group.live_until_round(3)
        first, second = group.rounds[1:]
        assert {told.delay_ms for told in first.values()} == {DELAY_MS}
        assert {told.delay_ms for told in second.values()} == {0}
        assert running(group) == {"C1": tasks("P P-0,3"), "C3": tasks("P-1,2")}
        assert stopped(group) == []
