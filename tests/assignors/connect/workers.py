"""A simulated group of Connect workers, with a clock set by the test."""

from collections.abc import Mapping

from kohort.assignors.connect.assignor import ClusterAssignment, ConnectAssignor, running_after
from kohort.assignors.connect.protocol import CONNECTOR_TASK, WorkItem


def tasks(text: str) -> list[WorkItem]:
    """From "P-0,3 Q": tasks 0 and 3 of connector P, and connector Q itself."""
    work: list[WorkItem] = []
    for word in text.split():
        name, dash, numbers = word.rpartition("-")
        work += [(name, int(n)) for n in numbers.split(",")] if dash else [(word, CONNECTOR_TASK)]
    return work


class Workers:
    """`running`: what each worker runs; `stopped`: everything that was ever revoked from it."""

    def __init__(self, connectors: Mapping[str, int], max_delay_ms: int = 300_000) -> None:
        self.connectors = dict(connectors)
        self.assignor = ConnectAssignor(max_delay_ms)
        self.now_ms = 1_000_000
        self.generation = 0
        self.running: dict[str, list[WorkItem]] = {}
        self.stopped: dict[str, list[WorkItem]] = {}

    def join(self, *names: str) -> None:
        self.running |= {name: [] for name in names}

    def leave(self, *names: str) -> None:
        for name in names:
            del self.running[name]

    def rebalance(
        self, *, missed_by: tuple[str, ...] = (), passed_ms: int = 0
    ) -> ClusterAssignment:
        """Rebalance `passed_ms` after the last time; some workers may miss the result."""
        self.now_ms += passed_ms
        self.generation += 1
        result = self.assignor.assign(
            self.connectors,
            self.running,
            now_ms=self.now_ms,
            generation=self.generation,
            last_completed_generation=self.generation - 1 if self.generation > 1 else -1,
        )
        for worker in self.running.keys() - set(missed_by):
            revoked = result.revoked[worker]
            self.stopped.setdefault(worker, []).extend(revoked)
            assigned = result.assigned[worker]
            self.running[worker] = running_after(self.running[worker], assigned, revoked)
        return result

    def settle(self) -> int:
        """Rebalance until nothing changes, after each delay; returns how often."""
        result = self.rebalance()
        count = 1
        while result.delay_ms or any(result.assigned.values()) or any(result.revoked.values()):
            result = self.rebalance(passed_ms=result.delay_ms)
            count += 1
            assert count < 50, "it does not settle"
        return count

    def counts(self) -> dict[str, tuple[int, int]]:
        """By worker, the number of connectors and of tasks."""
        return {
            name: (
                sum(task == CONNECTOR_TASK for _, task in work),
                sum(task != CONNECTOR_TASK for _, task in work),
            )
            for name, work in self.running.items()
        }
