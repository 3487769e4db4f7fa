"""The state of the control API: the `Kafka`, and objects that requests create for later ones."""

import threading
from collections.abc import Callable, Mapping
from itertools import count, starmap
from typing import TypeVar

from ..protocol.framing import address
from ..testing.fake_members.fake_member import FakeMember
from ..testing.faults.disk import DiskFault
from ..testing.faults.faults import Fault
from ..testing.group_control import AssignmentHold, Hold, Loading
from ..testing.kafka import Kafka
from ..testing.lifecycle import Snapshot
from ..testing.transactions import MarkerHold
from .schema_registry import SchemaRegistry

T = TypeVar("T")
E = TypeVar("E", AssignmentHold, Loading, MarkerHold)  # may end before it is removed


class Control:
    """The state of the control API. Several threads use it, one for each request. Object numbers
    are never reused."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self.addresses: dict[int, tuple[str, int]] = kafka.call(
            lambda broker: {
                node.node_id: next(iter(node.addresses.values()))
                for node in broker.cluster.nodes.values()
            }
        )
        """The advertised addresses of the first listener, which do not change."""
        self.faults: dict[int, Fault | DiskFault] = {}
        self.holds: dict[int, Hold] = {}
        self.loadings: dict[str, Loading] = {}
        """Loading coordinators by group id."""
        self.assignment_holds: dict[str, AssignmentHold] = {}
        """Assignment holds by group id."""
        self.marker_holds: dict[str, MarkerHold] = {}
        """Marker holds by transactional id."""
        self.fake_members: dict[int, FakeMember] = {}
        self.snapshots: dict[int, Snapshot] = {}
        self.schema_registry = SchemaRegistry()
        self._numbers = count(1)
        self.restart_lock = threading.Lock()
        """Held while the broker or a node is stopped or started."""
        self.lock = threading.Lock()
        """Held while a named object is added, and while all objects are removed."""

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(starmap(address, self.addresses.values()))

    def add(self, objects: dict[int, T], item: T) -> int:
        """Add an object under a new number, and return the number."""
        number = next(self._numbers)
        objects[number] = item
        return number

    def add_named(
        self, objects: dict[str, E], name: str, create: Callable[[], E], taken: str
    ) -> None:
        """Create an object under a name. Raises ValueError(taken) if the name refers to an object
        that has not ended."""
        with self.lock:
            if name in objects and objects[name].is_active:
                raise ValueError(taken)
            objects[name] = create()

    def reset(self) -> None:
        with self.restart_lock, self.lock:
            self.kafka.reset()
            for objects in (self.faults, self.holds, self.fake_members, self.snapshots):
                objects.clear()
            self.loadings.clear()
            self.assignment_holds.clear()
            self.marker_holds.clear()
            self.schema_registry.clear()


def lookup(objects: Mapping[int, T], number: int, kind: str) -> T:
    """Return the object with this number. Raises LookupError if it does not exist."""
    found = objects.get(number)
    if found is None:
        numbers = ", ".join(map(str, list(objects))) or "none"
        raise LookupError(f"{kind} {number} does not exist; existing: {numbers}")
    return found


def active(found: E | None, missing: str) -> E:
    """Return an object that has not ended. Raises LookupError(missing) if there is none."""
    if found is None or not found.is_active:
        raise LookupError(missing)
    return found
