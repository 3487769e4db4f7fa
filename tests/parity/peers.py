"""Who a script is played against: our broker, whose clock is turned by hand, or a real Kafka.

A peer answers two questions: what is certain to be answered by now (`settle`), and how time goes
by (`pass_ms`).
"""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig

from .wire import Connection, connect, request_of

TOPICS = {"orders": 2, "payments": 1}
STEP_MS = 50  # a deadline is seen at most this much late; sessions in scripts are 20 times that


class Peer:
    """`port` on this machine; `topic_ids` by name."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.topic_ids: dict[str, uuid.UUID] = {}

    async def settle(self, control: Connection, unanswered: Callable[[], int]) -> None:
        """Until nothing is unanswered, or what is is known to be held back."""
        raise NotImplementedError

    async def pass_ms(self, ms: int) -> None:
        raise NotImplementedError


async def round_trip(control: Connection) -> None:
    await call(control, "DescribeGroups", 5, {"groups": ("no group of this name",)})


async def call(connection: Connection, api: str, version: int, values: Mapping[str, Any]) -> Any:
    """The answer to a request that is answered at once."""
    done = asyncio.get_running_loop().create_future()
    connection.send(api, version, "parity", request_of(api, version, values), done.set_result)
    return await asyncio.wait_for(done, 30)


class HandClock:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.ms


class Ours(Peer):
    """A broker of ours in this very loop.

    What was sent before a round trip on another connection has been read when that is over: both
    sockets are watched by one loop. Two more rounds let 0 ms timers run and their answers arrive;
    and as many again after an answer, as a large request is read over several turns.
    """

    def __init__(self, broker: Broker, clock: HandClock) -> None:
        super().__init__(broker.port)
        self._broker, self._clock = broker, clock

    async def settle(self, control: Connection, unanswered: Callable[[], int]) -> None:
        quiet = 0
        while quiet < 3:
            before = unanswered()
            await round_trip(control)
            quiet = 0 if unanswered() < before else quiet + 1

    async def pass_ms(self, ms: int) -> None:
        self._clock.ms += ms
        self._broker.node.timers.fire()


class Kafka(Peer):
    """A real one, shared by all scripts.

    Its network threads keep no order between connections, and a parked request shows nowhere when
    its member was known before: that nothing comes for a while is the only evidence there is. A
    script whose transcript differs is played again with a longer while before it counts.
    """

    def __init__(self, port: int, quiet_ms: int) -> None:
        super().__init__(port)
        self.quiet_ms = quiet_ms

    async def settle(self, control: Connection, unanswered: Callable[[], int]) -> None:
        await round_trip(control)
        for _ in range(self.quiet_ms // 5):
            if not unanswered():
                return
            await asyncio.sleep(0.005)

    async def pass_ms(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)


@contextlib.asynccontextmanager
async def ours(settings: Mapping[str, str]) -> AsyncIterator[Ours]:
    clock = HandClock()
    broker = Broker(BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0", **settings}), clock=clock)
    await broker.start("127.0.0.1", 0)
    try:
        peer = Ours(broker, clock)
        await prepare(peer)
        yield peer
    finally:
        await broker.stop()


async def prepare(peer: Peer) -> None:
    """Make the topics that commits name, and wait until groups have a coordinator."""
    control = await connect(peer.port)
    topics = [
        {"name": name, "num_partitions": count, "replication_factor": 1}
        for name, count in TOPICS.items()
    ]
    made = await call(control, "CreateTopics", 7, {"topics": topics, "timeout": 30_000})
    peer.topic_ids = {topic.name: topic.topic_id for topic in made.topics}
    for _ in range(600):
        found = await call(control, "FindCoordinator", 4, {"coordinator_keys": ("any",)})
        if found.coordinators[0].error_code.name == "none":
            # Commits need the topics' leaders, and each offsets partition its load.
            ready = await call(control, "ListGroups", 4, {})
            if ready.error_code.name == "none":
                break
        await asyncio.sleep(0.1)
    else:
        raise AssertionError(f"no coordinator within a minute: {found}")
    control.close()
