"""`kohort log compact`: keep only the latest record of each key, in a folder that no broker uses.

A broker compacts closed segments when enough of them is dirty. This command compacts everything,
including the active segment, which it closes first.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ...broker.config.broker_config import BrokerConfig
from ...log.checkpoint import PartitionCheckpoints
from ...log.cleaner import CleanerConfig, clean
from ...log.errors import FolderInUse, LogError
from ...log.files import DiskFiles, Files, lock_folder
from ...log.log import Log, LogConfig
from ...log.recovery import ValidBatch, scan_segment
from ...log.tasks import run_synchronously
from ...topics.configs import Configs, TopicSettings
from ...topics.names import OFFSETS_TOPIC, REGISTRY_TOPIC
from ...topics.registry_log import (
    BrokerConfigRecord,
    TopicDeletedRecord,
    TopicRecord,
    UndecodableRegistryRecord,
    check_registry,
    read_registry,
)
from .. import output
from ..errors import UserError
from .partition_logs import PartitionLog, find_logs

IN_USE: Final = """\
{reason} Stop it first, or let it compact the topic at once: `kafka-configs --bootstrap-server \
HOST:PORT --alter --entity-type topics --entity-name TOPIC \
--add-config min.cleanable.dirty.ratio=0.01`."""


class Row(NamedTuple):
    """The result for one partition; the pairs are before and after."""

    partition: str
    records: tuple[int, int]
    size: tuple[int, int]
    segments: tuple[int, int]


def run(args: argparse.Namespace) -> int:
    """0, or 1 if a log is corrupt, after all others were compacted. Raises UserError."""
    logs = find_logs(args.path)
    if logs[0].segment is not None:
        raise UserError(
            f"{args.path} is a segment: give the folder, a log is compacted as a whole."
        )
    folder = logs[0].folder.parent
    files = DiskFiles()
    try:
        lock = lock_folder(folder, files, program="kohort log compact")
    except FolderInUse as error:
        reason, _, _ = str(error).partition(". ")
        raise UserError(IN_USE.format(reason=f"{reason}.")) from error
    except PermissionError as error:
        raise UserError(f"{error.filename} is not writable: permission denied.") from error
    try:
        return _compact_all(args.path, logs, folder, files)
    finally:
        lock.release()


def _compact_all(path: Path, logs: list[PartitionLog], folder: Path, files: Files) -> int:
    try:
        settings = topic_settings(folder, files)
    except (LogError, UndecodableRegistryRecord) as error:
        raise UserError(f"the topic registry in {folder} cannot be read: {error}.") from error
    compacted = [log for log in logs if log.topic in settings and settings[log.topic].compacted]
    if not compacted:
        raise UserError(
            f"{path} has no topic with cleanup.policy=compact. Compacting another topic would "
            "delete records without a key, and all but the latest record of each key."
        )
    checkpoints = PartitionCheckpoints(folder, files)
    rows, corrupt = [], False
    for log in compacted:
        try:
            rows.append(compact(log, settings[log.topic], checkpoints, files))
        except (LogError, OSError) as error:
            corrupt = True
            print(f"# {log.name} was not compacted: {error}", file=sys.stderr)
    if rows:
        print(table(rows), end="")
    return 1 if corrupt else 0


def topic_settings(folder: Path, files: Files) -> Mapping[str, TopicSettings]:
    """By topic, from the registry in the data folder; a server.properties file is unknown here.

    Raises OSError, LogError, UnreadableRecord.
    """
    configs = Configs(BrokerConfig(), BrokerConfig().node_id)
    overrides: dict[str, Mapping[str, str]] = {OFFSETS_TOPIC: {"cleanup.policy": "compact"}}
    registry = folder / f"{REGISTRY_TOPIC}-0"
    if files.exists(registry):
        # Behind corrupt bytes a topic's policy may have changed from compact to delete.
        check_registry(folder, files)
        log = Log.open(registry, files, read_only=True)
        for record in read_registry(log):
            match record:
                case TopicRecord(name):
                    overrides[name] = record.configs
                case TopicDeletedRecord(name):
                    overrides.pop(name, None)
                case BrokerConfigRecord(resource, values):
                    configs.dynamic[resource] = dict(values)
        log.close()
    return {name: configs.settings(values) for name, values in overrides.items()}


def compact(
    partition: PartitionLog,
    settings: TopicSettings,
    checkpoints: PartitionCheckpoints,
    files: Files,
) -> Row:
    """Compact the whole log of a partition. Raises OSError, LogError."""
    config = LogConfig(
        segment_bytes=settings.segment_bytes, index_interval_bytes=settings.index_interval_bytes
    )
    defaults = BrokerConfig()
    cleaner_config = CleanerConfig(
        now_ms=time.time_ns() // 1_000_000,
        delete_retention_ms=settings.delete_retention_ms,
        segment_bytes=settings.segment_bytes,
        dedupe_buffer_bytes=defaults.int("log.cleaner.dedupe.buffer.size"),
        producer_expiration_ms=defaults.int("producer.id.expiration.ms"),
    )
    start_offset = checkpoints.start_offsets.get(partition.name)
    _check_not_corrupt(partition, files)
    log = Log.open(partition.folder, files, config, start_offset=start_offset)
    try:
        size, segments = log.size, len(log.segments)
        log.roll()
        first_dirty, end = log.start_offset, log.segments[-1].base_offset
        before = 0
        # Each pass reads the dirty part, then everything.
        with output.progress(partition.name, 2 * log.size) as advance:
            while True:
                result = run_synchronously(clean(log, first_dirty, end, cleaner_config, advance))
                before = before or result.records_before
                if result.end_offset in (first_dirty, end):
                    break
                first_dirty = result.end_offset  # the dedupe buffer was full
        log.sync()
        checkpoints.cleaned_offsets.set(partition.name, result.end_offset)
        return Row(
            partition.name,
            (before, result.records_after),
            (size, log.size),
            (segments, len(log.segments) - (not log.segments[-1].size)),
        )
    finally:
        log.close()


def _check_not_corrupt(partition: PartitionLog, files: Files) -> None:
    """Raise LogError if opening the log for writing would truncate more than a torn tail."""
    log = Log.open(partition.folder, files, read_only=True)
    try:
        last = log.segments[-1]  # where the log ends if it is opened
        continues = any(base > last.base_offset for base in partition.segments()) or any(
            isinstance(item, ValidBatch) or item.next_offset is not None
            for item in scan_segment(
                last.open(), last.base_offset, position=last.size, offset=last.end_offset
            )
        )
        end_offset = last.end_offset
    finally:
        log.close()
    if continues:
        raise LogError(
            f"it is corrupt at offset {end_offset}, with valid batches behind that; see "
            f"`kohort log verify {partition.folder}`, and repair it with `kohort log repair`"
        )


def table(rows: list[Row]) -> str:
    """One line per partition, and the sums if there are several."""
    if len(rows) > 1:
        sums = [
            tuple(sum(each[at] for each in column) for at in (0, 1))
            for column in zip(*(row[1:] for row in rows), strict=True)
        ]
        rows = [*rows, Row("all", *((pair[0], pair[1]) for pair in sums))]
    heads = ("partition", "records", "after", "bytes", "after", "segments", "after")
    lines = [(row.partition, *(f"{n:,}" for pair in row[1:] for n in pair)) for row in rows]
    return "".join(f"{line}\n" for line in output.table([heads, *lines], right=heads[1:]))
