"""The broker: opens the data folder, puts the parts together, listens; and the other way round."""

import asyncio
import logging
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from ..log.deletion import finish_deletions
from ..log.files import DiskFiles, Files, MemoryFiles
from ..log.lock import FolderLock, lock_folder
from ..log.rounds import Durability, Rounds
from ..offsets.cold import new_spill
from ..offsets.store import OffsetsStore
from ..topics.configs import Configs
from ..topics.damage import check_registry
from ..topics.names import OFFSETS_TOPIC
from ..topics.nodes import Nodes
from ..topics.partition import Partition
from ..topics.registry import Topics
from .cache import Cache
from .clock import Clock, SystemClock
from .cluster import Cluster
from .config import BrokerConfig
from .connection import RECEIVE_BYTES_MAX, Connection, Outbox
from .events import EventLog
from .groups.config import GroupConfig
from .groups.coordinator import Coordinator
from .groups.voice import Voice
from .listeners import reachable
from .meta import cluster_id_of
from .node import Node
from .runtime import GroupRuntime
from .server import Server
from .sync_pool import SyncPool
from .timers import Timers
from .tracing import new_routes
from .upkeep import Upkeep

# Where a broker that keeps everything in memory pretends to have its data.
MEMORY_FOLDER = Path("/memory")
# Kafka notices when it next makes a file; until then a second broker might begin in that place.
FOLDER_CHECK_MS = 1_000

_log = logging.getLogger("kohort.broker")


