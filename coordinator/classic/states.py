"""The states of a classic group: allowed transitions, and the response to every request.

Two checks are the same in all states:

- The group exists. If it does not, a join with an empty member id creates it (Empty). Any other
  join, a sync, a heartbeat and each member of a leave request get UNKNOWN_MEMBER_ID. A commit
  without a generation creates a group that has only offsets. A commit with a generation gets an
  error that depends on the version of the request. A fetch returns no offsets and no error.
- The member id is valid (`Group.validate_member`). If it is not, the error is UNKNOWN_MEMBER_ID, or
  FENCED_INSTANCE_ID if another member holds the instance id. A sync, a heartbeat and a commit must
  also contain the group's generation, or get ILLEGAL_GENERATION.

Between these checks, a join fails if the group is full (GROUP_MAX_SIZE_REACHED) or if the client
lists no protocol that all members support (INCONSISTENT_GROUP_PROTOCOL).

A leave without a member id, which only administrators send, removes the member that holds the
instance id.

Fetching offsets, describing and listing are allowed in every state and change no timer. An Empty
group can be deleted. In other states, the deletion gets NON_EMPTY_GROUP. The offsets of an Empty
group can be deleted. In other states, the deletion gets GROUP_SUBSCRIBED_TO_TOPIC for topics to
which a consumer of the group is subscribed, and NON_EMPTY_GROUP for every topic if the protocol
type is not "consumer". Deleting offsets of an unknown group gets GROUP_ID_NOT_FOUND.

Empty -- no members: a new group, a group whose members have all left, or a group with offsets only.
    Join, new            a static member, or a dynamic member before v4, starts the initial
                         rebalance and waits; other dynamic members get MEMBER_ID_REQUIRED
    Join, pending id     starts the initial rebalance and waits
    Join, known id       UNKNOWN_MEMBER_ID, because there are no members
    Sync, Heartbeat      UNKNOWN_MEMBER_ID
    Leave                UNKNOWN_MEMBER_ID; a pending member id is removed
    Commit               generation < 0: accepted from any client. Otherwise UNKNOWN_MEMBER_ID
    Next state           PreparingRebalance

PreparingRebalance -- the join phase: waits until all members have rejoined.
    Join, new            as in Empty, and waits for this rebalance
    Join, known id       updates the member's protocols and waits
    Sync                 REBALANCE_IN_PROGRESS
    Heartbeat            REBALANCE_IN_PROGRESS; the session is extended
    Leave                the member leaves; if it was the last one missing, the join phase ends,
                         except in the initial rebalance, which waits for its timer
    Commit               accepted for the previous generation; the session is extended
    Session expires      the member is removed; the join phase ends if no other member is missing
    Join phase times out dynamic members that have not rejoined are removed, static members stay;
                         if no member has rejoined, the phase is extended
    Next state           CompletingRebalance; Empty if no member is left

CompletingRebalance -- the generation has started and the group waits for the leader's sync.
    Join, new            MEMBER_ID_REQUIRED, or starts a rebalance
    Join, known id       gets this generation again; changed protocols start a rebalance
    Sync, leader         all waiting members receive their assignment once it is durable
    Sync, follower       waits
    Heartbeat            NONE (upstream's ClassicGroupState says otherwise); the session is extended
    Leave                the member leaves, which starts a rebalance
    Commit               REBALANCE_IN_PROGRESS for the new generation, which has no assignment yet
    Session expires      the member is removed (unless its sync waits), which starts a rebalance
    Sync phase times out members that have not sent SyncGroup are removed, which starts a rebalance
    Next state           Stable; PreparingRebalance, and waiting syncs get REBALANCE_IN_PROGRESS

Stable -- the assignment is stored.
    Join, new            MEMBER_ID_REQUIRED, or starts a rebalance; a static member whose instance
                         id is known replaces the previous one, without a rebalance unless the
                         selected protocol changes (join.py)
    Join, known id       the leader starts a rebalance, and so does a follower with changed
                         protocols; other followers get this generation again
    Sync                 the member's assignment
    Heartbeat            NONE; the session is extended
    Leave                the member leaves, which starts a rebalance
    Commit               accepted; the session is extended
    Session expires      the member is removed, which starts a rebalance
    Sync phase times out as in CompletingRebalance, even after the leader's SyncGroup
    Next state           PreparingRebalance

Dead -- the group was deleted, or its partition has moved to another node. The group is removed
    immediately, so later requests get the response for an unknown group, or NOT_COORDINATOR.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from ...protocol.errors import ErrorCode


class State(StrEnum):
    """A state, with its name on the wire (DescribeGroups, ListGroups)."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# Module constants, because an enum attribute lookup costs as much as the rest of a heartbeat.
EMPTY: Final = State.EMPTY
PREPARING: Final = State.PREPARING_REBALANCE
COMPLETING: Final = State.COMPLETING_REBALANCE
STABLE: Final = State.STABLE
DEAD: Final = State.DEAD

VALID_TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    EMPTY: frozenset({PREPARING}),
    PREPARING: frozenset({EMPTY, COMPLETING}),
    COMPLETING: frozenset({PREPARING, STABLE}),
    STABLE: frozenset({PREPARING}),
}

# The response to a valid heartbeat. Empty and Dead have no members.
HEARTBEAT_ERROR: Final[Mapping[State, ErrorCode]] = {
    PREPARING: ErrorCode.rebalance_in_progress,
    COMPLETING: ErrorCode.none,
    STABLE: ErrorCode.none,
}
