"""The life cycle of a test's broker: start, stop, crash, restart, snapshot, fork.

`BrokerHost` runs successive brokers on the same disk and addresses, on an event loop in another
thread. The parts of the harness (groups, faults, the clock, …) refer to the host, and access the
broker through it. A crashing broker is cut off from its clients and its disk at the same moment, so
nothing it does afterwards has any effect.
"""

import asyncio
import os
import random
import socket
import stat
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from ..broker.broker import MEMORY_FOLDER, Broker
from ..broker.cluster import Address, Cluster
from ..broker.config.broker_config import BrokerConfig
from ..broker.event_log import CoordinatorEvent
from ..broker.event_loop.timers import Clock
from ..broker.runtime.context import CoordinatorState
from ..broker.security.authorizer import Denial
from ..broker.security.session import ClientSession
from ..coordinator.outcome import GroupEvent
from ..coordinator.transactions.commands import Markers, TransactionEvent
from ..log.group_commit import Durability
from ..protocol.framing import address
from .deadline import longest
from .faults.files import FaultyFiles
from .history import History
from .interceptor import BrokerInterceptor, Interception
from .loop_thread import CALL_TIMEOUT_SECONDS, Changes, LoopThread, check_may_block, completed
from .recorded_request import RecordedRequest

T = TypeVar("T")

LOCALHOST = "127.0.0.1"
NOT_STARTED = "The broker is not started, or was stopped: use `with Kafka() as kafka:`"
# The maximum number of different denials kept for explanations: about one page.
DENIALS_MAX = 50


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node of the broker."""

    node_id: int
    address: str
    """The address of the node, such as `127.0.0.1:34567`."""
    is_up: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of the broker's disk, which can be used any number of times."""

    at_ms: int
    """When the snapshot was taken, by the broker's clock."""
    files: FaultyFiles

    def save(self, folder: str | Path) -> None:
        """Write the files to a folder, for example to read them with `kohort log`. Raises
        OSError."""
        for path, content in self.files.contents.items():
            target = Path(folder, path.relative_to(MEMORY_FOLDER))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


class InProcessClients(Protocol):
    """Clients on the broker's own event loop, without sockets. FakeMembers documents these
    methods."""

    client_ids: set[str | None]

    @property
    def steady(self) -> Mapping[str, object]: ...
    def deadlines(self, *, with_heartbeats: bool = True) -> Iterator[int]: ...
    def on_event(self, event: GroupEvent) -> None: ...
    def on_topics(self, version: int) -> None: ...
    def send_heartbeats(self) -> None: ...
    async def wait_until_idle(self) -> None: ...
    async def is_idle(self) -> bool: ...
    def close(self) -> None: ...


class MarkerHook(Protocol):
    """Receives transaction markers before they are written. MarkerHold documents these methods."""

    @property
    def transactional_ids(self) -> list[str]: ...
    @property
    def is_unused(self) -> bool: ...
    def report(self) -> str: ...
    def remove(self) -> None: ...
    def hold(self, markers: Markers, write: Callable[[], None]) -> bool: ...


