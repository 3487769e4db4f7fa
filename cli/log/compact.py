"""`kohort log compact`: of each key the newest record stays, in a folder that no broker is using.

A broker does the same by itself, when it pays; here all of it is done at once, the active segment
included, which is closed for it.
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
from ...topics.records import (
    BrokerConfigsStored,
    TopicDeleted,
    TopicStored,
    UnreadableRecord,
    stored_in,
)
from ...topics.registry_check import check_registry
from .. import output
from ..errors import UserError
from .sources import Source, sources

IN_USE: Final = """\
{reason} A broker compacts by itself what its topics let it: make one ask for more, with \
`kafka-configs --bootstrap-server HOST:PORT --alter --entity-type topics --entity-name TOPIC \
--add-config min.cleanable.dirty.ratio=0.01`, or stop the broker first."""


class Row(NamedTuple):
    """What came of one partition; each pair is before and after."""

    partition: str
    records: tuple[int, int]
    size: tuple[int, int]
    segments: tuple[int, int]


def run(args: argparse.Namespace) -> int:
    """0, or 1 when a log is damaged, after all others. Raises UserError."""
    found = sources(args.path)
    if found[0].segment is not None:
        raise UserError(
            f"{args.path} is a segment, and a log is compacted as a whole: give the folder."
        )
    folder = found[0].folder.parent
    files = DiskFiles()
    try:
        lock = lock_folder(folder, files, program="kohort log compact")
    except FolderInUse as error:
        reason, _, _ = str(error).partition(". ")
        raise UserError(IN_USE.format(reason=f"{reason}.")) from error
    except PermissionError as error:
        raise UserError(f"{error.filename} may not be written by this user.") from error
    try:
        return _compact(args.path, found, folder, files)
    finally:
        lock.release()


def _compact(path: Path, found: list[Source], folder: Path, files: Files) -> int:
    try:
        known = settings_in(folder, files)
    except (LogError, UnreadableRecord) as error:
        raise UserError(f"The registry of topics in {folder} cannot be read: {error}.") from error
    wanted = [source for source in found if source.topic in known and known[source.topic].compacted]
    if not wanted:
        raise UserError(
            f"{path} has nothing to compact: no topic there has cleanup.policy=compact. Of any "
            "other, records without a key, and all but one of each key, would be lost."
        )
    checkpoints = PartitionCheckpoints(folder, files)
    rows, damaged = [], False
    for source in wanted:
        try:
            rows.append(compacted(source, known[source.topic], checkpoints, files))
        except (LogError, OSError) as error:
            damaged = True
            print(f"# {source.name} stays as it is: {error}", file=sys.stderr)
    if rows:
        print(table(rows), end="")
    return 1 if damaged else 0


def settings_in(folder: Path, files: Files) -> Mapping[str, TopicSettings]:
    """By topic, as the folder's registry says; what a server.properties says is not known here.
    Raises OSError, LogError, UnreadableRecord."""
    configs = Configs(BrokerConfig(), BrokerConfig().node_id)
    overrides: dict[str, Mapping[str, str]] = {OFFSETS_TOPIC: {"cleanup.policy": "compact"}}
    registry = folder / f"{REGISTRY_TOPIC}-0"
    if files.exists(registry):
        # A topic that was compacted once may keep everything now: that would stand behind.
        check_registry(folder, files)
        log = Log.open(registry, files, read_only=True)
        for record in stored_in(log):
            match record:
                case TopicStored(name):
                    overrides[name] = record.configs
                case TopicDeleted(name):
                    overrides.pop(name, None)
                case BrokerConfigsStored(resource, values):
                    configs.dynamic[resource] = dict(values)
        log.close()
    return {name: configs.settings(values) for name, values in overrides.items()}


def compacted(
    source: Source, settings: TopicSettings, checkpoints: PartitionCheckpoints, files: Files
) -> Row:
    """Compacts the whole log of a partition. Raises OSError, LogError."""
    config = LogConfig(
        segment_bytes=settings.segment_bytes, index_interval_bytes=settings.index_interval_bytes
    )
    defaults = BrokerConfig()
    terms = CleanerConfig(
        now_ms=time.time_ns() // 1_000_000,
        delete_retention_ms=settings.delete_retention_ms,
        segment_bytes=settings.segment_bytes,
        dedupe_buffer_bytes=defaults.int("log.cleaner.dedupe.buffer.size"),
        producer_expiration_ms=defaults.int("producer.id.expiration.ms"),
    )
    start_offset = checkpoints.start_offsets.get(source.name)
    _check_whole(source, files)
    log = Log.open(source.folder, files, config, start_offset=start_offset)
    try:
        size, segments = log.size, len(log.segments)
        log.roll()
        first_dirty, end = log.start_offset, log.segments[-1].base_offset
        before = 0
        # Each run reads the dirty part, then everything.
        with output.progress(source.name, 2 * log.size) as advance:
            while True:
                done = run_synchronously(clean(log, first_dirty, end, terms, advance))
                before = before or done.records_before
                if done.end_offset in (first_dirty, end):
                    break
                first_dirty = done.end_offset  # as far as the memory for keys reached
        log.sync()
        checkpoints.cleaned_offsets.set(source.name, done.end_offset)
        return Row(
            source.name,
            (before, done.records_after),
            (size, log.size),
            (segments, len(log.segments) - (not log.segments[-1].size)),
        )
    finally:
        log.close()


def _check_whole(source: Source, files: Files) -> None:
    """Opening a log for writing cuts it off at bad bytes, with all that comes after; that is not
    what was asked for. A torn tail, which every start cuts off, is no damage. Raises LogError."""
    log = Log.open(source.folder, files, read_only=True)
    try:
        last = log.segments[-1]  # where the log ends, for whoever opens it
        goes_on = any(base > last.base_offset for base in source.segments()) or any(
            isinstance(item, ValidBatch) or item.next_offset is not None
            for item in scan_segment(
                last.open(), last.base_offset, position=last.size, offset=last.end_offset
            )
        )
        end_offset = last.end_offset
    finally:
        log.close()
    if goes_on:
        raise LogError(
            f"it is damaged at offset {end_offset}, and goes on behind that; "
            f"`kohort log verify {source.folder}` shows where, `kohort log repair` mends it"
        )


def table(rows: list[Row]) -> str:
    """One line a partition, and of several their sums."""
    if len(rows) > 1:
        sums = [
            tuple(sum(each[at] for each in column) for at in (0, 1))
            for column in zip(*(row[1:] for row in rows), strict=True)
        ]
        rows = [*rows, Row("all", *((pair[0], pair[1]) for pair in sums))]
    heads = ("partition", "records", "after", "bytes", "after", "segments", "after")
    lines = [(row.partition, *(f"{n:,}" for pair in row[1:] for n in pair)) for row in rows]
    return "".join(f"{line}\n" for line in output.table([heads, *lines], right=heads[1:]))
