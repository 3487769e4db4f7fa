"""Imports topics, configurations, users, ACLs and client quotas from a data directory of Kafka.

Topics keep their ids. The import is done once, while the registry is empty. Afterwards, the
registry is authoritative. The clean-shutdown marker and the recovery points are removed, so that a
Kafka broker that is started later on the directory checks every log. If these files exist again at
a later start, Kafka has used the directory, and kohort's cache files may be stale.
"""

import logging
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from ..log.batch import BatchBuilder
from ..log.cache_files import remove_cache_files
from ..log.checkpoint import read_last_leader_epoch, read_topic_id
from ..log.errors import LogError
from ..log.files import Files
from ..log.log import Log
from ..log.segment import base_offset_of
from ..log.tasks import run_synchronously
from ..printable import shortened
from .configs.client_metrics import validate_subscription
from .configs.config_def import InvalidConfigValue
from .configs.effective import Configs, internal_topic, validate_overrides
from .configs.group_configs import validate_group_overrides
from .kafka_metadata import METADATA_FOLDER, KafkaMetadata, KafkaTopic, read_metadata
from .names import OFFSETS_TOPIC, REGISTRY_TOPIC, is_reserved, topic_name_error
from .registry_log import (
    AclRecord,
    ClientMetricsRecord,
    ClientQuotaRecord,
    GroupConfigRecord,
    LeaderRecord,
    ProducerIdsRecord,
    RegistryRecord,
    ScramCredentialRecord,
    TopicRecord,
    encode,
)
from .topic import NO_LEADER
from .topic_deletion import rename_stray

_log = logging.getLogger("kohort.topics")

_PARTITION: Final = re.compile(r"(.+)-(\d+)", re.ASCII)
# The internal topic of a coordinator that kohort lacks.
_UNSUPPORTED_TOPICS: Final = frozenset({"__share_group_state"})
_MISLEADING_FILES: Final = (".kafka_cleanshutdown", "recovery-point-offset-checkpoint")
_UNLIMITED_RETENTION: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
# The first producer id if Kafka's last one is unknown, far above any id of a Kafka cluster.
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
    """Import the folder if the registry is empty, and remove files that are stale or would mislead
    Kafka. Called before the registry is read. Skipped data is logged. Raises OSError and
    LogError."""
    misleading = [name for name in _MISLEADING_FILES if files.exists(folder / name)]
    is_new = not registry_log.end_offset
    partitions = _list_partitions(folder, files) if is_new or misleading else {}
    # A cluster without topics may have users.
    is_kafkas = bool(partitions) or files.exists(folder / METADATA_FOLDER)
    for name, indexes in partitions.items():
        for index in indexes:
            # Kafka may have compacted the partition.
            run_synchronously(remove_cache_files(folder / f"{name}-{index}", files))
    for name in misleading:
        files.remove(folder / name)
    if misleading:
        files.sync_folder(folder)
    if is_new:
        # After a power failure, the registry must not appear to be empty, because the broker's own
        # partitions would be imported.
        imported: list[RegistryRecord] = [ProducerIdsRecord(0)]
        if is_kafkas:
            imported = _records(partitions, folder, files, configs, new_id)
        # One batch, so that either all records are stored or no record is.
        batch = BatchBuilder()
        batch.add_all(map(encode, imported), now_ms)
        registry_log.append(batch.finish(0))
        registry_log.sync()
        if is_kafkas:
            _log.warning("%s contains no kohort registry: imported %s", folder, _counts(imported))


def _counts(imported: Iterable[RegistryRecord]) -> str:
    counts = Counter(type(record) for record in imported)
    kinds: dict[str, type] = {
        "topics": TopicRecord,
        "SCRAM credentials": ScramCredentialRecord,
        "ACLs": AclRecord,
        "entities with quotas": ClientQuotaRecord,
        "groups with configurations": GroupConfigRecord,
        "client metrics subscriptions": ClientMetricsRecord,
    }
    shown = (f"{counts[kind]} {name}" for name, kind in kinds.items() if counts[kind])
    return ", ".join(shown) or "nothing"


