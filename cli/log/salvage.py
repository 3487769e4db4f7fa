"""What can be read of corrupt bytes, and what their loss means for groups.

The checksum only shows that something is wrong, often a single bit. Nothing read here is certain.
"""

from collections.abc import Iterable, Iterator
from struct import error as struct_error
from typing import NamedTuple

from ...log.errors import InvalidRecord
from ...log.files import File
from ...log.records import Record, records
from ...log.recovery import Corruption, ValidBatch, header_at
from .decoding import decode_content, describe_key
from .partition_logs import PartitionLog


def readable_records(file: File, corruption: Corruption) -> list[Record]:
    """Return the records in corrupt bytes, up to the first inconsistent one. Impossible offsets are
    replaced by the first offset that may be lost."""
    found: list[Record] = []
    position = corruption.position
    while position < corruption.end:
        header = header_at(file, position)
        if header is None or position + header.size > corruption.end:
            break
        batch = file.read(position, header.size)
        try:
            for record in records(batch):
                possible = corruption.first_offset <= record.offset and (
                    corruption.next_offset is None or record.offset < corruption.next_offset
                )
                found.append(
                    record if possible else record._replace(offset=corruption.first_offset)
                )
        except (InvalidRecord, struct_error):
            break
        position += header.size
    return found


def describe_lost_offsets(corruption: Corruption) -> str:
    first, following = corruption.first_offset, corruption.next_offset
    if following is None:
        return f"everything from offset {first} on"
    return f"at most offsets {first}..{following - 1}" if following > first else "no offset"


class Others(NamedTuple):
    """The remaining records of a lost record's key: the latest one before it, and whether there is
    one after it."""

    before: Record | None = None
    has_newer: bool = False


def describe_impact(
    log: PartitionLog, lost: Iterable[Record], remaining: Iterable[ValidBatch]
) -> Iterator[str]:
    """Return one sentence for each key of the `lost` records."""
    latest = {record.key: record for record in lost if record.key is not None}
    others = dict.fromkeys(latest, Others())
    for batch in remaining if latest else ():
        if batch.header.is_control:
            continue
        try:
            for record in records(batch.batch):
                gone = None if record.key is None else latest.get(record.key)
                if gone is None or record.key is None:
                    continue
                if record.offset > gone.offset:
                    others[record.key] = others[record.key]._replace(has_newer=True)
                else:
                    others[record.key] = others[record.key]._replace(before=record)
        except InvalidRecord:
            continue  # reported by `verify`
    for key, record in latest.items():
        yield f"{describe_key(log, record)}: {_impact(log, record, others[key])}"


def _impact(log: PartitionLog, gone: Record, others: Others) -> str:
    if others.has_newer:
        return "no effect, a newer record exists."
    # The kind is in the key, even if the value cannot be read.
    kind = decode_content(log, gone._replace(value=None), is_control=False).kind
    before = others.before
    older = None if before is None else decode_content(log, before, is_control=False).value
    if before is None or older is None:
        return _impact_without_older(kind, is_tombstone=gone.value is None)
    if gone.value is None:
        return "it was deleted, and its previous value is valid again."
    if kind == "OffsetCommit":
        lost = decode_content(log, gone, is_control=False)
        source = f" from offset {lost.value['offset']}" if lost.kind == kind else ""
        return f"the group falls back{source} to {older['offset']} and reads those records again."
    if kind == "GroupMetadata":
        return f"the group is in generation {older['generation']} again: its members rejoin."
    return f"the record at offset {before.offset} is valid again."


def _impact_without_older(kind: str, *, is_tombstone: bool) -> str:
    if is_tombstone:
        return "it was deleted, and remains so."
    if kind == "OffsetCommit":
        return "no older commit exists: the group starts according to auto.offset.reset."
    if kind == "GroupMetadata":
        return "the group is unknown: its members rejoin."
    return "no older record exists: it is lost."
