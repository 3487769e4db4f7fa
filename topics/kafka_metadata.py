"""Reads the metadata of Kafka's controller, in the log `__cluster_metadata-0`.

    value   frame version uvarint 1, record type uvarint, version uvarint, fields
    type    2 topic: name, id            3 partition: index int32, topic id, ...
            4 configuration: resource type int8 (2 topic, 4 broker, 16 client metrics, 32 group),
              resource, key, nullable value
            9 topic removed: id          15 producer ids: broker int32, its epoch int64, next int64
           11 SCRAM credential: user, mechanism int8, salt, stored key, server key, iterations int32
           22 SCRAM credential removed: user, mechanism int8
           14 client quota: entity [type, nullable name], key, value float64, is removed int8
           18 ACL: id, resource type int8, resource, pattern type int8, principal, host,
              operation int8, permission int8
           19 ACL removed: id

Fields are flexible (compact strings, bytes and arrays). Fields that are not listed are ignored. A
snapshot (`OFFSET-EPOCH.checkpoint`) contains batches like the log, which continues at the end of
the snapshot. Upstream: metadata/src/main/resources/common/metadata, MetadataRecordSerde, Snapshots.
"""

import re
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

from ..log.batch import check, split
from ..log.errors import LogError
from ..log.files import Files
from ..log.log import Log
from ..log.records import records
from ..protocol.primitives import Reader, skip_tagged_fields
from .acls import Acl, AclOperation, AclPermission, AclResourceType, PatternType
from .names import KAFKA_METADATA_TOPIC
from .registry_log import (
    AclRecord,
    ClientMetricsRecord,
    ClientQuotaRecord,
    GroupConfigRecord,
    QuotaEntity,
    ScramCredentialRecord,
    SecurityRecord,
)
from .scram import ScramCredential, ScramMechanism

METADATA_FOLDER: Final = f"{KAFKA_METADATA_TOPIC}-0"

_SNAPSHOT: Final = re.compile(r"\d{20}-\d{10}\.checkpoint", re.ASCII)
_TOPIC, _PARTITION_RECORD, _CONFIG, _REMOVED, _PRODUCER_IDS = 2, 3, 4, 9, 15
_SCRAM, _QUOTA, _ACL, _ACL_REMOVED, _SCRAM_REMOVED = 11, 14, 18, 19, 22
_DELEGATION_TOKEN = 10
_RESOURCE_TOPIC, _RESOURCE_BROKER, _RESOURCE_CLIENT_METRICS, _RESOURCE_GROUP = 2, 4, 16, 32
_DOUBLE: Final = Struct(">d")
_SKIPPED_TOKENS = "delegation tokens"
_SKIPPED_CONFIGS = "configurations of brokers"
# Kafka's controller stores this key for every broker (KIP-966), and so does kohort.
_CLUSTER_CONFIG = "min.insync.replicas"


@dataclass
class KafkaTopic:
    name: str
    id: uuid.UUID
    configs: dict[str, str]
    partitions: int = 0


