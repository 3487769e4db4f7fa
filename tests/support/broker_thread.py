"""A broker on an event loop in a thread, for tests that control it while clients run."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self, TypeVar

from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig
from kohort.testing.loop_thread import LoopThread

T = TypeVar("T")


class BrokerThread:
    """`with BrokerThread(config, data_dir=folder, durability="os") as broker:` listens on free
    ports. `parts`: of Broker."""

    def __init__(self, config: dict[str, str], **parts: Any) -> None:
        # Tests do not retry because their request created a topic.
        complete = BrokerConfig({"kohort.auto.create.immediate": "true", **config})
        self._broker = Broker(complete, **{"durability": "none", **parts})
        self._loop = LoopThread()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._loop)
            self._loop.run(self._broker.start("127.0.0.1", 0))
            stack.callback(lambda: self._loop.run(self._broker.stop()))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, as in bootstrap.servers."""
        addresses = self._broker.addresses.values()
        return ",".join(f"{host}:{port}" for host, port in addresses)

    def call(self, function: Callable[[Broker], T]) -> T:
        """Call a function of the broker on its loop."""
        return self._loop.call(lambda: function(self._broker))
