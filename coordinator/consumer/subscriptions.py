"""What changes the group epoch: subscriptions, regular expressions, and the topics they select.

All regular expressions of a group are resolved together, by a timer with delay 0, at most every ten
seconds. Upstream: hasMemberSubscriptionChanged, maybeUpdateRegularExpressions,
updateSubscriptionMetadata, handleRegularExpressionsResult.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from ...offsets.causes import Cause
from ...offsets.records import (
    ConsumerGroupMetadata,
    ConsumerGroupRecord,
    ConsumerRecordType,
    ResolvedRegularExpression,
)
from ...protocol.errors import ApiError, ErrorCode
from ..commands import TopicFilter
from ..deadlines import DeadlineKey
from ..decision import Decision, TopicMetadata
from ..outcome import DEBUG, EventType, RegexQuery
from .group import ConsumerGroup, Member, Subscriptions

# Upstream: REGEX_BATCH_REFRESH_MIN_INTERVAL_MS.
REGEX_REFRESH_INTERVAL_MS_MIN: Final = 10_000
_TOPICS_CHANGED: Final = "the topics of the subscriptions have changed"


class RegexChange(Enum):
    NONE = auto()
    CHANGED = auto()  # its topics are not known yet
    RESOLVED = auto()  # changed, and its topics are known


class Epoch(NamedTuple):
    """The group epoch after the current decision, and whether all members then have the same
    subscription."""

    epoch: int
    is_homogeneous: bool


def update_member_metadata(
    decision: Decision, group: ConsumerGroup, before: Member, after: Member
) -> bool:
    """Write the member's metadata if it has changed. Return whether its topic names changed."""
    if after == before:
        return False
    type_ = ConsumerRecordType.MEMBER_METADATA
    record = ConsumerGroupRecord(type_, group.group_id, after.member_id, after.metadata)
    decision.append(record)
    names = after.metadata.subscribed_topic_names
    if names == before.metadata.subscribed_topic_names:
        return False
    decision.log(
        "[GroupId %s] Member %s updated its subscribed topics to: %s.",
        *(group.group_id, after.member_id, names),
        level=DEBUG,
    )
    return True


def update_regex(
    decision: Decision,
    group: ConsumerGroup,
    before: Member,
    after: Member,
    describes_topic: TopicFilter | None,
) -> RegexChange:
    """Handle a changed regular expression. If a resolution of the group's expressions is due,
    schedule it for the topics that the client may describe. Raises ApiError."""
    old, new = before.regex, after.regex
    change, is_due = RegexChange.NONE, False
    if before.metadata.subscribed_topic_regex != after.metadata.subscribed_topic_regex:
        change = RegexChange.CHANGED
        if old is not None and group.regex_counts.get(old) == 1:
            _write_regex(decision, group, old, None)
        if new is None:
            change = RegexChange.CHANGED if old is None else RegexChange.RESOLVED
        elif new not in group.regex_counts:
            _check_regex(decision, new)
            is_due = True
        elif new in group.regexes:
            change = RegexChange.RESOLVED
    if is_due or group.regex_counts:
        subscribed = group.subscriptions([before], after).regexes
        scheduled = _schedule_resolution(decision, group, is_due, len(subscribed))
        if scheduled and describes_topic is not None:
            decision.partition.topic_filters[group.group_id] = describes_topic
    return change


def _check_regex(decision: Decision, regex: str) -> None:
    problem = decision.partition.topics.regex_problem(regex)
    if problem is not None:
        message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {problem}."
        raise ApiError(ErrorCode.invalid_regular_expression, message)


def _schedule_resolution(
    decision: Decision, group: ConsumerGroup, is_due: bool, subscribed: int
) -> bool:
    """Schedule a resolution of the group's expressions if `is_due`, or if the last resolution is
    obsolete: it had other expressions, topics were created, the refresh interval has passed, or its
    topics version comes from Kafka or from changes that were undone. Do nothing while a resolution
    is in progress, or within ten seconds after one. Return whether a resolution was scheduled."""
    key, topics = DeadlineKey("regex", group.group_id), decision.partition.topics
    last = next(iter(group.regexes.values()), ResolvedRegularExpression((), 0, -(2**63)))
    is_matching = group.group_id in decision.partition.matching
    if is_matching or key in decision.deadlines.pending or not subscribed:
        return False
    if decision.now <= last.timestamp + REGEX_REFRESH_INTERVAL_MS_MIN:
        return False
    if (
        is_due
        or subscribed != len(group.regexes)
        or not topics.created_version <= last.version <= topics.version
        or decision.now > last.timestamp + decision.config.regex_refresh_interval_ms
    ):
        decision.schedule(key, 0)
        return True
    return False


def query_topics(decision: Decision, group: ConsumerGroup) -> None:
    """Request the topics that match the group's regular expressions."""
    topics = decision.partition.topics
    decision.partition.matching.add(group.group_id)
    describes_topic = decision.partition.topic_filters.pop(group.group_id, None)
    match = topics.matcher(tuple(group.regex_counts), describes_topic)
    decision.query(RegexQuery(group.group_id, topics.version, match))


