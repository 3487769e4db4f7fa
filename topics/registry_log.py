"""The registry's log: records, opening, compaction, and the check for corruption.

Records are JSON for readability. A key identifies an object, and the newest record of a key wins.
"""

import base64
import json
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from ..log.batch import BatchBuilder, check
from ..log.errors import LogError, UnsupportedMagic
from ..log.files import File, Files
from ..log.log import Log, LogConfig
from ..log.records import records
from ..log.recovery import Corruption, header_at, scan_segment
from ..log.segment import base_offset_of, is_zero_from
from ..log.segment_swap import write_swap
from .acls import Acl, AclOperation, AclPermission, AclResourceType, PatternType
from .names import REGISTRY_TOPIC
from .scram import ScramCredential, ScramMechanism

_log = logging.getLogger("kohort.topics")

# --- records


Assignment: TypeAlias = tuple[tuple[int, ...], ...]
"""The replicas of each partition of a topic, preferred leader first. If empty, every node is a
replica of every partition."""


class TopicRecord(NamedTuple):
    """The topic exists, with this many partitions, these overrides and this assignment."""

    name: str
    id: uuid.UUID
    partitions: int
    configs: Mapping[str, str]
    assignment: Assignment = ()


class TopicDeletedRecord(NamedTuple):
    name: str


class TopicPurgedRecord(NamedTuple):
    """A deleted topic's data (folders, offsets) was removed. Its name is no longer stored."""

    name: str


class LeaderRecord(NamedTuple):
    """The leader of a partition since `epoch`. `topic_id` distinguishes topics of the same name."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    leader_id: int
    epoch: int


class BrokerConfigRecord(NamedTuple):
    """Dynamic broker configs. `resource` is a node id, or "" for every broker."""

    resource: str
    configs: Mapping[str, str]


class GroupConfigRecord(NamedTuple):
    """Configs of a group, empty if it has none."""

    group_id: str
    configs: Mapping[str, str]


class ClientMetricsRecord(NamedTuple):
    """A client metrics subscription (KIP-714). `configs` is empty if it was deleted."""

    name: str
    configs: Mapping[str, str]


QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""The clients to which a quota applies, as pairs of type and name, sorted by type. The types are
user and client-id, or ip. The name None stands for all clients without a separate quota."""


class ClientQuotaRecord(NamedTuple):
    """Quotas of an entity by key, empty if it has none."""

    entity: QuotaEntity
    quotas: Mapping[str, float]


class AclRecord(NamedTuple):
    """The ACL exists."""

    acl: Acl


class AclDeletedRecord(NamedTuple):
    acl: Acl


class ProducerIdsRecord(NamedTuple):
    """Producer ids below `end` are reserved: some may have been allocated."""

    end: int


class ScramCredentialRecord(NamedTuple):
    """The SCRAM credential of a user for one mechanism, or None if it was deleted."""

    user: str
    mechanism: ScramMechanism
    credential: ScramCredential | None


SecurityRecord = ClientQuotaRecord | AclRecord | AclDeletedRecord | ScramCredentialRecord

RegistryRecord = (
    TopicRecord
    | TopicDeletedRecord
    | TopicPurgedRecord
    | LeaderRecord
    | BrokerConfigRecord
    | GroupConfigRecord
    | ClientMetricsRecord
    | ProducerIdsRecord
    | SecurityRecord
)


class UndecodableRegistryRecord(Exception):
    """A record that this version of kohort cannot decode. The message contains its key."""


def encode(record: RegistryRecord) -> tuple[bytes, bytes | None]:
    """Return (key, value). A value of None is a tombstone."""
    match record:
        case TopicRecord(name, id_, partitions, configs, assignment):
            value = {"id": str(id_), "partitions": partitions, "configs": dict(configs)}
            replicas = {"replicas": assignment} if assignment else {}
            return _json({"topic": name}), _json({**value, **replicas})
        case TopicDeletedRecord(name):
            return _json({"topic": name}), None
        case TopicPurgedRecord(name):
            return _json({"topic": name}), _json({"gone": True})
        case LeaderRecord(name, id_, partition, leader_id, epoch):
            value = {"id": str(id_), "leader": leader_id, "epoch": epoch}
            return _json({"leader": f"{name}-{partition}"}), _json(value)
        case BrokerConfigRecord(resource, configs):
            return _json({"broker": resource}), _json({"configs": dict(configs)})
        case GroupConfigRecord(name, configs) | ClientMetricsRecord(name, configs):
            kind = "group" if isinstance(record, GroupConfigRecord) else "client_metrics"
            return _json({kind: name}), _json({"configs": dict(configs)}) if configs else None
        case ClientQuotaRecord(entity, quotas):
            key = _json({"quota": dict(entity)})
            return key, _json({"quotas": dict(quotas)}) if quotas else None
        case AclRecord(acl):
            return _acl_key(acl), _json({})
        case AclDeletedRecord(acl):
            return _acl_key(acl), None
        case ProducerIdsRecord(end):
            return _json({"producer_ids": "reserved"}), _json({"end": end})
        case ScramCredentialRecord(user, mechanism, credential):
            key = _json({"scram": f"{mechanism.name}:{user}"})
            return key, None if credential is None else _json(_credential_json(credential))


