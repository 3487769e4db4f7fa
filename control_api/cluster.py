"""Endpoints of the broker as a whole, and of its clock."""

from typing import Final

from .control import Control
from .endpoint import Endpoint
from .fields import Days, Hours, Milliseconds, Minutes, Seconds
from .words import Json


def cluster(control: Control) -> Json:
    """Where clients find the broker, and its nodes."""
    up = control.kafka.ask(lambda broker: {node.node_id for node in broker.cluster.up})
    return {
        "bootstrap_servers": control.bootstrap_servers,
        "nodes": [
            {"node_id": node_id, "host": host, "port": port, "is_up": node_id in up}
            for node_id, (host, port) in control.addresses.items()
        ],
    }


def reset(control: Control) -> Json:
    """As new, at the same address: no topics, no groups, no faults, no history. Clients are cut
    off, and those that are not closed come back."""
    control.reset()
    return cluster(control)


def clock(control: Control) -> Json:
    """The broker's time: milliseconds since 1970-01-01 UTC."""
    return {"now_ms": control.kafka.clock.now_ms}


def freeze_clock(control: Control) -> Json:
    """Nothing falls due any more, until time is advanced or resumed. Clients keep their own."""
    control.kafka.clock.freeze()
    return clock(control)


def resume_clock(control: Control) -> Json:
    """Time goes on from where it stands."""
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
) -> Json:
    """Let so much time pass at once: sessions, rebalance deadlines, retention. What falls due on
    the way has happened, in its order, when this is answered."""
    control.kafka.clock.advance(days=days, hours=hours, minutes=minutes, seconds=seconds, ms=ms)
    return clock(control)


ENDPOINTS: Final = (
    Endpoint("GET", "/cluster", cluster),
    Endpoint("POST", "/reset", reset),
    Endpoint("GET", "/clock", clock),
    Endpoint("POST", "/clock/freeze", freeze_clock),
    Endpoint("POST", "/clock/resume", resume_clock),
    Endpoint("POST", "/clock/advance", advance_clock),
)
