"""Endpoints of what becomes of the broker: nodes stop and come back, it dies and reads its log
again, it goes back to where it was."""

from typing import Final

from .cluster import cluster
from .control import Control, found
from .endpoint import Endpoint
from .fields import Count, Node, Seed
from .words import Json


def stop_node(control: Control, node_id: Node) -> Json:
    """Others lead what it led, if any are up; its clients are cut off, and refused from then on."""
    with control.alone:
        control.kafka.stop_node(node_id)
    return cluster(control)


def start_node(control: Control, node_id: Node) -> Json:
    """Let it come back at its old address."""
    with control.alone:
        control.kafka.start_node(node_id)
    return cluster(control)


def crash(control: Control, *, power: bool = False, seed: Seed | None = None) -> Json:
    """The process dies, and another one is started at the same address on what is on the disk.

    With `power`, what was not synced is gone as well, or with a `seed` any part of it."""
    with control.alone:
        control.kafka.crash(power=power, seed=seed)
    return cluster(control)


def restart(control: Control) -> Json:
    """A clean stop, and a start at the same address."""
    with control.alone:
        control.kafka.restart()
    return cluster(control)


def take_snapshot(control: Control) -> Json:
    """Remember what is on the disk, to come back to it any number of times."""
    number = control.number()
    control.snapshots[number] = point = control.kafka.snapshot()
    return {"snapshot": number, "at_ms": point.at_ms}


def restore_snapshot(control: Control, snapshot: Count) -> Json:
    """The broker as it was then, at the same address. Clients are cut off; the clock and the
    history go on."""
    point = found(control.snapshots, snapshot, "snapshot")
    with control.alone:
        control.kafka.restore(point)
    return cluster(control)


ENDPOINTS: Final = (
    Endpoint("POST", "/nodes/{node_id}/stop", stop_node),
    Endpoint("POST", "/nodes/{node_id}/start", start_node),
    Endpoint("POST", "/crash", crash),
    Endpoint("POST", "/restart", restart),
    Endpoint("POST", "/snapshots", take_snapshot),
    Endpoint("POST", "/snapshots/{snapshot}/restore", restore_snapshot),
)
