"""Groups of other types, and open transactions: what a Kafka broker may have left in the log.

Consumer (KIP-848), streams (KIP-1071) and share (KIP-932) groups count as groups without members,
since their protocols are not served. Kafka's responses to such groups:

    type       join              commit, fetch, delete          describe, list
    consumer   converts it       as of an empty group           GROUP_ID_NOT_FOUND; listed
    streams    converts it       as of an empty group           GROUP_ID_NOT_FOUND; listed
    share      is rejected       only the group can be deleted  GROUP_ID_NOT_FOUND; listed

Their records stay until the group is converted, deleted or expired; then each gets a tombstone.
While a transaction has committed an offset and has not ended, that offset is not stable, and no
offset of the group expires. Upstream: GroupMetadataManager.classicGroupJoin, OffsetMetadataManager.
"""

from ..offsets.records import (
    GroupType,
    OffsetTombstone,
    OtherGroupRecord,
    PendingTransactionalOffset,
    TransactionalOffsetEnd,
    UnknownRecord,
)

# Upstream's CoordinatorRecordType: the records that stand for a group itself. Their tombstones
# come last.
_GROUP_RECORD_TYPES = {3, 11, 17}


class OtherGroup:
    """A group of another type, known by the keys of its records."""

    __slots__ = ("_keys", "type")

    def __init__(self, type_: GroupType) -> None:
        self.type = type_
        self._keys: dict[OtherGroupRecord, None] = {}  # as tombstones

    @property
    def protocol_type(self) -> str:
        """In Kafka the same as the type."""
        return self.type.value

    def put(self, record: OtherGroupRecord) -> None:
        self._keys[record._replace(value=None)] = None

    def remove(self, tombstone: OtherGroupRecord) -> bool:
        """Return whether the group has no records left."""
        self._keys.pop(tombstone, None)
        return not self._keys

    def tombstones(self) -> list[OtherGroupRecord]:
        """In Kafka's order: what belongs to a member before the member, the group last."""
        return sorted(self._keys, key=_tombstone_order)


def _tombstone_order(record: OtherGroupRecord) -> tuple[bool, int, bytes]:
    type_ = record.record_type
    return type_ in _GROUP_RECORD_TYPES, -type_, record.key


class OtherGroups:
    """The groups by id, and the offsets that open transactions have committed: (group, topic,
    partition)."""

    __slots__ = ("groups", "pending_offsets", "unknown_types")

    def __init__(self) -> None:
        self.groups: dict[str, OtherGroup] = {}
        self.pending_offsets: dict[tuple[str, str, int], None] = {}
        self.unknown_types: set[int] = set()

    def __contains__(self, group_id: str) -> bool:
        return group_id in self.groups

    def apply(self, record: OtherGroupRecord) -> None:
        group = self.groups.get(record.group_id)
        if record.value is not None:
            if group is None or group.type is not record.group_type:
                group = self.groups[record.group_id] = OtherGroup(record.group_type)
            group.put(record)
        elif group is not None and group.remove(record):
            del self.groups[record.group_id]

    def apply_unknown(self, record: UnknownRecord) -> None:
        self.unknown_types.add(record.record_type)

    def apply_pending(self, record: PendingTransactionalOffset) -> None:
        self.pending_offsets[record.group_id, record.topic, record.partition] = None

    def remove_pending(self, record: TransactionalOffsetEnd | OffsetTombstone) -> None:
        self.pending_offsets.pop((record.group_id, record.topic, record.partition), None)

    def pending_tombstones(self, group_id: str) -> list[OffsetTombstone]:
        """Return tombstones for the group's pending offsets."""
        return [OffsetTombstone(*each) for each in self.pending_offsets if each[0] == group_id]

    def may_expire(self, group_id: str) -> bool:
        """Share groups never expire; others not while a transaction is open."""
        group = self.groups.get(group_id)
        if group is not None and group.type is GroupType.SHARE:
            return False
        return all(pending_id != group_id for pending_id, _, _ in self.pending_offsets)
