"""Opens the data folder, builds the broker's components, listens, and stops in reverse order."""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ..log.checkpoint import cluster_id_of
from ..log.files import DISK, Files, Lock, finish_deletions, lock_folder
from ..log.group_commit import Durability
from ..log.memory_files import ChunkedFiles
from ..protocol.apis import PROFILES
from ..protocol.budgets import Budgets
from ..topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ..topics.registry_log import check_registry
from .build import BrokerComponents, NodeListener, Storage, quota_window
from .cluster import Address, Cluster, Node
from .config.broker_config import BrokerConfig
from .config.listeners import Listener, reachable
from .event_loop.timers import Clock, SystemClock
from .event_loop.watchdog import CallbackTimes, Watchdog
from .maintenance import Maintenance
from .network.connection import RECEIVE_BYTES_MAX, Connection
from .network.idle_connections import IdleConnections
from .network.request import Interceptor, Routes
from .network.request_cache import RequestCache
from .network.request_log import request_log
from .network.server import Server
from .security.connection_limits import ConnectionLimits
from .security.tls import ServerTls

# The data folder path of a broker that keeps all data in memory.
MEMORY_FOLDER: Final = Path("/memory")
# Interval between checks that the data folder still exists. If it is removed, a second broker can
# run on the same path until the next check. (Kafka notices only when it next creates a file.)
FOLDER_CHECK_MS: Final = 1_000

# Members of the folder's Unix group may read the data (`kohort log`, the pipeline). Other users may
# not, because the folder contains the data of all clients.
FOLDER_MODE: Final = 0o750
# Mode of missing parent folders that the broker creates. A user who can write to a parent folder
# could replace the data folder.
PARENT_MODE: Final = 0o755

# Names in the broker's own certificates, in addition to the host name of this machine and the hosts
# of `listeners` and `advertised.listeners`.
LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")

_log = logging.getLogger("kohort.broker")


