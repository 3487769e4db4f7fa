"""Endpoints that make a group do something: rebalance, wait at a door, be led by somebody."""

from typing import Final, Literal

from ..testing.waiting import TIMEOUT_SECONDS
from .control import Control, found
from .endpoint import Endpoint
from .fields import Count, Name, Node, Timeout
from .words import Json, of_group, of_hold

_REASON: Final = "requested by a test"


def rebalance(control: Control, group: Name, *, reason: Name = _REASON) -> Json:
    """Open a round: members find out with their next heartbeat. Nothing, where one is open."""
    control.kafka.group(group).rebalance(reason)
    return _told(control, group)


def lead(control: Control, group: Name, *, who: Name) -> Json:
    """Open a round that `who` leads: a member id, an instance id, a client id."""
    control.kafka.group(group).lead(who)
    return _told(control, group)


def expire(control: Control, group: Name, *, who: Name) -> Json:
    """End a member's session now; it finds out as it would from Kafka, if it is still alive."""
    control.kafka.group(group).expire(who)
    return _told(control, group)


def evict(control: Control, group: Name, *, who: Name, reason: Name = _REASON) -> Json:
    """Remove a member as an administrator does."""
    control.kafka.group(group).evict(who, reason)
    return _told(control, group)


def move(control: Control, group: Name, *, node_id: Node) -> Json:
    """Let another node coordinate it; the old one answers NOT_COORDINATOR."""
    control.kafka.group(group).move_to(node_id)
    return _told(control, group)


def load(control: Control, group: Name) -> Json:
    """Let its coordinator read its log anew, until it is told to finish: clients are answered
    COORDINATOR_LOAD_IN_PROGRESS."""
    if group in control.loadings:
        raise ValueError(f"the coordinator of {group} is loading already")
    control.loadings[group] = control.kafka.group(group).loading()
    return _told(control, group)


def finish_loading(control: Control, group: Name) -> Json:
    """The coordinator has read its log: the group is served."""
    loading = control.loadings.pop(group, None)
    if loading is None:
        raise LookupError(f"the coordinator of {group} is not loading")
    loading.finish()
    return _told(control, group)


def hold(control: Control, group: Name, *, api: Literal["JoinGroup", "SyncGroup"]) -> Json:
    """Let requests wait at the door until the hold is released: JoinGroup keeps the round open,
    SyncGroup the members without their assignment."""
    there = control.kafka.group(group)
    held = there.hold_joins() if api == "JoinGroup" else there.hold_syncs()
    number = control.number()
    control.holds[number] = held
    return of_hold(number, held)


def holds(control: Control) -> Json:
    """All holds that are not released, with the requests that wait."""
    return {"holds": [of_hold(number, each) for number, each in list(control.holds.items())]}


def wait_hold(
    control: Control, hold: Count, *, count: Count = 1, timeout: Timeout = TIMEOUT_SECONDS
) -> Json:
    """Until so many requests wait at this hold."""
    held = found(control.holds, hold, "hold")
    held.wait(count, timeout)
    return of_hold(hold, held)


def release(control: Control, hold: Count) -> Json:
    """Let those that wait go on, in the order of their arrival, and hold no more."""
    held = found(control.holds, hold, "hold")
    told = of_hold(hold, held)
    held.release()
    control.holds.pop(hold, None)
    return told


def _told(control: Control, group: str) -> Json:
    return of_group(control.kafka.group(group))


ENDPOINTS: Final = (
    Endpoint("POST", "/groups/{group}/rebalance", rebalance),
    Endpoint("POST", "/groups/{group}/lead", lead),
    Endpoint("POST", "/groups/{group}/expire", expire),
    Endpoint("POST", "/groups/{group}/evict", evict),
    Endpoint("POST", "/groups/{group}/move", move),
    Endpoint("POST", "/groups/{group}/loading", load),
    Endpoint("DELETE", "/groups/{group}/loading", finish_loading),
    Endpoint("POST", "/groups/{group}/holds", hold),
    Endpoint("GET", "/holds", holds),
    Endpoint("POST", "/holds/{hold}/wait", wait_hold),
    Endpoint("DELETE", "/holds/{hold}", release),
)
