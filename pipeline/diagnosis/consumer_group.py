"""State and member count of a consumer group (KIP-848), from its records of types 3, 5, 6 and 8.

The members of such a group do not share a generation. Instead, the group has an epoch, and the
epoch of each member follows the group's epoch. layers/epochs.py derives the history of the group.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ...offsets.record_schemas import DictRecord, decode_as_dicts
from ...offsets.records import UndecodableRecord

RECORD_TYPES: Final = (3, 4, 5, 6, 8, 16)
"""ConsumerGroupMetadata, partition metadata (before Kafka 4.1), member metadata, target assignment
metadata, a member's current assignment, resolved regular expression."""

_STABLE: Final = 0  # MemberState of a member that has no partitions left to revoke or to wait for

_NEW_MEMBER: Final = {"memberEpoch": 0, "state": _STABLE}


class ConsumerGroup(NamedTuple):
    """`state` is Kafka's Empty, Assigning, Reconciling or Stable, or Unknown if it depends on a
    record of an unknown version."""

    state: str
    members: int


def consumer_group(records: Iterable[tuple[bytes, bytes | None]]) -> ConsumerGroup | None:
    """Derive the group from `records`, the newest record of each of its keys. Return None if the
    group is not, or no longer, a consumer group."""
    by_kind: dict[str, dict[str, dict[str, Any]]] = {}
    for key, value in records:
        entry = decode_record(key, value)
        if entry is None or entry.value is None:
            continue
        by_member = by_kind.setdefault(entry.kind, {})
        by_member[entry.key.get("memberId", "")] = dict(entry.value)
    group = by_kind.get("ConsumerGroupMetadata", {}).get("")
    if group is None:
        return None
    members = by_kind.get("ConsumerGroupMemberMetadata", {})
    targets = by_kind.get("ConsumerGroupTargetAssignmentMetadata", {})
    current = by_kind.get("ConsumerGroupCurrentMemberAssignment", {})
    state = _state(
        group.get("epoch"),
        targets.get("", {"assignmentEpoch": 0}).get("assignmentEpoch"),
        [current.get(member, _NEW_MEMBER) for member in members],
    )
    return ConsumerGroup(state, len(members))


def _state(epoch: int | None, target_epoch: int | None, members: list[dict[str, Any]]) -> str:
    """Derive the state as ConsumerGroup.maybeUpdateGroupState and isReconciledTo do in Kafka."""
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


def decode_record(key: bytes, value: bytes | None) -> DictRecord | None:
    """Decode a record. Return None if its key cannot be decoded, and an empty value if its value
    cannot be decoded."""
    with suppress(UndecodableRecord):
        return decode_as_dicts(key, value)
    with suppress(UndecodableRecord):
        found = decode_as_dicts(key, None)
        return None if found is None else found._replace(value={})
    return None
