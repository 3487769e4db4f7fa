"""A group and its record in the log: one from the other, both ways."""

from ..offsets.records import GroupMetadata, GroupMetadataRecord, MemberMetadata
from .group import Group
from .members import Member
from .states import DEAD, EMPTY, STABLE
from .subscriptions import keep_subscriptions
from .voice import UNHEARD, Voice


def metadata_of(group: Group, assignments: dict[str, bytes] | None) -> GroupMetadata:
    """The record value of the group as it is; a member that `assignments` do not name has none.

    Only the metadata for the elected protocol is kept: after a reload a member that joins again
    with all its protocols has therefore changed them, as upstream.
    """
    name = group.protocol_name
    return GroupMetadata(
        group.protocol_type or "",
        group.generation,
        name,
        group.leader,
        group.state_timestamp_ms,
        tuple(
            MemberMetadata(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(name or ""),
                member.assignment
                if assignments is None
                else assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ),
    )


def newborn(group: Group) -> GroupMetadata:
    """The value that says no more than that the group exists, whoever is joining it already."""
    return GroupMetadata("", 0, None, None, group.state_timestamp_ms, ())


def restored(record: GroupMetadataRecord, voice: Voice = UNHEARD) -> Group:
    """The group as its record says. It replaces whatever was known of it before."""
    group_id, value = record
    group = Group(group_id, value.state_timestamp_ms, voice)
    group.stored = value
    group.state = STABLE if value.members else EMPTY
    group.previous_state = DEAD
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol_name
    group.leader = value.leader
    for stored in value.members:
        timeout_ms = stored.rebalance_timeout_ms
        group.add(
            Member(
                group_id,
                stored.member_id,
                group_instance_id=stored.group_instance_id,
                client_id=stored.client_id,
                client_host=stored.client_host,
                # Values before v1 had no rebalance timeout.
                rebalance_timeout_ms=stored.session_timeout_ms if timeout_ms == -1 else timeout_ms,
                session_timeout_ms=stored.session_timeout_ms,
                protocols=((value.protocol_name or "", stored.subscription),),
                assignment=stored.assignment,
            )
        )
    keep_subscriptions(group)
    return group
