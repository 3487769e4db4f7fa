"""What the world remembers of one coordinator, until its partition is loaded again."""

from typing import NamedTuple

from kohort.coordinator.coordinator import Coordinator


class Known(NamedTuple):
    """What answers had said when a request was about to be decided."""

    generation: int  # the newest that anybody was told
    is_gone: bool  # its member has left or was replaced
    is_completing: bool
    silent_ms: int


class Lifetime:
    """What answers of one coordinator have said. The next one may have forgotten it."""

    def __init__(self, coordinator: Coordinator, replay: Coordinator) -> None:
        self.coordinator = coordinator
        self.generations: dict[str, int] = {}
        self.told: dict[str, int] = {}
        self.protocols: dict[tuple[str, int], str | None] = {}
        self.gone: set[tuple[str, str]] = set()
        self.heard_ms: dict[tuple[str, str], int] = {}
        self.replay = replay
        self.replayed_to = -1
        self.epoch = 0  # of the last batch that was replayed
