"""What the endpoints work on: a Kafka of the harness, and what was begun by one request and is
ended by another."""

import threading
from collections.abc import Mapping
from itertools import count, starmap
from typing import TypeVar

from ..protocol.framing import address
from ..testing.choreography import Hold, Loading
from ..testing.fake_members.puppet import Puppet
from ..testing.faults import Fault
from ..testing.kafka import Kafka
from ..testing.life import Snapshot

T = TypeVar("T")


class Control:
    """Used by many threads at once: each request has one."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self.addresses: dict[int, tuple[str, int]] = kafka.ask(
            lambda broker: {node.node_id: node.address for node in broker.cluster.nodes.values()}
        )
        """Where clients are told that the nodes are, as long as the broker lives."""
        self.faults: dict[int, Fault] = {}
        self.holds: dict[int, Hold] = {}
        self.loadings: dict[str, Loading] = {}
        """By the group's id."""
        self.puppets: dict[int, Puppet] = {}
        self.snapshots: dict[int, Snapshot] = {}
        self._numbers = count(1)
        self.alone = threading.Lock()
        """Held by whoever stops or starts the broker, or a node of it."""

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(starmap(address, self.addresses.values()))

    def number(self) -> int:
        """One that no fault and no hold has had, before a reset or after it."""
        return next(self._numbers)

    def reset(self) -> None:
        """What the old broker was made to do ends with it."""
        with self.alone:
            self.kafka.reset()
            for begun in (self.faults, self.holds, self.loadings, self.puppets, self.snapshots):
                begun.clear()


def found(there: Mapping[int, T], number: int, what: str) -> T:
    """Raises LookupError, with those that there are."""
    if number not in there:
        known = ", ".join(map(str, there)) or "none"
        raise LookupError(f"there is no {what} {number}; there is: {known}")
    return there[number]
