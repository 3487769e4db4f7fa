"""The states of a group: which may follow which, and what each answers to every request.

All transitions go through MAY_FOLLOW. Before any of the answers below a request must pass two
gates that are the same in all states:

- the group is known. Unknown: a join with an empty member id makes it (Empty), any other join, a
  sync and a heartbeat hear UNKNOWN_MEMBER_ID, so does each member that leaves; a commit without a
  generation makes a simple group (Empty), one with a generation hears what its version says; a
  fetch finds no offsets, which is no error.
- whoever claims to be a member is one (fencing.py). Otherwise UNKNOWN_MEMBER_ID, or
  FENCED_INSTANCE_ID when another member holds its instance id. A sync, a heartbeat and a commit
  then need the group's generation, or hear ILLEGAL_GENERATION.

A fetch reads what is committed in any state and touches no timer; describing and listing groups
does neither. An administrator deletes groups that are Empty, others hear NON_EMPTY_GROUP; and
offsets in any state: in Empty all of them, else those of topics that the consumers of the group do
not read (GROUP_SUBSCRIBED_TO_TOPIC), while what members of another protocol type read cannot be
known (NON_EMPTY_GROUP). Of an unknown group there is nothing to delete: GROUP_ID_NOT_FOUND.

Empty -- no members: a new group, one whose members have all gone, or one that only keeps offsets.
    Join, new            a static member opens the initial round and waits, so does a dynamic one
                         that need not know its id; the others get their id: MEMBER_ID_REQUIRED
    Join, pending id     opens the initial round and waits
    Join, known id       UNKNOWN_MEMBER_ID: nobody is
    Sync, Heartbeat      UNKNOWN_MEMBER_ID
    Leave                UNKNOWN_MEMBER_ID; a pending id is dropped
    Commit               generation < 0: accepted, whoever asks. Else UNKNOWN_MEMBER_ID
    Leaves for           PreparingRebalance

PreparingRebalance -- the round is open: it waits until all members have joined again.
    Join, new            as in Empty, but the round is open already
    Join, known id       takes its new protocols and waits
    Sync                 REBALANCE_IN_PROGRESS
    Heartbeat            REBALANCE_IN_PROGRESS, and the session goes on
    Leave                leaves; the last one that was missing closes the round, unless it is the
                         initial one, which only its timer closes
    Commit               accepted for the generation before the round, and the session goes on
    Session ends         the member goes; if nobody else is missing the round closes
    Round times out      dynamic members that did not join are out, static ones stay
    Leaves for           CompletingRebalance; Empty, when nobody has stayed

CompletingRebalance -- the generation is known, its assignment is not: waits for the leader's sync.
    Join, new            MEMBER_ID_REQUIRED, or a new round
    Join, known id       same protocols: this generation again, at once. Changed: a new round
    Sync, leader         everybody who waits gets an assignment, as soon as it is durable
    Sync, follower       waits
    Heartbeat            NONE, in spite of the comment upstream (ClassicGroupState), and the
                         session goes on
    Leave                leaves, a new round
    Commit               REBALANCE_IN_PROGRESS: the offsets are those of the generation before
    Session ends         the member goes (unless it waits for its sync), a new round
    Syncs time out       who still owes one is out, a new round
    Leaves for           Stable; PreparingRebalance, whoever waits hears REBALANCE_IN_PROGRESS

Stable -- everybody can know the assignment.
    Join, new            MEMBER_ID_REQUIRED, or a new round; a static member whose instance id is
                         known takes its predecessor's place without one (replacing.py)
    Join, known id       the leader may always ask for a new round; a follower only by changed
                         protocols, otherwise it gets this generation again, at once
    Sync                 its assignment
    Heartbeat            NONE, and the session goes on
    Leave                leaves, a new round
    Commit               accepted, and the session goes on
    Session ends         the member goes, a new round
    Syncs time out       as in CompletingRebalance: the leader's sync does not excuse the others
    Leaves for           PreparingRebalance

Dead -- deleted, or its partition has gone to another broker. No request meets it: the group is out
of the map in the same breath, and whoever asks later finds it unknown, or no coordinator here.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from ..protocol.errors import ErrorCode


class State(StrEnum):
    """Named as on the wire (DescribeGroups, ListGroups)."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# As plain names, since looking one up in its enum costs as much as a heartbeat may.
EMPTY: Final = State.EMPTY
PREPARING: Final = State.PREPARING_REBALANCE
COMPLETING: Final = State.COMPLETING_REBALANCE
STABLE: Final = State.STABLE
DEAD: Final = State.DEAD

MAY_FOLLOW: Final[Mapping[State, frozenset[State]]] = {
    EMPTY: frozenset({PREPARING, DEAD}),
    PREPARING: frozenset({EMPTY, COMPLETING, DEAD}),
    COMPLETING: frozenset({PREPARING, STABLE, DEAD}),
    STABLE: frozenset({PREPARING, DEAD}),
    DEAD: frozenset({DEAD}),
}

# What a member of this generation hears. Empty and Dead have no members.
HEARTBEAT: Final[Mapping[State, ErrorCode]] = {
    PREPARING: ErrorCode.rebalance_in_progress,
    COMPLETING: ErrorCode.none,
    STABLE: ErrorCode.none,
}
