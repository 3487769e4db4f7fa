"""A data folder that Kafka wrote, taken over: its topics become the registry's, with their ids.

Done once, when the registry is still empty; from then on the registry alone says what there is.
Nothing is removed but what would mislead a Kafka that is started here later: the word that it was
shut down cleanly, and up to where it need not look again. Then it checks every log, and makes
indexes and producer snapshots that fit what is written from now on. Where these are found again, a
Kafka has been here meanwhile, and what stands beside the logs (log/cache_files.py) may mislead us.
"""

import logging
import re
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ..log.batch import BatchBuilder
from ..log.cache_files import remove_cache_files
from ..log.checkpoint import read_last_leader_epoch, read_topic_id
from ..log.errors import InvalidRecord, LogError
from ..log.files import Files
from ..log.log import Log
from ..log.tasks import run_synchronously
from .config_def import InvalidConfigValue
from .configs import Configs, checked
from .kafka_metadata import FOLDER as METADATA_FOLDER
from .kafka_metadata import KafkaMetadata, KafkaTopic, metadata_in
from .names import OFFSETS_TOPIC, REGISTRY_TOPIC, invalid_name
from .nodes import NO_LEADER
from .offsets_topic import offsets_topic
from .records import LeaderElected, ProducerIdsReserved, RegistryRecord, TopicStored, encode

__all__ = ["take_over"]

_log = logging.getLogger("kohort.topics")

_PARTITION: Final = re.compile(r"(.+)-(\d+)", re.ASCII)
# Of coordinators that there are none of here.
_NOT_SERVED: Final = frozenset({"__transaction_state", "__share_group_state"})
_MISLEADING: Final = (".kafka_cleanshutdown", "recovery-point-offset-checkpoint")
_KEPT_FOR_EVER: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
# Where nobody tells which producer ids Kafka gave away: it gives them from 0 on, a thousand at a
# time, and never comes here.
PRODUCER_IDS_UNKNOWN: Final = 1 << 40


def take_over(
    journal: Log,
    folder: Path,
    files: Files,
    configs: Configs,
    new_id: Callable[[], uuid.UUID],
    now_ms: int,
) -> None:
    """Before the registry is read: writes into its `journal`, if nothing ever was, the topics
    whose partitions lie in the folder. What cannot be taken over is told in the log.

    Raises OSError, LogError.
    """
    misleading = [name for name in _MISLEADING if files.exists(folder / name)]
    is_new = not journal.end_offset
    found = _partitions(folder, files) if is_new or misleading else {}
    for name, indexes in found.items():
        for index in indexes:
            # Whoever was here since may have compacted the log.
            run_synchronously(remove_cache_files(folder / f"{name}-{index}", files))
    for name in misleading:
        files.remove(folder / name)
    if misleading:
        files.sync_folder(folder)
    if found and is_new:
        records = _records(found, folder, files, configs, new_id)
        # One batch: all of them or none.
        batch = BatchBuilder()
        for record in records:
            key, value = encode(record)
            batch.add(key, value, now_ms)
        journal.append(batch.finish(0))
        journal.sync()
        topics = sum(isinstance(record, TopicStored) for record in records)
        _log.warning("%s has no registry of kohort's: %d topics are taken over", folder, topics)


def _records(
    found: Mapping[str, list[int]],
    folder: Path,
    files: Files,
    configs: Configs,
    new_id: Callable[[], uuid.UUID],
) -> list[RegistryRecord]:
    metadata = _metadata(folder, files)
    records: list[RegistryRecord] = []
    for name, indexes in found.items():
        if name in _NOT_SERVED or invalid_name(name):
            _left(name, "no topic of this name is served here")
            continue
        known = None if metadata is None else metadata.topics.get(name)
        if metadata is not None and known is None:
            _left(name, "Kafka's metadata do not know the topic")
            continue
        id_ = _topic_id(name, indexes, known, folder, files) or new_id()
        count = max([*(index + 1 for index in indexes), known.partitions if known else 0])
        if count > len(indexes):
            _log.warning(
                "%d of %d partitions of %s are not here", count - len(indexes), count, name
            )
        records.append(TopicStored(name, id_, count, _overrides(name, known, configs)))
        for index in sorted(indexes):
            # Its epoch is not Kafka's any more: clients take none that is lower than they know.
            epoch = _last_epoch(folder / f"{name}-{index}", files)
            records.append(LeaderElected(name, id_, index, NO_LEADER, epoch))
    producer_ids_end = metadata.producer_ids_end if metadata else PRODUCER_IDS_UNKNOWN
    records.append(ProducerIdsReserved(producer_ids_end))
    return records


def _partitions(folder: Path, files: Files) -> dict[str, list[int]]:
    """Topic -> partitions, by the folders there are. The offsets topic comes first."""
    found: dict[str, list[int]] = {}
    for name in files.list(folder):
        match = _PARTITION.fullmatch(name)
        if match and name != METADATA_FOLDER and match[1] != REGISTRY_TOPIC:
            found.setdefault(match[1], []).append(int(match[2]))
    return dict(sorted(found.items(), key=lambda each: each[0] != OFFSETS_TOPIC))


def _metadata(folder: Path, files: Files) -> KafkaMetadata | None:
    metadata, why = None, f"there is no {METADATA_FOLDER}"
    try:
        metadata = metadata_in(folder, files)
    except (LogError, InvalidRecord) as error:
        why = str(error)
    if metadata is None:
        _log.warning(
            "The configurations of topics are not taken over, their records are kept for ever: %s",
            why,
        )
    elif metadata.others:
        _log.warning("Kafka's %s are not taken over", ", ".join(sorted(metadata.others)))
    return metadata


def _left(topic: str, why: str) -> None:
    _log.warning("%s is not taken over, its folders stay as they are: %s", topic, why)


def _topic_id(
    name: str, indexes: list[int], known: KafkaTopic | None, folder: Path, files: Files
) -> uuid.UUID | None:
    """Told by the metadata and by each partition; None where nobody does."""
    told = [read_topic_id(folder / f"{name}-{index}", files) for index in indexes]
    if known is not None:
        told.append(known.id)
    ids = {each for each in told if each is not None}
    if len(ids) > 1:
        raise LogError(f"the folders {name}-… belong to several topics: {sorted(map(str, ids))}")
    return ids.pop() if ids else None


def _overrides(name: str, known: KafkaTopic | None, configs: Configs) -> dict[str, str]:
    if known is not None:
        return _allowed(name, known.configs, configs)
    # Nobody knows for how long its records were to be kept.
    return offsets_topic(configs.broker)[1] if name == OFFSETS_TOPIC else dict(_KEPT_FOR_EVER)


def _allowed(topic: str, overrides: Mapping[str, str], configs: Configs) -> dict[str, str]:
    allowed: dict[str, str] = {}
    for key, text in overrides.items():
        try:
            allowed = checked(configs, {**allowed, key: text})
        except InvalidConfigValue as error:
            _log.warning("%s=%s of %s is not taken over: %s", key, text, topic, error)
    return allowed


def _last_epoch(folder: Path, files: Files) -> int:
    """Of the leaders that the partition has had. Kafka notes it when one begins, in lines of
    `epoch start`; where that is missing, by what was written."""
    epoch = read_last_leader_epoch(folder, files)
    if epoch is not None:
        return epoch
    log = Log.open(folder, files, read_only=True)
    try:
        return max(log.leader_epochs())[0]
    finally:
        log.close()
