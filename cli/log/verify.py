"""`kohort log verify`: is what lies in a log sound, and if not, what is lost and what to do?

Reads alone, also beside a running broker: a batch that is just being written is looked at again.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ...log.cache_files import is_cache_file
from ...log.errors import InvalidRecord, UnsupportedMagic
from ...log.files import DiskFiles, Files
from ...log.records import records
from ...log.recovery import Corruption, ValidBatch
from ...offsets.errors import UndecodableRecord
from ...offsets.record_codec import decode_record
from ...offsets.record_schemas import read_entry
from ...offsets.records import OtherGroupRecord
from ...topics.records import UnreadableRecord
from ...topics.records import decode as decode_registry
from ..errors import UserError
from ..output import progress
from .cursor import Cursor, Tail
from .sources import BESIDE, SEGMENT, Source, size_of, sources
from .text import key_text, say
from .wreck import readable

# How long to wait before an unfinished tail is looked at again, and how often while it moves: a
# broker has a batch on disk within milliseconds, and one that always writes is a living one.
AGAIN_SECONDS: Final = 0.2
LOOKS_MAX: Final = 25
# More keys of one flaw fill the screen and say no more.
KEYS_SHOWN_MAX: Final = 10
# What Kafka and kohort keep in the folder of a partition beside segments and their indexes.
KNOWN_FILES: Final = {
    "leader-epoch-checkpoint",
    "partition.metadata",
    "quorum-state",
}


# What is lost, and what to do.
OF_OLD_KAFKAS: Final = (
    "nothing, and nobody here can read it.",
    "let a Kafka from 0.11 to 3.9 write the topic anew.",
)


class Finding(NamedTuple):
    """Something that is wrong. `lost` and `advice` are sentences."""

    path: Path
    position: int
    offset: int
    what: str
    lost: str
    advice: str


class Count:
    """What was looked at; `unread`: partitions that could not be read to their ends."""

    def __init__(self) -> None:
        self.segments: set[Path] = set()
        self.batches = self.records = self.bytes = self.unread = 0


def run(args: argparse.Namespace) -> int:
    """0 sound, 1 flaws. Raises UserError."""
    found = sources(args.path)
    flaws, count = 0, Count()
    said: list[str] = []
    with progress("verify", size_of(found)) as done:
        for source in found:
            for finding in (*findings(source, DiskFiles(), count, done), *strangers(source)):
                if isinstance(finding, Finding):
                    flaws += 1
                    said.append(_paragraph(finding))
                else:
                    said.append(f"{source.folder}: {finding}")
    for line in said:
        print(line)
    if flaws and not count.batches and not count.unread:
        raise UserError(f"{args.path} is no log: there is no sound record batch in it.")
    print(
        f"{args.path}: {_many(len(found), 'partition')}, {_many(len(count.segments), 'segment')}, "
        f"{_many(count.batches, 'batch', 'batches')}, {_many(count.records, 'record')}, "
        f"{count.bytes:,} bytes: {_many(flaws, 'flaw') if flaws else 'sound'}."
    )
    return 1 if flaws else 0


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def findings(
    source: Source, files: Files, count: Count, done: Callable[[int], None]
) -> Iterator[Finding | str]:
    """All that is wrong in a partition, and what is worth a word. Raises PermissionError."""
    cursor = Cursor(source, files, say)
    tail: tuple[Path, Corruption] | None = None
    last_path, next_offset = None, 0
    try:
        for _ in range(LOOKS_MAX):
            before, tail = tail, None
            for path, _, item in cursor.read():
                count.segments.add(path)
                if isinstance(item, ValidBatch):
                    if last_path not in (None, path) and item.header.base_offset > next_offset:
                        yield _gap(next_offset, item.header.base_offset, path)
                    last_path, next_offset = path, item.header.next_offset
                    count.batches += 1
                    count.bytes += len(item.batch)
                    done(len(item.batch))
                    yield from _wrong_inside(source, path, item, count)
                elif isinstance(item, Tail):
                    tail = (path, item.flaw)
                else:
                    yield _bad_bytes(source, path, item, files, is_tail=False)
            if tail is None or tail == before:
                break
            time.sleep(AGAIN_SECONDS)
        else:
            return  # it moved each time: a broker is writing
        if tail is not None:
            yield _bad_bytes(source, *tail, files, is_tail=True)
    except UnsupportedMagic as error:
        yield _unread(
            cursor,
            count,
            error.position,
            error.reason,
            *OF_OLD_KAFKAS,
        )
    except PermissionError:
        raise
    except OSError as error:
        yield _unread(
            cursor,
            count,
            0,
            f"the disk does not give it: {error.strerror or error}",
            "all from there on, if the disk stays so.",
            "copy what can be read to another disk, then verify the copy.",
        )


def _unread(
    cursor: Cursor, count: Count, position: int, what: str, lost: str, advice: str
) -> Finding:
    count.unread += 1
    path = cursor.path or cursor.source.folder
    return Finding(path, position, cursor.offset, what, lost, advice)


def _wrong_inside(source: Source, path: Path, sound: ValidBatch, count: Count) -> Iterator[Finding]:
    """What a right checksum does not show."""
    header = sound.header
    offset = header.base_offset
    try:
        for record in records(sound.batch):
            count.records += 1
            if not offset <= record.offset <= header.last_offset:
                raise InvalidRecord(
                    f"a record has offset {record.offset} where {offset} to {header.last_offset} "
                    "are left"
                )
            offset = record.offset + 1
            if header.is_control:
                continue
            if source.is_offsets:
                _check_offsets_record(record.key, record.value)
            elif source.is_registry:
                decode_registry(record.key, record.value)
    except InvalidRecord as error:
        yield Finding(
            path,
            sound.position,
            offset,
            f"a batch whose checksum is right contradicts itself: {error}",
            f"its records from offset {offset} on cannot be read.",
            "it was written like this; a client that fetches it fails there.",
        )
    except (UndecodableRecord, UnreadableRecord) as error:
        yield Finding(
            path,
            sound.position,
            offset - 1,
            f"a record whose checksum is right cannot be decoded: {error}",
            "nothing is lost, but no broker, Kafka's neither, serves the partition with it.",
            "start the version of the software that wrote it.",
        )


def _check_offsets_record(key: bytes | None, value: bytes | None) -> None:
    """As a broker reads it when it loads the partition; other kinds as Kafka's would."""
    if isinstance(decode_record(key, value), OtherGroupRecord):
        read_entry(key, value)


