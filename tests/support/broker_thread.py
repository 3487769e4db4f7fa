"""A broker on an event loop in a thread, for tests that control it while clients run."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self, TypeVar

from kohort.broker.broker import Broker
from kohort.broker.build import NodeListener
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.event_loop.timers import Clock
from kohort.log.group_commit import Durability

T = TypeVar("T")
TIMEOUT_SECONDS = 30


class BrokerThread:
    """`with BrokerThread(config) as broker:` listens on ports from `port` on, or on free ports."""

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
            # Tests do not retry because their request created a topic.
            BrokerConfig({"kohort.auto.create.immediate": "true", **(config or {})}),
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
            self._stop_thread()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.run(lambda broker: broker.stop())
        finally:
            self._stop_thread()

    def _stop_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_SECONDS)
        self._loop.close()

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, as in bootstrap.servers."""
        addresses = self._broker.addresses.values()
        return ",".join(f"{host}:{port}" for host, port in addresses)

    def run(self, function: Callable[[Broker], Awaitable[T]]) -> T:
        """Await the result of a function of the broker on its loop."""

        async def run() -> T:
            return await function(self._broker)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(TIMEOUT_SECONDS)

    def call(self, function: Callable[[Broker], T]) -> T:
        """Call a function of the broker on its loop."""

        async def call(broker: Broker) -> T:
            return function(broker)

        return self.run(call)