class Broker:
    """One or more nodes (`kohort.nodes`) with their data. `data_dir` None, or durability `none`,
    keeps all in memory.

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
    ) -> None:
        if data_dir is None:
            durability = "none"
        self.config = config
        self.durability: Durability = durability
        self._in_memory = durability == "none"
        self._folder = MEMORY_FOLDER if data_dir is None or self._in_memory else data_dir
        self._files = files or (MemoryFiles() if self._in_memory else DiskFiles())
        self._clock = clock or SystemClock()
        self._routes = new_routes()
        self._cache = Cache(config.int("kohort.cache.offsets"))
        self._closing = ExitStack()
        self._servers = {
            config.node_id + place: Server(partial(self._connection, config.node_id + place))
            for place in range(config.int("kohort.nodes"))
        }
        self._cluster: Cluster | None = None
        self._lock: FolderLock | None = None  # none in memory
        self.addresses: dict[int, tuple[str, int]] = {}
        """Where each node listens: node id -> host, port."""
        self.is_folder_lost = False
        """Whether the data folder was removed or moved while the broker ran: time to stop it."""
        self.on_folder_lost: Callable[[], None] = lambda: None

    async def start(self, host: str, port: int) -> None:
        """Open the data and listen; when this returns, clients can connect. Several nodes take
        the ports from `port` on; 0: any free ones.

        Raises FolderInUse, OSError (folder, address), LogError and UnreadableRecord (data).
        """
        try:
            # An address that cannot be had must not leave a new data folder behind.
            for place, (node_id, server) in enumerate(self._servers.items()):
                self.addresses[node_id] = await server.bind(host, port + place if port else 0)
            self._cluster = self._assemble()
            for server in self._servers.values():
                await server.listen()
        except BaseException:
            await self._stop_servers()
            self._closing.close()
            raise
        self._load_stored_groups(self._cluster)
        self._watch_folder()
        self._upkeep = Upkeep(self.node, self._sync_logs.run)

    async def stop(self) -> None:
        """Tell whoever is parked to look for another coordinator, close every connection, write
        and sync what is gathered, let go of the folder."""
        if self._cluster is not None:
            for node in self._cluster.nodes.values():
                node.groups.dismiss()
            self._outbox.send()
        await self._stop_servers()
        cluster, self._cluster = self._cluster, None
        if cluster is None:
            return
        await self._upkeep.stop()
        idle = asyncio.Event()
        self._rounds.when_idle(idle.set)
        await idle.wait()
        self._closing.close()

    async def stop_node(self, node_id: int) -> None:
        """Stop one of the nodes: others lead what it led, then its connections are closed."""
        self.cluster.went(node_id)
        # Whom it has told to ask elsewhere hears that before the end.
        self._outbox.send()
        await self._servers[node_id].stop()

    async def start_node(self, node_id: int) -> None:
        """Let a stopped node come back at its old address. Raises OSError if that is taken."""
        server = self._servers[node_id]
        await server.bind(*self.addresses[node_id])
        self.cluster.came(node_id)
        await server.listen()

    @property
    def cluster(self) -> Cluster:
        """The running nodes. Only between `start` and `stop`."""
        assert self._cluster is not None, "the broker is not running"
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

    async def _stop_servers(self) -> None:
        await asyncio.gather(*(server.stop() for server in self._servers.values()))

    def _assemble(self) -> Cluster:
        loop = asyncio.get_running_loop()
        config, files, folder, closing = self.config, self._files, self._folder, self._closing
        self._open_folder()
        cluster_id = cluster_id_of(folder, files, config.node_id)
        finish_deletions(folder, files)
        self._inbox = memoryview(bytearray(RECEIVE_BYTES_MAX))
        self._outbox = Outbox(loop.call_soon)
        sync_logs = self._sync_logs = SyncPool()
        closing.callback(sync_logs.close)
        rounds = self._rounds = Rounds(
            durability=self.durability,
            call_soon=loop.call_soon,
            sync_logs=sync_logs,
            # Answers go out at once, not with the next turn of the loop.
            round_over=self._outbox.send,
        )
        timers = Timers(self._clock)
        closing.callback(timers.close)
        topics = Topics(
            folder=folder,
            files=files,
            rounds=rounds,
            configs=Configs(config, config.node_id),
            nodes=Nodes(list(self._servers)),
            new_id=uuid.uuid4,
            now_ms=self._clock.now_ms,
            in_turn=timers.in_turn,
        )
        closing.callback(topics.close)
        self._events = self._event_log(cluster_id)
        cluster = Cluster(cluster_id, topics)
        for node_id in self._servers:
            own = config if node_id == config.node_id else config.of_node(node_id)
            groups = self._group_runtime(node_id, rounds, topics, timers, cluster)
            closing.callback(groups.close)
            cluster.nodes[node_id] = Node(
                node_id=node_id,
                cluster=cluster,
                address=self._advertised(node_id),
                config=own,
                configs=topics.configs.at(node_id, own),
                clock=self._clock,
                timers=timers,
                rounds=rounds,
                topics=topics,
                groups=groups,
            )
        topics.on_deleted = cluster.topic_deleted
        return cluster

    def _open_folder(self) -> None:
        """Make the data folder where there is none, and take it for this process."""
        if self._in_memory:
            self._files.make_folder(self._folder)
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = lock_folder(self._folder, self._files)
        self._closing.callback(self._lock.release)
        check_registry(self._folder, self._files)

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
            self._folder,
        )
        self.is_folder_lost = True
        self.on_folder_lost()

    def _advertised(self, node_id: int) -> tuple[str, int]:
        """What clients are told; an advertised port is the first node's."""
        host, port = self.addresses[node_id]
        if not self.config.str("advertised.listeners"):
            return reachable(host), port
        told = self.config.advertised_listener
        place = node_id - self.config.node_id
        return told.host, told.port + place if told.port else port

    def _group_runtime(
        self, node_id: int, rounds: Rounds, topics: Topics, timers: Timers, cluster: Cluster
    ) -> GroupRuntime:
        def partition(index: int) -> Partition:
            found = topics.ensure_offsets_topic().partition(index)
            assert found is not None, "the offsets topic never loses partitions"
            return found

        groups = GroupConfig(
            offsets_retention_ms=self.config.int("offsets.retention.minutes") * 60_000,
            **{
                key: self.config.int(key.replace("_", "."))
                for key in (
                    "group_initial_rebalance_delay_ms",
                    "group_max_size",
                    "offset_metadata_max_bytes",
                    "offsets_retention_check_interval_ms",
                )
            },
        )

        offsets_topic = topics.get(OFFSETS_TOPIC)
        runtime = GroupRuntime(
            store=OffsetsStore(
                # Groups are where the topic was made to put them, whatever is configured now.
                partitions=(
                    len(offsets_topic.partitions)
                    if offsets_topic is not None
                    else self.config.int("offsets.topic.num.partitions")
                ),
                partition=partition,
                rounds=rounds,
                files=self._files,
            ),
            clock=self._clock,
            timers=timers,
            new_coordinator=partial(self._new_coordinator, node_id, groups),
            call_soon=asyncio.get_running_loop().call_soon,
            leads=lambda index: partition(index).leader_id == node_id,
            waiters=lambda index: partition(index).waiters,
            deleted_topics=cluster.deleted_topics,
        )
        runtime.on_forgotten = cluster.tell_forgotten
        return runtime

    def _new_coordinator(self, node_id: int, config: GroupConfig, partition: int) -> Coordinator:
        context = f"GroupCoordinator id={node_id} topic={OFFSETS_TOPIC} partition={partition}"
        events, folder = self._events, self._folder / f"{OFFSETS_TOPIC}-{partition}"
        return Coordinator(
            config,
            lambda: str(uuid.uuid4()),
            self._cache.new_table(partial(new_spill, folder, self._files)),
            voice=Voice(context, None if events is None else events.listener(node_id)),
            tells_commits=events is not None and self.config.str("kohort.events") == "all",
        )

    def _event_log(self, cluster_id: str) -> EventLog | None:
        """One for all nodes; none where nothing is kept."""
        if self._in_memory or self.config.str("kohort.events") == "off":
            return None
        events = EventLog(
            self._folder,
            self._files,
            cluster_id=cluster_id,
            now_ms=self._clock.now_ms,
            call_soon=asyncio.get_running_loop().call_soon,
            files_max=self.config.int("kohort.events.files"),
        )
        self._closing.callback(events.close)
        return events

    def _load_stored_groups(self, cluster: Cluster) -> None:
        """Read the groups that are on disk, so that the sessions of their members are watched."""
        topic = self.node.topics.get(OFFSETS_TOPIC)
        if topic is not None:
            stored = [
                p.index for p in topic.partitions if self._files.exists(self._folder / p.name)
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
            outbox=self._outbox,
            frame_bytes_max=self.config.int("socket.request.max.bytes"),
            opened=opened,
            closed=closed,
        )