def _credential_json(credential: ScramCredential) -> dict[str, Any]:
    values = credential._asdict().items()
    return {
        name: base64.b64encode(each).decode() if isinstance(each, bytes) else each
        for name, each in values
    }


def _acl_key(acl: Acl) -> bytes:
    return _json({"acl": [each.name if isinstance(each, IntEnum) else each for each in acl]})


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()


def decode(key: bytes | None, value: bytes | None) -> RegistryRecord:
    """Decode a record. Raises UndecodableRegistryRecord."""
    try:
        ((kind, name),) = json.loads(key or b"").items()
        decoder = _DECODERS.get(kind)
        if decoder is not None:
            return decoder(name, None if value is None else json.loads(value))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise UndecodableRegistryRecord(f"registry record {key!r} is undecodable") from error
    raise UndecodableRegistryRecord(f"registry record {key!r} is of an unknown kind")


def _decode_topic(name: str, content: Any) -> RegistryRecord:
    if content is None:
        return TopicDeletedRecord(name)
    if "gone" in content:
        return TopicPurgedRecord(name)
    id_ = uuid.UUID(content["id"])
    assignment = tuple(tuple(map(int, replicas)) for replicas in content.get("replicas", ()))
    return TopicRecord(name, id_, int(content["partitions"]), content["configs"], assignment)


def _decode_leader(name: str, content: Any) -> RegistryRecord:
    topic, _, partition = name.rpartition("-")
    id_, leader_id = uuid.UUID(content["id"]), int(content["leader"])
    return LeaderRecord(topic, id_, int(partition), leader_id, int(content["epoch"]))


def _decode_scram(name: str, content: Any) -> RegistryRecord:
    mechanism, _, user = name.partition(":")
    credential = None
    if content is not None:
        salt, stored_key, server_key = (
            base64.b64decode(content[field], validate=True)
            for field in ("salt", "stored_key", "server_key")
        )
        credential = ScramCredential(salt, int(content["iterations"]), stored_key, server_key)
    return ScramCredentialRecord(user, ScramMechanism[mechanism], credential)


def _decode_acl(fields: Any, content: Any) -> RegistryRecord:
    type_, name, pattern_type, principal, host, operation, permission = fields
    acl = Acl(
        AclResourceType[type_],
        name,
        PatternType[pattern_type],
        principal,
        host,
        AclOperation[operation],
        AclPermission[permission],
    )
    return AclDeletedRecord(acl) if content is None else AclRecord(acl)


def _decode_quota(name: Any, content: Any) -> RegistryRecord:
    entity = tuple(sorted(name.items()))
    return ClientQuotaRecord(entity, {} if content is None else content["quotas"])


def _configs(content: Any) -> dict[str, str]:
    configs: dict[str, str] = {} if content is None else content["configs"]
    return configs


_DECODERS: Final[Mapping[str, Callable[[Any, Any], RegistryRecord]]] = {
    "topic": _decode_topic,
    "leader": _decode_leader,
    "broker": lambda name, content: BrokerConfigRecord(name, content["configs"]),
    "group": lambda name, content: GroupConfigRecord(name, _configs(content)),
    "client_metrics": lambda name, content: ClientMetricsRecord(name, _configs(content)),
    "acl": _decode_acl,
    "quota": _decode_quota,
    "scram": _decode_scram,
    "producer_ids": lambda _name, content: ProducerIdsRecord(int(content["end"])),
}
"""Maps each kind of record to its function decode(name, content). The content of a tombstone is
None."""


def read_registry(log: Log) -> Iterator[RegistryRecord]:
    """Yield all records. Raises UndecodableRegistryRecord, OSError and LogError."""
    for header, batch in log.batches():
        if header.is_control:
            continue
        for stored in records(batch):
            try:
                yield decode(stored.key, stored.value)
            except UndecodableRegistryRecord as error:
                raise UndecodableRegistryRecord(f"{error} (offset {stored.offset})") from error


# --- opening and compaction

# Smaller logs are read within 20 ms, and are not compacted.
COMPACTION_RECORDS_MIN: Final = 1_000


def open_registry(folder: Path, files: Files, truncate_to: int | None = None) -> Log:
    config = LogConfig(segment_bytes=64 * 1024 * 1024)
    return Log.open(folder, files, config, truncate_to=truncate_to)


def recover_registry(log: Log, *, is_synced: bool) -> Log:
    """Recover the log after a failed write, which is discarded. Raises OSError and LogError."""
    if is_synced:
        log.reopen()
    elif log.failed is not None:
        # Without syncs, the OS holds all valid bytes. If a failed write could not be truncated, its
        # bytes follow them.
        end_offset = log.end_offset
        log.close()
        log = open_registry(log.folder, log.files, end_offset)
    return log


