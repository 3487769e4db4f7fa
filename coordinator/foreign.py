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

from ..offsets.records import GroupType, OffsetTombstone, OtherGroupRecord, UnknownRecord
from .voice import Voice

# The record types that stand for a group itself: the last to be forgotten of each.
_GROUPS_THEMSELVES = {3, 11, 17}


class ForeignGroup:
    """The records that there are of it, as tombstones."""

    __slots__ = ("_records", "kind")

    def __init__(self, kind: GroupType) -> None:
        self.kind = kind
        self._records: dict[OtherGroupRecord, None] = {}

    @property
    def protocol_type(self) -> str:
        """The same word, in Kafka."""
        return self.kind.value

    def put(self, record: OtherGroupRecord) -> None:
        self._records[record._replace(value=None)] = None

    def remove(self, tombstone: OtherGroupRecord) -> bool:
        """Whether that was its last record."""
        self._records.pop(tombstone, None)
        return not self._records

    def tombstones(self) -> list[OtherGroupRecord]:
        """In Kafka's order: what a member holds before the member, the group last."""
        return sorted(self._records, key=_place)


def _place(record: OtherGroupRecord) -> tuple[bool, int, bytes]:
    kind = record.record_type
    return kind in _GROUPS_THEMSELVES, -kind, record.key


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

    def apply(self, record: OtherGroupRecord) -> None:
        group_id = record.group_id
        group = self.groups.get(group_id)
        if record.value is not None:
            if group is None or group.kind is not record.group_type:
                group = self.groups[group_id] = ForeignGroup(record.group_type)
            group.put(record)
        elif group is not None and group.remove(record):
            del self.groups[group_id]

    def apply_unknown(self, record: UnknownRecord, voice: Voice) -> None:
        """Each unknown type is logged once."""
        type_ = record.record_type
        if type_ not in self._types_told:
            self._types_told.add(type_)
            voice.warning(
                "Ignoring records of type %d, which is not known here; they stay in the log.",
                type_,
            )
