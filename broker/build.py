"""Puts the parts of a broker together: what all nodes share, then each node."""

import asyncio
import secrets
import uuid
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..coordinator.config import GroupConfig
from ..coordinator.coordinator import Coordinator
from ..coordinator.voice import Event, Listener, Voice
from ..log.files import DiskFiles, Files
from ..log.group_commit import Durability, GroupCommit
from ..log.write_ahead import BYTES_MAX, WriteAheadLog
from ..offsets.spill import new_spill
from ..offsets.store import OffsetsStore
from ..topics.configs import Configs
from ..topics.names import OFFSETS_TOPIC
from ..topics.nodes import Nodes
from ..topics.partition import Partition
from ..topics.registry import Topics
from ..topics.view import TopicsView
from .cache import Cache
from .clock import Clock, SystemClock
from .cluster import Cluster
from .config.broker_config import BrokerConfig, ConfigError
from .config.listeners import reachable
from .connection import Outbox
from .event_log import EventLog
from .fetch_sessions import FetchSessionCache
from .node import Node
from .runtime import GroupRuntime
from .sync_pool import SyncPool
from .timers import Timers

# What logs that are synced for each commit keep allocated: some five hundred commits. A sync then
# takes two thirds of the time.
AHEAD_BYTES = 64 * 1024

Hear = Callable[[int, Event], None]
"""hear(node_id, event): called in the middle of a decision; it must be quick, and must not fail."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a broker keeps its data, and how well."""

    folder: Path
    files: Files
    durability: Durability

    def files_with_room(self, ahead_bytes: int) -> Files:
        """For what is synced often: then it is allocated ahead."""
        has_room = self.durability == "fsync" and isinstance(self.files, DiskFiles)
        return DiskFiles(preallocate_bytes=ahead_bytes) if has_room else self.files


