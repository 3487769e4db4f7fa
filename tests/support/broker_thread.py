"""A broker on an event loop in a thread of its own, for tests that steer it while clients run."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self, TypeVar

from kohort.broker.broker import Broker
from kohort.broker.build import NodeListener
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.timers import Clock
from kohort.log.group_commit import Durability

T = TypeVar("T")
PATIENCE_SECONDS = 30


class BrokerThread:
    """`with BrokerThread(config) as broker:` listens from `port` on, or on free ports."""

    def __init__(
        self,
        config: dict[str, str],
        *,
        data_dir: Path | None = None,
        durability: Durability = "none",
        clock: Clock | None = None,
        port: int = 0,
        listener: NodeListener | None = None,
    ) -> None:
        self._port = port
        self._broker = Broker(
            BrokerConfig(config),
            data_dir=data_dir,
            durability=durability,
            clock=clock,
            listener=listener,
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.run(lambda broker: broker.start("127.0.0.1", self._port))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.run(lambda broker: broker.stop())
        finally:
            self._end()

    def _end(self) -> None:
        """Of the thread, which the process would wait for."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._loop.close()

    @property
    def bootstrap(self) -> str:
        """Every node, as a client's bootstrap.servers has it."""
        addresses = self._broker.addresses.values()
        return ",".join(f"{host}:{port}" for host, port in addresses)

    def run(self, what: Callable[[Broker], Awaitable[T]]) -> T:
        """Await what this makes of the broker, on its own loop."""

        async def awaited() -> T:
            return await what(self._broker)

        future = asyncio.run_coroutine_threadsafe(awaited(), self._loop)
        return future.result(PATIENCE_SECONDS)

    def ask(self, what: Callable[[Broker], T]) -> T:
        """What this says of the broker, or does to it, on its own loop."""

        async def asked(broker: Broker) -> T:
            return what(broker)

        return self.run(asked)
