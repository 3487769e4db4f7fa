"""A simulated group of Connect workers with a clock set by the test, and random histories of such
groups.

A history contains the input of each rebalance, so that Kafka's assignor can replay it.
"""

import random
from collections.abc import Mapping
from typing import Any

from kohort.assignors.connect.assignor import ClusterAssignment, ConnectAssignor, work_after
from kohort.assignors.connect.protocol import CONNECTOR_TASK, WorkItem

# Single letters: Java keeps candidates in a hash set, where single letters are in order.
WORKERS = "abcdefg"
MAX_DELAYS_MS = (0, 1, 50, 5_000, 300_000, 300_000)


def tasks(text: str) -> list[WorkItem]:
    """Parse "P-0,3 Q": tasks 0 and 3 of connector P, and connector Q itself."""
    work: list[WorkItem] = []
    for word in text.split():
        name, dash, numbers = word.rpartition("-")
        work += [(name, int(n)) for n in numbers.split(",")] if dash else [(word, CONNECTOR_TASK)]
    return work


class Workers:
    """`running`: what each worker runs; `stopped`: all work that was ever revoked from it;
    `rebalances`: the input of each rebalance."""

    def __init__(self, connectors: Mapping[str, int], max_delay_ms: int = 300_000) -> None:
        self.connectors = dict(connectors)
        self.assignor = ConnectAssignor(max_delay_ms)
        self.now_ms = 1_000_000
        self.generation = 0
        self.running: dict[str, list[WorkItem]] = {}
        self.stopped: dict[str, list[WorkItem]] = {}
        self.rebalances: list[dict[str, Any]] = []

    def join(self, *names: str) -> None:
        self.running |= {name: [] for name in names}

    def leave(self, *names: str) -> None:
        for name in names:
            del self.running[name]

    def rebalance(
        self,
        *,
        missed_by: tuple[str, ...] = (),
        passed_ms: int = 0,
        incomplete: int = 0,
        new_leader: bool = False,
    ) -> ClusterAssignment:
        """Rebalance `passed_ms` after the last time; some workers may miss the result.

        `incomplete`: how many rebalances before this one did not complete; `new_leader`: another
        worker led the last one.
        """
        self.now_ms += passed_ms
        last_completed = self.generation or -1
        self.generation += 1 + incomplete
        step = {
            "connectors": dict(self.connectors),
            "running": {name: list(work) for name, work in self.running.items()},
            "now_ms": self.now_ms,
            "generation": self.generation,
            "last_completed_generation": last_completed - new_leader,
        }
        self.rebalances.append(step)
        result = self.assignor.assign(**step)
        for worker in self.running.keys() - set(missed_by):
            revoked = result.revoked[worker]
            self.stopped.setdefault(worker, []).extend(revoked)
            assigned = result.assigned[worker]
            self.running[worker] = work_after(self.running[worker], assigned, revoked)
        return result

    def settle(self) -> int:
        """Rebalance until nothing changes, after each delay; return the number of rebalances."""
        result = self.rebalance()
        count = 1
        while result.delay_ms or any(result.assigned.values()) or any(result.revoked.values()):
            result = self.rebalance(passed_ms=result.delay_ms)
            count += 1
            assert count < 50, "it does not settle"
        return count

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return the number of connectors and of tasks of each worker."""
        return {
            name: (
                sum(task == CONNECTOR_TASK for _, task in work),
                sum(task != CONNECTOR_TASK for _, task in work),
            )
            for name, work in self.running.items()
        }


def history(seed: int, rebalances: int = 14) -> dict[str, Any]:
    """Workers join, die, return and miss assignments; connectors are created, deleted and resized;
    time passes."""
    draw = random.Random(seed)
    connectors = {"c0": draw.randint(0, 8), "c1": draw.randint(1, 6)}
    group = Workers(connectors, draw.choice(MAX_DELAYS_MS))
    group.join(*WORKERS[: draw.randint(1, 4)])
    for _ in range(rebalances):
        result = group.rebalance(
            missed_by=tuple(worker for worker in group.running if draw.random() < 0.05),
            incomplete=draw.choice((0, 0, 0, 1)),
            new_leader=draw.random() < 0.07,
        )
        _change(group, draw, result)
    return {"max_delay_ms": group.assignor.max_delay_ms, "rounds": group.rebalances}


def _change(group: Workers, draw: random.Random, result: ClusterAssignment) -> None:
    delay_ms = result.delay_ms
    group.now_ms += delay_ms if delay_ms and draw.random() < 0.6 else draw.randint(0, 4_000)
    if any(result.revoked.values()) and draw.random() < 0.8:
        return  # workers with revocations rejoin immediately, before anything else happens
    kind = draw.random()
    if kind < 0.25 and len(group.running) > 1:
        group.leave(draw.choice(sorted(group.running)))
    elif kind < 0.55 and len(group.running) < len(WORKERS):
        group.join(draw.choice(sorted(set(WORKERS) - set(group.running))))
    elif kind < 0.65:
        group.join(draw.choice(sorted(group.running)))  # restarted
    elif kind < 0.8:
        group.connectors[draw.choice(("c0", "c1", "c2", "c10"))] = draw.randint(0, 9)
    elif kind < 0.85 and len(group.connectors) > 1:
        del group.connectors[draw.choice(sorted(group.connectors))]


def replayed(history: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the results of kohort's assignor for a history, as JSON. Revocations are sorted,
    because Kafka keeps them in sets."""
    assignor = ConnectAssignor(history["max_delay_ms"])
    results = []
    for step in history["rounds"]:
        running = {w: [(c, t) for c, t in work] for w, work in step["running"].items()}
        result = assignor.assign(**{**step, "running": running})
        results.append(
            {
                "assigned": {w: [[*p] for p in work] for w, work in result.assigned.items()},
                "revoked": {w: sorted([*p] for p in work) for w, work in result.revoked.items()},
                "delay_ms": result.delay_ms,
            }
        )
    return results
