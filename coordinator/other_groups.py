"""Groups of other types, which a Kafka broker may have written to the log.

Streams groups (KIP-1071) and share groups (KIP-932) are treated as groups without members, because
their protocols are not served. Kafka's responses to requests for such groups:

    type       join              commit, fetch, delete          describe, list
    streams    converts it       as for an empty group          GROUP_ID_NOT_FOUND; listed
    share      is rejected       only the group can be deleted  GROUP_ID_NOT_FOUND; listed

The records of a group are kept until the group is converted or deleted, or expires. Then each
record gets a tombstone. Upstream: GroupMetadataManager.classicGroupJoin.
"""

from ..offsets.records import GroupType, OtherGroupRecord

# The CoordinatorRecordTypes of the group itself, whose tombstones come last.
_GROUP_RECORD_TYPES = {11, 17}


class OtherGroup:
    """A share or streams group, represented by the keys of its records."""

    def __init__(self, type_: GroupType) -> None:
        self.type = type_
        self.keys: dict[OtherGroupRecord, None] = {}  # as tombstones

    def tombstones(self) -> list[OtherGroupRecord]:
        """Return tombstones in Kafka's order: member-level records first, the group record last."""

        def order(record: OtherGroupRecord) -> tuple[bool, int, bytes]:
            return record.record_type in _GROUP_RECORD_TYPES, -record.record_type, record.key

        return sorted(self.keys, key=order)


class OtherGroups:
    """All share and streams groups, by id."""

    def __init__(self) -> None:
        self.groups: dict[str, OtherGroup] = {}
        self.unknown_types: set[int] = set()

    def apply(self, record: OtherGroupRecord) -> None:
        group = self.groups.get(record.group_id)
        if record.value is not None:
            if group is None or group.type is not record.group_type:
                group = self.groups[record.group_id] = OtherGroup(record.group_type)
            group.keys[record._replace(value=None)] = None
        elif group is not None:
            group.keys.pop(record, None)
            if not group.keys:
                del self.groups[record.group_id]

    def may_expire(self, group_id: str) -> bool:
        """Whether the group may expire. Share groups never expire."""
        group = self.groups.get(group_id)
        return group is None or group.type is not GroupType.SHARE
