"""`kohort log verify`: check all batches and records of a log, without writing.

A broker may be running, so a batch that is being written is checked again.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from ...log.cache_files import is_cache_file
from ...log.errors import InvalidRecord, UnsupportedMagic
from ...log.files import DISK
from ...log.records import records
from ...log.recovery import Corruption, ValidBatch
from ...offsets.record_codec import decode_record
from ...offsets.record_schemas import decode_as_dicts
from ...offsets.records import OtherGroupRecord, UndecodableRecord
from ...offsets.transaction_codec import TRANSACTION_SPECS
from ...topics.registry_log import UndecodableRegistryRecord
from ...topics.registry_log import decode as decode_registry
from ..errors import UserError
from ..output import progress
from .partition_logs import (
    KAFKA_FILES,
    SEGMENT,
    Cursor,
    PartitionLog,
    TornTail,
    find_logs,
    report,
    size_of,
)
from .salvage import describe_lost_offsets, describe_record, readable_records

# A torn tail is read again after this time as long as it changes. A broker completes a batch within
# milliseconds, so a tail that changes each time belongs to a running broker.
RETRY_SECONDS: Final = 0.2
READS_MAX: Final = 25
# More keys for one problem would fill the screen.
KEYS_MAX: Final = 10
# Kafka renames the files of a segment before it removes or replaces them.
UNFINISHED: Final = (".cleaned", ".swap", ".deleted")
# Kafka's files in a partition's folder that do not belong to a segment.
FOLDER_FILES: Final = {"leader-epoch-checkpoint", "partition.metadata", "quorum-state"}


class Problem(NamedTuple):
    """An inconsistency in a log. `lost` and `remedy` end with a full stop."""

    path: Path
    position: int
    offset: int
    description: str
    lost: str
    remedy: str


class Counts:
    """Counts of checked segments, batches, records and bytes, and of `unread` partitions, which
    could not be read to the end."""

    def __init__(self) -> None:
        self.segments: set[Path] = set()
        self.batches = self.records = self.bytes = self.unread = 0


def run(args: argparse.Namespace) -> int:
    """Return 0 if valid, 1 if there are problems. Raises UserError."""
    logs = find_logs(args.path)
    problems, counts = 0, Counts()
    lines: list[str] = []
    with progress("verify", size_of(logs)) as advance:
        for log in logs:
            for item in (*check(log, counts, advance), *other_files(log)):
                if isinstance(item, Problem):
                    problems += 1
                    lines.append(
                        f"{item.path}, byte {item.position}, offset {item.offset}: "
                        f"{item.description}\n    lost: {item.lost}\n    remedy: {item.remedy}"
                    )
                else:
                    lines.append(f"{log.folder}: {item}")
    for line in lines:
        print(line)
    if problems and not counts.batches and not counts.unread:
        raise UserError(f"{args.path} is not a log: it has no valid record batch.")
    print(
        f"{args.path}: {_counted(len(logs), 'partition')}, "
        f"{_counted(len(counts.segments), 'segment')}, "
        f"{_counted(counts.batches, 'batch', 'batches')}, {_counted(counts.records, 'record')}, "
        f"{counts.bytes:,} bytes: {_counted(problems, 'problem') if problems else 'valid'}."
    )
    return 1 if problems else 0


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def check(
    log: PartitionLog, counts: Counts, advance: Callable[[int], None]
) -> Iterator[Problem | str]:
    """Yield the problems of a log, and remarks about it. Raises PermissionError."""
    cursor = Cursor(log, report)
    try:
        yield from _check_batches(cursor, counts, advance)
        return
    except PermissionError:
        raise
    except UnsupportedMagic as error:
        position, description = error.position, error.reason
        lost = "nothing, but the log cannot be read."
        remedy = "rewrite the topic with Kafka 0.11 to 3.9."
    except OSError as error:
        position, description = 0, f"read error: {error.strerror or error}"
        lost = "everything from this offset on, if the error persists."
        remedy = "copy the readable part to another disk, and verify the copy."
    counts.unread += 1
    path = cursor.path or log.folder
    yield Problem(path, position, cursor.offset, description, lost, remedy)


def _check_batches(
    cursor: Cursor, counts: Counts, advance: Callable[[int], None]
) -> Iterator[Problem | str]:
    log = cursor.log
    tail: tuple[Path, Corruption] | None = None
    last_path, next_offset = None, 0
    may_have_gaps = log.may_have_gaps()
    for _ in range(READS_MAX):
        previous_tail, tail = tail, None
        for path, _, item in cursor.read():
            counts.segments.add(path)
            if isinstance(item, ValidBatch):
                if last_path is None:
                    next_offset = int(path.name.partition(".")[0])
                has_gap = item.header.base_offset > next_offset
                gap = f"offsets {next_offset}..{item.header.base_offset - 1}"
                if has_gap and not may_have_gaps:
                    yield _gap(path, item, gap)
                elif has_gap and last_path not in (None, path):
                    yield (
                        f"{gap}, before {path.name}, are in no segment: compaction or a "
                        "repair removed them, or a file is missing."
                    )
                last_path, next_offset = path, item.header.next_offset
                counts.batches += 1
                counts.bytes += len(item.batch)
                advance(len(item.batch))
                yield from _check_records(log, path, item, counts)
            elif isinstance(item, TornTail):
                tail = (path, item.corruption)
            else:
                yield _corruption(log, path, item, is_tail=False)
                may_have_gaps = True
        if tail is None or tail == previous_tail:
            break
        time.sleep(RETRY_SECONDS)
    else:
        return  # the tail has changed at each read: a broker is writing
    if tail is not None:
        yield _corruption(log, *tail, is_tail=True)


def _gap(path: Path, batch: ValidBatch, gap: str) -> Problem:
    """Describe missing offsets. No checksum covers the base offset of a batch."""
    return Problem(
        path,
        batch.position,
        batch.header.base_offset,
        f"{gap} are in no batch, but the log was never compacted or repaired.",
        "the records at these offsets, or, if the base offset of the batch is corrupted, "
        "only the offsets: consumers see the records at wrong offsets.",
        "none: restore the log from a backup if the offsets matter.",
    )


def _check_records(
    log: PartitionLog, path: Path, batch: ValidBatch, counts: Counts
) -> Iterator[Problem]:
    """Yield a problem if the records of a batch are inconsistent or cannot be decoded."""
    header = batch.header
    offset = header.base_offset
    try:
        for record in records(batch.batch):
            counts.records += 1
            if not offset <= record.offset <= header.last_offset:
                raise InvalidRecord(
                    f"a record has offset {record.offset}, "
                    f"expected {offset} to {header.last_offset}"
                )
            offset = record.offset + 1
            if header.is_control:
                continue
            if log.is_offsets:
                # A broker decodes commits, classic groups and consumer groups when it loads the
                # partition. Records of other group types are decoded here only, with Kafka's
                # schemas.
                if isinstance(decode_record(record.key, record.value), OtherGroupRecord):
                    decode_as_dicts(record.key, record.value)
            elif log.is_transactions:
                decode_as_dicts(record.key, record.value, TRANSACTION_SPECS)
            elif log.is_registry:
                decode_registry(record.key, record.value)
    except InvalidRecord as error:
        description = f"a batch with a valid checksum is inconsistent: {error}"
        lost = f"its records from offset {offset} on cannot be read."
        remedy = "none: the batch was written this way, and clients that fetch it fail."
        yield Problem(path, batch.position, offset, description, lost, remedy)
    except (UndecodableRecord, UndecodableRegistryRecord) as error:
        description = f"a record with a valid checksum cannot be decoded: {error}"
        lost = "nothing, but a broker that cannot decode this record cannot load the partition."
        remedy = "start the version of the software that wrote this record."
        yield Problem(path, batch.position, offset - 1, description, lost, remedy)


def _corruption(log: PartitionLog, path: Path, corruption: Corruption, *, is_tail: bool) -> Problem:
    repair = f"`kohort log repair {log.folder}`"
    if corruption.next_offset is not None:
        at_start = "a broker that opens the log truncates it there and sets aside the rest"
        if log.is_registry:
            at_start = "a broker does not start with this log"
        remedy = f"{at_start}; {repair} keeps the later valid batches."
    elif is_tail:
        remedy = "none needed after a crash: a broker that opens the log moves it to a *.cut file."
    else:
        remedy = f"run {repair} before a broker starts."
    description = f"{_counted(corruption.size, 'corrupt byte')}: {corruption.reason}"
    lost = _describe_loss(log, path, corruption)
    position, offset = corruption.position, corruption.first_offset
    return Problem(path, position, offset, description, lost, remedy)


def _describe_loss(log: PartitionLog, path: Path, corruption: Corruption) -> str:
    with closing(DISK.open(path, read_only=True)) as file:
        readable = readable_records(file, corruption)
    text = describe_lost_offsets(corruption)
    if not readable:
        return f"{text}; none of it can be read."
    keys = list(dict.fromkeys(describe_record(log, each) for each in readable))
    more = f" and {len(keys) - KEYS_MAX} more" if len(keys) > KEYS_MAX else ""
    return f"{text}; still readable: {'; '.join(keys[:KEYS_MAX])}{more}."


def other_files(log: PartitionLog) -> Iterator[str]:
    """Yield remarks about files that do not belong to the log."""
    if log.segment is not None or not log.folder.exists():
        return
    for path in sorted(log.folder.iterdir()):
        match = SEGMENT.fullmatch(path.name)
        if match and path.suffix == ".cut":
            yield f"{path.name}: kept by a recovery or a repair; not read."
        elif path.suffix in UNFINISHED and Path(path.stem).suffix in (".log", *KAFKA_FILES):
            yield f"{path.name}: left by an unfinished compaction or deletion."
        elif (
            not match
            and path.suffix not in KAFKA_FILES
            and path.name not in FOLDER_FILES
            and not is_cache_file(path.name)
        ):
            yield f"{path.name}: not a file of a log; ignored."
