"""A group of Connect workers whose clock the test turns: each does what the leader says."""

from collections.abc import Mapping

from kohort.assignors.connect.assignor import ConnectAssignor
from kohort.assignors.connect.model import CONNECTOR_TASK, Piece, Round, after


def tasks(text: str) -> list[Piece]:
    """Of "P-0,3 Q": the connector, after the last dash its tasks; alone, the connector itself."""
    work: list[Piece] = []
    for word in text.split():
        name, dash, numbers = word.rpartition("-")
        work += [(name, int(n)) for n in numbers.split(",")] if dash else [(word, CONNECTOR_TASK)]
    return work


class Workers:
    """`running` is by worker what it runs now, `stopped` what was ever taken from each."""

    def __init__(self, connectors: Mapping[str, int], max_delay_ms: int = 300_000) -> None:
        self.connectors = dict(connectors)
        self.assignor = ConnectAssignor(max_delay_ms)
        self.now_ms = 1_000_000
        self.generation = 0
        self.running: dict[str, list[Piece]] = {}
        self.stopped: dict[str, list[Piece]] = {}

    def come(self, *names: str) -> None:
        self.running |= {name: [] for name in names}

    def go(self, *names: str) -> None:
        for name in names:
            del self.running[name]

    def rebalance(self, *, deaf: tuple[str, ...] = (), passed_ms: int = 0) -> Round:
        """One round, `passed_ms` after the last; who is deaf joins but does not hear the end."""
        self.now_ms += passed_ms
        self.generation += 1
        decided = self.assignor.assign(
            self.connectors,
            self.running,
            now_ms=self.now_ms,
            generation=self.generation,
            last_completed_generation=self.generation - 1 if self.generation > 1 else -1,
        )
        for worker in self.running.keys() - set(deaf):
            taken = decided.revoked[worker]
            self.stopped.setdefault(worker, []).extend(taken)
            given = decided.assigned[worker]
            self.running[worker] = after(self.running[worker], given, taken)
        return decided

    def settle(self) -> int:
        """Rounds until one changes nothing, each delay waited for."""
        decided = self.rebalance()
        rounds = 1
        while decided.delay_ms or any(decided.assigned.values()) or any(decided.revoked.values()):
            decided = self.rebalance(passed_ms=decided.delay_ms)
            rounds += 1
            assert rounds < 50, "it never comes to rest"
        return rounds

    def counts(self) -> dict[str, tuple[int, int]]:
        """By worker its connectors and its tasks."""
        return {
            name: (
                sum(task == CONNECTOR_TASK for _, task in work),
                sum(task != CONNECTOR_TASK for _, task in work),
            )
            for name, work in self.running.items()
        }
