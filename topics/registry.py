"""Which topics exist. What the registry knows is what its log says: `_apply` is the only writer,
live and when the log is read.

A change is decided, gathered for the log and applied in one breath; `on_durable` tells when it is
durable. Until then a deleted topic's folders stay, so that nothing is lost if the write fails. Its
name is free again once nothing is left of it.
"""

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from ..log.checkpoint import PartitionCheckpoints
from ..log.errors import LogError
from ..log.files import Files
from ..log.group_commit import GroupCommit, OnDurable
from .configs import Configs
from .journal import compacted, mended, newest, opened
from .kafka_import import take_over
from .names import OFFSETS_TOPIC, REGISTRY_TOPIC, collision_key
from .nodes import NO_LEADER, Nodes
from .offsets_topic import offsets_topic
from .partition import Partition
from .records import (
    BrokerConfigsStored,
    LeaderElected,
    ProducerIdsReserved,
    RegistryRecord,
    TopicDeleted,
    TopicGone,
    TopicStored,
    UnreadableRecord,
    encode,
    stored_in,
)
from .removal import Removal
from .topic import Topic

__all__ = ["Topics"]

_log = logging.getLogger("kohort.topics")

# As Kafka's ProducerIdsBlock: one durable record per thousand ids; a restart skips the rest.
PRODUCER_IDS_RESERVED: Final = 1000


