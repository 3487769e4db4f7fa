"""The endpoint functions for the broker: nodes, crashes, snapshots, clock."""

from datetime import timedelta

from ..testing.loop_thread import TIMEOUT_SECONDS
from .control import Control, lookup
from .endpoint import Count, Days, Hours, Index, Milliseconds, Minutes, Seconds, Timeout
from .serializers import Json


def cluster(control: Control) -> Json:
    """Return the addresses for clients, and the nodes."""
    up = {node.node_id for node in control.kafka.nodes if node.is_up}
    return {
        "bootstrap_servers": control.bootstrap_servers,
        "nodes": [
            {"node_id": node_id, "host": host, "port": port, "is_up": node_id in up}
            for node_id, (host, port) in control.addresses.items()
        ],
    }


def event_loop(control: Control) -> Json:
    """Return a histogram of the durations of event loop callbacks. No client is served while a
    callback runs. Each bucket counts the callbacks from the previous bound up to `below_ms` (null:
    unbounded). Callbacks of 100 ms or more are also logged."""
    times = control.kafka.broker.callback_times
    return {
        "callbacks": times.total,
        "longest_ms": round(times.longest_ms, 3),
        "histogram": [{"below_ms": bound, "callbacks": number} for bound, number in times.below],
    }


def reset(control: Control) -> Json:
    """Replace the broker with a new one at the same address, without topics, groups, faults or
    history. Connections are closed; clients that are still open reconnect."""
    control.reset()
    return cluster(control)


def stop_node(control: Control, node_id: Index) -> Json:
    """Stop a node. Its partitions move to other nodes, its connections are closed, and new
    connections are refused."""
    with control.restart_lock:
        control.kafka.stop_node(node_id)
    return cluster(control)


def start_node(control: Control, node_id: Index) -> Json:
    """Start a stopped node at its previous address."""
    with control.restart_lock:
        control.kafka.start_node(node_id)
    return cluster(control)


def crash(control: Control, *, power: bool = False, seed: Index | None = None) -> Json:
    """Crash the broker, as if its process had been killed, and start another broker on the same
    disk and at the same address. With `power`, unsynced data is lost too (with a `seed`, a random
    part of the unsynced data)."""
    with control.restart_lock:
        control.kafka.crash(power=power, seed=seed)
    return cluster(control)


def restart(control: Control) -> Json:
    """Stop the broker cleanly and start it again at the same address."""
    with control.restart_lock:
        control.kafka.restart()
    return cluster(control)


def take_snapshot(control: Control) -> Json:
    """Copy the disk. The copy can be restored any number of times."""
    snapshot = control.kafka.snapshot()
    return {"snapshot": control.add(control.snapshots, snapshot), "at_ms": snapshot.at_ms}


def restore_snapshot(control: Control, snapshot: Count) -> Json:
    """Replace the broker with one that uses the snapshot's disk, at the same address.
    Connections are closed. The clock and the history continue."""
    found = lookup(control.snapshots, snapshot, "snapshot")
    with control.restart_lock:
        control.kafka.restore(found)
    return cluster(control)


def clock(control: Control) -> Json:
    """Return the broker's time, in milliseconds since 1970-01-01 UTC."""
    return {"now_ms": control.kafka.clock.now_ms}


def freeze_clock(control: Control) -> Json:
    """Stop the broker's clock. No deadline expires until the clock is advanced or resumed. Clients
    keep their own time."""
    control.kafka.clock.freeze()
    return clock(control)


def resume_clock(control: Control) -> Json:
    """Resume the clock from its current time."""
    control.kafka.clock.resume()
    return clock(control)


def advance_clock(
    control: Control,
    *,
    days: Days = 0,
    hours: Hours = 0,
    minutes: Minutes = 0,
    seconds: Seconds = 0,
    ms: Milliseconds = 0,
    heartbeats: bool = False,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> Json:
    """Advance the clock. Sessions, rebalance timeouts and retention expire in order. The response
    is sent when all effects that require no client have taken place. With `heartbeats`, the clock
    stops before the end of each connected client's session until the client has sent a heartbeat;
    the status is 408 if a client sends no heartbeat within `timeout`."""
    by = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=ms)
    if not by:
        raise ValueError("a duration is required: days, hours, minutes, seconds or ms")
    if heartbeats:
        control.kafka.clock.advance_with_heartbeats(by, timeout=timeout)
    else:
        control.kafka.clock.advance(by)
    return clock(control)