class BrokerHost:
    """The successive brokers of a test. Without a `loop`, they run in their own thread from `start`
    to `stop`. `port` is the port of the first node; 0 selects free ports for all nodes. Methods are
    called from the test's thread, except those below the comment `on the broker's loop`."""

    fake_members: InProcessClients
    active_faults: Callable[[], Iterator[str]]
    """Yields a sentence for each condition and disk fault that applies now (`Faults.active`)."""

    def __init__(
        self,
        config: BrokerConfig,
        durability: Durability,
        loop: LoopThread | None = None,
        address: str = LOCALHOST,
        port: int = 0,
    ) -> None:
        if not 0 <= port <= 65535:
            raise ValueError(f"port must be between 0 and 65535, not {port}")
        self.config = config
        self.durability = durability
        self.changes = Changes()
        """Notified after each request, response, event and failed connection."""
        self.is_stopping = False
        """Whether connections are being closed because the broker or a node stops."""
        self._loop = loop
        self._address = address
        self._port = port
        self.security_folder: Path | None = None
        """The folder of the test's certificate authority, while a broker with TLS runs."""
        # The addresses of the first broker, which its successors reuse.
        self._addresses: Mapping[int, Mapping[str, Address]] | None = None
        self._closing = ExitStack()
        self._is_restarting = False
        self._broker_number = 0

    def create(self, clock: Clock, files: FaultyFiles) -> None:
        """Create a stopped broker on this disk, with an empty history."""
        self.clock = clock
        self.files = files
        self.history = History(clock.now_ms)
        self.denials: dict[str, None] = {}
        """Sentences that say what clients were not allowed to do, and why."""
        self.named_groups: set[str] = set()
        """The groups that the test has used by name."""
        self.implicit_topics: dict[str, bool] = {}
        """The topics that `kafka.topic(name)` created without further arguments. The value is True
        once the test has read the topic and found no records."""
        self.marker_holds: list[MarkerHook] = []
        """The marker holds, in the order in which the test set them."""
        self.interception = Interception(self._on_record)
        self.broker = self._new_broker()

    def copy(self) -> "BrokerHost":
        """Return a host with the same configuration, other ports, and no broker yet."""
        return BrokerHost(self.config, self.durability, self._loop, self._address)

    # --- calls to the broker

    @property
    def is_started(self) -> bool:
        return self._loop is not None

    @property
    def loop(self) -> LoopThread:
        if self._loop is None:
            raise RuntimeError(NOT_STARTED)
        return self._loop

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float = CALL_TIMEOUT_SECONDS) -> T:
        """Run a coroutine on the broker's loop."""
        if self._loop is None:
            coroutine.close()
        return self.loop.run(coroutine, timeout)

    def call(self, function: Callable[[], T]) -> T:
        """Wait for the end of any restart, and call a function on the broker's loop. If called on
        this loop, run the function immediately."""

        async def call() -> T:
            await self.wait_until_running()
            return function()

        return function() if self.loop.is_current else self.run(call())

    def wait_until(self, check: Callable[[], T | None], timeout: float) -> T | None:
        """Return the first result of `check` that is neither None nor False; None after the
        timeout. `check` is called on the broker's loop after each change, and must only read."""
        check_may_block()
        return self.run(self.until(check, timeout), longest(timeout) + CALL_TIMEOUT_SECONDS)

    def change_topics(self, change: Callable[[], object]) -> None:
        """Call a function that changes topics, and wait until the change is durable. Raises
        OSError."""

        async def changed() -> OSError | None:
            await self.wait_until_running()
            change()
            error = await completed(self.broker.node.topics.on_durable)
            self.report_topics()
            return error

        error = self.run(changed())
        if error is not None:
            raise error

    # --- life cycle

    def start(self) -> None:
        if self.broker.is_running:
            raise RuntimeError("The broker is already running: `with` and the fixtures start it")
        with ExitStack() as closing:
            if self._loop is None:
                self._loop = closing.enter_context(LoopThread())
                closing.callback(setattr, self, "_loop", None)
            if any(each.protocol.uses_tls for each in self.config.listeners):
                # The folder outlives a restart, so that clients trust the next broker as well.
                created = closing.enter_context(TemporaryDirectory(prefix="kohort-"))
                self.security_folder = Path(created)
            self.run(self._start())
            self._closing = closing.pop_all()

    def stop(self) -> None:
        if self._loop is None:
            return
        try:
            self.fake_members.close()
            self.run(self._stop())
        finally:
            self._closing.close()

    def reset(self, create: Callable[[], None]) -> None:
        """Stop the broker, call `create` for a new one, and start it at the same addresses."""
        self.fake_members.close()
        with self._restarting():
            self.run(self._stop())
            create()
            self.run(self._start())

    def crash(self, *, power: bool = False, seed: int | None = None) -> None:
        with self._restarting():
            files = self.run(self._crash())
            if power:
                faults = list(files.faults)  # set by the test, but removed by `crash`
                files.crash(None if seed is None else random.Random(seed))
                files.faults = faults
            self._start_again(files, "lost power" if power else "crashed")

    def restart(self) -> None:
        with self._restarting():
            self.run(self._stop())
            self._start_again(self.files, "restarted")

    def snapshot(self) -> Snapshot:
        async def take() -> Snapshot:
            await self.wait_until_idle()
            return Snapshot(self.clock.now_ms(), self.files.copy())

        return self.run(take())

    def restore(self, snapshot: Snapshot) -> None:
        files = snapshot.files.copy()
        with self._restarting():
            before = self.run(self._crash())
            files.calls, files.count, files.faults = before.calls, before.count, before.faults
            self._start_again(files, "restored")

    # --- nodes

    @property
    def nodes(self) -> list[NodeInfo]:
        def nodes() -> list[NodeInfo]:
            up = {node.node_id for node in self.broker.cluster.up}
            return [
                NodeInfo(node_id, address(host, port), node_id in up)
                for node_id, (host, port) in self.broker.addresses.items()
            ]

        return self.call(nodes)

    def stop_node(self, node_id: int) -> None:
        self._check_node(node_id, should_be_up=True)

        async def stop() -> None:
            with self._stopping():
                await self.broker.stop_node(node_id)

        self.run(stop())
        self.history.record_lifecycle_event(f"node {node_id} stopped")
        self.call(self.changes.notify)

    def start_node(self, node_id: int) -> None:
        self._check_node(node_id, should_be_up=False)
        self.run(self.broker.start_node(node_id))
        self.history.record_lifecycle_event(f"node {node_id} started")
        self.call(self.changes.notify)

    @contextmanager
    def broker_down(self, node_id: int | None) -> Iterator[None]:
        up = [each.node_id for each in self.nodes if each.is_up]
        stopped = [each for each in up if node_id in (None, each)]
        if not stopped:
            missing = "No node is up" if node_id is None else f"Node {node_id} is not up"
            raise LookupError(f"{missing}; nodes that are up: {up or 'none'}")
        for each in stopped:
            self.stop_node(each)
        try:
            yield
        finally:
            # A node that cannot start does not keep the others down.
            with ExitStack() as starting:
                for node in reversed(self.nodes):
                    if node.node_id in stopped and not node.is_up:
                        starting.callback(self.start_node, node.node_id)

    def _check_node(self, node_id: int, *, should_be_up: bool) -> None:
        found = [each for each in self.nodes if each.node_id == node_id]
        if not found:
            known = [each.node_id for each in self.nodes]
            raise LookupError(f"Node {node_id} does not exist; the nodes are {known}")
        if found[0].is_up != should_be_up:
            raise ValueError(f"Node {node_id} is already {'down' if should_be_up else 'up'}")

    # --- on the broker's loop

    async def wait_until_running(self) -> None:
        """During a restart, wait until the next broker is running or has failed to start."""
        await self.changes.wait_until(lambda: not self._is_restarting, CALL_TIMEOUT_SECONDS)

    async def until(self, check: Callable[[], T | None], timeout: float) -> T | None:
        """Like `wait_until`. During a restart, `check` is not called."""
        return await self.changes.wait_until(
            lambda: None if self._is_restarting else check(), timeout
        )

    def report_topics(self) -> None:
        """Let fake members react if topics have changed."""
        if self.broker.is_running:
            self.fake_members.on_topics(self.broker.node.topics.version)

    async def wait_until_idle(self) -> None:
        """Wait until nothing more happens before a client acts or a deadline passes."""
        while True:
            await self.fake_members.wait_until_idle()
            await self.wait_until_running()
            if not self.broker.is_running:
                return
            node, idle = self.broker.node, asyncio.Event()
            node.group_commit.when_idle(idle.set)
            await idle.wait()
            # The last flush may have completed requests of fake members.
            is_idle = await self.fake_members.is_idle()
            if is_idle and self.broker.is_idle and not self._is_restarting:
                return

    def next_deadline_ms(self, *, with_heartbeats: bool = True) -> int | None:
        """Return the next deadline of a group, a transaction or a fake member (a session, a
        rebalance, a heartbeat). `with_heartbeats=False` omits the heartbeats of steady fake members
        and the sessions that they extend."""
        extended = () if with_heartbeats else self.fake_members.steady
        deadlines = (
            deadline
            for node in self.broker.cluster.nodes.values()
            for context in node.coordinators.contexts.values()
            for key, deadline in context.coordinator.deadlines.items()
            if key.member_id not in extended
        )
        transactions = (
            deadline
            for node in self.broker.cluster.nodes.values()
            for context in node.transactions.contexts.values()
            if context.state is CoordinatorState.ACTIVE
            and (deadline := context.coordinator.next_deadline()) is not None
        )
        members = self.fake_members.deadlines(with_heartbeats=with_heartbeats)
        return min(chain(deadlines, transactions, members), default=None)

    async def _start(self) -> None:
        _hosts.add(self)
        self.broker.security_folder = self.security_folder
        await self.broker.start(self._address, self._port, self._addresses)
        self._addresses = self.broker.listener_addresses
        security = self.broker.node.security
        security.on_failed_connection = self._on_failed_connection
        if security.authorizer is not None:
            security.authorizer.on_denied = self._on_denied

    async def _stop(self) -> None:
        with self._stopping():
            await self.broker.stop()
        _hosts.discard(self)

    async def _crash(self) -> FaultyFiles:
        """Cut off the broker. Return the disk as it was at that moment."""
        files = self.files.copy()
        self.files.heal()  # disk faults must not interfere with shutting down the crashed broker
        self._broker_number += 1
        with self._stopping():
            self.broker.abort_connections()
            await self.broker.stop()
        return files

    def _start_again(self, files: FaultyFiles, what: str) -> None:
        self.files = files
        self.broker = self._new_broker()
        self.history.record_lifecycle_event(what)
        self.run(self._start())

    def _new_broker(self) -> Broker:
        """Create a broker on the current disk. Events of the previous broker are ignored from now
        on."""
        self._broker_number += 1
        number = self._broker_number

        def is_stale() -> bool:
            return self._broker_number != number

        def on_event(node_id: int, event: CoordinatorEvent) -> None:
            if not is_stale():
                self._on_event(node_id, event)

        broker = Broker(
            self.config,
            durability=self.durability,
            clock=self.clock,
            files=self.files,
            interceptor=BrokerInterceptor(self.interception, is_stale),
            listener=on_event,
        )
        broker.on_built = self._on_built
        return broker

    def _on_built(self, cluster: Cluster) -> None:
        def holds(markers: Markers, write: Callable[[], None]) -> bool:
            return any(each.hold(markers, write) for each in self.marker_holds)

        for node in cluster.nodes.values():
            node.markers.holds = holds
            node.coordinators.on_cleaned_up = partial(
                self._on_cleaned_up, node.coordinators.on_cleaned_up
            )

    def _on_cleaned_up(self, then: Callable[[], None]) -> None:
        """Call `then`, and notify waiting threads: a coordinator may have become active."""
        then()
        self.changes.notify()

    def _on_event(self, node_id: int, event: CoordinatorEvent) -> None:
        if isinstance(event, TransactionEvent):
            self.history.record_transaction(node_id, event)
        else:
            self.history.record_event(node_id, event, self.interception.current)
            self.fake_members.on_event(event)
        self.changes.notify()

    def _on_denied(self, denial: Denial) -> None:
        type_, name = denial.resource
        reason = "no ACL allows it" if denial.rule is None else f"denied by {denial.rule}"
        sentence = (
            f"{denial.principal} may not {denial.operation.name} {type_.name} {name} "
            f"({denial.api}): {reason}."
        )
        if len(self.denials) < DENIALS_MAX:
            self.denials[sentence] = None

    def _on_failed_connection(self, client: ClientSession, reason: str) -> None:
        self.history.record_failed_connection(client, reason)
        self.changes.notify()

    def _on_record(self, request: RecordedRequest) -> None:
        self.history.record(request)
        self.report_topics()
        self.changes.notify()

    @contextmanager
    def _restarting(self) -> Iterator[None]:
        """Make calls from other threads wait for the next broker."""
        self._is_restarting = True
        try:
            yield
        finally:
            self._is_restarting = False
            # If the next broker has failed to start, the waiting calls fail now.
            self.loop.call(self.changes.notify)

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        self.is_stopping = True
        try:
            yield
        finally:
            self.is_stopping = False


