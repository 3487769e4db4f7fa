"""The topic registry.

The registry's log is the source of truth. `_apply` makes every state change, both live and on
replay; only failed writes are undone elsewhere. Changes are appended and applied synchronously,
and become durable later (`on_durable`). Folders of a deleted topic are kept until the deletion is
durable, so a failed write loses no data. The name becomes available once all of the topic's data
has been removed.
"""

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from ..log.checkpoint import PartitionCheckpoints
from ..log.errors import LogError, LogFailed
from ..log.files import Files
from ..log.group_commit import GroupCommit, OnDurable
from .acls import Acl
from .configs.effective import Configs, TopicSettings, internal_topic
from .kafka_import import import_kafka_folder
from .names import REGISTRY_TOPIC, collision_key
from .registry_log import (
    AclDeletedRecord,
    AclRecord,
    Assignment,
    BrokerConfigRecord,
    ClientMetricsRecord,
    GroupConfigRecord,
    LeaderRecord,
    ProducerIdsRecord,
    RegistryRecord,
    TopicDeletedRecord,
    TopicPurgedRecord,
    TopicRecord,
    UndecodableRegistryRecord,
    compact_registry,
    encode,
    latest_records,
    open_registry,
    read_registry,
    recover_registry,
)
from .security_state import SecurityState
from .topic import NO_LEADER, Nodes, Partition, Topic
from .topic_deletion import FolderDeletion

_log = logging.getLogger("kohort.topics")

# As in Kafka (ProducerIdsBlock), a record reserves a thousand ids, and a restart skips the rest.
PRODUCER_IDS_PER_RECORD: Final = 1000

# Minimum time between attempts to recover the log, as for other partitions.
RETRY_FAILED_MS: Final = 1_000


