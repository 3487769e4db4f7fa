"""What lost records mean: for a group whose newest commit is among them, for one that has a newer.

Bad bytes say what they held only as far as they can be read, and nobody vouches for that.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...log.errors import InvalidRecord
from ...log.records import Record, records
from ...log.recovery import ValidBatch
from .decoding import content_of
from .sources import Source
from .text import key_text

__all__ = ["impact"]


class Others(NamedTuple):
    """The records of a key that are still there, beside a lost one: the newest before it, and
    whether there is one behind it."""

    before: Record | None = None
    has_newer: bool = False


def impact(source: Source, lost: Iterable[Record], sound: Iterable[ValidBatch]) -> Iterator[str]:
    """A sentence for each key that something was lost of. `sound`: all that is left of the log."""
    newest = {record.key: record for record in lost if record.key is not None}
    others = dict.fromkeys(newest, Others())
    for each in sound if newest else ():
        if each.header.is_control:
            continue
        try:
            for record in records(each.batch):
                gone = None if record.key is None else newest.get(record.key)
                if gone is None or record.key is None:
                    continue
                if record.offset > gone.offset:
                    others[record.key] = others[record.key]._replace(has_newer=True)
                else:
                    others[record.key] = others[record.key]._replace(before=record)
        except InvalidRecord:
            continue  # verify tells of it; nobody can read it now or later
    for key, record in newest.items():
        yield f"{key_text(source, record)}: {_meaning(source, record, others[key])}"


def _meaning(source: Source, gone: Record, others: Others) -> str:
    if others.has_newer:
        return "a newer record of it is there: nothing changes."
    # The key tells the kind, even where the value cannot be read.
    kind = content_of(source, gone._replace(value=None), is_control=False).kind
    before = others.before
    older = None if before is None else content_of(source, before, is_control=False).value
    if before is None or older is None:
        return _without_older(kind, is_tombstone=gone.value is None)
    if gone.value is None:
        return "it was deleted, and what it was before comes back."
    if kind == "OffsetCommit":
        lost = content_of(source, gone, is_control=False)
        come = f" from offset {lost.value['offset']}" if lost.kind == kind else ""
        return f"the group falls back{come} to {older['offset']} and reads what is between again."
    if kind == "GroupMetadata":
        return (
            f"the group comes back with generation {older['generation']}: "
            "its members have to join once more."
        )
    return f"what the record at offset {before.offset} says counts again."


def _without_older(kind: str, *, is_tombstone: bool) -> str:
    if is_tombstone:
        return "it was deleted, and stays so."
    if kind == "OffsetCommit":
        return "there is no older commit: the group begins where its auto.offset.reset says."
    if kind == "GroupMetadata":
        return "the group is not known any more: its members have to join once more."
    return "there is no older one: it is gone."
