"""DescribeGroups and ListGroups: what is known of a group. Changes nothing.

A group that is nothing but its offsets is in the table only: Empty, without a protocol type.
Upstream: GroupMetadataManager.describeGroups and listGroups, ClassicGroup.describe.
"""

from collections.abc import Iterable
from typing import Final

from ..protocol.errors import ErrorCode
from .commands import DescribeGroup, ListGroups
from .group import Group
from .results import Described, DescribedMember, Listed, ListedGroup, describe_refused
from .states import EMPTY, STABLE, State
from .turn import Outcome, Shard, outcome_of

CLASSIC = "classic"  # as Kafka 4.3 writes the type of all groups but those of foreign.py
# What String.trim takes off.
JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))


def decide_describe(shard: Shard, command: DescribeGroup, ticket: int, _now: int) -> Outcome:
    group_id = command.group_id
    group = shard.groups.get(group_id)
    if group is not None:
        result = _described(group)
    elif shard.table.has(group_id):
        result = Described(ErrorCode.none, EMPTY, "", "", ())
    else:
        result = describe_refused(ErrorCode.group_id_not_found)
    return outcome_of(ticket, result)


def _described(group: Group) -> Described:
    # What members said is told of a settled generation only; what they were assigned always, in
    # an open round that of the generation before.
    protocol_name = group.protocol_name if group.state is STABLE else None
    return Described(
        ErrorCode.none,
        group.state,
        group.protocol_type or "",
        protocol_name or "",
        tuple(
            DescribedMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                b"" if protocol_name is None else member.metadata(protocol_name),
                member.assignment,
            )
            for member in group.members.values()
        ),
    )


def decide_list(shard: Shard, command: ListGroups, ticket: int, _now: int) -> Outcome:
    states = frozenset(state.lower().strip(JAVA_BLANKS) for state in command.states)
    # Unlike a state's, a type's name is not trimmed.
    types = frozenset(name.lower() for name in command.types)
    listed: list[ListedGroup] = []
    if not types or CLASSIC in types:
        listed += _classic(shard, states)
    if _is_wanted(EMPTY, states):
        listed += [
            ListedGroup(group_id, foreign.protocol_type, EMPTY, foreign.kind)
            for group_id, foreign in shard.foreign.groups.items()
            if not types or foreign.kind in types
        ]
    return outcome_of(ticket, Listed(ErrorCode.none, tuple(listed)))


def _classic(shard: Shard, states: frozenset[str]) -> list[ListedGroup]:
    listed = [
        ListedGroup(group.group_id, group.protocol_type or "", group.state, CLASSIC)
        for group in shard.groups.values()
        if _is_wanted(group.state, states)
    ]
    if _is_wanted(EMPTY, states):
        listed += [
            ListedGroup(group_id, "", EMPTY, CLASSIC)
            for group_id in shard.table.groups()
            if group_id not in shard.groups and group_id not in shard.foreign.groups
        ]
    return listed


def _is_wanted(state: State, states: frozenset[str]) -> bool:
    return not states or state.lower() in states


def listed_together(parts: Iterable[Listed]) -> Listed:
    """What all partitions say as one. A partition that is not (or no more) here has no say; any
    other error is the whole answer (upstream: GroupCoordinatorService.listGroups)."""
    groups: list[ListedGroup] = []
    for part in parts:
        if part.error not in (ErrorCode.none, ErrorCode.not_coordinator):
            return Listed(part.error, ())
        groups += part.groups
    return Listed(ErrorCode.none, tuple(groups))
