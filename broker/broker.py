"""The broker: opens the data folder, puts the parts together, listens; and the other way round."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from ..log.files import DiskFiles, Files, Lock, finish_deletions, lock_folder
from ..log.group_commit import Durability
from ..log.memory_files import ChunkedFiles
from ..protocol.apis import PROFILES
from ..topics.names import OFFSETS_TOPIC
from ..topics.registry_check import check_registry
from .build import Assembly, Hear, Place
from .clock import Clock, SystemClock
from .cluster import Cluster
from .config.broker_config import BrokerConfig
from .connection import RECEIVE_BYTES_MAX, Connection
from .maintenance import Maintenance
from .meta_properties import cluster_id_of
from .node import Node
from .request import Interceptor, Routes
from .request_log import request_log
from .server import Server

# Where a broker that keeps everything in memory pretends to have its data.
MEMORY_FOLDER = Path("/memory")
# Kafka notices when it next makes a file; until then a second broker might begin in that place.
FOLDER_CHECK_MS = 1_000

_log = logging.getLogger("kohort.broker")


class Broker:
    """One or more nodes (`kohort.nodes`) with their data. `data_dir` None, or durability `none`,
    keeps all in memory, or on the disk that `files` pretends to be.

    A test may hand in all that is outside: the clock (clients are not let wait by it), the disk,
    an interceptor of requests, and who hears what the coordinators tell.

    `start` and `stop` belong to one event loop. A stopped broker is done with: make another one.
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
        hear: Hear | None = None,
    ) -> None:
        self.config = config
        self._in_memory = data_dir is None or durability == "none"
        if files is None:
            files = ChunkedFiles() if self._in_memory else DiskFiles()
            durability = "none" if self._in_memory else durability
        folder = MEMORY_FOLDER if data_dir is None or self._in_memory else data_dir
        self._place = Place(folder, files, durability)
        self._clock = clock or SystemClock()
        self._interceptor = interceptor or request_log()
        self._routes = Routes(PROFILES[config.str("kohort.profile")])
        self._hear = hear
        self._closing = ExitStack()
        self._servers = {
            config.node_id + place: Server(partial(self._connection, config.node_id + place))
            for place in range(config.int("kohort.nodes"))
        }
        self._cluster: Cluster | None = None
        self._lock: Lock | None = None  # none in memory
        self.addresses: dict[int, tuple[str, int]] = {}
        """Where each node listens: node id -> host, port."""
        self.is_folder_lost = False
        """Whether the data folder was removed or moved while the broker ran: time to stop it."""
        self.on_folder_lost: Callable[[], None] = lambda: None

    async def start(self, host: str, port: int | Sequence[int]) -> None:
        """Open the data and listen; when this returns, clients can connect. Several nodes take
        the ports from `port` on, or these, one for each; 0: any free ones.

        Raises FolderInUse, OSError (folder, address), LogError and UnreadableRecord (data).
        """
        try:
            # An address that cannot be had must not leave a new data folder behind.
            for place, (node_id, server) in enumerate(self._servers.items()):
                own = (port + place if port else 0) if isinstance(port, int) else port[place]
                self.addresses[node_id] = await server.bind(host, own)
            self._cluster = self._assemble()
            for server in self._servers.values():
                await server.listen()
            self._load_stored_groups(self._cluster)
            self._watch_folder()
            self._upkeep = Maintenance(self.node, self._parts.sync_all.run)
        except BaseException:
            self._cluster = None
            await self._stop_servers()
            self._closing.close()
            raise

    async def stop(self) -> None:
        """Tell whoever is parked to look for another coordinator, close every connection, write
        and sync what is gathered, let go of the folder."""
        if self._cluster is not None:
            for node in self._cluster.nodes.values():
                node.groups.dismiss()
            self._parts.outbox.send()
        await self._stop_servers()
        cluster, self._cluster = self._cluster, None
        if cluster is None:
            return
        await self._upkeep.stop()
        await self._write_all(cluster)
        self._closing.close()

    def cut(self) -> None:
        """Break every connection at once and without a word, as the end of the process does. What
        is under way goes on; `stop` comes next."""
        for server in self._servers.values():
            server.abort_connections()

    async def stop_node(self, node_id: int) -> None:
        """Stop one of the nodes: others lead what it led, then its connections are closed."""
        self.cluster.went(node_id)
        # Whom it has told to ask elsewhere hears that before the end.
        self._parts.outbox.send()
        await self._servers[node_id].stop()
        self.cluster.nodes[node_id].fetch_sessions.clear()

    async def start_node(self, node_id: int) -> None:
        """Let a stopped node come back at its old address. Raises OSError if that is taken."""
        server = self._servers[node_id]
        await server.bind(*self.addresses[node_id])
        self.cluster.came(node_id)
        await server.listen()

    def attach(self, node_id: int, transport: asyncio.Transport) -> Connection:
        """Connect a client of this process to a node without a socket: the connection writes to
        its transport, and `data_received` is called with what it asks, never from within a write.
        Raises ConnectionRefusedError for a node that is down."""
        return self._servers[node_id].attach(transport)

    @property
    def durability(self) -> Durability:
        return self._place.durability

    @property
    def is_running(self) -> bool:
        return self._cluster is not None

    @property
    def cluster(self) -> Cluster:
        """The running nodes. Only between `start` and `stop`."""
        if self._cluster is None:
            raise RuntimeError("the broker is not running")
        return self._cluster

    @property
    def node(self) -> Node:
        """The first node. Only between `start` and `stop`."""
        return self.cluster.nodes[self.config.node_id]

    @property
    def host(self) -> str:
        return self.addresses[self.config.node_id][0]

    @property
    def port(self) -> int:
        """Of the first node."""
        return self.addresses[self.config.node_id][1]

    async def _write_all(self, cluster: Cluster) -> None:
        """Write and sync what is gathered; with nobody left who could ask or be due, nothing is
        gathered behind it."""
        for node in cluster.nodes.values():
            node.timers.close()
            node.waits.close()
        group_commit = self._parts.group_commit
        while not group_commit.is_idle:
            idle = asyncio.Event()
            group_commit.when_idle(idle.set)
            await idle.wait()

    async def _stop_servers(self) -> None:
        await asyncio.gather(*(server.stop() for server in self._servers.values()))

    def _assemble(self) -> Cluster:
        place, closing = self._place, self._closing
        self._open_folder()
        cluster_id = cluster_id_of(place.folder, place.files, self.config.node_id)
        finish_deletions(place.folder, place.files)
        self._inbox = memoryview(bytearray(RECEIVE_BYTES_MAX))
        self._parts = Assembly(self.config, place, self._clock, self.addresses, closing, self._hear)
        keeps_events = not self._in_memory and self.config.str("kohort.events") != "off"
        return self._parts.cluster(cluster_id, keeps_events=keeps_events)

    def _open_folder(self) -> None:
        """Make the data folder where there is none, and take it for this process."""
        if self._in_memory:
            self._place.files.make_folder(self._place.folder)
            self._place.files.sync_folder(self._place.folder.parent)
            return
        new = [
            each for each in (self._place.folder, *self._place.folder.parents) if not each.exists()
        ]
        self._place.folder.mkdir(parents=True, exist_ok=True)
        for each in new:
            DiskFiles().sync_folder(each.parent)
        self._lock = lock_folder(self._place.folder, self._place.files)
        self._closing.callback(self._lock.release)
        check_registry(self._place.folder, self._place.files)

    def _watch_folder(self) -> None:
        if self._lock is None:
            return
        if self._lock.is_held():
            next_ms = self._clock.now_ms() + FOLDER_CHECK_MS
            self.node.timers.call_at(next_ms, self._watch_folder)
            return
        _log.critical(
            "The data folder %s was removed or moved while it was in use: nothing can be kept "
            "any more",
            self._place.folder,
        )
        self.is_folder_lost = True
        self.on_folder_lost()

    def _load_stored_groups(self, cluster: Cluster) -> None:
        """Read the groups that are on disk, so that the sessions of their members are watched."""
        topic = self.node.topics.get(OFFSETS_TOPIC)
        if topic is not None:
            place, ahead = self._place, self._parts.write_ahead
            stored = [
                p.index
                for p in topic.partitions
                if place.files.exists(place.folder / p.name) or ahead.has_batches_for(p.name)
            ]
            for node in cluster.nodes.values():
                node.groups.load(stored)

    def _connection(
        self,
        node_id: int,
        opened: Callable[[Connection], None],
        closed: Callable[[Connection], None],
    ) -> Connection:
        return Connection(
            node=self.cluster.nodes[node_id],
            routes=self._routes,
            inbox=self._inbox,
            outbox=self._parts.outbox,
            frame_bytes_max=self.config.int("socket.request.max.bytes"),
            opened=opened,
            closed=closed,
            caches_requests=self.config.bool("kohort.request.cache"),
            interceptor=self._interceptor,
        )
