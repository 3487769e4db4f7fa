"""The causes of rebalances and member removals, for both the broker and the pipeline.

The broker reports exact causes; the pipeline infers them from the log and is less precise. A cause
is stored by its name, which is stable, and displayed as its text: `Cause.MEMBER_JOINED == "member
joined"`.
"""

from enum import StrEnum


class Cause(StrEnum):
    # --- a member joined, or rejoined with changes
    MEMBER_JOINED = "member joined"
    LEADER_REJOINED = "leader requested a new assignment"
    PROTOCOL_CHANGED = "protocol changed"
    SUBSCRIPTION_CHANGED = "subscription changed"
    COOPERATIVE_FOLLOWUP = "cooperative follow-up"  # the second rebalance of KIP-429
    METADATA_CHANGED = "member metadata changed"  # other changes, and undecodable metadata
    STATIC_REPLACED = "static member replaced"
    TOPICS_CHANGED = "topics changed"  # KIP-848: created, deleted, or with more partitions
    TOPICS_MATCHED = "regular expression matches other topics"  # KIP-848

    # --- a member left or was removed
    LEFT_CLEANLY = "member left"
    LEFT_TEMPORARILY = "static member left temporarily"  # KIP-848: epoch -2
    SLOW_POLL = "poll interval exceeded"  # reported by Java clients; otherwise inferred
    REMOVED_BY_ADMIN = "member removed by an administrator"
    SESSION_TIMEOUT = "session expired"
    REBALANCE_TIMEOUT = "rebalance timeout"
    SYNC_TIMEOUT = "sync timeout"
    MEMBER_ID_NEVER_USED = "member id never used"  # KIP-394: no join followed
    GROUP_FULL = "group over capacity"  # group.max.size
    ASSIGNMENT_TOO_LARGE = "assignment too large to be stored"  # max.message.bytes

    REQUESTED_BY_TEST = "requested by a test"  # never by a Kafka broker

    # --- the group as a whole
    GROUP_CREATED = "group created"
    GROUP_EMPTIED = "group emptied"
    GROUP_DELETED = "group deleted"
    GROUP_EXPIRED = "group expired"
    OFFSETS_DELETED = "offsets deleted"
    OFFSETS_EXPIRED = "offsets expired"
    TOPIC_DELETED = "topic deleted"

    # inferred from the log, never reported by a broker
    FIRST_SEEN = "first seen, earlier history unknown"
    GROUP_DELETED_OR_EXPIRED = "group deleted or expired"
    RESTARTED = "member restarted"
    PARTITIONS_ADDED = "partitions added"  # a broker reports LEADER_REJOINED
    LEFT_UNKNOWN = "member left, reason unknown"
    TIMEOUT_AMBIGUOUS = "session expired or poll interval exceeded"
    SAME_MEMBERS_UNKNOWN = "same members, reason unknown"


# The reasons of Java clients (KIP-800): AbstractCoordinator.HeartbeatThread and
# KafkaAdminClient.DEFAULT_LEAVE_GROUP_REASON.
_POLL_TIMEOUT = "consumer poll timeout has expired"
_BY_ADMIN = "member was removed by an admin"


def cause_of_leaving(reason: str | None) -> Cause:
    """Return the cause for the reason in a LeaveGroup request. Most clients send no reason."""
    if reason is not None and reason.startswith(_POLL_TIMEOUT):
        return Cause.SLOW_POLL
    if reason is not None and reason.startswith(_BY_ADMIN):
        return Cause.REMOVED_BY_ADMIN
    return Cause.LEFT_CLEANLY
