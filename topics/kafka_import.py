"""Imports topics from a data directory written by Kafka, keeping their ids.

Done once, while the registry is empty; afterwards the registry is authoritative. The clean-shutdown
marker and the recovery points are removed so that a Kafka broker started here later checks every
log. If they reappear, Kafka has used the directory since, and cache files may be stale.

Kafka's controller stores its topics in the log `__cluster_metadata-0`:

    value   frame version uvarint 1, record type uvarint, version uvarint, fields
    type    2 topic: name, id            3 partition: index int32, topic id, ...
            4 configuration: resource type int8 (2 topic), resource, key, nullable value
            9 topic removed: id          15 producer ids: broker int32, its epoch int64, next int64

Fields are flexible (compact strings); fields after those listed are ignored. A snapshot
(`OFFSET-EPOCH.checkpoint`) contains batches like the log's; the log continues where it ends.
Upstream: metadata/src/main/resources/common/metadata, MetadataRecordSerde, Snapshots.
"""

import logging
import re
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..log.batch import BatchBuilder, check, split
from ..log.cache_files import remove_cache_files
from ..log.checkpoint import read_last_leader_epoch, read_topic_id
from ..log.errors import LogError
from ..log.files import Files
from ..log.log import Log
from ..log.records import records
from ..log.tasks import run_synchronously
from ..protocol.primitives import Reader
from .config_def import InvalidConfigValue
from .configs import Configs, offsets_topic, validate_overrides
from .names import OFFSETS_TOPIC, REGISTRY_TOPIC, topic_name_error
from .registry_log import LeaderRecord, ProducerIdsRecord, RegistryRecord, TopicRecord, encode
from .topic import NO_LEADER

_log = logging.getLogger("kohort.topics")

METADATA_FOLDER: Final = "__cluster_metadata-0"
_PARTITION: Final = re.compile(r"(.+)-(\d+)", re.ASCII)
# Internal topics of coordinators that kohort lacks.
_UNSUPPORTED_TOPICS: Final = frozenset({"__transaction_state", "__share_group_state"})
_MISLEADING_FILES: Final = (".kafka_cleanshutdown", "recovery-point-offset-checkpoint")
_UNLIMITED_RETENTION: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
# Start of producer ids if Kafka's allocation is unknown: far above what Kafka (1,000 at a time from
# 0) can have reached.
PRODUCER_IDS_UNKNOWN: Final = 1 << 40

# --- the import


def import_kafka_folder(
    registry_log: Log,
    folder: Path,
    files: Files,
    configs: Configs,
    new_id: Callable[[], uuid.UUID],
    now_ms: int,
) -> None:
    """Import the topics found in the folder into the empty registry. Must run before the registry
    is read. Skipped data is logged. Raises OSError, LogError."""
    misleading = [name for name in _MISLEADING_FILES if files.exists(folder / name)]
    is_new = not registry_log.end_offset
    partitions = _list_partitions(folder, files) if is_new or misleading else {}
    for name, indexes in partitions.items():
        for index in indexes:
            # May have been compacted by Kafka.
            run_synchronously(remove_cache_files(folder / f"{name}-{index}", files))
    for name in misleading:
        files.remove(folder / name)
    if misleading:
        files.sync_folder(folder)
    if partitions and is_new:
        imported = _records(partitions, folder, files, configs, new_id)
        # One batch: all of them or none.
        batch = BatchBuilder()
        batch.add_all(map(encode, imported), now_ms)
        registry_log.append(batch.finish(0))
        registry_log.sync()
        topics = sum(isinstance(record, TopicRecord) for record in imported)
        _log.warning("%s has no kohort registry: imported %d topics", folder, topics)


def _list_partitions(folder: Path, files: Files) -> dict[str, list[int]]:
    """Topic -> partitions, judged by the folders. The offsets topic comes first."""
    partitions: dict[str, list[int]] = {}
    for name in files.list(folder):
        match = _PARTITION.fullmatch(name)
        if match and name != METADATA_FOLDER and match[1] != REGISTRY_TOPIC:
            partitions.setdefault(match[1], []).append(int(match[2]))
    return dict(sorted(partitions.items(), key=lambda each: each[0] != OFFSETS_TOPIC))


def _records(
    partitions: Mapping[str, list[int]],
    folder: Path,
    files: Files,
    configs: Configs,
    new_id: Callable[[], uuid.UUID],
) -> list[RegistryRecord]:
    metadata = _try_read_metadata(folder, files)
    imported: list[RegistryRecord] = []
    for name, indexes in partitions.items():
        if name in _UNSUPPORTED_TOPICS or topic_name_error(name):
            _log_skipped(name, "the broker does not support a topic of this name")
            continue
        known = None if metadata is None else metadata.topics.get(name)
        if metadata is not None and known is None:
            _log_skipped(name, "Kafka's metadata does not contain the topic")
            continue
        id_ = _topic_id(name, indexes, known, folder, files) or new_id()
        count = max([*(index + 1 for index in indexes), known.partitions if known else 0])
        if count > len(indexes):
            missing = count - len(indexes)
            _log.warning("%d of %d partitions of %s are missing", missing, count, name)
        imported.append(TopicRecord(name, id_, count, _overrides(name, known, configs)))
        for index in sorted(indexes):
            # Clients reject epochs lower than those they have seen from Kafka.
            epoch = _last_epoch(folder / f"{name}-{index}", files)
            imported.append(LeaderRecord(name, id_, index, NO_LEADER, epoch))
    producer_ids_end = metadata.producer_ids_end if metadata else PRODUCER_IDS_UNKNOWN
    imported.append(ProducerIdsRecord(producer_ids_end))
    return imported


