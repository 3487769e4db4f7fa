"""`kohort log repair`: remove corrupt bytes from segments, and keep the valid batches after them.

In contrast, a starting broker truncates its log at the first corrupt byte. A repair first copies
the corrupt bytes to *.cut files. It then rewrites the segment to a new file, syncs it and renames
it, so that a crash at any moment leaves either the old or the new segment.
"""

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from ...log.batch import check_crc, read_header
from ...log.cache_files import remove_cache_files
from ...log.errors import CorruptBatch, FolderInUse
from ...log.files import DISK, LOCK_NAME, File, Files, lock_folder
from ...log.recovery import Corruption, ValidBatch, header_at, scan_segment
from ...log.segment import CHUNK_BYTES, base_offset_of
from ...log.segment_swap import INDEX_SUFFIXES, SWAP, find_unfinished_swaps, finish_swaps
from ...log.tasks import run_synchronously
from ..errors import UserError
from ..output import progress
from .partition_logs import PartitionLog, find_logs, report, size_of
from .salvage import LostRecord, describe_impact, describe_lost_offsets, readable_records

# A segment that is being rewritten. Brokers ignore this suffix.
REPAIRED_SUFFIX: Final = ".repaired"
BASE_OFFSET: Final = Struct(">q")
# More lines would scroll the first lines off the screen.
KEYS_MAX: Final = 50


class Damage(NamedTuple):
    """A segment with corrupt bytes."""

    path: Path
    corruptions: list[Corruption]
    kept: list[tuple[int, int]]
    """Start and end of the parts that are kept."""
    moved: dict[int, int]
    """Corrected base offsets of kept batches, by position."""
    lost: list[LostRecord]
    """The readable records in the parts that are removed."""


def run(args: argparse.Namespace) -> int:
    """Return 0, or 1 if problems remain, as with --dry-run. Raises UserError and OSError."""
    logs = find_logs(args.path)
    _check_segments(each.segment for each in logs if each.segment is not None)
    files = DISK
    with ExitStack() as locks:
        if not args.dry_run:
            _lock(logs, files, locks)
            for folder in {log.folder for log in logs}:
                # Like a broker, first finish a compaction interrupted by a crash.
                if find_unfinished_swaps(folder, files).swaps:
                    finish_swaps(folder, files)
        with progress("repair", size_of(logs)) as advance:
            damages = {log: find_damage(log, files, advance) for log in logs}
        invalid = [log for log in logs if damages[log] and not any(_valid_batches(log, files))]
        if len(invalid) == len(logs):
            raise UserError(f"{args.path} is not a log: it has no valid record batch.")
        for log in invalid:
            report(f"{log.folder} was not repaired: it has no valid record batch")
        damages = {log: damaged for log, damaged in damages.items() if log not in invalid}
        if not args.dry_run:
            _check_owner(damage for damaged in damages.values() for damage in damaged)
        problems = 0
        for log, damaged in damages.items():
            if damaged:
                problems += sum(len(damage.corruptions) for damage in damaged)
                _repair(log, damaged, files, dry_run=args.dry_run)
    if not problems:
        print(f"{args.path}: {'nothing' if invalid else 'valid; nothing'} to repair.")
        return 1 if invalid else 0
    counted = "1 problem" if problems == 1 else f"{problems} problems"
    done = "would be repaired; nothing was written" if args.dry_run else "repaired"
    print(f"{args.path}: {counted} {done}.")
    return 1 if args.dry_run or invalid else 0


def _check_segments(paths: Iterable[Path]) -> None:
    """Raise UserError for a single file whose name is not that of a finished segment."""
    for path in paths:
        if path.name.endswith(SWAP):
            raise UserError(f"{path} belongs to an interrupted compaction: pass its folder.")
        if base_offset_of(path.name) is None:
            raise UserError(f"{path} was set aside: it is no longer part of a log.")


def _lock(logs: list[PartitionLog], files: Files, locks: ExitStack) -> None:
    """Lock the data folder if it has a lock file. A folder without a lock file was never used by a
    broker and is probably a copy."""
    for folder in {log.folder.parent for log in logs}:
        if files.exists(folder / LOCK_NAME):
            try:
                program, remedy = "kohort log repair", "Stop it first."
                lock = lock_folder(folder, files, program=program, remedy=remedy)
            except FolderInUse as error:
                raise UserError(str(error)) from error
            locks.callback(lock.release)


def _check_owner(damages: Iterable[Damage]) -> None:
    """Raise UserError if another user owns a segment, because the rewritten segment will belong to
    the current user, and the broker must be able to write to it."""
    for damage in damages:
        if damage.path.stat().st_uid != os.geteuid():
            raise UserError(f"{damage.path} belongs to another user: run the command as that user.")


def _repair(log: PartitionLog, damages: list[Damage], files: Files, *, dry_run: bool) -> None:
    for damage in damages:
        _print_damage(damage)
        if not dry_run:
            for name in rewrite(damage, files):
                print(f"    kept in {name}")
    # Another segment of the log may contain newer records with the lost keys.
    _print_impact(PartitionLog(log.folder), damages, files)


# --- finding damage


