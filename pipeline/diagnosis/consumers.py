"""How a group of the consumer protocol (KIP-848) is, by its records of Kafka's types 3, 5, 6 and 8.

It has no generation of all its members: the group has an epoch, each member one of its own, and
follows. Owners are not told: current assignments name topics by id alone, and which name that is
only commits say (OffsetCommitValue v4, `topicId`), of topics that have some.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from ...offsets.errors import UndecodableRecord
from ...offsets.record_schemas import DictRecord, decode_as_dicts

__all__ = ["RECORD_TYPES", "ConsumerGroup", "consumer_group"]

RECORD_TYPES: Final = (3, 5, 6, 8)
"""Of the group, a member, the group's target assignment, a member's current assignment."""

_STABLE: Final = 0  # MemberState of a member that has revoked and released all that it has to

_NEW_MEMBER: Final = {"memberEpoch": 0, "state": _STABLE}


class ConsumerGroup(NamedTuple):
    """`state` is Kafka's: Empty, Assigning, Reconciling, Stable; Unknown where a record of an
    unknown version hides it."""

    state: str
    members: int


def consumer_group(records: Iterable[tuple[bytes, bytes | None]]) -> ConsumerGroup | None:
    """Of the newest records of a group's keys, and their values. None: it is no group of that
    protocol, or not any more."""
    of_kind: dict[str, dict[str, dict[str, Any]]] = {}
    for entry in _read(records):
        of_member = of_kind.setdefault(entry.kind, {})
        of_member[entry.key.get("memberId", "")] = dict(entry.value or {})
    group = of_kind.get("ConsumerGroupMetadata", {}).get("")
    if group is None:
        return None
    members = of_kind.get("ConsumerGroupMemberMetadata", {})
    targets = of_kind.get("ConsumerGroupTargetAssignmentMetadata", {})
    current = of_kind.get("ConsumerGroupCurrentMemberAssignment", {})
    state = _state(
        group.get("epoch"),
        targets.get("", {"assignmentEpoch": 0}).get("assignmentEpoch"),
        [current.get(member, _NEW_MEMBER) for member in members],
    )
    return ConsumerGroup(state, len(members))


def _state(epoch: int | None, target_epoch: int | None, members: list[dict[str, Any]]) -> str:
    """Upstream: ConsumerGroup.maybeUpdateGroupState, ConsumerGroupMember.isReconciledTo."""
    if not members:
        return "Empty"
    if epoch is None or target_epoch is None or not all(members):
        return "Unknown"
    if epoch > target_epoch:
        return "Assigning"
    for member in members:
        if member["memberEpoch"] != target_epoch or member["state"] != _STABLE:
            return "Reconciling"
    return "Stable"


def _read(records: Iterable[tuple[bytes, bytes | None]]) -> Iterator[DictRecord]:
    """Those that are there. A key tells of its member, even where its value cannot be read."""
    for key, value in records:
        if value is None:
            continue
        try:
            entry = decode_as_dicts(key, value)
        except UndecodableRecord:
            entry = _without_value(key)
        if entry is not None:
            yield entry


def _without_value(key: bytes) -> DictRecord | None:
    try:
        return decode_as_dicts(key, None)
    except UndecodableRecord:
        return None
