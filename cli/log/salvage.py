"""Readable records in corrupt bytes, and the impact of their loss on groups.

Often a single bit is wrong, but a checksum does not show which one, so any record may be wrong.
"""

from collections.abc import Collection, Iterable, Iterator
from struct import error as struct_error
from typing import Final, NamedTuple

from ...log.batch import BatchHeader
from ...log.errors import InvalidRecord
from ...log.files import File
from ...log.records import Record, records
from ...log.recovery import Corruption, ValidBatch, header_at
from .decoding import decode_content, describe_key
from .partition_logs import PartitionLog

NO_OLDER_RECORD: Final = {
    "OffsetCommit": "no older commit exists, so the group starts according to auto.offset.reset.",
    "GroupMetadata": "the group no longer exists, so its members rejoin.",
}


class LostRecord(NamedTuple):
    """A record in corrupt bytes, with the header of its batch."""

    header: BatchHeader
    record: Record


def readable_records(file: File, corruption: Corruption) -> list[LostRecord]:
    """Return the records in corrupt bytes before the first inconsistent record. Impossible offsets
    are replaced by the first offset that may be lost."""
    readable: list[LostRecord] = []
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
                if not possible:
                    record = record._replace(offset=corruption.first_offset)
                readable.append(LostRecord(header, record))
        except (InvalidRecord, struct_error):
            break
        position += header.size
    return readable


def describe_lost_offsets(corruption: Corruption) -> str:
    first, following = corruption.first_offset, corruption.next_offset
    if following is None:
        return f"everything from offset {first} on"
    return f"at most offsets {first}..{following - 1}" if following > first else "no offset"


def describe_record(log: PartitionLog, lost: LostRecord) -> str:
    if not lost.header.is_control:
        return describe_key(log, lost.record)
    kind = decode_content(log, lost.record, is_control=True).kind
    return f"{kind} of producer {lost.header.producer_id}"


def describe_impact(
    log: PartitionLog, lost: Collection[LostRecord], remaining: Iterable[ValidBatch]
) -> Iterator[str]:
    """Yield a sentence for each transaction marker, and for each key, of the `lost` records."""
    for each in lost:
        if each.header.is_control and each.header.is_transactional:
            yield (
                f"{describe_record(log, each)}: its transaction remains open until the producer's "
                "next transaction ends."
            )
    latest = {
        record.key: record
        for header, record in lost
        if record.key is not None and not header.is_control
    }
    older: dict[bytes, Record] = {}
    newer: set[bytes] = set()
    for batch in remaining if latest else ():
        if batch.header.is_control:
            continue
        try:
            for record in records(batch.batch):
                if record.key is None or record.key not in latest:
                    continue
                if record.offset > latest[record.key].offset:
                    newer.add(record.key)
                else:
                    older[record.key] = record
        except InvalidRecord:
            continue  # reported by `verify`
    for key, record in latest.items():
        impact = "no effect, because a newer record exists."
        if key not in newer:
            impact = _impact(log, record, older.get(key))
        yield f"{describe_key(log, record)}: {impact}"


def _impact(log: PartitionLog, lost: Record, before: Record | None) -> str:
    # The kind is in the key, so it can be decoded even if the value cannot.
    kind = decode_content(log, lost._replace(value=None), is_control=False).kind
    older = None if before is None else decode_content(log, before, is_control=False)
    if before is None or older is None or older.value is None:
        if lost.value is None:
            return "it was deleted, and remains deleted."
        return NO_OLDER_RECORD.get(kind, "it is lost, because no older record exists.")
    if lost.value is None:
        return "it was deleted, and its previous value is valid again."
    # If a value cannot be decoded, `kind` is UNDECODABLE instead of the key's kind.
    value = older.value
    if older.kind == kind == "OffsetCommit":
        content = decode_content(log, lost, is_control=False)
        source = f" from offset {content.value['offset']}" if content.kind == kind else ""
        return f"the group falls back{source} to {value['offset']} and reads those records again."
    if older.kind == kind == "GroupMetadata":
        return f"the group is in generation {value['generation']} again, so its members rejoin."
    return f"the record at offset {before.offset} is valid again."