def _try_read_metadata(folder: Path, files: Files) -> "KafkaMetadata | None":
    metadata, reason = None, f"there is no {METADATA_FOLDER}"
    try:
        metadata = read_metadata(folder, files)
    except LogError as error:
        reason = str(error)
    if metadata is None:
        _log.warning(
            "Topic configurations are not imported, and records are retained forever: %s", reason
        )
    elif metadata.skipped:
        _log.warning("Kafka's %s are not imported", ", ".join(sorted(metadata.skipped)))
    return metadata


def _log_skipped(topic: str, reason: str) -> None:
    _log.warning("%s is not imported, its folders stay as they are: %s", topic, reason)


def _topic_id(
    name: str, indexes: list[int], known: "KafkaTopic | None", folder: Path, files: Files
) -> uuid.UUID | None:
    """Determine the topic id from the metadata and the partition folders; None if unknown."""
    ids = {read_topic_id(folder / f"{name}-{index}", files) for index in indexes}
    if known is not None:
        ids.add(known.id)
    ids.discard(None)
    if len(ids) > 1:
        shown = sorted(map(str, ids))
        raise LogError(f"the folders {name}-… belong to several topics: {shown}")
    return ids.pop() if ids else None


def _overrides(name: str, known: "KafkaTopic | None", configs: Configs) -> dict[str, str]:
    if known is None:
        # Unknown retention: keep everything.
        is_offsets_topic = name == OFFSETS_TOPIC
        return offsets_topic(configs.broker)[1] if is_offsets_topic else dict(_UNLIMITED_RETENTION)
    valid: dict[str, str] = {}
    for key, text in known.configs.items():
        try:
            valid = validate_overrides(configs, {**valid, key: text})
        except InvalidConfigValue as error:
            _log.warning("%s=%s of %s is not imported: %s", key, text, name, error)
    return valid


def _last_epoch(folder: Path, files: Files) -> int:
    """Return the last leader epoch in Kafka's checkpoint, otherwise in the log."""
    if (epoch := read_last_leader_epoch(folder, files)) is not None:
        return epoch
    log = Log.open(folder, files, read_only=True)
    try:
        return max(log.leader_epochs())[0]
    finally:
        log.close()


# --- the metadata of Kafka's controller

_SNAPSHOT: Final = re.compile(r"\d{20}-\d{10}\.checkpoint", re.ASCII)
_TOPIC, _PARTITION_RECORD, _CONFIG, _REMOVED, _PRODUCER_IDS = 2, 3, 4, 9, 15
_RESOURCE_TOPIC = 2
_SKIPPED = {10: "delegation tokens", 11: "SCRAM users", 14: "quotas", 18: "ACLs"}
_SKIPPED_CONFIGS = "configurations of brokers, groups or client metrics"
# Kafka's controller stores it for every broker (KIP-966), and so does kohort.
_CLUSTER_CONFIG = "min.insync.replicas"


@dataclass
class KafkaTopic:
    name: str
    id: uuid.UUID
    configs: dict[str, str]
    partitions: int = 0


class KafkaMetadata:
    """Metadata of a Kafka cluster. `topics`: by name; `producer_ids_end`: ids below it may be
    allocated; `skipped`: other kinds of metadata found, for logging."""

    def __init__(self) -> None:
        self.topics: dict[str, KafkaTopic] = {}
        self.producer_ids_end = 0
        self.skipped: set[str] = set()
        self._by_id: dict[uuid.UUID, KafkaTopic] = {}
        self._configs: defaultdict[str, dict[str, str]] = defaultdict(dict)

    def apply(self, value: bytes) -> None:
        """Apply a record. Raises ValueError or KeyError if it is undecodable."""
        fields = Reader(value, flexible=True)
        fields.unsigned_varint()
        kind, _ = fields.unsigned_varint(), fields.unsigned_varint()
        if kind == _TOPIC:
            name, id_ = fields.string(), uuid.UUID(bytes=fields.uuid())
            self.topics[name] = self._by_id[id_] = KafkaTopic(name, id_, self._configs[name])
        elif kind == _PARTITION_RECORD:
            index = fields.int32()
            topic = self._by_id[uuid.UUID(bytes=fields.uuid())]
            topic.partitions = max(topic.partitions, index + 1)
        elif kind == _CONFIG:
            is_topic = fields.int8() == _RESOURCE_TOPIC
            name, key, text = fields.string(), fields.string(), fields.nullable_string()
            if is_topic and text is not None:
                self._configs[name][key] = text
            elif is_topic:
                self._configs[name].pop(key, None)
            elif key != _CLUSTER_CONFIG:
                self.skipped.add(_SKIPPED_CONFIGS)
        elif kind == _REMOVED:
            name = self._by_id.pop(uuid.UUID(bytes=fields.uuid())).name
            del self.topics[name]
            self._configs.pop(name, None)
        elif kind == _PRODUCER_IDS:
            fields.int32()
            fields.int64()
            self.producer_ids_end = fields.int64()
        elif kind in _SKIPPED:
            self.skipped.add(_SKIPPED[kind])


def read_metadata(data_folder: Path, files: Files) -> KafkaMetadata | None:
    """Read the metadata in a data folder; None if it has none. Raises OSError, LogError."""
    folder = data_folder / METADATA_FOLDER
    if not files.exists(folder):
        return None
    metadata = KafkaMetadata()
    for batch in _batches(folder, files):
        for record in records(batch):
            try:
                metadata.apply(record.value or b"")
            except (KeyError, ValueError) as error:
                raise LogError(f"{folder}: record {record.offset} is undecodable") from error
    return metadata


def _batches(folder: Path, files: Files) -> Iterator[bytes]:
    """Yield the batches with records, starting with the newest snapshot."""
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
