"""What can still be read of bad bytes: the checksum says that something in them is wrong, and often
it is a single bit."""

from struct import error as struct_error

from ...log.errors import InvalidRecord
from ...log.files import File
from ...log.records import Record, records
from ...log.recovery import Corruption, header_at

__all__ = ["readable"]


def readable(file: File, flaw: Corruption) -> list[Record]:
    """The records in a flaw, up to the first that makes no sense. Nobody vouches for them.

    An offset that cannot be theirs is replaced by the flaw's first.
    """
    found: list[Record] = []
    position = flaw.position
    while position < flaw.end:
        header = header_at(file, position)
        if header is None or position + header.size > flaw.end:
            break
        batch = file.read(position, header.size)
        try:
            for record in records(batch):
                fits = flaw.first_offset <= record.offset and (
                    flaw.next_offset is None or record.offset < flaw.next_offset
                )
                found.append(record if fits else record._replace(offset=flaw.first_offset))
        except (InvalidRecord, struct_error):
            break
        position += header.size
    return found
