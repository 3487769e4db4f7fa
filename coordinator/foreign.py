"""What only a Kafka can have left in the log: groups of other kinds, and open transactions.

    kind                  joins      commits, fetches, deletes     described, listed
    consumer (KIP-848)    convert it as of an empty group          GROUP_ID_NOT_FOUND; as such
    streams (KIP-1071)    convert it as of an empty group          GROUP_ID_NOT_FOUND; as such
    share (KIP-932)       refused    only the group's deletion     GROUP_ID_NOT_FOUND; as such

That is what Kafka answers for a group whose members are gone, and those of these groups are: their
protocols are not spoken here. Their records stay as they are until the group is converted, deleted
or has expired, then each gets its tombstone.

A partition with an offset of an open transaction is not stable, and no offset of its group expires.
Upstream: GroupMetadataManager.classicGroupJoin, OffsetMetadataManager.
"""

from enum import StrEnum
from struct import Struct

from ..offsets.records import OffsetTombstone, OpaqueRecord
from .voice import Voice

_HEAD = Struct(">hh")  # a key's record type, and the length of the group id that follows


class Kind(StrEnum):
    """As ListGroups names it."""

    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


# By record type (upstream: CoordinatorRecordType); the last to be forgotten of each is what the
# group itself is known by.
_KINDS = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), Kind.CONSUMER),
    **dict.fromkeys((9, 10, 11, 12, 13, 14, 15), Kind.SHARE),
    **dict.fromkeys((17, 18, 19, 20, 21, 22, 23, 24), Kind.STREAMS),
}
_GROUPS_THEMSELVES = {3, 11, 17}


class ForeignGroup:
    """`keys` of the records that there are of it."""

    __slots__ = ("keys", "kind")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.keys: dict[bytes, None] = {}

    @property
    def protocol_type(self) -> str:
        """The same word, in Kafka."""
        return self.kind.value

    def tombstones(self) -> list[OpaqueRecord]:
        """In Kafka's order: what a member holds before the member, the group last."""
        return [OpaqueRecord(key, None) for key in sorted(self.keys, key=_place)]


def _place(key: bytes) -> tuple[bool, int, bytes]:
    kind = int.from_bytes(key[:2], "big")
    return kind in _GROUPS_THEMSELVES, -kind, key


class Foreign:
    """`groups` by id; `pending`: group, topic and partition of what open transactions commit."""

    __slots__ = ("_types_told", "groups", "pending")

    def __init__(self) -> None:
        self.groups: dict[str, ForeignGroup] = {}
        self.pending: dict[tuple[str, str, int], None] = {}
        self._types_told: set[int] = set()

    def pending_of(self, group_id: str) -> list[OffsetTombstone]:
        """What would forget them."""
        return [OffsetTombstone(*where) for where in self.pending if where[0] == group_id]

    def tell(self, voice: Voice) -> None:
        """What was found in a log that has been read."""
        for group_id, group in self.groups.items():
            voice.info("Loaded %s group %s, its members taken for gone.", group.kind, group_id)
        for group_id, topic, partition in self.pending:
            voice.warning(
                "A transaction of group %s was left open: its offset of %s-%d is not stable until "
                "it is deleted.",
                group_id,
                topic,
                partition,
            )

    def apply(self, record: OpaqueRecord, voice: Voice) -> None:
        """Take in a record; one of a type that nobody knows is told of once."""
        key, value = record
        type_ = int.from_bytes(key[:2], "big")
        kind = _KINDS.get(type_)
        if kind is None:
            if type_ not in self._types_told:
                self._types_told.add(type_)
                voice.warning(
                    "Ignoring records of type %d, which is not known here; they stay in the log.",
                    type_,
                )
            return
        group_id = key[_HEAD.size : _HEAD.size + int.from_bytes(key[2:4], "big")].decode(
            errors="replace"
        )
        group = self.groups.get(group_id)
        if value is not None:
            if group is None or group.kind is not kind:
                group = self.groups[group_id] = ForeignGroup(kind)
            group.keys[key] = None
        elif group is not None:
            group.keys.pop(key, None)
            if not group.keys:
                del self.groups[group_id]