class TopicRegistry:
    """All topics, in order of creation. `folder` is the data folder, `new_id` generates topic ids,
    and `call_soon` runs a callback in a later iteration of the event loop. Raises OSError, LogError
    and UndecodableRegistryRecord."""

    _is_starting = True
    """Whether the log is being replayed for the first time."""

    def __init__(
        self,
        *,
        folder: Path,
        files: Files,
        group_commit: GroupCommit,
        configs: Configs,
        nodes: Nodes,
        new_id: Callable[[], uuid.UUID],
        now_ms: Callable[[], int],
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self.configs, self.nodes, self.security = configs, nodes, SecurityState()
        self.folder, self._files = folder, files
        self._group_commit = group_commit
        self._new_id, self._now_ms = new_id, now_ms
        self._by_name, self._by_id = dict[str, Topic](), dict[uuid.UUID, Topic]()
        self._by_collision_key: dict[str, tuple[str, ...]] = {}
        # Topics whose creation or deletion is not durable yet, or whose data is being removed. The
        # key of `_creating` is the topic's id and its first partition that is not durable yet.
        self._creating: dict[tuple[uuid.UUID, int], Topic] = {}
        self._deleting, self._removing = dict[str, Topic](), dict[str, Topic]()
        self.deleted_names: set[str] = set()
        """Names of deleted topics that were not recreated and may still have folders or offsets."""
        self._next_producer_id = self._producer_ids_end = self._durable_producer_ids_end = 0
        self._last_failure: object = None
        self._retry_ms = 0
        checkpoints = self.checkpoints = PartitionCheckpoints(folder, files)
        self._folders = FolderDeletion(
            folder, files, group_commit.fail_pending, checkpoints, self.deleted_names, call_soon
        )
        # Hook: called when the deletion of a topic is durable. Must call back once all external
        # data of the topic is removed.
        self.on_deleted: Callable[[str, Callable[[], None]], None] = lambda _name, done: done()
        # Hook: returns whether external data of a deleted topic with that name may remain.
        self.has_leftovers: Callable[[str], bool] = lambda _name: False
        # Hook: called with (topic, partition, previous leader id).
        self.on_leader_change: Callable[[Topic, Partition, int], None] = lambda *_: None
        # Hook: called when broker configs may have changed.
        self.on_broker_config_change: Callable[[], None] = lambda: None
        # `version` is incremented once per record, which invalidates caches. `created_version` is
        # its value when a topic was last created.
        self.version = self.created_version = 0
        self._registry_log = open_registry(folder / f"{REGISTRY_TOPIC}-0", files)
        import_kafka_folder(self._registry_log, folder, files, configs, self.new_topic_id, now_ms())
        self._registry_log, stored = compact_registry(self._registry_log, now_ms())
        self._replay(stored)
        # Groups store the version (KIP-848), so only failed writes may set it back.
        self.version = self.created_version = max(self.version, self._registry_log.end_offset)
        self._folders.remove_all_leftovers(self.deleted_names)

    # --- queries

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, id_: uuid.UUID | None) -> Topic | None:
        return None if id_ is None else self._by_id.get(id_)

    def partition(self, name: str, index: int) -> Partition | None:
        topic = self._by_name.get(name)
        return None if topic is None else topic.partition(index)

    def is_being_deleted(self, name: str) -> bool:
        """Whether a deleted topic of this name is still being removed."""
        return name in self._deleting or name in self._removing

    def colliding_topics(self, name: str) -> tuple[str, ...]:
        """Return the topics whose names differ from `name` at most in '.' and '_'."""
        return self._by_collision_key.get(collision_key(name), ())

    def on_durable(self, callback: OnDurable) -> None:
        """Call `callback` when all changes are durable or have failed, which may be immediately."""
        if (error := self._registry_log.failed) is not None:
            # Retry here, because a repeated request may make no change of its own and only wait
            # until an earlier change is durable.
            self._recover_again()
            callback(error)
        else:
            self._group_commit.on_durable(self._registry_log, callback)

    @property
    def metadata_offsets(self) -> tuple[int, int]:
        """The end offset of the registry's log, and its durable end offset. Earlier records survive
        a crash of the process or, with fsync, of the machine."""
        log = self._registry_log
        is_synced = self._group_commit.durability == "fsync"
        return log.end_offset, log.synced_offset if is_synced else log.end_offset

    @property
    def log_dir(self) -> str:
        """The path of the data folder, as clients see it."""
        return str(self.folder.absolute())

    def is_cordoned(self, configs: Configs) -> bool:
        """Whether no new partition may be placed on the node with these configs. As in Kafka, a
        cordoned folder that is no longer the data folder has no effect."""
        return any(each in ("*", self.log_dir, *configs.log_dirs) for each in configs.cordoned)

    def disk_space(self) -> tuple[int, int]:
        """Return the total and the usable bytes of the data folder's volume, or -1 if unknown."""
        return self._files.disk_space(self.folder)

    # --- changes (admin.py validates clients' requests)

    def change(self, record: RegistryRecord) -> None:
        """Store and apply a record. A record that cannot be written is undone; see `on_durable`."""
        self._group_commit.append(self._registry_log, (encode(record),), self._now_ms())
        self._apply(record)
        # Register first, so that a failed write is undone before other callbacks run.
        self._group_commit.on_durable(self._registry_log, self._undo_if_failed)

    def ensure_coordinator_topic(self, name: str) -> Topic:
        """Return __consumer_offsets or __transaction_state, creating it if necessary; see `create`
        and `on_durable`."""
        topic = self._by_name.get(name)
        return topic or self.create(name, *internal_topic(self.configs.broker, name))

    def create(
        self,
        name: str,
        partitions: int,
        overrides: Mapping[str, str],
        assignment: Assignment = (),
    ) -> Topic:
        """Create a topic. Raises OSError if existing folders with its name cannot be removed or
        renamed."""
        self._folders.clear_all(name, range(partitions))
        self.change(TopicRecord(name, self.new_topic_id(), partitions, overrides, assignment))
        topic = self._by_name[name]
        self._created(topic, 0)
        return topic

    def _created(self, topic: Topic, first: int) -> None:
        """Track the new partitions from `first` on until their creation is durable."""
        self._creating[topic.id, first] = topic

        def on_durable(error: OSError | None) -> None:
            if error is None:
                self._creating.pop((topic.id, first), None)
                self._use_write_ahead(topic)

        self._group_commit.on_durable(self._registry_log, on_durable)
        self._store_leaders(topic, first)

    def _use_write_ahead(self, topic: Topic) -> None:
        """Let a coordinators' topic use the write-ahead log, once its creation is durable.
        Otherwise, rejected records could be restored in a later topic of the same name."""
        if topic.is_reserved:
            for partition in topic.partitions:
                partition.use_write_ahead(self._group_commit.write_ahead)

    def add_partitions(self, topic: Topic, partitions: int, assignment: Assignment = ()) -> None:
        """Add partitions up to a total of `partitions`. `assignment` contains the replicas of the
        new partitions. Raises OSError like `create`."""
        count = len(topic.partitions)
        self._folders.clear_all(topic.name, range(count, partitions))
        if topic.assignment or assignment:
            added = assignment or (self.nodes.replicas(i, ()) for i in range(count, partitions))
            assignment = (*_assignment(topic), *added)
        self.change(TopicRecord(topic.name, topic.id, partitions, topic.overrides, assignment))
        self._created(topic, count)

    def reassign(self, topic: Topic, replicas: Mapping[int, tuple[int, ...]]) -> None:
        """Replace the replicas of partitions, by index. If a partition's leader is not among them,
        another leader is elected; if other replicas are removed, the partition gets a new leader
        epoch (upstream:
        PartitionChangeBuilder.triggerLeaderEpochBumpForReplicaReassignmentIfNeeded)."""
        assignment = list(_assignment(topic))
        elections = []
        partitions = topic.partitions
        changed = {i: new for i, new in replicas.items() if new != partitions[i].replicas}
        if not changed:
            return
        for index, new in changed.items():
            partition = partitions[index]
            leader_id, epoch = partition.leader_id, partition.leader_epoch
            if leader_id in new[1:]:
                # Otherwise, the first replica would lead after a restart, in the same epoch.
                self.change(LeaderRecord(topic.name, topic.id, index, leader_id, epoch))
            if not {*new} >= {*partition.replicas}:
                elections.append((partition, [each for each in (leader_id, *new) if each in new]))
            assignment[index] = new
        count = len(assignment)
        self.change(TopicRecord(topic.name, topic.id, count, topic.overrides, tuple(assignment)))
        for partition, candidates in elections:
            self.elect_leader(topic, partition, self.nodes.elect(candidates))

    def _store_leaders(self, topic: Topic, first: int) -> None:
        """Store explicit leaders for partitions whose preferred leader is down, because it may be
        up when the log is replayed."""
        for partition in topic.partitions[first:]:
            index, leader_id = partition.index, partition.leader_id
            if leader_id != partition.replicas[0]:
                self.change(LeaderRecord(topic.name, topic.id, index, leader_id, 0))

    def configure(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        count, assignment = len(topic.partitions), topic.assignment
        self.change(TopicRecord(topic.name, topic.id, count, overrides, assignment))

    def create_acl(self, acl: Acl) -> None:
        if acl not in self.security.acls:
            self.change(AclRecord(acl))

    def delete_acl(self, acl: Acl) -> None:
        if acl in self.security.acls:
            self.change(AclDeletedRecord(acl))

    def delete(self, topic: Topic, on_removed: OnDurable = lambda _error: None) -> None:
        """Delete the topic. `on_removed` receives the error, or None once all data is removed."""
        self._deleting[topic.name] = topic
        self.change(TopicDeletedRecord(topic.name))
        self._group_commit.on_durable(
            self._registry_log, lambda error: self._on_deletion_durable(topic, on_removed, error)
        )

    def forget_deleted_names(self, names: Iterable[str]) -> None:
        """Remove the names of deleted topics whose data is completely removed."""
        for name in names:
            is_used = (
                self.is_being_deleted(name)
                or self._folders.has_failed(name)
                or self.has_leftovers(name)
            )
            if name in self.deleted_names and not is_used:
                self.change(TopicPurgedRecord(name))

    def elect_leader(self, topic: Topic, partition: Partition, leader_id: int) -> None:
        """Make a node the leader, in a new epoch. With NO_LEADER, the partition has no leader."""
        before_id, epoch = partition.leader_id, partition.leader_epoch + 1
        self.change(LeaderRecord(topic.name, topic.id, partition.index, leader_id, epoch))
        self._on_leader_changed(topic, partition, before_id)

    def _on_leader_changed(self, topic: Topic, partition: Partition, before_id: int) -> None:
        # Wake up clients waiting at the previous leader.
        partition.delayed_fetches.complete_all()
        if partition.leader_id != before_id:
            self.on_leader_change(topic, partition, before_id)

    def allocate_producer_id(self) -> int:
        """Allocate a producer id. The caller may respond with the id only once it is durable."""
        producer_id = self._next_producer_id
        if producer_id >= self._producer_ids_end:
            self._reserve_producer_ids()
        self._next_producer_id = producer_id + 1
        return producer_id

    @property
    def has_durable_producer_id(self) -> bool:
        """Whether the next producer id is durably reserved, so that it is not allocated again after
        a crash. It may then be stored in other logs immediately."""
        return self._next_producer_id < self._durable_producer_ids_end

    def reserve_producer_ids(self, callback: OnDurable) -> None:
        """Call `callback` once a producer id is durably reserved, or with the OSError."""
        if self._next_producer_id >= self._producer_ids_end:
            self._reserve_producer_ids()
        self.on_durable(callback)

    def _reserve_producer_ids(self) -> None:
        end = self._next_producer_id + PRODUCER_IDS_PER_RECORD

        def on_durable(error: OSError | None) -> None:
            if error is None:
                self._durable_producer_ids_end = end

        self.change(ProducerIdsRecord(end))
        self._group_commit.on_durable(self._registry_log, on_durable)

    def new_topic_id(self) -> uuid.UUID:
        # As with Kafka's Uuid.randomUuid, ids never start with "-".
        while (id_ := self._new_id()) in self._by_id or id_.bytes[0] >> 2 == 62:
            continue
        return id_

    def close(self) -> None:
        """Close every open log without syncing."""
        for topic in (*self, *self._deleting.values(), *self._removing.values()):
            for partition in topic.partitions:
                partition.close()
        self._registry_log.close()

    # --- records

    def _apply(self, record: RegistryRecord) -> None:
        self.version += 1
        match record:
            case TopicRecord():
                self._apply_topic(record)
            case TopicDeletedRecord(name):
                self._remove_topic(name)
                self.deleted_names.add(name)
            case TopicPurgedRecord(name):
                self.deleted_names.discard(name)
            case LeaderRecord():
                self._apply_leader(record)
            case BrokerConfigRecord(resource, configs):
                self.configs.configure_broker(resource, configs)
                self._configure_topics()
                self.on_broker_config_change()
            case GroupConfigRecord(group_id, configs):
                self.configs.configure_group(group_id, configs)
            case ClientMetricsRecord(name, configs):
                self.configs.configure_client_metrics(name, configs)
            case ProducerIdsRecord(end):
                self._producer_ids_end = end
            case _:
                self.security.apply(record)

    def _configure_topics(self) -> None:
        """Apply new defaults to all topics. Topics with the same overrides share their settings,
        because computing them takes 0.1 ms."""
        settings: dict[tuple[tuple[str, str], ...], dict[int, TopicSettings]] = {}
        for topic in self:
            shared = settings.setdefault(tuple(topic.overrides.items()), {})
            topic.configure(topic.overrides, shared)

    def _apply_topic(self, record: TopicRecord) -> None:
        topic = self._by_name.get(record.name)
        if topic is not None and topic.id != record.id:
            self._remove_topic(record.name)
            topic = None
        if topic is None:
            topic = Topic(record.name, record.id, self.configs)
            self.created_version = self.version
            self._by_name[topic.name] = self._by_id[topic.id] = topic
            self.deleted_names.discard(topic.name)
            self._by_collision_key[collision_key(topic.name)] = (
                *self.colliding_topics(topic.name),
                topic.name,
            )
        topic.configure(record.configs)
        if record.assignment != topic.assignment:
            topic.assignment = record.assignment
            for partition in topic.partitions:
                replicas = self.nodes.replicas(partition.index, topic.assignment)
                if replicas != partition.replicas:
                    self._reassign(topic, partition, replicas)
        durable_reads_only = topic.is_reserved and self._group_commit.durability == "fsync"
        for index in range(len(topic.partitions), record.partitions):
            replicas = self.nodes.replicas(index, topic.assignment)
            leader_id = self.nodes.elect(replicas)
            partition = Partition(
                f"{topic.name}-{index}",
                index,
                self.folder,
                self._files,
                topic.settings_at(leader_id),
                self.checkpoints,
                replicas=replicas,
                isr=self.nodes.in_sync(replicas),
                leader_id=leader_id,
                durable_reads_only=durable_reads_only,
            )
            topic.partitions.append(partition)

    def _reassign(self, topic: Topic, partition: Partition, replicas: tuple[int, ...]) -> None:
        added = {*replicas}.difference(partition.replicas)
        if added or not partition.isr:
            isr = tuple(sorted(self.nodes.in_sync(replicas)))
        else:
            isr = tuple(each for each in partition.isr if each in replicas)
        # As in Kafka, added and removed replicas both count until the reassignment is complete.
        partition.replicas += tuple(added)
        partition.set_isr(isr, topic.min_isr)
        partition.replicas = replicas

    def _apply_leader(self, record: LeaderRecord) -> None:
        topic = self._by_id.get(record.topic_id)
        partition = None if topic is None else topic.partition(record.partition)
        if topic is None or partition is None:
            return  # the topic has since been deleted
        leader_id, epoch = record.leader_id, record.epoch
        is_electable = leader_id in self.nodes.up and leader_id in partition.replicas
        if not is_electable and (leader_id != NO_LEADER or self._is_starting):
            # All nodes are up when the registry is opened, so every partition gets a leader. The
            # log may have been written with a different set of nodes, or a crash may have prevented
            # the election after a reassignment.
            leader_id = self.nodes.elect(partition.replicas)
            epoch += leader_id != record.leader_id
        topic.set_leader(partition, leader_id, epoch)

    def _remove_topic(self, name: str) -> None:
        topic = self._by_name.pop(name, None)
        if topic is None:
            return
        del self._by_id[topic.id]
        colliding = tuple(each for each in self.colliding_topics(name) if each != name)
        if colliding:
            self._by_collision_key[collision_key(name)] = colliding
        else:
            del self._by_collision_key[collision_key(name)]
        for partition in topic.partitions:
            partition.delayed_fetches.complete_all()

    def _on_deletion_durable(
        self, topic: Topic, on_removed: OnDurable, error: OSError | None
    ) -> None:
        def removed() -> None:
            del self._removing[topic.name]
            self.forget_deleted_names((topic.name,))
            on_removed(None)

        if error is None:
            self._removing[topic.name] = self._deleting.pop(topic.name)
            self.on_deleted(topic.name, lambda: self._folders.remove(topic.partitions, removed))
        else:
            on_removed(error)  # the deletion was undone, or will be undone once the log can be read

    # --- reading and undoing

    def _replay(self, stored: Iterable[RegistryRecord]) -> None:
        for record in stored:
            self._apply(record)
        self._is_starting = False
        for topic in self:
            self._use_write_ahead(topic)
        self._next_producer_id = self._durable_producer_ids_end = self._producer_ids_end

    def _recover_again(self) -> None:
        """Retry a failed recovery, because the disk may work again."""
        if self._now_ms() >= self._retry_ms:
            self._undo_if_failed(LogFailed(str(self._registry_log.failed)))

    def _undo_if_failed(self, error: OSError | None) -> None:
        """After a failed write, restore the state from the log. Callbacks receive the error."""
        if error is None or self._last_failure is error:
            return
        self._last_failure = error  # every change in a failed flush reports the same error
        before = [*self, *self._deleting.values()]
        self._group_commit.fail_pending(self._registry_log, error)
        leaders = {each: each.leader_id for topic in before for each in topic.partitions}
        try:
            is_synced = self._group_commit.durability == "fsync"
            self._registry_log = recover_registry(self._registry_log, is_synced=is_synced)
            stored = latest_records(read_registry(self._registry_log))
        except (OSError, LogError, UndecodableRegistryRecord) as second:
            _log.error("Failed to recover the log of the topic registry: %s", second)
            self._registry_log.failed = error  # the next change fails as well, and retries
            self._retry_ms = self._now_ms() + RETRY_FAILED_MS
            self._undo_creations()
            return
        self.version += 1  # the log may be empty
        for topic in before:
            self._remove_topic(topic.name)
        self.deleted_names.clear()
        self.configs.clear()
        self.security.clear()
        self._replay(stored)
        self.on_broker_config_change()
        self.security.on_client_quota_change(None)
        for topic in before:
            # Keep existing Partition objects, because other objects reference them and their logs.
            restored = self._by_id.get(topic.id)
            removed = restored.adopt(topic.partitions) if restored else topic.partitions
            self._close_removed(topic, removed)
        self._creating.clear()
        self._deleting.clear()
        for topic in self:
            for partition in topic.partitions:
                if (before_id := leaders.get(partition, NO_LEADER)) != partition.leader_id:
                    self._on_leader_changed(topic, partition, before_id)

    def _undo_creations(self) -> None:
        """Remove the new topics and partitions while the log cannot be recovered. Otherwise, a
        restart could lose records acknowledged in them. Other changes are undone later."""
        creating, self._creating = self._creating, {}
        self.version += 1
        for (topic_id, first), topic in creating.items():
            removed = topic.partitions[first:]
            if first:
                del topic.partitions[first:]
            elif topic_id in self._by_id:
                self._remove_topic(topic.name)
            if topic.is_reserved and not first:
                # The next creation removes its folders, which contain only rejected records.
                self.deleted_names.add(topic.name)
            self._close_removed(topic, removed)

    def _close_removed(self, topic: Topic, removed: Iterable[Partition]) -> None:
        """Close the partitions of an undone creation, and unload their coordinators."""
        for partition in removed:
            partition.is_deleted = True
            partition.close()
            before_id, partition.leader_id = partition.leader_id, NO_LEADER
            self._on_leader_changed(topic, partition, before_id)


def _assignment(topic: Topic) -> Assignment:
    """Return the replicas of every partition, including nodes that do not currently exist."""
    stored = topic.assignment
    return (*stored, *(each.replicas for each in topic.partitions[len(stored) :]))
