"""The endpoint functions for groups: state, waits, and control."""

from typing import Any, Final, Literal

from ..testing.group import Group
from ..testing.loop_thread import TIMEOUT_SECONDS
from .control import Control, active, lookup
from .endpoint import Count, Index, Name, Offset, Timeout, check_used
from .serializers import (
    Json,
    generation_json,
    group_json,
    hold_json,
    offsets_json,
    with_partitions,
)
from .topics import find_topic

HoldApi = Literal["JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat"]
Until = Literal["stable", "generation", "epoch", "owner", "committed", "empty", "gone"]

_REASON: Final = "requested by a test"

# --- state


def find_group(control: Control, name: str) -> Group:
    """Return the group. Raises LookupError if it has never existed."""
    found = control.kafka.group(name)
    if found.state == "Dead" and name not in control.kafka.history.groups:
        raise LookupError(found.explain())
    return found


def groups(control: Control) -> Json:
    """Return all existing groups, sorted by name."""
    return {
        "groups": [
            {"group": each.group_id, "state": each.state, "members": len(each.members)}
            for each in control.kafka.groups
        ]
    }


def group(control: Control, group: Name) -> Json:
    """Return the group's state, generation, coordinator and members (with their partitions), and an
    explanation of what the group is waiting for. A group that was deleted is Dead, as in Kafka.
    """
    return group_json(find_group(control, group))


def explain(control: Control, group: Name) -> Json:
    """Explain the state of the group as text: what it is waiting for, its members, their timers,
    and the last requests."""
    return {"explanation": find_group(control, group).explain(verbose=True)}


def offsets(control: Control, group: Name) -> Json:
    """Return the group's committed offsets."""
    committed = find_group(control, group).offsets
    return {"offsets": offsets_json(dict(sorted(committed.items())))}


def lag(control: Control, group: Name, *, topic: Name) -> Json:
    """Return the group's lag, in total and per partition: log end offset minus committed offset. In
    a partition without a committed offset, all records count."""
    found, partitions = control.kafka.group(group), find_topic(control, topic).partitions
    lags = [found.lag(topic, index) for index in range(partitions)]
    per_partition = [{"partition": index, "lag": lag} for index, lag in enumerate(lags)]
    return {"topic": topic, "lag": sum(lags), "partitions": per_partition}


def generations(control: Control, group: Name) -> Json:
    """Return all completed rebalances and their causes."""
    found = find_group(control, group).generations
    return {"generations": [generation_json(each) for each in found]}


def assignments(control: Control, group: Name) -> Json:
    """Return the partitions that each member owned, and for how long."""
    found = find_group(control, group).assignments
    return {"assignments": [with_partitions(each) for each in found]}


def commits(control: Control, group: Name) -> Json:
    """Return all accepted commits."""
    return {"commits": find_group(control, group).commits}


def rejected_commits(control: Control, group: Name) -> Json:
    """Return all commits that got an error from the coordinator or a fault."""
    find_group(control, group)
    return {"rejected_commits": control.kafka.history.rejected_commits(group)}


def exits(control: Control, group: Name) -> Json:
    """Return all members that left or were removed, and why."""
    return {"exits": find_group(control, group).exits}


def state_changes(control: Control, group: Name) -> Json:
    """Return all state transitions of the group."""
    find_group(control, group)
    return {"state_changes": control.kafka.history.state_changes(group)}


# --- waits

