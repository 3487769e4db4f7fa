"""`uniform`, the broker's default assignor (UniformAssignor), and its algorithm if all members have
the same subscription (UniformHomogeneousAssignmentBuilder).

Each member keeps partitions up to its quota, and the other partitions go to members below their
quotas. If the partitions cannot be divided evenly, some quotas are higher by one, first for members
that already have more partitions, then for the last members.
"""

from collections.abc import Sequence

from ..ordering import BUCKETS_MIN, bucket_count, copy_table_size
from .hashing import TopicHashes, copied_set
from .heterogeneous import assign_heterogeneous
from .model import Members, Target, TopicId, Topics, check_partitions
from .targets import TargetCopy


def assign_uniform(members: Members, topics: Topics, homogeneous: bool) -> dict[str, Target]:
    """A ServerAssignor."""
    if homogeneous and members:
        return assign_homogeneous(members, topics)
    return assign_heterogeneous(members, topics)


def assign_homogeneous(members: Members, topics: Topics) -> dict[str, Target]:
    """Return the targets of all members. There must be at least one member."""
    first = next(iter(members.values()))
    names = first.topics
    sizes = {topics[name].id: topics[name].partitions for name in names if name in topics}
    if not sizes:
        return {
            member_id: {} if member.target else member.target
            for member_id, member in members.items()
        }
    hashes = TopicHashes()
    builder = _Builder(members, sizes, hashes)
    unassigned = _unassigned(
        members, sizes, hashes.sort(sizes, copy_table_size(len(names) + first.unknown))
    )
    unassigned += builder.revoke()
    builder.assign(unassigned)
    return builder.targets()


def _unassigned(
    members: Members, sizes: dict[TopicId, int], order: list[TopicId]
) -> list[tuple[TopicId, Sequence[int]]]:
    """Return the partitions that no member owns, by topic."""
    assigned: dict[TopicId, set[int]] = {topic: set() for topic in order}
    for member in members.values():
        for topic, partitions in member.target.items():
            if topic in assigned:
                assigned[topic].update(partitions)
    for topic, of_topic in assigned.items():
        check_partitions(of_topic, sizes[topic])
    return [
        (topic, [partition for partition in range(sizes[topic]) if partition not in of_topic])
        for topic, of_topic in assigned.items()
        if len(of_topic) < sizes[topic]
    ]


class _Builder:
    def __init__(self, members: Members, sizes: dict[TopicId, int], hashes: TopicHashes) -> None:
        self._members, self._sizes, self._hashes = members, sizes, hashes
        self._copies: dict[str, TargetCopy] = {}
        """Changed targets by member id."""
        self._below_quota: list[tuple[str, int]] = []
        """Members and the number of partitions that they still need."""

    def targets(self) -> dict[str, Target]:
        return {
            member_id: self._copies[member_id].target()
            if member_id in self._copies
            else member.target
            for member_id, member in self._members.items()
        }

    def _copy(self, member_id: str) -> TargetCopy:
        if member_id not in self._copies:
            target = self._members[member_id].target
            self._copies[member_id] = TargetCopy(target, self._hashes)
        return self._copies[member_id]

    def revoke(self) -> list[tuple[TopicId, Sequence[int]]]:
        """Remove topics without subscribers, and partitions above the members' quotas. Return these
        partitions."""
        min_quota, extra = divmod(sum(self._sizes.values()), len(self._members))
        revoked: list[tuple[TopicId, Sequence[int]]] = []
        remaining = len(self._members)
        for member_id, member in self._members.items():
            owned = sum(map(len, member.target.values()))
            if not member.target.keys() <= self._sizes.keys():
                owned -= self._remove_topics(member_id)
            quota = min_quota
            if extra and (owned > min_quota or remaining <= extra):
                quota += 1
                extra -= 1
            if owned < quota:
                self._below_quota.append((member_id, quota - owned))
            elif owned > quota:
                revoked += self._revoke_above(quota, member_id)
            remaining -= 1
        return revoked

    def _remove_topics(self, member_id: str) -> int:
        """Remove topics without subscribers. Return the number of partitions."""
        count = 0
        for topic, partitions in self._members[member_id].target.items():
            if topic not in self._sizes:
                self._copy(member_id).remove_topic(topic)
                count += len(partitions)
        return count

    def _revoke_above(self, quota: int, member_id: str) -> list[tuple[TopicId, Sequence[int]]]:
        revoked: list[tuple[TopicId, Sequence[int]]] = []
        target = self._members[member_id].target
        for topic in self._hashes.sort(target, bucket_count(len(target))):
            if topic in self._sizes:
                partitions = target[topic]
                if len(partitions) > quota:
                    above = copied_set(partitions).ordered()[quota:]
                    self._copy(member_id).remove(topic, above)
                    revoked.append((topic, above))
                quota = max(0, quota - len(partitions))
        return revoked

    def assign(self, unassigned: list[tuple[TopicId, Sequence[int]]]) -> None:
        """Assign partitions in this order to the members below their quota."""
        rest = iter(unassigned)
        topic, partitions = next(rest, (None, ()))
        start = 0
        for member_id, count in self._below_quota:
            while count and topic is not None:
                taken = partitions[start : start + count]
                self._copy(member_id).add(topic, taken, BUCKETS_MIN)
                count -= len(taken)
                start += len(taken)
                if start == len(partitions):
                    topic, partitions = next(rest, (None, ()))
                    start = 0
        assert topic is None, "the quotas are too low: several members have the same partition"