# --- fork safety

# A process forked from a test (multiprocessing, up to Python 3.13 on Linux) inherits the broker's
# sockets. The child closes them. Otherwise, clients of a stopped node would get no connection
# error, and the node could not bind its address again.

_hosts: WeakSet[BrokerHost] = WeakSet()
"""The hosts of running brokers. The ports of a stopped broker may belong to another server."""

_OPEN_FILES = "/dev/fd"


def _close_inherited_sockets() -> None:
    ports = {
        port
        for host in _hosts
        for addresses in host.broker.listener_addresses.values()
        for _, port in addresses.values()
    }
    if not ports:
        return
    null = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir(_OPEN_FILES):  # noqa: PTH208 (numbers, no paths)
        if _local_port(int(name)) in ports:
            # The descriptor is replaced, not closed, because objects of the broker still use its
            # number, which another file would otherwise get.
            os.dup2(null, int(name), inheritable=False)
    os.close(null)


def _local_port(file: int) -> int | None:
    """Return the local port of a TCP socket; None for other files."""
    try:
        # socket.socket would leave the copy of another file open.
        if not stat.S_ISSOCK(os.fstat(file).st_mode):
            return None
        with socket.socket(fileno=os.dup(file)) as copy:
            name = copy.getsockname()
    except OSError:
        return None
    return name[1] if copy.family in (socket.AF_INET, socket.AF_INET6) else None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited_sockets)