class KafkaMetadata:
    """Metadata of a Kafka cluster. `topics` is keyed by name. Producer ids below `producer_ids_end`
    may already be in use. `skipped` lists other kinds of metadata that were found, for logging."""

    def __init__(self) -> None:
        self.topics: dict[str, KafkaTopic] = {}
        self.producer_ids_end = 0
        self.skipped: set[str] = set()
        self._credentials: dict[tuple[str, ScramMechanism], ScramCredential] = {}
        self._acls: dict[bytes, Acl] = {}
        self._quotas: defaultdict[QuotaEntity, dict[str, float]] = defaultdict(dict)
        self._by_id: dict[uuid.UUID, KafkaTopic] = {}
        # By resource type and name.
        self._configs: defaultdict[tuple[int, str], dict[str, str]] = defaultdict(dict)

    def apply(self, value: bytes) -> None:
        """Apply a record. Raises ValueError or KeyError if it is undecodable."""
        fields = Reader(value, flexible=True)
        fields.unsigned_varint()
        kind, _ = fields.unsigned_varint(), fields.unsigned_varint()
        if kind == _TOPIC:
            name, id_ = fields.string(), uuid.UUID(bytes=fields.uuid())
            self.topics[name] = self._by_id[id_] = KafkaTopic(
                name, id_, self._configs[_RESOURCE_TOPIC, name]
            )
        elif kind == _PARTITION_RECORD:
            index = fields.int32()
            topic = self._by_id[uuid.UUID(bytes=fields.uuid())]
            topic.partitions = max(topic.partitions, index + 1)
        elif kind == _CONFIG:
            resource = fields.int8(), fields.string()
            key, text = fields.string(), fields.nullable_string()
            if resource[0] == _RESOURCE_BROKER:
                if key != _CLUSTER_CONFIG:
                    self.skipped.add(_SKIPPED_CONFIGS)
            elif text is not None:
                self._configs[resource][key] = text
            else:
                self._configs[resource].pop(key, None)
        elif kind == _REMOVED:
            name = self._by_id.pop(uuid.UUID(bytes=fields.uuid())).name
            del self.topics[name]
            self._configs.pop((_RESOURCE_TOPIC, name), None)
        elif kind == _PRODUCER_IDS:
            fields.int32()
            fields.int64()
            self.producer_ids_end = fields.int64()
        elif kind == _DELEGATION_TOKEN:
            self.skipped.add(_SKIPPED_TOKENS)
        else:
            self._apply_security(kind, fields, value)

    def _apply_security(self, kind: int, fields: Reader, record: bytes) -> None:
        if kind == _SCRAM:
            owner = fields.string(), ScramMechanism(fields.int8())
            salt, stored_key, server_key = (_bytes(fields) for _ in range(3))
            credential = ScramCredential(salt, fields.int32(), stored_key, server_key)
            self._credentials[owner] = credential
        elif kind == _SCRAM_REMOVED:
            del self._credentials[fields.string(), ScramMechanism(fields.int8())]
        elif kind == _QUOTA:
            quotas, key = self._quotas[_quota_entity(fields, record)], fields.string()
            (value,) = _DOUBLE.unpack(fields.take(_DOUBLE.size))
            if fields.int8():
                quotas.pop(key, None)
            else:
                quotas[key] = value
        elif kind == _ACL:
            id_ = fields.uuid()
            self._acls[id_] = Acl(
                AclResourceType(fields.int8()),
                fields.string(),
                PatternType(fields.int8()),
                fields.string(),
                fields.string(),
                AclOperation(fields.int8()),
                AclPermission(fields.int8()),
            )
        elif kind == _ACL_REMOVED:
            del self._acls[fields.uuid()]

    def config_records(self) -> Iterator[GroupConfigRecord | ClientMetricsRecord]:
        """Yield the configurations of groups and client metrics, as records of the registry."""
        for (kind, name), configs in self._configs.items():
            if configs and kind == _RESOURCE_GROUP:
                yield GroupConfigRecord(name, configs)
            elif configs and kind == _RESOURCE_CLIENT_METRICS:
                yield ClientMetricsRecord(name, configs)

    def security_records(self) -> Iterator[SecurityRecord]:
        """Yield the SCRAM credentials, ACLs and client quotas, as records of the registry."""
        for (user, mechanism), credential in self._credentials.items():
            yield ScramCredentialRecord(user, mechanism, credential)
        for acl in self._acls.values():
            yield AclRecord(acl)
        for entity, quotas in self._quotas.items():
            if quotas:
                yield ClientQuotaRecord(entity, quotas)


def _bytes(fields: Reader) -> bytes:
    return fields.take(fields.unsigned_varint() - 1)


def _quota_entity(fields: Reader, buffer: bytes) -> QuotaEntity:
    names: dict[str, str | None] = {}
    for _ in range(fields.unsigned_varint() - 1):
        kind = fields.string()
        names[kind] = fields.nullable_string()
        fields.position = skip_tagged_fields(buffer, fields.position, len(buffer))
    return tuple(sorted(names.items()))


def read_metadata(data_folder: Path, files: Files) -> KafkaMetadata | None:
    """Return the metadata in a data folder, if there is any. Raises OSError and LogError."""
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
    """Yield the batches, except control batches, from the newest snapshot on."""
    names = [name for name in files.list(folder) if _SNAPSHOT.fullmatch(name)]
    start_offset = 0
    if names:
        start_offset = int(names[-1][:20])
        buffer = files.read_bytes(folder / names[-1])
        for position, header in split(buffer):
            batch = buffer[position : position + header.size]
            if not check(batch, 0, len(batch)).is_control:
                yield batch
    with closing(Log.open(folder, files, read_only=True)) as log:
        # A snapshot ends at the end of a batch (upstream: KafkaRaftLog.createNewSnapshot).
        for header, batch in log.batches(max(start_offset, log.start_offset)):
            if not header.is_control:
                yield batch