class Topics:
    """Every topic, in the order they were made.

    `folder`: the data folder. `new_id` gives topic ids; `in_turn` calls back in another turn of the
    loop. Opening raises OSError, LogError, UnreadableRecord.
    """

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
        in_turn: Callable[[Callable[[], None]], object],
    ) -> None:
        self.configs = configs
        self.nodes = nodes
        self.folder = folder
        self._files = files
        self._group_commit = group_commit
        self._new_id = new_id
        self._now_ms = now_ms
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[uuid.UUID, Topic] = {}
        self._by_collision_key: dict[str, str] = {}
        # Deleted, and the record of it is not durable yet; after that, until nothing is left.
        self._leaving, self._removing = dict[str, Topic](), dict[str, Topic]()
        self.deleted: set[str] = set()
        """The names that topics have had and none has any more, as long as something may be left of
        such a topic."""
        self._next_producer_id = self._producer_ids_end = 0
        self._watched: object = None
        self.checkpoints = PartitionCheckpoints(folder, files)
        self._removal = Removal(
            folder, files, group_commit, self.checkpoints, self.deleted, in_turn
        )
        # Told of a topic's name when its deletion is durable; calls back when the name can be had
        # again, for all that others have kept for it is gone.
        self.on_deleted: Callable[[str, Callable[[], None]], None] = lambda _name, gone: gone()
        # Whether others may still have kept something for a deleted topic of that name.
        self.is_kept: Callable[[str], bool] = lambda _name: False
        # Told of a partition that another node leads now, and of the node that led it before.
        self.on_moved: Callable[[Topic, Partition, int], None] = lambda *_: None
        # Another one after each change: what was found out about topics holds as long as it does.
        self.version = 0
        self._journal = opened(folder / f"{REGISTRY_TOPIC}-0", files)
        take_over(self._journal, folder, files, configs, self.fresh_id, now_ms())
        self._journal, stored = compacted(self._journal, now_ms())
        self._replay(stored)
        self._removal.clear_all(self.deleted)

    # --- looking

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

    def is_leaving(self, name: str) -> bool:
        """Whether a topic of this name is being deleted right now, and its name not free yet."""
        return name in self._leaving or name in self._removing

    def colliding(self, name: str) -> str | None:
        """The other topic whose name differs from `name` in '.' and '_' alone."""
        return self._by_collision_key.get(collision_key(name))

    def on_durable(self, callback: OnDurable) -> None:
        """Tell when everything decided so far is durable; at once if it is, or cannot be."""
        if (error := self._journal.failed) is not None:
            callback(error)
        else:
            self._group_commit.on_durable(self._journal, callback)

    def disk_space(self) -> tuple[int, int]:
        """Bytes of the volume that the data is on, and how many are left; -1: unknown."""
        return self._files.disk_space(self.folder)

    # --- changing: what clients may do is decided in admin.py

    def ensure_offsets_topic(self) -> Topic:
        """The offsets topic, made if it is not there yet; `on_durable` tells when it is durable."""
        topic = self._by_name.get(OFFSETS_TOPIC)
        if topic is None:
            topic = self.create(OFFSETS_TOPIC, *offsets_topic(self.configs.broker))
        return topic

    def create(self, name: str, partitions: int, overrides: Mapping[str, str]) -> Topic:
        """Raises OSError when folders of that name cannot be removed, or set aside."""
        self._make_room(name, range(partitions))
        self._change(TopicStored(name, self.fresh_id(), partitions, overrides))
        self._store_leaders(topic := self._by_name[name], 0)
        return topic

    def grow(self, topic: Topic, partitions: int) -> None:
        """Raises OSError as `create` does."""
        self._make_room(topic.name, range(len(topic.partitions), partitions))
        count = len(topic.partitions)
        self._change(TopicStored(topic.name, topic.id, partitions, topic.overrides))
        self._store_leaders(topic, count)

    def _store_leaders(self, topic: Topic, first: int) -> None:
        """Where the preferred one is down: it may be up when the log is read."""
        for each in topic.partitions[first:]:
            if each.leader_id != self.nodes.replicas(each.index)[0]:
                self._change(LeaderElected(topic.name, topic.id, each.index, each.leader_id, 0))

    def _make_room(self, name: str, indexes: range) -> None:
        for index in indexes:
            self._removal.clear(f"{name}-{index}")

    def configure(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        self._change(TopicStored(topic.name, topic.id, len(topic.partitions), overrides))

    def configure_broker(self, resource: str, configs: Mapping[str, str]) -> None:
        """`resource`: a node id, or "" for every broker."""
        self._change(BrokerConfigsStored(resource, configs))

    def delete(self, topic: Topic, gone: OnDurable = lambda _error: None) -> None:
        """`gone` is told when nothing is left of the topic, or why it is still there."""
        self._leaving[topic.name] = topic
        self._change(TopicDeleted(topic.name))
        self._group_commit.on_durable(
            self._journal, lambda error: self._deleted(topic, gone, error)
        )

    def let_go(self, names: Iterable[str]) -> None:
        """Forgets the names of those deleted topics of which nothing is left, here or elsewhere."""
        for name in names:
            is_left = self.is_leaving(name) or name in self._removal.left or self.is_kept(name)
            if name in self.deleted and not is_left:
                self._change(TopicGone(name))

    def elect(self, topic: Topic, partition: Partition, leader_id: int) -> None:
        """Let another node lead the partition (NO_LEADER: none)."""
        before_id, epoch = partition.leader_id, partition.leader_epoch + 1
        self._change(LeaderElected(topic.name, topic.id, partition.index, leader_id, epoch))
        self._moved(topic, partition, before_id)

    def _moved(self, topic: Topic, partition: Partition, before_id: int) -> None:
        # Who waits for its records at the node that led it has to ask the other one.
        partition.waiters.wake_all()
        self.on_moved(topic, partition, before_id)

    def take_producer_id(self) -> int:
        """An id that was never given before; to be told when it is durable."""
        producer_id = self._next_producer_id
        if producer_id >= self._producer_ids_end:
            self._change(ProducerIdsReserved(producer_id + PRODUCER_IDS_RESERVED))
        self._next_producer_id = producer_id + 1
        return producer_id

    def close(self) -> None:
        """Closes every open log without syncing."""
        for topic in (*self, *self._leaving.values(), *self._removing.values()):
            for partition in topic.partitions:
                partition.close()
        self._journal.close()

    # --- the journal

    def _change(self, record: RegistryRecord) -> None:
        self._group_commit.append(self._journal, (encode(record),), self._now_ms())
        self._apply(record)
        # Before anyone else who waits for this: a failed write is undone when they are told.
        self._group_commit.on_durable(self._journal, self._undo_if_failed)

    def _apply(self, record: RegistryRecord) -> None:
        self.version += 1
        match record:
            case TopicStored():
                self._apply_stored(record)
            case TopicDeleted(name):
                self._forget(name)
                self.deleted.add(name)
            case TopicGone(name):
                self.deleted.discard(name)
            case LeaderElected():
                self._apply_elected(record)
            case BrokerConfigsStored(resource, configs):
                self.configs.dynamic[resource] = dict(configs)
                for topic in self:
                    topic.configure(topic.overrides)
            case ProducerIdsReserved(end):
                self._producer_ids_end = end

    def _apply_stored(self, record: TopicStored) -> None:
        topic = self._by_name.get(record.name)
        if topic is not None and topic.id != record.id:
            self._forget(record.name)
            topic = None
        if topic is None:
            topic = Topic(record.name, record.id, self.configs)
            self._by_name[topic.name] = self._by_id[topic.id] = topic
            self.deleted.discard(topic.name)
            self._by_collision_key[collision_key(topic.name)] = topic.name
        topic.configure(record.configs)
        hides_undurable = topic.is_internal and self._group_commit.durability == "fsync"
        for index in range(len(topic.partitions), record.partitions):
            name, leader_id = f"{topic.name}-{index}", self.nodes.elected(index)
            partition = Partition(
                name,
                index,
                self.folder / name,
                self._files,
                topic.settings_at(leader_id),
                self.checkpoints,
                leader_id=leader_id,
                hides_undurable=hides_undurable,
                write_ahead=self._group_commit.write_ahead if topic.is_internal else None,
            )
            topic.partitions.append(partition)

    def _apply_elected(self, record: LeaderElected) -> None:
        topic = self._by_id.get(record.topic_id)
        partition = None if topic is None else topic.partition(record.partition)
        if topic is None or partition is None:
            return  # of a topic that was deleted since
        leader_id, epoch = record.leader_id, record.epoch
        if leader_id not in self.nodes.up:
            # There may be other nodes now than when this was written.
            leader_id = self.nodes.elected(partition.index)
            epoch += leader_id != record.leader_id
        topic.lead(partition, leader_id, epoch)

    def _forget(self, name: str) -> None:
        self.version += 1
        topic = self._by_name.pop(name, None)
        if topic is None:
            return
        del self._by_id[topic.id], self._by_collision_key[collision_key(name)]
        for partition in topic.partitions:
            partition.waiters.wake_all()

    def _deleted(self, topic: Topic, gone: OnDurable, error: OSError | None) -> None:
        def over() -> None:
            del self._removing[topic.name]
            self.let_go((topic.name,))
            gone(None)

        if error is None:
            self._removing[topic.name] = self._leaving.pop(topic.name)
            self.on_deleted(topic.name, lambda: self._removal.remove(iter(topic.partitions), over))
        else:
            gone(error)  # it is back, or will be once the log can be read

    def fresh_id(self) -> uuid.UUID:
        """One that no topic has."""
        # Kafka gives no ids whose text begins with "-", like a flag's (Uuid.randomUuid).
        while (id_ := self._new_id()) in self._by_id or id_.bytes[0] >> 2 == 62:
            continue
        return id_

    # --- reading and undoing

    def _replay(self, stored: Iterable[RegistryRecord]) -> None:
        for record in stored:
            self._apply(record)
        self._next_producer_id = self._producer_ids_end

    def _undo_if_failed(self, error: OSError | None) -> None:
        """After a failed write: back to what the log says. The callers of `on_durable`
        receive the error."""
        if error is None or self._watched is error:
            return
        self._watched = error  # one failed round tells every change that was in it
        _log.error("The registry of topics could not be written: %s", error)
        before = [*self, *self._leaving.values()]
        self._group_commit.fail_pending(self._journal, error)
        leaders = {each: each.leader_id for topic in before for each in topic.partitions}
        try:
            self._journal = mended(self._journal, self._group_commit.durability)
            stored = newest(stored_in(self._journal))
        except (OSError, LogError, UnreadableRecord) as still:
            _log.error("The registry's log cannot be recovered: %s", still)
            self._journal.failed = error  # so that the next change fails too, and tries again
            return
        for topic in before:
            self._forget(topic.name)
        self.deleted.clear()
        self.configs.dynamic.clear()
        self._replay(stored)
        for topic in before:
            # Others hold partitions and their open logs; two logs on one file would be its end.
            restored = self._by_id.get(topic.id)
            for partition in restored.take_over(topic.partitions) if restored else topic.partitions:
                partition.close()
        self._leaving.clear()
        for topic in self:
            for partition in topic.partitions:
                if (before_id := leaders.get(partition, NO_LEADER)) != partition.leader_id:
                    self._moved(topic, partition, before_id)
