"""What becomes of a broker during a test: nodes stop and come back, it dies and reads its log
again, it goes back to where it was.

A broker that dies is cut off from all at once: its clients from it, it from its disk. What it does
after that, it does unseen.
"""

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from . import forked
from .faulty_files import FaultyFiles
from .loop_thread import PATIENCE_SECONDS

if TYPE_CHECKING:
    from ..broker.broker import Broker
    from .clock import VirtualClock
    from .disk import Disk
    from .history import History
    from .loop_thread import LoopThread
    from .waiting import Changes

T = TypeVar("T")

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node of the broker."""

    node_id: int
    address: str
    """`127.0.0.1:34567`"""
    is_up: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a broker had on its disk at a moment; it may be used any number of times."""

    at_ms: int
    """By the broker's clock."""
    files: FaultyFiles


class Life:
    """Part of Kafka (kafka.py)."""

    broker: "Broker"
    changes: "Changes"
    disk: "Disk"
    history: "History"
    is_going_down = False
    """Whether connections are lost just now because the broker, or a node of it, ends."""
    _is_between_lives = False
    """Whether another broker is about to take the place of the one that has ended."""
    _closing: ExitStack
    _lives = 0
    """How many brokers there were and are: what one of before still does is of no account."""
    _host = HOST
    _loop: "LoopThread | None"
    _ports: int | Sequence[int]
    _time: "VirtualClock"

    if TYPE_CHECKING:

        def _begin(self, clock: VirtualClock, files: FaultyFiles) -> None: ...
        def _new_broker(self) -> Broker: ...
        def ask(self, what: Callable[[Broker], Any]) -> Any: ...
        @property
        def thread(self) -> LoopThread: ...
        def run(self, awaitable: Any, seconds: float = ...) -> Any: ...
        async def settled(self) -> None: ...

    # --- nodes

    @property
    def nodes(self) -> list[NodeInfo]:
        """In the order of their ids, from 1 on."""

        def look(broker: "Broker") -> list[NodeInfo]:
            up = {node.node_id for node in broker.cluster.up}
            return [
                NodeInfo(node_id, f"{host}:{port}", node_id in up)
                for node_id, (host, port) in broker.addresses.items()
            ]

        return list(self.ask(look))

    def stop_node(self, node_id: int) -> None:
        """Others lead what it led, if any are up; its clients are cut off, and refused from then
        on. Of a broker with one node that is the whole broker. Raises LookupError for a node that
        is not there, ValueError for one that is down already."""
        self._node(node_id, should_be_up=True)

        async def stop() -> None:
            with self._going_down():
                await self.broker.stop_node(node_id)

        self.run(stop())
        self.history.mark(f"node {node_id} stopped")
        self._tell()

    def start_node(self, node_id: int) -> None:
        """At its old address. Raises OSError where another process has taken that meanwhile, and
        LookupError and ValueError as `stop_node`."""
        self._node(node_id, should_be_up=False)
        self.run(self.broker.start_node(node_id))
        self.history.mark(f"node {node_id} started")
        self._tell()

    @contextmanager
    def broker_down(self, node: int | None = None) -> Iterator[None]:
        """`with kafka.broker_down():` nobody gets a connection, or, of one node, none to that.
        Clients that ride through it go on at its end. Raises LookupError where none is up."""
        up = [each.node_id for each in self.nodes if each.is_up]
        stopped = [node_id for node_id in up if node in (None, node_id)]
        if not stopped:
            raise LookupError(f"there is no node {node or ''} that is up: {self.nodes}")
        for node_id in stopped:
            self.stop_node(node_id)
        try:
            yield
        finally:
            for node_id in stopped:
                self.start_node(node_id)

    def _node(self, node_id: int, *, should_be_up: bool) -> None:
        found = [each for each in self.nodes if each.node_id == node_id]
        if not found:
            raise LookupError(f"there is no node {node_id}: {self.nodes}")
        if found[0].is_up != should_be_up:
            raise ValueError(f"node {node_id} is {'down' if should_be_up else 'up'} already")

    # --- the whole broker

    def crash(self, *, power: bool = False, seed: int | None = None) -> None:
        """The process dies, and another one is started at the same address on what is on the disk:
        no client is told anything, what was not written yet is lost. `power`: what was not synced
        is gone as well, or with a `seed` any part of it.

        What it is afterwards is what its log says; its clock goes on, and so does the history.
        Raises OSError where it cannot start on a disk that fails: after `disk.heal()` there is
        `restart`."""
        with self._between_lives():
            files = self.run(self._die())
            if power:
                faults = list(files.faults)  # a crash heals
                files.crash(None if seed is None else random.Random(seed))
                files.faults = faults
            self._live_on(files, "lost its power" if power else "crashed")

    def restart(self) -> None:
        """A clean stop and a start at the same address: clients are told, all is written.
        Raises OSError as `crash`."""
        with self._between_lives():
            self.run(self._stop())
            self._live_on(self.disk.files, "restarted")

    def snapshot(self) -> Snapshot:
        """What is on the disk now, all that is under way included: with the groups as the log has
        them, so of one that rebalances the generation before."""

        async def take() -> Snapshot:
            await self.settled()
            return Snapshot(self._time.now_ms(), self.disk.files.copied())

        return self.run(take())  # type: ignore[no-any-return]

    def restore(self, point: Snapshot) -> None:
        """The broker as it was then, at the same address. Clients are cut off; the clock and the
        history go on."""
        with self._between_lives():
            left = self.run(self._die())
            files = point.files.copied()
            files.calls, files.count = left.calls, left.count
            files.faults = left.faults
            self._live_on(files, "restored")

    def fork(self, point: Snapshot | None = None) -> Self:
        """Another broker, not started, that begins as this one was then (None: as it is now), with
        the same settings and time, and a history of its own. `with kafka.fork() as other:` It must
        be stopped before this one is."""
        if point is None:
            point = self.snapshot()
        other = copy.copy(self)
        other._closing, other._ports = ExitStack(), 0
        files = point.files.copied()
        files.faults = []
        other._begin(copy.copy(self._time), files)
        return other

    # --- on the broker's loop

    async def _start(self) -> None:
        forked.brokers.add(self)
        await self.broker.start(self._host, self._ports)
        self._ports = [port for _, port in self.broker.addresses.values()]

    async def _stop(self) -> None:
        """No member leaves by that: its connection is lost because the broker goes."""
        with self._going_down():
            await self.broker.stop()

    async def _die(self) -> FaultyFiles:
        """Returns the disk as the broker leaves it."""
        files = self.disk.files.copied()
        self.disk.files.heal()  # Nobody's from here on.
        self._lives += 1
        with self._going_down():
            self.broker.abort_connections()
            await self.broker.stop()
        return files

    def _live_on(self, files: FaultyFiles, what: str) -> None:
        self.disk.files = files
        self.broker = self._new_broker()
        self.history.mark(what)
        self.run(self._start())

    @contextmanager
    def _between_lives(self) -> Iterator[None]:
        """Who asks meanwhile, from another thread, is answered by the broker that comes."""
        self._is_between_lives = True
        try:
            yield
        finally:
            self._is_between_lives = False
            # Of a broker that could not start again, too: there is nothing to be waited for.
            self.thread.ask(self.changes.tell)

    async def there(self) -> None:
        """On the broker's loop: until there is a broker, if there is to be one."""
        await self.changes.until(lambda: not self._is_between_lives, PATIENCE_SECONDS)

    async def once(self, check: Callable[[], T | None], seconds: float) -> T | None:
        """As Changes.until, on the broker's loop; while there is no broker nothing is so."""
        return await self.changes.until(
            lambda: None if self._is_between_lives else check(), seconds
        )

    async def _asked(self, what: "Callable[[Broker], T]") -> T:
        await self.there()
        return what(self.broker)

    @contextmanager
    def _going_down(self) -> Iterator[None]:
        self.is_going_down = True
        try:
            yield
        finally:
            self.is_going_down = False

    def _tell(self) -> None:
        self.ask(lambda _broker: self.changes.tell())
