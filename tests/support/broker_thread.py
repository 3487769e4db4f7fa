"""A broker on an event loop in a thread, for tests that control it while clients run."""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self, TypeVar

from kohort.broker.broker import Broker
from kohort.broker.build import NodeListener
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.event_loop.timers import Clock
from kohort.log.group_commit import Durability
from kohort.testing.loop_thread import LoopThread

T = TypeVar("T")


class BrokerThread:
    """`with BrokerThread(config) as broker:` listens on free ports."""

    def __init__(
        self,
        config: dict[str, str],
        *,
        data_dir: Path | None = None,
        durability: Durability = "none",
        clock: Clock | None = None,
        listener: NodeListener | None = None,
    ) -> None:
        self._broker = Broker(
            # Tests do not retry because their request created a topic.
            BrokerConfig({"kohort.auto.create.immediate": "true", **config}),
            data_dir=data_dir,
            durability=durability,
            clock=clock,
            listener=listener,
        )
        self._loop = LoopThread()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._loop)
            self.run(lambda broker: broker.start("127.0.0.1", 0))
            stack.callback(self.run, Broker.stop)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, as in bootstrap.servers."""
        addresses = self._broker.addresses.values()
        return ",".join(f"{host}:{port}" for host, port in addresses)

    def run(self, function: Callable[[Broker], Awaitable[T]]) -> T:
        """Await the result of a function of the broker on its loop."""

        async def run() -> T:
            return await function(self._broker)

        return self._loop.run(run())

    def call(self, function: Callable[[Broker], T]) -> T:
        """Call a function of the broker on its loop."""
        return self._loop.call(lambda: function(self._broker))
