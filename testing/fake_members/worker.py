"""A Connect worker's side of the group protocol: which connectors and tasks it runs."""

from collections.abc import Mapping
from typing import Final

from ...assignors.connect.assignor import ConnectAssignor, running_after, worker_assignments
from ...assignors.connect.protocol import (
    PROTOCOL_TYPE,
    PROTOCOLS,
    WorkerAssignment,
    WorkerState,
    WorkItem,
    read_assignment,
    read_metadata,
    write_assignment,
    write_metadata,
)
from ...topics.registry import Topics
from .role import Round

# All workers have read the same configuration.
_CONFIG_OFFSET: Final = 1


class Worker:
    """`connectors`: the number of tasks of each, as configured."""

    protocol_type: Final = PROTOCOL_TYPE
    reason: Final = None
    keeps: Final = True

    def __init__(self, connectors: Mapping[str, int], url: str) -> None:
        self._connectors = dict(connectors)
        self._url = url
        self._assignor = ConnectAssignor()
        self.owned: tuple[WorkItem, ...] = ()
        """(connector, task), and (connector, -1) for the connector itself."""

    def give_up(self) -> None:
        self.owned = ()

    def protocols(self) -> list[tuple[str, bytes]]:
        running = WorkerAssignment("", "", _CONFIG_OFFSET, self.owned) if self.owned else None
        state = WorkerState(self._url, _CONFIG_OFFSET, running)
        # Not the eager one: nobody here would know how to lead it.
        offered = {name: version for name, version in PROTOCOLS.items() if version > 0}
        return [(name, write_metadata(state, version)) for name, version in offered.items()]

    def lead(self, round_: Round, _topics: Topics) -> dict[str, bytes]:
        """Everybody's assignment, by member id."""
        given = worker_assignments(
            self._assignor,
            round_.leader,
            {each.member_id: read_metadata(each.metadata) for each in round_.members},
            self._connectors,
            config_offset=_CONFIG_OFFSET,
            now_ms=round_.now_ms,
            generation=round_.generation,
            last_completed_generation=round_.completed_generation,
        )
        version = PROTOCOLS[round_.protocol]
        return {worker: write_assignment(each, version) for worker, each in given.items()}

    def take(self, _round: Round, assignment: bytes) -> int | None:
        """Do as it is told. Returns after how many milliseconds it joins again; None: not by
        itself."""
        told = read_assignment(assignment)
        self.owned = tuple(running_after(self.owned, told.assigned, told.revoked))
        if told.revoked:
            return 0  # what it has stopped, another may start now
        return told.delay_ms or None
