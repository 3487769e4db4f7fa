"""`kohort log repair`: takes bad bytes out of segments and keeps every sound batch behind them. (A
broker that starts has to end its log at the first bad byte.)

The bad bytes go to files *.cut first. Then the segment is written anew beside itself, synced, and
renamed into its source: a crash at any moment leaves the old one or the new one, whole.
"""

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from ...log.batch import check_crc
from ...log.cache_files import remove_cache_files
from ...log.errors import CorruptBatch, FolderInUse
from ...log.files import LOCK_NAME, DiskFiles, File, Files, lock_folder
from ...log.log import LogConfig
from ...log.records import Record
from ...log.recovery import Corruption, ValidBatch, header_at, scan_segment
from ...log.segment import CHUNK_BYTES, base_offset_of
from ...log.segment_swap import INDEX_SUFFIXES, find_unfinished_swaps, finish_swaps
from ...log.tasks import run_synchronously
from ..errors import UserError
from ..output import progress
from .impact import impact
from .sources import Source, size_of, sources
from .wreck import readable

# A segment that is being written anew. Nothing else has this name: a broker leaves it alone.
ASIDE: Final = ".repaired"
BASE_OFFSET: Final = Struct(">q")
# More sentences hide what was said before them.
KEYS_SHOWN_MAX: Final = 50


class Damage(NamedTuple):
    """A segment with bad bytes. `kept`: from where to where lies what stays. `moved`: batches that
    stay with another base offset, by their positions. `lost`: what could still be read of the rest.
    """

    path: Path
    flaws: list[Corruption]
    kept: list[tuple[int, int]]
    moved: dict[int, int]
    lost: list[Record]


def run(args: argparse.Namespace) -> int:
    """0: all is sound now; 1: flaws are left. Raises UserError, OSError."""
    found = sources(args.path)
    files = DiskFiles()
    with ExitStack() as locks:
        if not args.dry_run:
            _lock(found, files, locks)
            for folder in {source.folder for source in found}:
                # A compaction that a crash interrupted comes to its end first, as at a start.
                if find_unfinished_swaps(folder, files).swaps:
                    finish_swaps(folder, files, LogConfig().index_interval_bytes)
        with progress("repair", size_of(found)) as done:
            damages = {source: damages_of(source, files, done) for source in found}
        flaws = 0
        for source, damaged in damages.items():
            if damaged:
                flaws += sum(len(damage.flaws) for damage in damaged)
                _repair(source, damaged, files, dry_run=args.dry_run)
    if not flaws:
        print(f"{args.path}: sound; nothing to repair.")
        return 0
    print(f"{args.path}: {flaws} {'flaw' if flaws == 1 else 'flaws'}", end=" ")
    print("would be mended; nothing was written." if args.dry_run else "mended.")
    return 1 if args.dry_run else 0


def _repair(source: Source, damages: list[Damage], files: Files, *, dry_run: bool) -> None:
    # Of one segment of a log, too: what was lost may be said once more in another.
    whole = Source(source.folder)
    if next(_sound_of(source, files), None) is None:
        raise UserError(f"{source.folder} is no log: there is no sound record batch in it.")
    if not dry_run:
        _check_owner(damages)
    for damage in damages:
        _tell(damage)
        if not dry_run:
            for name in mend(damage, files):
                print(f"    kept in {name}")
    _tell_impact(whole, damages, files)


def _lock(found: list[Source], files: Files, locks: ExitStack) -> None:
    """A folder without a lock file has never been a broker's: a copy, in most cases."""
    for folder in {source.folder.parent for source in found}:
        if files.exists(folder / LOCK_NAME):
            try:
                lock = lock_folder(
                    folder, files, program="kohort log repair", remedy="Stop it first."
                )
            except FolderInUse as error:
                raise UserError(str(error)) from error
            locks.callback(lock.release)


def damages_of(source: Source, files: Files, done: Callable[[int], None]) -> list[Damage]:
    """The segments that have bad bytes. Raises UserError for what cannot be repaired, OSError,
    UnsupportedMagic."""
    damages = []
    end_offset = 0
    for base, path in source.segments().items():
        if source.segment is not None and base_offset_of(path.name) is None:
            raise UserError(f"{path} was put aside: it is no part of a log any more.")
        if base < end_offset:
            raise UserError(
                f"{path} begins before offset {end_offset}, where the segment before it ends: "
                "which of them is right, only you can tell. Move the other one away."
            )
        file = files.open(path, read_only=True)
        try:
            damage, end_offset = damage_of(path, file, base)
            done(file.size)
        finally:
            file.close()
        if damage.flaws:
            damages.append(damage)
    return damages