class Broker:
    """One or more nodes (`kohort.nodes`) with their data.

    With `data_dir` None or durability `none`, all data is kept in memory. Tests may also pass
    `files`, a clock (which long polls do not use), a request `interceptor`, and a `listener`
    for the coordinators' events.

    `start` and `stop` must be called on the same event loop. A stopped broker cannot be started
    again.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        data_dir: Path | None = None,
        durability: Durability = "os",
        clock: Clock | None = None,
        files: Files | None = None,
        interceptor: Interceptor | None = None,
        listener: NodeListener | None = None,
    ) -> None:
        self.config = config
        self._in_memory = data_dir is None or durability == "none"
        if files is None:
            files = ChunkedFiles() if self._in_memory else DISK
            durability = "none" if self._in_memory else durability
        folder = MEMORY_FOLDER if data_dir is None or self._in_memory else data_dir
        self._storage = Storage(folder, files, durability)
        self._clock = clock or SystemClock()
        self._interceptor = interceptor or request_log()
        self._routes = Routes(PROFILES[config.str("kohort.profile")])
        self._listener = listener
        self.security_folder: Path | None = None
        """Folder of the broker's own certificate authority: by default `security` in the data
        folder, or a temporary folder if the broker is in memory. May be set before the start."""
        self.tls: dict[str, ServerTls] = {}
        """The TLS configuration of each listener that uses TLS, by listener name."""
        self._watchdog = Watchdog()
        self._closing = ExitStack()
        node_ids = range(config.node_id, config.node_id + config.int("kohort.nodes"))
        self._servers = {node_id: self._new_servers(node_id) for node_id in node_ids}
        self._cluster: Cluster | None = None
        self._start_error = ""
        self._lock: Lock | None = None  # None for a broker in memory
        self.listener_addresses: dict[int, dict[str, Address]] = {}
        """The addresses on which the nodes listen: node id -> listener name -> host, port."""
        self.is_folder_lost = False
        """Whether the data folder was removed or moved while the broker was running. The owner
        should then stop the broker."""
        self.on_folder_lost: Callable[[], None] = lambda: None
        # Test hook: called with the nodes before they load their groups and transactions.
        self.on_built: Callable[[Cluster], None] = lambda _cluster: None

    async def start(
        self,
        host: str | None = None,
        port: int | None = None,
        addresses: Mapping[int, Mapping[str, Address]] | None = None,
    ) -> None:
        """Open the data folder and listen; clients can connect when this method returns. `host` and
        `port` override the address of the first listener. Several nodes use consecutive ports; 0
        picks a free port. `addresses`, the `listener_addresses` of an earlier broker, take
        precedence. Raises ConfigError, FolderInUse, OSError (folder, address), LogError and
        UndecodableRegistryRecord (data)."""
        try:
            # Bind first, so that no folder is created if the address is not available.
            bound = addresses or self._addresses_to_bind(host, port)
            for node_id, servers in self._servers.items():
                self.listener_addresses[node_id] = {
                    name: await server.bind(*bound[node_id][name])
                    for name, server in servers.items()
                }
            self._cluster = self._build()
            self.on_built(self._cluster)
            self.tls = self._new_tls()
            self._limit_connections(self._cluster)
            for servers in self._servers.values():
                for name, server in servers.items():
                    await server.listen(self.tls.get(name))
            self._load_stored(self._cluster)
            self._watch_folder()
            self._maintenance = Maintenance(self.node, self._parts.scheduler)
        except BaseException as error:
            self._cluster = None
            self._start_error = f", because it failed to start: {type(error).__name__}: {error}"
            await self._stop_servers()
            self._closing.close()
            raise

    async def stop(self) -> None:
        """Fail waiting group requests with NOT_COORDINATOR, close all connections, flush pending
        records, and release the data folder."""
        if self._cluster is not None:
            for node in self._cluster.nodes.values():
                # Members can send no more heartbeats, but their sessions must not expire.
                node.timers.close()
                node.coordinators.fail_waiting()
                node.markers.close()
            self._parts.outbox.send()
        await self._stop_servers()
        cluster, self._cluster = self._cluster, None
        if cluster is None:
            return
        for node in cluster.nodes.values():
            node.client_timers.close()
        self._maintenance.stop()
        stopped = asyncio.Event()
        self._parts.scheduler.stop(stopped.set)
        await stopped.wait()
        await self._flush()
        self._closing.close()

    def abort_connections(self) -> None:
        """Abort all connections without flushing, as if the process had ended. The caller must then
        call `stop`."""
        for server in self._all_servers():
            server.abort_connections()

    async def stop_node(self, node_id: int) -> None:
        """Hand the node's partitions over to the other nodes, then close its connections."""
        await _in_turns(self.cluster.node_stopping(node_id))
        # Clients must receive NOT_COORDINATOR before their connections close.
        self._parts.outbox.send()
        await asyncio.gather(*(each.stop() for each in self._servers[node_id].values()))
        self.cluster.nodes[node_id].fetch_sessions.clear()
        self.cluster.nodes[node_id].telemetry.clear()

    async def start_node(self, node_id: int) -> None:
        """Start a stopped node at its previous addresses. Raises OSError if an address is in use,
        and ValueError if the node is up."""
        if self.cluster.nodes[node_id] in self.cluster.up:
            raise ValueError(f"node {node_id} is already up")
        servers = self._servers[node_id]
        try:
            for name, address in self.listener_addresses[node_id].items():
                await servers[name].bind(*address)
            await _in_turns(self.cluster.node_started(node_id))
            for name, server in servers.items():
                await server.listen(self.tls.get(name))
        except BaseException:
            await self.stop_node(node_id)
            raise

    def attach(self, node_id: int, transport: asyncio.Transport) -> Connection:
        """Connect a client of this process to a node, without a socket. The client is authorized
        for everything. The connection writes to `transport`. Pass requests to the connection's
        `data_received`, but never during a call of `transport.write`. Raises ConnectionRefusedError
        if the node is down."""
        return next(iter(self._servers[node_id].values())).attach(transport)

    @property
    def durability(self) -> Durability:
        return self._storage.durability

    @property
    def callback_times(self) -> CallbackTimes:
        """The durations of event loop callbacks since the start."""
        return self._watchdog.callback_times

    @property
    def is_running(self) -> bool:
        return self._cluster is not None

    @property
    def is_idle(self) -> bool:
        """Whether no flush is pending and no background task is runnable."""
        return self._parts.group_commit.is_idle and self._parts.scheduler.is_idle

    @property
    def cluster(self) -> Cluster:
        """The running nodes. Raises RuntimeError unless the broker is running."""
        if self._cluster is None:
            raise RuntimeError(f"The broker is not running{self._start_error}")
        return self._cluster

    @property
    def node(self) -> Node:
        """The first node."""
        return self.cluster.nodes[self.config.node_id]

    @property
    def addresses(self) -> dict[int, Address]:
        """The addresses of the first listener: node id -> host, port."""
        return {
            node_id: next(iter(each.values())) for node_id, each in self.listener_addresses.items()
        }

    @property
    def host(self) -> str:
        return self.addresses[self.config.node_id][0]

    @property
    def port(self) -> int:
        """The port of the first node."""
        return self.addresses[self.config.node_id][1]

    async def _flush(self) -> None:
        """Flush pending records. Called when no client or timer can append more."""
        group_commit = self._parts.group_commit
        while not group_commit.is_idle:
            idle = asyncio.Event()
            group_commit.when_idle(idle.set)
            await idle.wait()

    def _addresses_to_bind(
        self, host: str | None, port: int | None
    ) -> dict[int, dict[str, Address]]:
        first, *rest = self.config.listeners
        if host is not None:
            first = first._replace(host=host)
        if port is not None:
            first = first._replace(port=port)
        return {
            node_id: {
                each.name: (each.host, each.port + place if each.port else 0)
                for each in (first, *rest)
            }
            for place, node_id in enumerate(self._servers)
        }

    def _new_servers(self, node_id: int) -> dict[str, Server]:
        """Return a server per listener, by listener name."""
        return {
            each.name: Server(partial(self._connection, node_id, each))
            for each in self.config.listeners
        }

    def _all_servers(self) -> list[Server]:
        return [each for servers in self._servers.values() for each in servers.values()]

    async def _stop_servers(self) -> None:
        await asyncio.gather(*(server.stop() for server in self._all_servers()))

    def _build(self) -> Cluster:
        storage, closing = self._storage, self._closing
        self._open_folder()
        cluster_id = cluster_id_of(storage.folder, storage.files, self.config.node_id)
        finish_deletions(storage.folder, storage.files)
        self._receive_buffer = memoryview(bytearray(RECEIVE_BYTES_MAX))
        queued_max = self.config.int("queued.max.request.bytes")
        if queued_max < 0:
            queued_max = 2 * self.config.int("socket.request.max.bytes")
        self._budgets = Budgets[Connection](queued_max)
        self._parts = BrokerComponents(
            *(self.config, storage, self._clock, self.listener_addresses, closing, self._listener),
            self._watchdog,
        )
        keeps_events = not self._in_memory and self.config.str("kohort.events") != "off"
        return self._parts.cluster(cluster_id, keeps_events=keeps_events)

    def _new_tls(self) -> dict[str, ServerTls]:
        """Return the configurations of TLS listeners. Raises ConfigError and OSError."""
        config = self.config
        listeners = [each for each in config.listeners if each.protocol.uses_tls]
        if not listeners:
            return {}
        if self.security_folder is None:
            self.security_folder = self._new_security_folder()
        names = (*LOCAL_NAMES, socket.gethostname())
        advertised = {each.name: each.host for each in config.advertised_listeners}
        return {
            each.name: ServerTls(
                config.for_listener(each),
                each,
                {*names, reachable(each.host), advertised.get(each.name, reachable(each.host))},
                self.security_folder,
                self._clock.wall_ms,
            )
            for each in listeners
        }

    def _new_security_folder(self) -> Path:
        if self._in_memory:
            return Path(self._closing.enter_context(TemporaryDirectory(prefix="kohort-")))
        return self._storage.folder / "security"

    def _limit_connections(self, cluster: Cluster) -> None:
        timers = self.node.client_timers
        idle = IdleConnections(timers, self.config.int("connections.max.idle.ms"))
        window, of_nodes = quota_window(self.config), []
        for node_id, servers in self._servers.items():
            node = cluster.nodes[node_id]
            limits = ConnectionLimits(
                node.config,
                node.configs,
                node.security.quotas,
                window,
                timers,
                cluster.scheduler.spawn,
            )
            of_nodes.append(limits)
            for listener in self.config.listeners:
                servers[listener.name].limit(listener, limits, idle)

        def changed() -> None:
            for each in of_nodes:
                each.changed()

        self.node.topics.on_broker_config_change = changed

    def _open_folder(self) -> None:
        """Create the data folder if it does not exist, and lock it."""
        folder, files = self._storage.folder, self._storage.files
        if self._in_memory:
            files.make_folder(folder)
            files.sync_folder(folder.parent)
            return
        created = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(created):
            each.mkdir(FOLDER_MODE if each == folder else PARENT_MODE, exist_ok=True)
            DISK.sync_folder(each.parent)
        self._lock = lock_folder(folder, files)
        self._closing.callback(self._lock.release)
        check_registry(folder, files)

    def _watch_folder(self) -> None:
        if self._lock is None:
            return
        if self._lock.is_held():
            next_ms = self._clock.now_ms() + FOLDER_CHECK_MS
            self.node.timers.call_at(next_ms, self._watch_folder)
            return
        _log.critical(
            "The data folder %s was removed or moved while in use, so no more data can be stored",
            self._storage.folder,
        )
        self.is_folder_lost = True
        self.on_folder_lost()

    def _load_stored(self, cluster: Cluster) -> None:
        """Load all stored groups and transactions, so that sessions can expire and transactions can
        end."""
        groups, transactions = map(self._stored, (OFFSETS_TOPIC, TRANSACTION_TOPIC))
        for node in cluster.nodes.values():
            node.coordinators.load(groups)
            node.transactions.load(transactions)

    def _stored(self, name: str) -> list[int]:
        """Return the partitions of a topic that have data."""
        topic, storage = self.node.topics.get(name), self._storage
        return [
            each.index
            for each in (() if topic is None else topic.partitions)
            if storage.files.exists(storage.folder / each.name)
            or self._parts.write_ahead.has_batches_for(each.name)
        ]

    def _connection(
        self,
        node_id: int,
        listener: Listener,
        opened: Callable[[Connection], None],
        closed: Callable[[Connection], None],
    ) -> Connection:
        node = self.cluster.nodes[node_id]
        authorizer = node.security.authorizer
        acls = None if authorizer is None else authorizer.acls
        return Connection(
            node=node,
            client=node.security.new_session(listener, node.clock),
            tls=self.tls.get(listener.name),
            routes=self._routes,
            inbox=self._receive_buffer,
            outbox=self._parts.outbox,
            turns=self._parts.turns,
            frame_bytes_max=self.config.int("socket.request.max.bytes"),
            budgets=self._budgets,
            quotas=node.security.quotas,
            watchdog=self._watchdog,
            cache=RequestCache(acls) if self.config.bool("kohort.request.cache") else None,
            interceptor=self._interceptor,
            opened=opened,
            closed=closed,
        )


async def _in_turns(steps: Iterator[None]) -> None:
    """Run each step in a separate iteration of the event loop."""
    for _ in steps:
        await asyncio.sleep(0)
