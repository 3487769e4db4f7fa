"""The input and output of the checks: all facts about a group, and the result of each check."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ...offsets.causes import Cause
from .consumer_group import ConsumerGroup
from .group_history import Generation
from .rows import GroupLifecycle, GroupStatus, MemberExit, PartitionStatus, Rebalance, Skew, Storm

INFO, WARNING, ERROR = 1, 2, 3
"""Severities; the severity of a group without any results is 0."""

HOUR_MS: Final = 3_600_000

SLOW: Final = frozenset(
    {Cause.SLOW_POLL.name, Cause.REBALANCE_TIMEOUT.name, Cause.TIMEOUT_AMBIGUOUS.name}
)
"""Exit causes of members that were too slow."""

EVICTED: Final = SLOW | {Cause.SESSION_TIMEOUT.name, Cause.SYNC_TIMEOUT.name}
"""Exit causes of members that did not leave on purpose."""

EAGER: Final = frozenset({"range", "roundrobin", "sticky"})
"""Assignors of consumers that revoke all partitions in each rebalance."""


class GroupFacts(NamedTuple):
    """All known facts about a group. `rebalances`, `exits` and `storms` are sorted, the oldest
    first, and go back one day at most. `skews` are those of the newest record that has any."""

    group: str
    as_of_ms: int
    generation: Generation | None  # the newest record
    status: GroupStatus
    partitions: Sequence[PartitionStatus]
    rebalances: Sequence[Rebalance] = ()
    exits: Sequence[MemberExit] = ()
    storms: Sequence[Storm] = ()
    skews: Sequence[Skew] = ()
    lifecycle: GroupLifecycle | None = None
    # The newest record with members: an empty group probably returns with the same members.
    last_with_members: Generation | None = None
    consumer: ConsumerGroup | None = None  # set for a consumer group

    @property
    def is_empty(self) -> bool:
        """Whether the group had members but no longer has any."""
        if self.consumer is not None:
            return not self.consumer.members
        newest = self.generation
        return newest is not None and not newest.members and bool(newest.generation)

    def is_recent(self, time_ms: int | None) -> bool:
        """Whether the time is within the last hour. Older findings have a lower severity."""
        return time_ms is not None and time_ms > self.as_of_ms - HOUR_MS


class CheckResult(NamedTuple):
    severity: int
    verdict: str
    text: str  # one or more sentences
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    names_group: bool = False  # the text contains the name of the group


def advise_cooperative(facts: GroupFacts) -> tuple[str, ...]:
    """Return advice for groups whose assignor is eager and can be replaced, unlike those of Kafka
    Streams and Connect."""
    last = facts.last_with_members
    is_eager = last is not None and last.protocol in EAGER and not last.is_cooperative
    if facts.consumer is not None or not is_eager:
        return ()
    advice = (
        "Use cooperative rebalancing (partition.assignment.strategy=CooperativeStickyAssignor, in "
        "two rolling restarts): partitions that do not move are read without a pause."
    )
    return (advice,)