_PARTITION: Final = ("topic", "partition")
# The required and optional parameters of each `until`.
_WAITS: Final[dict[Until, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "stable": ((), ("members",)),
    "generation": (("generation",), ()),
    "epoch": (("epoch",), ("member",)),
    "owner": (_PARTITION, ("member", "epoch")),
    "committed": (_PARTITION, ("offset",)),
    "empty": ((), ()),
    "gone": ((), ()),
}


def wait(
    control: Control,
    group: Name,
    *,
    until: Until,
    members: Count | None = None,
    generation: Count | None = None,
    epoch: Count | None = None,
    topic: Name | None = None,
    partition: Index | None = None,
    member: Name | None = None,
    offset: Offset | None = None,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> Json:
    """Wait for a state of the group. After the timeout, the status is 408, with an explanation.
    Returns the group and, with until=owner or until=committed, the owner or the offset."""
    given: dict[str, Any] = {
        "members": members,
        "generation": generation,
        "epoch": epoch,
        "topic": topic,
        "partition": partition,
        "member": member,
        "offset": offset,
    }
    arguments = check_used(given, f"until={until}", *_WAITS[until])
    waiting = control.kafka.group(group)
    result = getattr(waiting, f"wait_{until}")(**arguments, timeout=timeout)
    found: Json = {}
    if until == "owner":
        found = {"owner": with_partitions(result)}
    elif until == "committed":
        found = {"committed": result}
    return {**found, **group_json(waiting)}


# --- control


def rebalance(control: Control, group: Name, *, reason: Name = _REASON) -> Json:
    """Start a rebalance. Each member is notified by the response to its next heartbeat. Has no
    effect in PreparingRebalance, or if the group has no members."""
    found = find_group(control, group)
    found.rebalance(reason)
    return group_json(found)


def lead(control: Control, group: Name, *, member: Name) -> Json:
    """Start a rebalance with this member as the leader."""
    control.kafka.group(group).lead(member)
    return group_json(control.kafka.group(group))


def expire(control: Control, group: Name, *, member: Name) -> Json:
    """Expire the session of a member now. A live client gets UNKNOWN_MEMBER_ID, as in Kafka."""
    control.kafka.group(group).expire(member)
    return group_json(control.kafka.group(group))


def fence(control: Control, group: Name, *, member: Name) -> Json:
    """Fence a member of the consumer protocol: its next heartbeat gets FENCED_MEMBER_EPOCH, after
    which it rejoins."""
    control.kafka.group(group).fence(member)
    return group_json(control.kafka.group(group))


def evict(control: Control, group: Name, *, member: Name, reason: Name = _REASON) -> Json:
    """Remove a member as an admin client does."""
    control.kafka.group(group).evict(member, reason)
    return group_json(control.kafka.group(group))


def move(control: Control, group: Name, *, node_id: Index) -> Json:
    """Move the group's coordinator to another node. The old node responds with NOT_COORDINATOR."""
    control.kafka.group(group).move_to(node_id)
    return group_json(control.kafka.group(group))


def load(control: Control, group: Name) -> Json:
    """Make the group's coordinator load its log again. Until `finish-loading` (DELETE), requests
    get COORDINATOR_LOAD_IN_PROGRESS."""
    taken = f"the coordinator of group {group} is already loading"
    control.add_named(control.loadings, group, control.kafka.group(group).loading, taken)
    return group_json(control.kafka.group(group))


def finish_loading(control: Control, group: Name) -> Json:
    """Finish loading the group's coordinator, which becomes active."""
    missing = f"the coordinator of group {group} is not loading"
    active(control.loadings.pop(group, None), missing).finish()
    return group_json(control.kafka.group(group))


def hold(control: Control, group: Name, *, api: HoldApi) -> Json:
    """Hold requests of the group until the hold is released. Holding JoinGroup keeps a rebalance
    open, holding SyncGroup leaves members without an assignment, and holding ConsumerGroupHeartbeat
    does both in a consumer group."""
    found = control.kafka.group(group)
    holds = {"JoinGroup": found.hold_joins, "SyncGroup": found.hold_syncs}
    hold = holds.get(api, found.hold_heartbeats)()
    return hold_json(control.add(control.holds, hold), hold)


def hold_assignment(control: Control, group: Name) -> Json:
    """Hold back the target assignment of a consumer group until `release-assignment` (DELETE).
    Until then, the group is Assigning after each change."""
    taken = f"the assignment of group {group} is already held"
    hold = control.kafka.group(group).hold_assignment
    control.add_named(control.assignment_holds, group, hold, taken)
    return group_json(control.kafka.group(group))


def release_assignment(control: Control, group: Name) -> Json:
    """Let the next heartbeat of a member compute the assignment."""
    missing = f"the assignment of group {group} is not held"
    active(control.assignment_holds.pop(group, None), missing).release()
    return group_json(control.kafka.group(group))


def holds(control: Control) -> Json:
    """Return all unreleased holds and their requests."""
    return {"holds": [hold_json(number, each) for number, each in list(control.holds.items())]}


def wait_hold(
    control: Control, hold: Count, *, count: Count = 1, timeout: Timeout = TIMEOUT_SECONDS
) -> Json:
    """Wait until `count` requests are held."""
    found = lookup(control.holds, hold, "hold")
    found.wait(count, timeout)
    return hold_json(hold, found)


def release(control: Control, hold: Count) -> Json:
    """Release the held requests in order of arrival, and remove the hold."""
    found = lookup(control.holds, hold, "hold")
    held = hold_json(hold, found)
    found.release()
    control.holds.pop(hold, None)
    return held
