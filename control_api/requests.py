"""The endpoint functions for requests and events: faults, and the history."""

from heapq import merge
from operator import attrgetter
from typing import Any, Final, Literal

from ..broker.event_log import with_columns
from ..coordinator.transactions.commands import TransactionEvent
from ..testing.generations import RecordedEvent
from ..testing.history import TransactionChange, matches
from ..testing.loop_thread import TIMEOUT_SECONDS
from ..testing.recorded_request import find_api_name
from .control import Control, lookup
from .endpoint import (
    Count,
    GenerationOrEpoch,
    Index,
    Limit,
    Milliseconds,
    Name,
    Offset,
    Probability,
    Seconds,
    SignedMilliseconds,
    SignedSeconds,
    Timeout,
    check_used,
)
from .serializers import Json, event_json, fault_json, request_json

Action = Literal[
    "answer",
    "delay",
    "delay_answer",
    "never_answer",
    "drop",
    "lose_answer",
    "apply_late",
    "close_mid_frame",
    "trickle",
    "corrupt",
    "throttle",
]
Condition = Literal["latency", "limit_bandwidth", "network_partition", "skew_clock", "slow_sync"]
_ARGUMENTS: Final = {
    "answer": ("error",),
    **dict.fromkeys(("delay", "delay_answer", "apply_late", "throttle"), ("seconds", "ms")),
}
_DURATION: Final = ("seconds", "ms")
_REQUESTS: Final = ("api", "group", "client_id", "topic", "partition", "node", "times")
# The required and optional parameters of each condition.
_CONDITIONS: Final[dict[Condition, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "latency": ((), (*_DURATION, "jitter_ms", "seed", *_REQUESTS)),
    "limit_bandwidth": (("bytes_per_second",), _REQUESTS),
    "network_partition": ((), ("client_id", "node")),
    "skew_clock": (("node",), _DURATION),
    "slow_sync": ((), (*_DURATION, "topic", "partition", "times")),
}


def set_fault(
    control: Control,
    *,
    action: Action,
    api: Name,
    error: Name | None = None,
    seconds: Seconds = 0,
    ms: Milliseconds = 0,
    group: Name | None = None,
    member: Name | None = None,
    instance_id: Name | None = None,
    generation: GenerationOrEpoch | None = None,
    transactional_id: Name | None = None,
    client_id: Name | None = None,
    topic: Name | None = None,
    partition: Index | None = None,
    node: Index | None = None,
    nth: Count = 1,
    times: Count | None = 1,
    probability: Probability | None = None,
    seed: Index = 0,
) -> Json:
    """Set a fault on requests of one API; APIs and errors use Kafka's names: `{"action": "answer",
    "api": "OffsetCommit", "error": "NOT_COORDINATOR"}`. If the fault does not fire, `POST
    /faults/check` fails."""
    how = _action_arguments(action, error, seconds, ms) | {
        "group": group,
        "member": member,
        "instance_id": instance_id,
        "generation": generation,
        "transactional_id": transactional_id,
        "client_id": client_id,
        "topic": topic,
        "partition": partition,
        "node": node,
        "nth": nth,
        "times": times,
        "probability": probability,
        "seed": seed,
    }
    fault = getattr(control.kafka.faults, action)(api, **how)
    return fault_json(control.add(control.faults, fault), fault)


def set_condition(
    control: Control,
    *,
    condition: Condition,
    api: Name | None = None,
    seconds: SignedSeconds | None = None,
    ms: SignedMilliseconds | None = None,
    jitter_ms: Milliseconds | None = None,
    bytes_per_second: Count | None = None,
    seed: Index | None = None,
    group: Name | None = None,
    client_id: Name | None = None,
    topic: Name | None = None,
    partition: Index | None = None,
    node: Index | None = None,
    times: Count | None = None,
) -> Json:
    """Set a condition of the network, of a node's clock or of the disk. The condition applies until
    it is cancelled. It is listed, cancelled and checked like a fault, so the check fails if it does
    not fire."""
    arguments: dict[str, Any] = {
        "api": api,
        "seconds": seconds,
        "ms": ms,
        "jitter_ms": jitter_ms,
        "bytes_per_second": bytes_per_second,
        "seed": seed,
        "group": group,
        "client_id": client_id,
        "topic": topic,
        "partition": partition,
        "node": node,
        "times": times,
    }
    given = check_used(arguments, f"condition={condition}", *_CONDITIONS[condition])
    owner: Any = control.kafka.disk if condition == "slow_sync" else control.kafka.faults
    fault = getattr(owner, condition)(**given)
    return fault_json(control.add(control.faults, fault), fault)


def _action_arguments(action: Action, error: str | None, seconds: float, ms: int) -> dict[str, Any]:
    """Return the arguments of the action. Raises ValueError for arguments of other actions."""
    given: dict[str, Any] = {"error": error, "seconds": seconds, "ms": ms}
    names = _ARGUMENTS.get(action, ())
    for name, value in given.items():
        if value and name not in names:
            raise ValueError(f"invalid {name}: not used with action={action}")
    if action == "answer" and error is None:
        raise ValueError("missing field 'error': required with action=answer")
    return {name: given[name] for name in names}


def faults(control: Control) -> Json:
    """Return all faults that are set."""
    return {"faults": [fault_json(number, each) for number, each in list(control.faults.items())]}


def fault(control: Control, fault: Count) -> Json:
    """Return the description of the fault, and the numbers of the requests to which it was
    applied."""
    return fault_json(fault, lookup(control.faults, fault, "fault"))


def wait_fault(
    control: Control, fault: Count, *, times: Count = 1, timeout: Timeout = TIMEOUT_SECONDS
) -> Json:
    """Wait until the fault has fired this many times. After the timeout, the status is 408, with
    the near misses."""
    found = lookup(control.faults, fault, "fault")
    found.wait(times, timeout)
    return fault_json(fault, found)


def cancel_fault(control: Control, fault: Count) -> Json:
    """Remove the fault without failing the check."""
    found = lookup(control.faults, fault, "fault")
    found.cancel()
    control.faults.pop(fault, None)
    return fault_json(fault, found)


def check_faults(control: Control) -> Json:
    """Check, at the end of a test, that every fault has fired as often as required, and that every
    marker hold has held back markers. Remove all faults and marker holds. If the check fails, the
    status is 409, with the near misses."""
    with control.lock:
        checked = faults(control)
        control.faults.clear()
        control.kafka.faults.check()
    return checked


def requests(
    control: Control,
    *,
    api: Name | None = None,
    group: Name | None = None,
    client_id: Name | None = None,
    after: Offset = 0,
    limit: Limit = 100,
) -> Json:
    """Return the last `limit` requests that arrived after request number `after`, in order of
    arrival, filtered by `api` (such as OffsetCommit), `group` and `client_id`."""
    name = None if api is None else find_api_name(api)
    found = [
        each
        for each in control.kafka.history.requests_after(after)
        if matches(each, name or each.api, group, client_id)
    ]
    return {"requests": [request_json(each) for each in found[-limit:]]}


def wait_request(
    control: Control,
    *,
    api: Name,
    group: Name | None = None,
    client_id: Name | None = None,
    after: Offset = 0,
    count: Count = 1,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> Json:
    """Wait until `count` requests of this API have arrived, since the broker was created or after
    request number `after`. Return the last one."""
    request = control.kafka.wait_request(
        api, group=group, client_id=client_id, after=after, count=count, timeout=timeout
    )
    return request_json(request)


def events(control: Control, *, group: Name | None = None, limit: Limit = 100) -> Json:
    """Return the last `limit` coordinator events of one group, or of all groups and transactions,
    with the columns of the event log (docs/events.md). As with `kohort.events=all`, accepted
    commits and all transaction changes are included. `seq` counts from 0."""
    history = control.kafka.history
    changes = map(_recorded, history.transaction_changes())
    found = [
        (number, recorded)
        for number, recorded in enumerate(merge(history.events, changes, key=attrgetter("wall_s")))
        if group in (None, recorded.event.group_id)
    ]
    cluster_id = control.kafka.call(lambda broker: broker.cluster.id)
    return {"events": [event_json(cluster_id, *each) for each in found[-limit:]]}


def _recorded(change: TransactionChange) -> RecordedEvent:
    event = TransactionEvent(
        change.transactional_id,
        change.producer_id,
        change.producer_epoch,
        change.before,
        change.after,
        change.cause,
        change.partitions,
    )
    return RecordedEvent(change.at_ms, change.node_id, with_columns(event), change.wall_s)