class Assembly:
    """What it opens is closed with `closing`. Belongs to the running event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        place: Place,
        clock: Clock,
        addresses: dict[int, tuple[str, int]],
        closing: ExitStack,
        hear: Hear | None,
    ) -> None:
        self._config, self._place, self._clock = config, place, clock
        self._addresses = addresses
        self._closing = closing
        self._hear = hear
        self._call_soon = asyncio.get_running_loop().call_soon
        # Where everything is in memory, what left it would only be there a second time.
        is_kept = place.durability != "none"
        self._cache = Cache(config.int("kohort.cache.offsets") if is_kept else 0)
        self._events: EventLog | None = None
        self.outbox = Outbox(self._call_soon)
        self.sync_all = SyncPool()
        closing.callback(self.sync_all.close)
        self.write_ahead = WriteAheadLog(place.folder, place.files_with_room(BYTES_MAX))
        self.group_commit = GroupCommit(
            durability=place.durability,
            call_soon=self._call_soon,
            sync_all=self.sync_all,
            write_ahead=self.write_ahead,
            # Answers go out at once, not with the next turn of the loop.
            on_flush_end=self.outbox.send,
        )

    def cluster(self, cluster_id: str, *, keeps_events: bool) -> Cluster:
        """All nodes, over the topics that the folder has."""
        config, closing, group_commit = self._config, self._closing, self.group_commit
        timers, waits = Timers(self._clock), Timers(SystemClock())
        closing.callback(timers.close)
        closing.callback(waits.close)
        topics = self._topics(timers)
        closing.callback(topics.close)
        if keeps_events:
            self._events = self._event_log(cluster_id)
        cluster = Cluster(cluster_id, topics)
        readable = self._readable(topics)
        for node_id in self._addresses:
            own = config if node_id == config.node_id else config.of_node(node_id)
            groups = self._group_runtime(node_id, topics, timers, cluster)
            closing.callback(groups.close)
            cluster.nodes[node_id] = Node(
                node_id=node_id,
                cluster=cluster,
                address=self._advertised(node_id),
                config=own,
                configs=topics.configs.at(node_id, own),
                clock=self._clock,
                timers=timers,
                waits=waits,
                group_commit=group_commit,
                topics=topics,
                readable=readable,
                groups=groups,
                fetch_sessions=FetchSessionCache(
                    own.int("max.incremental.fetch.session.cache.slots"), secrets.randbelow
                ),
            )
        # Before all others let go of the logs.
        closing.callback(self.write_ahead.close)
        topics.on_deleted = cluster.topic_deleted
        return cluster

    def _topics(self, timers: Timers) -> Topics:
        return Topics(
            folder=self._place.folder,
            files=self._place.files_with_room(AHEAD_BYTES),
            group_commit=self.group_commit,
            configs=Configs(self._config, self._config.node_id),
            nodes=Nodes(list(self._addresses)),
            new_id=uuid.uuid4,
            now_ms=self._clock.now_ms,
            in_turn=timers.in_turn,
        )

    def _readable(self, topics: Topics) -> TopicsView:
        name = self._config.str("kohort.offsets.mirror")
        if topics.get(name) is not None:
            raise ConfigError(
                f"kohort.offsets.mirror: there is a topic {name} already; choose a name that no "
                "topic has."
            )
        return TopicsView(topics, name)

    def _advertised(self, node_id: int) -> tuple[str, int]:
        """What clients are told; an advertised port is the first node's."""
        host, port = self._addresses[node_id]
        if not self._config.list("advertised.listeners"):
            return reachable(host), port
        told = self._config.advertised_listener
        place = node_id - self._config.node_id
        return told.host, told.port + place if told.port else port

    def _group_runtime(
        self, node_id: int, topics: Topics, timers: Timers, cluster: Cluster
    ) -> GroupRuntime:
        def partition(index: int) -> Partition:
            found = topics.ensure_offsets_topic().partition(index)
            assert found is not None, "the offsets topic never loses partitions"
            return found

        groups = GroupConfig(
            offsets_retention_ms=self._config.int("offsets.retention.minutes") * 60_000,
            **{
                key: self._config.int(key.replace("_", "."))
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
                    else self._config.int("offsets.topic.num.partitions")
                ),
                partition=partition,
                group_commit=self.group_commit,
                files=self._place.files,
            ),
            clock=self._clock,
            timers=timers,
            new_coordinator=partial(self._new_coordinator, node_id, groups),
            call_soon=self._call_soon,
            leads=lambda index: partition(index).leader_id == node_id,
            waiters=lambda index: partition(index).waiters,
            deleted_topics=cluster.deleted_topics,
        )
        runtime.on_forgotten = cluster.tell_forgotten
        return runtime

    def _new_coordinator(self, node_id: int, config: GroupConfig, partition: int) -> Coordinator:
        context = f"GroupCoordinator id={node_id} topic={OFFSETS_TOPIC} partition={partition}"
        folder = self._place.folder / f"{OFFSETS_TOPIC}-{partition}"
        listener = self._listener(node_id)
        return Coordinator(
            config,
            lambda: str(uuid.uuid4()),
            self._cache.new_table(partial(new_spill, folder, self._place.files)),
            voice=Voice(context, listener),
            tells_commits=listener is not None and self._config.str("kohort.events") == "all",
        )

    def _listener(self, node_id: int) -> Listener | None:
        listeners: list[Listener] = []
        if self._events is not None:
            listeners.append(self._events.listener(node_id))
        if self._hear is not None:
            listeners.append(partial(self._hear, node_id))
        return _all_of(listeners) if len(listeners) > 1 else next(iter(listeners), None)

    def _event_log(self, cluster_id: str) -> EventLog:
        """One for all nodes."""
        events = EventLog(
            self._place.folder,
            self._place.files,
            cluster_id=cluster_id,
            now_ms=self._clock.now_ms,
            call_soon=self._call_soon,
            files_max=self._config.int("kohort.events.files"),
        )
        self._closing.callback(events.close)
        return events


def _all_of(listeners: Iterable[Listener]) -> Listener:
    def tell(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return tell