def _bad_bytes(
    source: Source, path: Path, flaw: Corruption, files: Files, *, is_tail: bool
) -> Finding:
    what = f"{_many(flaw.size, 'byte')} are no sound batch: {flaw.reason}"
    lost = _lost(source, path, flaw, files)
    if flaw.next_offset is not None:
        start = (
            "no broker starts here."
            if source.is_registry
            else "a broker that starts here ends the log there and puts all behind it aside."
        )
        advice = f"{start} `kohort log repair {source.folder}` keeps what is sound behind them."
    elif is_tail:
        advice = (
            "a crash leaves such an end: the next start of a broker cuts it off, and keeps it in "
            "a file *.cut."
        )
    else:
        advice = f"`kohort log repair {source.folder}`, before a broker starts here."
    return Finding(path, flaw.position, flaw.first_offset, what, lost, advice)


def _lost(source: Source, path: Path, flaw: Corruption, files: Files) -> str:
    file = files.open(path, read_only=True)
    try:
        wrecked = readable(file, flaw)
    finally:
        file.close()
    if flaw.next_offset is not None and flaw.next_offset > flaw.first_offset:
        text = f"at most offsets {flaw.first_offset}..{flaw.next_offset - 1}"
    elif flaw.next_offset is not None:
        text = "no offset of its own"
    else:
        text = f"what came at offset {flaw.first_offset} and behind it"
    if not wrecked:
        return f"{text}; nothing in it can be read."
    keys = list(dict.fromkeys(key_text(source, record) for record in wrecked))
    more = f" and {len(keys) - KEYS_SHOWN_MAX} more" if len(keys) > KEYS_SHOWN_MAX else ""
    return f"{text}; as far as it can be read: {'; '.join(keys[:KEYS_SHOWN_MAX])}{more}."


def _gap(offset: int, end: int, path: Path) -> str:
    return (
        f"offsets {offset}..{end - 1}, before {path.name}, are in no segment: a compaction or a "
        "repair took them, or a file is missing."
    )


def strangers(source: Source) -> Iterator[str]:
    """What else lies in a partition's folder. No flaws."""
    if source.segment is not None or not source.folder.exists():
        return
    for path in sorted(source.folder.iterdir()):
        match = SEGMENT.fullmatch(path.name)
        if match and path.suffix == ".cut":
            yield f"{path.name}: what a recovery or a repair put aside; nobody reads it."
        elif match and path.suffix != ".log":
            yield f"{path.name}: of a compaction or deletion, under way or interrupted."
        elif (
            not match
            and path.suffix not in BESIDE
            and path.name not in KNOWN_FILES
            and not is_cache_file(path.name)
        ):
            yield f"{path.name}: no file of a log; left alone."


def _paragraph(finding: Finding) -> str:
    return (
        f"{finding.path}, byte {finding.position}, offset {finding.offset}: {finding.what}\n"
        f"    lost: {finding.lost}\n"
        f"    what to do: {finding.advice}"
    )