def resolve_regexes(
    decision: Decision,
    group: ConsumerGroup,
    matched: Mapping[str, tuple[str, ...]],
    topics_version: int,
) -> None:
    """Write the topics that match the regular expressions. Bump the group epoch if the topics have
    changed."""
    topics = decision.partition.topics
    before = group.subscriptions()
    resolved = {
        regex: ResolvedRegularExpression(found, topics_version, decision.now)
        for regex, found in matched.items()
        if regex in before.regexes
    }
    for regex, value in resolved.items():
        _write_regex(decision, group, regex, value)
    group.unresolved = None
    changed = [regex for regex, each in resolved.items() if group.topics_of(regex) != each.topics]
    after = before._replace(resolved={**before.resolved, **resolved})
    metadata_hash = topics.metadata_hash(after.topics)
    if changed or metadata_hash != group.metadata_hash:
        cause, reason = Cause.TOPICS_CHANGED, _TOPICS_CHANGED
        if changed:
            cause = Cause.TOPICS_MATCHED
            reason = f"regular expressions match other topics: {', '.join(changed)}"
        epoch = bump_epoch(decision, group, metadata_hash, cause, reason)
        group.checked = topics.version, epoch


def _write_regex(
    decision: Decision,
    group: ConsumerGroup,
    regex: str,
    value: ResolvedRegularExpression | None,
) -> None:
    type_ = ConsumerRecordType.REGULAR_EXPRESSION
    decision.append(ConsumerGroupRecord(type_, group.group_id, regex, value))


def delete_regexes(
    decision: Decision, group: ConsumerGroup, removed: list[Member], remaining: Subscriptions
) -> None:
    """Delete the regular expressions to which only the removed members are subscribed."""
    for regex in dict.fromkeys(member.regex for member in removed if member.regex is not None):
        if regex not in remaining.regexes:
            _write_regex(decision, group, regex, None)


def cause_of_bump(group: ConsumerGroup, member: Member) -> Cause:
    """Return why a member with a new subscription changes the group epoch."""
    return Cause.MEMBER_JOINED if _is_added(group, member) else Cause.SUBSCRIPTION_CHANGED


def _is_added(group: ConsumerGroup, member: Member) -> bool:
    """Whether the member is new, and does not replace a static member."""
    is_known = member.member_id in group.members
    return not is_known and group.static_member(member.group_instance_id) is None


def update_epoch(
    decision: Decision,
    group: ConsumerGroup,
    before: Member,
    after: Member,
    cause: Cause | None,
) -> Epoch:
    """Bump the group epoch if there is a `cause`, or if the topics of the group have changed."""
    topics = decision.partition.topics
    if cause is None and _is_checked(group, topics):
        if before.regex != after.regex:
            remaining = group.subscriptions([before], after).topics
            group.unresolved = group.epoch, topics.metadata_hash(remaining)
        return Epoch(group.epoch, group.is_homogeneous)
    subscriptions = group.subscriptions([before], after)
    members = len(group.members) + _is_added(group, after)
    metadata_hash = topics.metadata_hash(subscriptions.topics)
    if metadata_hash != group.metadata_hash and cause is None:
        cause = Cause.TOPICS_CHANGED
    epoch = group.epoch
    if cause is not None:
        reason = _TOPICS_CHANGED
        if cause is not Cause.TOPICS_CHANGED:
            reason = f"member {after.member_id} joined or changed its subscription"
        epoch = bump_epoch(decision, group, metadata_hash, cause, reason, after)
    group.checked = topics.version, epoch
    if group.partition_metadata is not None:
        type_ = ConsumerRecordType.PARTITION_METADATA
        decision.append(ConsumerGroupRecord(type_, group.group_id, "", None))
    return Epoch(epoch, subscriptions.are_homogeneous(members))


def _is_checked(group: ConsumerGroup, topics: TopicMetadata) -> bool:
    """Whether the metadata hash has been compared since a topic of the group last changed. Changes
    to other topics do not matter."""
    if group.checked is None or group.has_checked(topics.version):
        return group.checked is not None
    _, epoch = group.checked
    expected = group.metadata_hash
    if group.unresolved is not None and group.unresolved[0] == group.epoch:
        expected = group.unresolved[1]
    current = topics.metadata_hash(group.subscriptions().topics)
    if group.epoch < epoch or current != expected:
        return False
    group.checked = topics.version, epoch
    return True


def bump_epoch(
    decision: Decision,
    group: ConsumerGroup,
    metadata_hash: int,
    cause: Cause,
    reason: str,
    member: Member | None = None,
) -> int:
    """Write the next group epoch and return it."""
    epoch = group.epoch + 1
    group_id = group.group_id
    value = ConsumerGroupMetadata(epoch, metadata_hash)
    type_ = ConsumerRecordType.GROUP_METADATA
    decision.append(ConsumerGroupRecord(type_, group_id, "", value))
    decision.log(
        "[GroupId %s] Bumped group epoch to %d with metadata hash %d.",
        *(group_id, epoch, metadata_hash),
    )
    decision.report(
        EventType.REBALANCE_STARTED,
        group,
        member,
        generation=epoch,
        cause=cause,
        reason=reason,
        detail={} if member is None else {"triggered_by": member.member_id},
    )
    return epoch