def _list_partitions(folder: Path, files: Files) -> dict[str, list[int]]:
    """Return the partitions by topic, according to the folders. The offsets topic comes first.
    Other folders may have such names (`logs-2024`), but only partitions have segments."""
    partitions: dict[str, list[int]] = {}
    for name in files.list(folder):
        match = _PARTITION.fullmatch(name)
        if not match or name == METADATA_FOLDER or match[1] == REGISTRY_TOPIC:
            continue
        if any(base_offset_of(file) is not None for file in files.list(folder / name)):
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
        ids = {index: read_topic_id(folder / f"{name}-{index}", files) for index in indexes}
        id_ = known.id if known else _topic_id(name, ids) or new_id()
        for index in [each for each in indexes if ids[each] not in (None, id_)]:
            # The topic was deleted and recreated.
            rename_stray(folder / f"{name}-{index}", files)
            indexes.remove(index)
        count = max([*(index + 1 for index in indexes), known.partitions if known else 0])
        if count > len(indexes):
            missing = count - len(indexes)
            _log.warning("%d of %d partitions of %s are missing", missing, count, name)
        imported.append(TopicRecord(name, id_, count, _overrides(name, known, configs)))
        for index in sorted(indexes):
            # Clients reject epochs that are lower than epochs they have seen from Kafka.
            epoch = _last_epoch(folder / f"{name}-{index}", files)
            imported.append(LeaderRecord(name, id_, index, NO_LEADER, epoch))
    if metadata is not None and (absent := sorted(metadata.topics.keys() - partitions.keys())):
        _log.warning("Topics without a folder are not imported: %s", shortened(", ".join(absent)))
    producer_ids_end = metadata.producer_ids_end if metadata else PRODUCER_IDS_UNKNOWN
    imported.append(ProducerIdsRecord(producer_ids_end))
    if metadata is not None:
        imported += _configs(metadata, configs)
        imported += metadata.security_records()
    return imported


def _try_read_metadata(folder: Path, files: Files) -> KafkaMetadata | None:
    metadata, reason = None, f"{METADATA_FOLDER} does not exist"
    try:
        metadata = read_metadata(folder, files)
    except LogError as error:
        reason = str(error)
    if metadata is None:
        _log.warning(
            "Configurations, users, ACLs and quotas are not imported, and records are "
            "retained forever: %s",
            reason,
        )
    elif metadata.skipped:
        _log.warning("Kafka's %s are not imported", ", ".join(sorted(metadata.skipped)))
    return metadata


def _log_skipped(topic: str, reason: str) -> None:
    _log.warning("%s is not imported, and its folders are left unchanged: %s", topic, reason)


def _topic_id(name: str, ids: Mapping[int, uuid.UUID | None]) -> uuid.UUID | None:
    """Return the topic id in the folders of the partitions, or None if it is unknown."""
    known = {f"{name}-{index}": id_ for index, id_ in ids.items() if id_ is not None}
    if len({*known.values()}) > 1:
        shown = ", ".join(f"{folder} to {id_}" for folder, id_ in known.items())
        raise LogError(
            f"folders of {name} belong to different topics: move those of the deleted topic "
            f"elsewhere ({shortened(shown)})"
        )
    return next(iter(known.values()), None)


def _overrides(name: str, known: KafkaTopic | None, configs: Configs) -> dict[str, str]:
    if known is None:
        # The retention is unknown, so all records are kept.
        if is_reserved(name):
            return internal_topic(configs.broker, name)[1]
        return dict(_UNLIMITED_RETENTION)
    valid: dict[str, str] = {}
    for key, text in known.configs.items():
        try:
            valid = validate_overrides(configs, {**valid, key: text})
        except InvalidConfigValue as error:
            _log.warning("%s=%s of %s is not imported: %s", key, text, name, error)
    return valid


def _configs(
    metadata: KafkaMetadata, configs: Configs
) -> Iterator[GroupConfigRecord | ClientMetricsRecord]:
    """Yield the configurations of groups and client metrics that kohort accepts."""
    for record in metadata.config_records():
        name, overrides = record
        try:
            if isinstance(record, GroupConfigRecord):
                validate_group_overrides(configs.broker, overrides)
            else:
                validate_subscription(overrides)
        except InvalidConfigValue as error:
            _log.warning("The configurations of %s are not imported: %s", shortened(name), error)
        else:
            yield record


def _last_epoch(folder: Path, files: Files) -> int:
    """Return the last leader epoch in Kafka's checkpoint, or else in the log."""
    if (epoch := read_last_leader_epoch(folder, files)) is not None:
        return epoch
    with closing(Log.open(folder, files, read_only=True)) as log:
        return max(log.leader_epochs())[0]
