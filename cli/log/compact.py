"""`kohort log compact`: keep only the latest record of each key, in a folder that no broker uses.

A broker compacts closed segments when enough of their bytes are dirty. This command closes the
active segment and compacts everything.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from ...broker.config.broker_config import BrokerConfig
from ...log.checkpoint import PartitionCheckpoints
from ...log.cleaner import CleanerConfig, clean
from ...log.errors import FolderInUse, LogError
from ...log.files import DISK, Files, lock_folder
from ...log.log import Log, LogConfig
from ...log.recovery import ValidBatch, scan_segment
from ...log.tasks import run_synchronously
from ...topics.configs.effective import Configs, TopicSettings
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
{reason} Stop it first, or make it compact the topic: `kafka-configs --bootstrap-server HOST:PORT \
--alter --entity-type topics --entity-name TOPIC --add-config min.cleanable.dirty.ratio=0.01`."""
COLUMNS: Final = ("partition", "records", "after", "bytes", "after", "segments", "after")


def run(args: argparse.Namespace) -> int:
    """Compact the logs of all topics with cleanup.policy=compact; return 1 if a log could not be
    compacted, otherwise 0. Raises UserError."""
    logs = find_logs(args.path)
    if logs[0].segment is not None:
        raise UserError(f"{args.path} is a segment: pass the folder of the whole log.")
    folder = logs[0].folder.parent
    files = DISK
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
        configs, settings = stored_configs(folder, files)
    except (LogError, UndecodableRegistryRecord) as error:
        raise UserError(f"the topic registry in {folder} cannot be read: {error}.") from error
    compacted = [log for log in logs if log.topic in settings and settings[log.topic].compacted]
    if not compacted:
        raise UserError(
            f"{path} has no topic with cleanup.policy=compact. Compacting another topic would "
            "delete records without a key, and all but the latest record of each key."
        )
    checkpoints = PartitionCheckpoints(folder, files)
    rows: dict[str, Sequence[int]] = {}
    corrupt = False
    for log in compacted:
        try:
            rows[log.name] = compact(log, configs, settings[log.topic], checkpoints, files)
        except (LogError, OSError) as error:
            corrupt = True
            print(f"# {log.name} was not compacted: {error}", file=sys.stderr)
    if rows:
        print(table(rows), end="")
    return 1 if corrupt else 0


def stored_configs(folder: Path, files: Files) -> tuple[Configs, Mapping[str, TopicSettings]]:
    """Return the configuration, and the settings of topics, from the registry in the data folder. A
    server.properties file is not read. Raises OSError, LogError and UndecodableRegistryRecord."""
    configs = Configs(BrokerConfig(), BrokerConfig().node_id)
    overrides: dict[str, Mapping[str, str]] = {OFFSETS_TOPIC: {"cleanup.policy": "compact"}}
    registry = folder / f"{REGISTRY_TOPIC}-0"
    if files.exists(registry):
        # Corrupt bytes may contain a change of a topic's policy from compact to delete.
        check_registry(folder, files)
        with closing(Log.open(registry, files, read_only=True)) as log:
            for record in read_registry(log):
                match record:
                    case TopicRecord(name):
                        overrides[name] = record.configs
                    case TopicDeletedRecord(name):
                        overrides.pop(name, None)
                    case BrokerConfigRecord(resource, values):
                        configs.configure_broker(resource, values)
    return configs, {name: configs.settings(values) for name, values in overrides.items()}


def compact(
    partition: PartitionLog,
    configs: Configs,
    settings: TopicSettings,
    checkpoints: PartitionCheckpoints,
    files: Files,
) -> tuple[int, ...]:
    """Compact the whole log of a partition. Return the numbers for COLUMNS after `partition`.
    Raises OSError and LogError."""
    config = LogConfig(
        segment_bytes=settings.segment_bytes, index_interval_bytes=settings.index_interval_bytes
    )
    cleaner_config = CleanerConfig(
        now_ms=time.time_ns() // 1_000_000,
        delete_retention_ms=settings.delete_retention_ms,
        segment_bytes=settings.segment_bytes,
        dedupe_buffer_bytes=configs.broker_number("log.cleaner.dedupe.buffer.size"),
        producer_expiration_ms=configs.broker_number("producer.id.expiration.ms"),
    )
    start_offset = checkpoints.start_offsets.get(partition.name)
    _check_not_corrupt(partition, files)
    with closing(Log.open(partition.folder, files, config, start_offset=start_offset)) as log:
        if not log.segments:  # all records are below the start offset
            return 0, 0, 0, 0, 0, 0
        size, segments = log.size, len(log.segments)
        log.roll()
        first_dirty, end = log.start_offset, log.segments[-1].base_offset
        before = 0
        # Each pass reads the dirty part, and then the whole log.
        with output.progress(partition.name, 2 * log.size) as advance:
            while True:
                result = run_synchronously(clean(log, first_dirty, end, cleaner_config, advance))
                before = before or result.records_before
                if result.end_offset in (first_dirty, end):
                    break
                first_dirty = result.end_offset  # the dedupe buffer was full
        log.sync()
        checkpoints.cleaned_offsets.set(partition.name, result.end_offset)
        segments_after = len(log.segments) - (not log.segments[-1].size)
        return before, result.records_after, size, log.size, segments, segments_after


def _check_not_corrupt(partition: PartitionLog, files: Files) -> None:
    """Raise LogError if opening the log for writing would truncate more than a torn tail."""
    with closing(Log.open(partition.folder, files, read_only=True)) as log:
        last = log.segments[-1]  # the log as opened ends in this segment
        continues = any(base > last.base_offset for base in partition.segments()) or any(
            isinstance(item, ValidBatch) or item.next_offset is not None
            for item in scan_segment(
                last.open(), last.base_offset, position=last.size, offset=last.end_offset
            )
        )
    if continues:
        raise LogError(
            f"it is corrupt at offset {last.end_offset}, with valid batches after that; see "
            f"`kohort log verify {partition.folder}`, and repair it with `kohort log repair`"
        )


def table(rows: Mapping[str, Sequence[int]]) -> str:
    """Format one line per partition. If there are several partitions, add a line with the sums."""
    if len(rows) > 1:
        rows = {**rows, "all": [sum(column) for column in zip(*rows.values(), strict=True)]}
    lines = [(name, *(f"{number:,}" for number in numbers)) for name, numbers in rows.items()]
    return "".join(f"{line}\n" for line in output.table([COLUMNS, *lines], right=COLUMNS[1:]))