def compact_registry(log: Log, now_ms: int) -> tuple[Log, list[RegistryRecord]]:
    """Rewrite the log, by an atomic segment swap, if most of its records are obsolete. The log is
    read completely at startup, and would otherwise contain every topic that ever existed. Return
    the log and the live records. Raises OSError, LogError and UndecodableRegistryRecord."""
    stored = list(read_registry(log))
    latest = latest_records(stored)
    if len(stored) < COMPACTION_RECORDS_MIN or len(stored) < 2 * len(latest):
        return log, latest
    folder, files = log.folder, log.files
    # Never leave the log empty, because an empty registry means a new data folder.
    kept = latest or [ProducerIdsRecord(0)]
    # Keep the end offset, so that the new segment replaces all other segments.
    first_offset = log.end_offset - len(kept)
    base_offset = log.segments[0].base_offset
    log.close()
    try:
        batches = [_batch(each, first_offset + n, now_ms) for n, each in enumerate(kept)]
        write_swap(folder, files, base_offset, b"".join(batches))
    except OSError as error:
        _log.warning("Failed to compact the topic registry: %s", error)
    return open_registry(folder, files), latest


def _batch(record: RegistryRecord, offset: int, now_ms: int) -> bytes:
    """Return a batch with only this record. A corrupt last batch is truncated as a torn write,
    which should lose only one record."""
    batch = BatchBuilder()
    batch.add(*encode(record), now_ms)
    return batch.finish(offset)


def latest_records(stored: Iterable[RegistryRecord]) -> list[RegistryRecord]:
    """Return the live records in canonical order: topics by creation, leaders after their topic."""
    latest: dict[tuple[Any, ...], RegistryRecord] = {}
    for record in stored:
        key = _key(record)
        before = latest.get(key)
        match record:
            case TopicRecord(_, id_, partitions):
                if isinstance(before, TopicRecord) and before.id == id_:
                    record = record._replace(partitions=max(partitions, before.partitions))
                else:
                    latest.pop(key, None)  # another topic, created later
            case TopicPurgedRecord() if isinstance(before, TopicDeletedRecord):
                del latest[key]
                continue
            case LeaderRecord() if not _topic_exists(record, latest):
                continue
            case (
                GroupConfigRecord(_, content)
                | ClientMetricsRecord(_, content)
                | ClientQuotaRecord(_, content)
                | ScramCredentialRecord(credential=content)
            ) if not content:
                latest.pop(key, None)
                continue
            case AclDeletedRecord():
                latest.pop(key, None)
                continue
        if not isinstance(record, TopicPurgedRecord):
            latest[key] = record
    return [
        each
        for each in latest.values()
        if not isinstance(each, LeaderRecord) or _topic_exists(each, latest)
    ]


def _key(record: RegistryRecord) -> tuple[Any, ...]:
    match record:
        case TopicRecord(name) | TopicDeletedRecord(name) | TopicPurgedRecord(name):
            return TopicRecord, name
        case LeaderRecord():
            return LeaderRecord, record.topic_id, record.partition
        case AclRecord(acl) | AclDeletedRecord(acl):
            return AclRecord, acl
        case ProducerIdsRecord():
            return (ProducerIdsRecord,)
        case ScramCredentialRecord(user, mechanism):
            return ScramCredentialRecord, user, mechanism
        case _:
            return type(record), record[0]


def _topic_exists(leader: LeaderRecord, latest: dict[tuple[Any, ...], RegistryRecord]) -> bool:
    topic = latest.get((TopicRecord, leader.topic))
    return (
        isinstance(topic, TopicRecord)
        and topic.id == leader.topic_id
        and leader.partition < topic.partitions
    )


# --- corruption


class CorruptRegistry(LogError):
    """Part of the registry is corrupt, other than a torn write at its end."""


def check_registry(folder: Path, files: Files) -> None:
    """Raise CorruptRegistry if the registry of a data folder is corrupt anywhere but at its end.
    The log is only read, because opening the log would truncate it at the corruption and lose later
    topics. A torn tail is accepted, because with fsync, the requests that wrote it were not
    acknowledged. Raises OSError."""
    registry = folder / f"{REGISTRY_TOPIC}-0"
    names = [name for name in files.list(registry) if base_offset_of(name) is not None]
    for name in names:
        with (
            suppress(UnsupportedMagic),  # reported when the log is opened
            closing(files.open(registry / name, read_only=True)) as file,
        ):
            items = scan_segment(file, int(name[:20]))
            corruption = next((each for each in items if isinstance(each, Corruption)), None)
            if corruption and (name != names[-1] or not _is_torn_tail(file, corruption)):
                raise CorruptRegistry(
                    "the topic registry is corrupt, and the topics after the corruption "
                    f"would be lost: {registry.name}/{name}: {corruption.reason} "
                    f"(at byte {corruption.position})"
                )


def _is_torn_tail(file: File, corruption: Corruption) -> bool:
    """Whether the corrupt batch is the last one written."""
    if corruption.next_offset is not None:
        return False
    header = header_at(file, corruption.position)
    if header is None:
        return True  # the batch is cut off, or its length is unknown
    batch = file.read(corruption.position, header.size)
    try:
        check(batch, 0, len(batch))
    except LogError:
        # A torn batch may be followed by preallocated zeros.
        return is_zero_from(file, corruption.position + header.size)
    return False  # only the offsets of the batch are wrong
