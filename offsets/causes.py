"""Why a group was rebalanced, why a member went: one list of causes for whoever tells of them.

A broker knows what it decided; who has the log alone must infer, and knows less (`of the log alone`
below). A cause is written down by its name, which is stable, and read by people as its text:
`Cause.MEMBER_JOINED == "member joined"`.
"""

from enum import StrEnum

__all__ = ["Cause", "cause_of_leaving"]


class Cause(StrEnum):
    # --- somebody came, or came back with something new
    MEMBER_JOINED = "member joined"
    LEADER_REJOINED = "leader requested a new assignment"
    PROTOCOL_CHANGED = "protocol changed"
    SUBSCRIPTION_CHANGED = "subscription changed"
    COOPERATIVE_FOLLOWUP = "cooperative follow-up"  # the second phase of KIP-429
    METADATA_CHANGED = "member metadata changed"  # in another way, or one that cannot be read
    STATIC_REPLACED = "static member replaced"

    # --- a member went
    LEFT_CLEANLY = "member left"
    SLOW_POLL = "poll interval exceeded"  # it said so itself, as Java clients do
    REMOVED_BY_ADMIN = "member removed by an administrator"
    SESSION_TIMEOUT = "session expired"
    REBALANCE_TIMEOUT = "rebalance timeout"
    SYNC_TIMEOUT = "sync timeout"
    MEMBER_ID_NEVER_USED = "member id never used"  # given away (KIP-394), and nobody joined with it
    GROUP_FULL = "group over capacity"  # group.max.size
    # Nobody's fault but the assignor's: max.message.bytes of the offsets topic.
    ASSIGNMENT_TOO_LARGE = "assignment too large to be stored"

    REQUESTED_BY_TEST = "requested by a test"  # who steers the broker; no Kafka ever says so

    # --- the group as a whole
    GROUP_CREATED = "group created"
    GROUP_EMPTIED = "group emptied"
    GROUP_DELETED = "group deleted"
    GROUP_EXPIRED = "group expired"
    OFFSETS_DELETED = "offsets deleted"
    OFFSETS_EXPIRED = "offsets expired"
    TOPIC_DELETED = "topic deleted"

    # --- of the log alone: a broker is never in doubt
    FIRST_SEEN = "first seen, earlier history unknown"
    GROUP_DELETED_OR_EXPIRED = "group deleted or expired"
    RESTARTED = "member restarted"
    PARTITIONS_ADDED = "partitions added"  # to a broker: the leader requested a new assignment
    LEFT_UNKNOWN = "member left, reason unknown"
    TIMEOUT_AMBIGUOUS = "session expired or poll interval exceeded"
    SAME_MEMBERS_UNKNOWN = "same members, reason unknown"


# What Java clients say when they leave (KIP-800). The poll timeout: AbstractCoordinator's
# HeartbeatThread; the administrator's: KafkaAdminClient.DEFAULT_LEAVE_GROUP_REASON.
_POLL_TIMEOUT = "consumer poll timeout has expired"
_BY_ADMIN = "member was removed by an admin"


def cause_of_leaving(reason: str | None) -> Cause:
    """What a LeaveGroup means that gives `reason`. Most clients give none."""
    if reason is not None and reason.startswith(_POLL_TIMEOUT):
        return Cause.SLOW_POLL
    if reason is not None and reason.startswith(_BY_ADMIN):
        return Cause.REMOVED_BY_ADMIN
    return Cause.LEFT_CLEANLY