def damage_of(path: Path, file: File, base: int) -> tuple[Damage, int]:
    """With the offset that comes next."""
    damage = Damage(path, [], [], {}, [])
    end_offset = base
    for item in scan_segment(file, base):
        if isinstance(item, Corruption):
            damage.flaws.append(item)
            if _is_only_misplaced(item, file):
                damage.moved[item.position] = item.first_offset
                damage.kept.append((item.position, item.end))
            else:
                damage.lost.extend(readable(file, item))
            continue
        end_offset = item.header.next_offset
        start = item.position
        if damage.kept and damage.kept[-1][1] == start:
            start, _ = damage.kept.pop()
        damage.kept.append((start, item.end))
    return damage, end_offset


def _is_only_misplaced(flaw: Corruption, file: File) -> bool:
    """Whether nothing but the base offset is wrong, which the checksum leaves out, and there is one
    offset alone where the batch fits in."""
    header = header_at(file, flaw.position)
    if header is None or header.size != flaw.size or flaw.next_offset is None:
        return False
    with suppress(CorruptBatch):
        check_crc(file.read(flaw.position, flaw.size), 0, flaw.size)
        return header.last_offset_delta + 1 == flaw.next_offset - flaw.first_offset
    return False


def _sound_of(source: Source, files: Files) -> Iterator[ValidBatch]:
    for base, path in source.segments().items():
        file = files.open(path, read_only=True)
        try:
            yield from (item for item in scan_segment(file, base) if isinstance(item, ValidBatch))
        finally:
            file.close()


def _check_owner(damages: list[Damage]) -> None:
    """What is written anew belongs to who writes it, and the broker must be able to go on with
    it."""
    for damage in damages:
        if damage.path.stat().st_uid != os.geteuid():
            raise UserError(f"{damage.path} belongs to another user: repair it as that user.")


def mend(damage: Damage, files: Files) -> list[str]:
    """Saves the bad bytes and takes them out of the segment; where they are kept. Raises OSError;
    then the segment is as it was."""
    path, folder = damage.path, damage.path.parent
    old = files.open(path, read_only=True)
    try:
        names = [_save(path, old, flaw, files) for flaw in damage.flaws]
        # Before the bytes go, or a crash between the two would leave neither.
        files.sync_folder(folder)
        aside = path.with_name(path.name + ASIDE)
        _copy(old, damage.kept, aside, files, damage.moved)
    finally:
        old.close()
    # Kafka's, which it makes again, and ours, which may tell of what the log has no more.
    for stale in (path.with_suffix(suffix) for suffix in INDEX_SUFFIXES):
        if files.exists(stale):
            files.remove(stale)
    run_synchronously(remove_cache_files(folder, files))
    files.sync_folder(folder)
    files.rename(aside, path)
    files.sync_folder(folder)
    return names


def _save(path: Path, old: File, flaw: Corruption, files: Files) -> str:
    number = 0
    # As a recovery names what it cuts off.
    while files.exists(kept := path.with_name(f"{path.name}.{flaw.position}.{number}.cut")):
        number += 1
    _copy(old, [(flaw.position, flaw.end)], kept, files, {})
    return kept.name


def _copy(
    old: File, parts: list[tuple[int, int]], target: Path, files: Files, moved: Mapping[int, int]
) -> None:
    """Writes these parts of a file into a new one, durably."""
    if files.exists(target):
        files.remove(target)  # of a repair that was interrupted
    new = files.open(target, create=True)
    try:
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
    finally:
        new.close()


def _tell(damage: Damage) -> None:
    for flaw in damage.flaws:
        if flaw.position in damage.moved:
            lost = f"nothing: offset {flaw.first_offset} alone fits in there, and is put back"
        elif flaw.next_offset is None:
            lost = f"what came at offset {flaw.first_offset} and behind it"
        elif flaw.next_offset > flaw.first_offset:
            lost = f"at most offsets {flaw.first_offset}..{flaw.next_offset - 1}"
        else:
            lost = "no offset of its own"
        print(
            f"{damage.path}, byte {flaw.position}: {flaw.size} bytes are no sound batch "
            f"({flaw.reason})\n    lost: {lost}"
        )


def _tell_impact(source: Source, damages: list[Damage], files: Files) -> None:
    if all(len(damage.moved) == len(damage.flaws) for damage in damages):
        return
    lost = [record for damage in damages for record in damage.lost]
    sentences = list(impact(source, lost, _sound_of(source, files)))
    for sentence in islice(sentences, KEYS_SHOWN_MAX):
        print(f"    {sentence}")
    if len(sentences) > KEYS_SHOWN_MAX:
        print(f"    … and {len(sentences) - KEYS_SHOWN_MAX} keys more")
    if not sentences:
        print("    nothing of what was lost can be read", end="")
        print(
            ": groups whose newest commit was there fall back to the one before"
            if source.is_offsets
            else ""
        )