def find_damage(log: PartitionLog, files: Files, advance: Callable[[int], None]) -> list[Damage]:
    """Return the segments with corrupt bytes. Raises UserError, OSError and UnsupportedMagic."""
    damages = []
    end_offset = 0
    for base, path in log.segments().items():
        if base < end_offset:
            raise UserError(
                f"{path} begins before offset {end_offset}, where the previous segment ends: "
                "decide which of the two is valid, and move the other one away."
            )
        with closing(files.open(path, read_only=True)) as file:
            damage, end_offset = scan_damage(path, file, base)
            advance(file.size)
        if damage.corruptions:
            damages.append(damage)
    return damages


def scan_damage(path: Path, file: File, base: int) -> tuple[Damage, int]:
    """Return the damage of a segment, and its end offset."""
    damage = Damage(path, [], [], {}, [])
    end_offset = base
    for item in scan_segment(file, base):
        if isinstance(item, Corruption):
            damage.corruptions.append(item)
            if _has_only_wrong_offset(item, file):
                damage.moved[item.position] = item.first_offset
                damage.kept.append((item.position, item.end))
            else:
                damage.lost.extend(readable_records(file, item))
            continue
        end_offset = item.header.next_offset
        start = item.position
        if damage.kept and damage.kept[-1][1] == start:
            start, _ = damage.kept.pop()
        damage.kept.append((start, item.end))
    return damage, end_offset


def _has_only_wrong_offset(corruption: Corruption, file: File) -> bool:
    """Return True if only the base offset is wrong, which the checksum does not cover, and only one
    base offset is possible."""
    header = header_at(file, corruption.position)
    if header is None or header.size != corruption.size or corruption.next_offset is None:
        return False
    with suppress(CorruptBatch):
        check_crc(file.read(corruption.position, corruption.size), 0, corruption.size)
        span = corruption.next_offset - corruption.first_offset
        return header.last_offset_delta + 1 == span
    return False


def _valid_batches(log: PartitionLog, files: Files) -> Iterator[ValidBatch]:
    """Yield the batches that a repair keeps, with corrected base offsets."""
    for base, path in log.segments().items():
        with closing(files.open(path, read_only=True)) as file:
            for item in scan_segment(file, base):
                if isinstance(item, ValidBatch):
                    yield item
                elif _has_only_wrong_offset(item, file):
                    rest = file.read(item.position, item.size)[BASE_OFFSET.size :]
                    batch = BASE_OFFSET.pack(item.first_offset) + rest
                    yield ValidBatch(item.position, read_header(batch), batch)


# --- rewriting


def rewrite(damage: Damage, files: Files) -> list[str]:
    """Copy the corrupt bytes and remove them from the segment. Return the names of the copies.
    Raises OSError."""
    path, folder = damage.path, damage.path.parent
    with closing(files.open(path, read_only=True)) as old:
        names = [_save(path, old, corruption, files) for corruption in damage.corruptions]
        # The copies must be durable before the originals are removed.
        files.sync_folder(folder)
        repaired = path.with_name(path.name + REPAIRED_SUFFIX)
        _copy(old, damage.kept, repaired, files, damage.moved)
    # Indexes and cache files may refer to removed batches. Kafka and kohort recreate them.
    for stale in (path.with_suffix(suffix) for suffix in INDEX_SUFFIXES):
        if files.exists(stale):
            files.remove(stale)
    run_synchronously(remove_cache_files(folder, files))
    files.sync_folder(folder)
    files.rename(repaired, path)
    files.sync_folder(folder)
    return names


def _save(path: Path, old: File, corruption: Corruption, files: Files) -> str:
    number = 0
    # The same names as in recovery.
    while files.exists(copy := path.with_name(f"{path.name}.{corruption.position}.{number}.cut")):
        number += 1
    _copy(old, [(corruption.position, corruption.end)], copy, files, {})
    return copy.name


def _copy(
    old: File, parts: list[tuple[int, int]], target: Path, files: Files, moved: Mapping[int, int]
) -> None:
    """Copy parts of a file durably to a new file."""
    if files.exists(target):
        files.remove(target)  # left by an interrupted repair
    with closing(files.open(target, create=True)) as new:
        for position, end in parts:
            if position in moved:
                new.append(BASE_OFFSET.pack(moved[position]))
                position += BASE_OFFSET.size
            while position < end:
                chunk = old.read(position, min(CHUNK_BYTES, end - position))
                if not chunk:
                    raise OSError(f"{target} could not be written: the segment ends early")
                new.append(chunk)
                position += len(chunk)
        new.sync()


# --- output


def _print_damage(damage: Damage) -> None:
    for corruption in damage.corruptions:
        if corruption.position in damage.moved:
            lost = f"nothing; the wrong base offset is corrected to {corruption.first_offset}"
        else:
            lost = describe_lost_offsets(corruption)
        print(
            f"{damage.path}, byte {corruption.position}: {corruption.size} corrupt bytes "
            f"({corruption.reason})\n    lost: {lost}"
        )


def _print_impact(log: PartitionLog, damages: list[Damage], files: Files) -> None:
    if all(len(damage.moved) == len(damage.corruptions) for damage in damages):
        return
    lost = [record for damage in damages for record in damage.lost]
    sentences = list(describe_impact(log, lost, _valid_batches(log, files)))
    for sentence in sentences[:KEYS_MAX]:
        print(f"    {sentence}")
    if len(sentences) > KEYS_MAX:
        print(f"    … and {len(sentences) - KEYS_MAX} more keys or transaction markers")
    if lost and not sentences:
        print("    records without a key: lost")
    elif not sentences:
        effect = ": groups with their latest commit there fall back to the previous one"
        print(f"    none of it can be read{effect if log.is_offsets else ''}")
