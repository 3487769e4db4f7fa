"""What Kafka's controller wrote down of its topics: the log in `__cluster_metadata-0`.

    value   frame version uvarint 1, record type uvarint, version uvarint, fields
    type    2 topic: name, id            3 partition: index int32, topic id, ...
            4 configuration: resource type int8 (2 topic), resource, key, nullable value
            9 topic removed: id          15 producer ids: broker int32, its epoch int64, next int64

Fields are flexible (compact strings); what is behind those named here is stepped over. A snapshot
(`OFFSET-EPOCH.checkpoint`) holds batches like the log's, and the log goes on where it ends.
Upstream: metadata/src/main/resources/common/metadata, MetadataRecordSerde, Snapshots.
"""

import re
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..log.batch import check, split
from ..log.errors import LogError
from ..log.files import Files
from ..log.log import Log
from ..log.records import records
from ..protocol.primitives import Reader

__all__ = ["FOLDER", "KafkaMetadata", "KafkaTopic", "metadata_in"]

FOLDER: Final = "__cluster_metadata-0"
_SNAPSHOT: Final = re.compile(r"\d{20}-\d{10}\.checkpoint", re.ASCII)
_TOPIC, _PARTITION, _CONFIG, _REMOVED, _PRODUCER_IDS = 2, 3, 4, 9, 15
_RESOURCE_TOPIC = 2
# What else somebody has set, and there is not here.
_NOT_SERVED = {10: "delegation tokens", 11: "SCRAM users", 14: "quotas", 18: "ACLs"}
_OF_OTHERS = "configurations of brokers, groups or client metrics"
# Kafka's controller writes it down for every broker (KIP-966), and so it is here.
_EVERY_CLUSTERS = "min.insync.replicas"


class KafkaTopic:
    __slots__ = ("configs", "id", "name", "partitions")

    def __init__(self, name: str, id_: uuid.UUID) -> None:
        self.name = name
        self.id = id_
        self.partitions = 0
        self.configs: dict[str, str] = {}


class KafkaMetadata:
    """`topics` by name; `producer_ids_end`: every id below it may have been given away; `others`:
    what else there has been, in words."""

    def __init__(self) -> None:
        self.topics: dict[str, KafkaTopic] = {}
        self.producer_ids_end = 0
        self.others: set[str] = set()
        self._by_id: dict[uuid.UUID, KafkaTopic] = {}
        self._configs: defaultdict[str, dict[str, str]] = defaultdict(dict)

    def apply(self, value: bytes) -> None:
        """Raises KeyError, ValueError for what cannot be read."""
        fields = Reader(value, flexible=True)
        fields.unsigned_varint()
        kind, _ = fields.unsigned_varint(), fields.unsigned_varint()
        if kind == _TOPIC:
            name, id_ = fields.string(), uuid.UUID(bytes=fields.uuid())
            self.topics[name] = self._by_id[id_] = topic = KafkaTopic(name, id_)
            topic.configs = self._configs[name]
        elif kind == _PARTITION:
            index = fields.int32()
            topic = self._by_id[uuid.UUID(bytes=fields.uuid())]
            topic.partitions = max(topic.partitions, index + 1)
        elif kind == _CONFIG:
            is_topic = fields.int8() == _RESOURCE_TOPIC
            name, key, text = fields.string(), fields.string(), fields.nullable_string()
            if is_topic:
                self._configure(name, key, text)
            elif key != _EVERY_CLUSTERS:
                self.others.add(_OF_OTHERS)
        elif kind == _REMOVED:
            name = self._by_id.pop(uuid.UUID(bytes=fields.uuid())).name
            del self.topics[name]
            self._configs.pop(name, None)
        elif kind == _PRODUCER_IDS:
            fields.int32(), fields.int64()  # the broker and its epoch
            self.producer_ids_end = fields.int64()
        elif kind in _NOT_SERVED:
            self.others.add(_NOT_SERVED[kind])

    def _configure(self, topic: str, key: str, value: str | None) -> None:
        if value is None:
            self._configs[topic].pop(key, None)
        else:
            self._configs[topic][key] = value


def metadata_in(data_folder: Path, files: Files) -> KafkaMetadata | None:
    """What the folder's metadata come to; None where it has none. Raises OSError, LogError."""
    folder = data_folder / FOLDER
    if not files.exists(folder):
        return None
    metadata = KafkaMetadata()
    for batch in _batches(folder, files):
        for record in records(batch):
            try:
                metadata.apply(record.value or b"")
            except (KeyError, ValueError) as error:
                raise LogError(f"{folder}: record {record.offset} is unreadable") from error
    return metadata


def _batches(folder: Path, files: Files) -> Iterator[bytes]:
    """The batches with records in them, from the newest snapshot on."""
    names = [name for name in files.list(folder) if _SNAPSHOT.fullmatch(name)]
    start_offset = 0
    if names:
        start_offset = int(names[-1][:20])
        buffer = files.read_bytes(folder / names[-1])
        for position, header in split(buffer):
            batch = buffer[position : position + header.size]
            if not check(batch, 0, len(batch)).is_control:
                yield batch
    log = Log.open(folder, files, read_only=True)
    try:
        # A snapshot ends where a batch does (upstream: KafkaRaftLog.createNewSnapshot).
        for header, batch in log.batches(max(start_offset, log.start_offset)):
            if not header.is_control:
                yield batch
    finally:
        log.close()
