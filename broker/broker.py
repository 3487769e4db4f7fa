"""The broker: opens the data folder, puts the parts together, listens; and the other way round."""

import asyncio
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from ..log.deletion import finish_deletions
from ..log.files import DiskFiles, Files, MemoryFiles
from ..log.lock import lock_folder
from ..log.rounds import Durability, Rounds
from ..offsets.store import OffsetsStore
from ..topics.configs import Configs
from ..topics.names import OFFSETS_TOPIC
from ..topics.partition import Partition
from ..topics.registry import Topics
from .clock import Clock, SystemClock
from .config import BrokerConfig
from .connection import Connection, Outbox
from .groups.config import GroupConfig
from .groups.coordinator import Coordinator
from .meta import cluster_id_of
from .node import Node
from .runtime import GroupRuntime
from .server import Server
from .sync_pool import SyncPool
from .timers import Timers
from .tracing import new_routes

# Where a broker that keeps everything in memory pretends to have its data.
MEMORY_FOLDER = Path("/memory")


class Broker:
    """One broker with its data. `data_dir` None, or durability `none`, keeps all in memory.

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
        self.host = ""
        self.port = 0
        self._in_memory = durability == "none"
        self._folder = MEMORY_FOLDER if data_dir is None or self._in_memory else data_dir
        self._files = files or (MemoryFiles() if self._in_memory else DiskFiles())
        self._clock = clock or SystemClock()
        self._routes = new_routes()
        self._closing = ExitStack()
        self._server = Server(self._connection)
        self._node: Node | None = None

    async def start(self, host: str, port: int) -> None:
        """Open the data and listen; when this returns, clients can connect.

        Raises FolderInUse, OSError (folder, address), LogError and UnreadableRecord (data).
        """
        try:
            # An address that cannot be had must not leave a new data folder behind.
            self.host, self.port = await self._server.bind(host, port)
            self._node = self._assemble()
            advertised = self.config.advertised_listener
            self._node.address = (advertised.host or self.host, advertised.port or self.port)
            await self._server.listen()
        except BaseException:
            await self._server.stop()
            self._closing.close()
            raise
        self._load_stored_groups(self._node)

    async def stop(self) -> None:
        """Close every connection, write and sync what is gathered, let go of the folder."""
        await self._server.stop()
        node, self._node = self._node, None
        if node is None:
            return
        idle = asyncio.Event()
        node.rounds.when_idle(idle.set)
        await idle.wait()
        self._closing.close()

    @property
    def node(self) -> Node:
        """The running node. Only between `start` and `stop`."""
        assert self._node is not None, "the broker is not running"
        return self._node

    def _assemble(self) -> Node:
        loop = asyncio.get_running_loop()
        config, files, folder, closing = self.config, self._files, self._folder, self._closing
        if self._in_memory:
            files.make_folder(folder)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            closing.callback(lock_folder(folder, files).release)
        cluster_id = cluster_id_of(folder, files, config.node_id)
        finish_deletions(folder, files)
        self._outbox = Outbox(loop.call_soon)
        sync_logs = SyncPool()
        closing.callback(sync_logs.close)
        rounds = Rounds(
            durability=self.durability,
            call_soon=loop.call_soon,
            sync_logs=sync_logs,
            # Answers go out at once, not with the next turn of the loop.
            round_over=self._outbox.send,
        )
        topics = Topics(
            folder=folder,
            files=files,
            rounds=rounds,
            configs=Configs(config, config.node_id),
            new_id=uuid.uuid4,
            now_ms=self._clock.now_ms,
        )
        closing.callback(topics.close)
        timers = Timers(self._clock)
        closing.callback(timers.close)
        groups = self._group_runtime(rounds, topics, timers)
        closing.callback(groups.close)
        return Node(
            node_id=config.node_id,
            cluster_id=cluster_id,
            address=("", 0),
            config=config,
            clock=self._clock,
            timers=timers,
            rounds=rounds,
            topics=topics,
            groups=groups,
        )

    def _group_runtime(self, rounds: Rounds, topics: Topics, timers: Timers) -> GroupRuntime:
        def partition(index: int) -> Partition:
            found = topics.ensure_offsets_topic().partition(index)
            assert found is not None, "the offsets topic never loses partitions"
            return found

        groups = GroupConfig(
            **{
                key: self.config.int(key.replace("_", "."))
                for key in (
                    "group_min_session_timeout_ms",
                    "group_max_session_timeout_ms",
                    "group_initial_rebalance_delay_ms",
                    "group_max_size",
                    "offset_metadata_max_bytes",
                )
            }
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
            ),
            clock=self._clock,
            timers=timers,
            new_coordinator=lambda: Coordinator(groups, lambda: str(uuid.uuid4())),
            call_soon=asyncio.get_running_loop().call_soon,
        )
        runtime.on_durable = lambda index: partition(index).waiters.wake_all()
        return runtime

    def _load_stored_groups(self, node: Node) -> None:
        """Read the groups that are on disk, so that the sessions of their members are watched."""
        topic = node.topics.get(OFFSETS_TOPIC)
        if topic is not None:
            stored = [
                p.index for p in topic.partitions if self._files.exists(self._folder / p.name)
            ]
            node.groups.load(stored)

    def _connection(
        self, opened: Callable[[Connection], None], closed: Callable[[Connection], None]
    ) -> Connection:
        return Connection(
            node=self.node,
            routes=self._routes,
            outbox=self._outbox,
            frame_bytes_max=self.config.int("socket.request.max.bytes"),
            opened=opened,
            closed=closed,
        )
