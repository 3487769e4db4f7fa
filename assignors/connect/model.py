"""What a leader of Connect workers decides about, and what it remembers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ..subscribers import java_order

CONNECTOR_TASK: Final = -1
"""In place of a task's number: the connector itself (ConnectProtocol)."""

Piece: TypeAlias = tuple[str, int]
"""What runs on one worker: a connector's name and the number of its task, or CONNECTOR_TASK."""
Running: TypeAlias = Mapping[str, Sequence[Piece]]
"""What each worker of the group says that it runs, in its order; one that runs nothing too."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one rebalance changes; by worker, all of them, and empty for most."""

    assigned: dict[str, list[Piece]]
    """To be started, beside what the worker goes on with."""
    revoked: dict[str, list[Piece]]
    """To be stopped, after which the worker joins again at once."""
    delay_ms: int
    """Told to every worker; above 0, each joins again when it is over."""


@dataclass(slots=True)
class LeaderMemory:
    """From round to round. A new leader has the memory that this has at first."""

    previous: set[Piece] = field(default_factory=set)
    """What should be running since the last round, with what was held back in it."""
    revoked: set[Piece] = field(default_factory=set)
    """By the last round."""
    revoked_in_previous: bool = False
    """Whether the last round took work away to balance the load."""
    candidates: list[str] = field(default_factory=list)
    """Workers that came with nothing while work was held back: they may be the ones that left."""
    scheduled_ms: int = 0
    """When what is held back is given away; 0 while nothing is."""
    delay_ms: int = 0
    generation: int = -1
    members: frozenset[str] = frozenset()
    revoking_rounds: int = 0
    """One after the other, for each of which the next one waits longer."""


def pieces(connectors: Mapping[str, int]) -> set[Piece]:
    """All the work there is, of the number of tasks of each connector."""
    tasks = {(name, task) for name, count in connectors.items() for task in range(count)}
    return tasks | {(name, CONNECTOR_TASK) for name in connectors}


def in_order(work: Iterable[Piece]) -> list[Piece]:
    """Connectors before tasks, both by name."""
    return sorted(work, key=lambda p: (p[1] != CONNECTOR_TASK, java_order(p[0]), p[1]))


def kinds(work: Iterable[Piece]) -> tuple[list[Piece], list[Piece]]:
    """Connectors and tasks, which are counted apart."""
    listed = list(work)
    return (
        [piece for piece in listed if piece[1] == CONNECTOR_TASK],
        [piece for piece in listed if piece[1] != CONNECTOR_TASK],
    )


def after(
    running: Sequence[Piece], assigned: Sequence[Piece], revoked: Sequence[Piece]
) -> list[Piece]:
    """What a worker runs once it has done as it was told (WorkerCoordinator.onJoinComplete)."""
    return [*assigned, *(p for p in running if p not in revoked and p not in assigned)]
