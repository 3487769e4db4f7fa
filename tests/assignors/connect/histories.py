"""Random histories of a group of Connect workers, from a seed.

A history has the input of each rebalance, so Kafka's assignor can replay it. Workers join, die,
return and miss assignments; connectors are created, deleted and resized; time passes.
"""

import random
from typing import Any

from kohort.assignors.connect.assignor import ConnectAssignor, running_after
from kohort.assignors.connect.protocol import WorkItem

# Single letters: Java keeps candidates in a hash set, where single letters are in order.
WORKERS = "abcdefg"
MAX_DELAYS_MS = (0, 1, 50, 5_000, 300_000, 300_000)


def history(seed: int, rebalances: int = 14) -> dict[str, Any]:
    draw = random.Random(seed)
    group = _RandomGroup(draw, draw.choice(MAX_DELAYS_MS))
    return {
        "max_delay_ms": group.assignor.max_delay_ms,
        "rounds": [group.rebalance() for _ in range(rebalances)],
    }


def replayed(history: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of our assignor for a history."""
    assignor = ConnectAssignor(history["max_delay_ms"])
    results = []
    for step in history["rounds"]:
        running = {w: [(c, t) for c, t in work] for w, work in step["running"].items()}
        results.append(_assign(assignor, {**step, "running": running}))
    return results


class _RandomGroup:
    def __init__(self, draw: random.Random, max_delay_ms: int) -> None:
        self.assignor = ConnectAssignor(max_delay_ms)
        self._draw = draw
        self._now_ms = 1_000_000
        self._generation = 0
        self._connectors = {"c0": draw.randint(0, 8), "c1": draw.randint(1, 6)}
        count = draw.randint(1, 4)
        self._running: dict[str, list[WorkItem]] = {worker: [] for worker in WORKERS[:count]}

    def rebalance(self) -> dict[str, Any]:
        draw = self._draw
        last = self._generation
        self._generation += draw.choice((1, 1, 1, 2))
        step = {
            "now_ms": self._now_ms,
            "generation": self._generation,
            # Sometimes another worker led the last rebalance.
            "last_completed_generation": last if draw.random() < 0.93 else last - 1,
            "connectors": dict(self._connectors),
            "running": {worker: list(work) for worker, work in self._running.items()},
        }
        result = _assign(self.assignor, step)
        for worker, work in self._running.items():
            if draw.random() < 0.95:  # otherwise it misses the assignment
                assigned = [*map(tuple, result["assigned"][worker])]
                revoked = [*map(tuple, result["revoked"][worker])]
                self._running[worker] = running_after(work, assigned, revoked)
        self._change(result)
        return step

    def _change(self, result: dict[str, Any]) -> None:
        draw = self._draw
        delay_ms = result["delay_ms"]
        self._now_ms += delay_ms if delay_ms and draw.random() < 0.6 else draw.randint(0, 4_000)
        if any(result["revoked"].values()) and draw.random() < 0.8:
            return  # workers with revocations rejoin at once, before anything else happens
        what = draw.random()
        if what < 0.25 and len(self._running) > 1:
            del self._running[draw.choice(sorted(self._running))]
        elif what < 0.55 and len(self._running) < len(WORKERS):
            self._running[draw.choice(sorted(set(WORKERS) - set(self._running)))] = []
        elif what < 0.65:
            self._running[draw.choice(sorted(self._running))] = []  # restarted
        elif what < 0.8:
            self._connectors[draw.choice(("c0", "c1", "c2", "c10"))] = draw.randint(0, 9)
        elif what < 0.85 and len(self._connectors) > 1:
            del self._connectors[draw.choice(sorted(self._connectors))]


def _assign(assignor: ConnectAssignor, step: dict[str, Any]) -> dict[str, Any]:
    """As JSON. Revocations are sorted: Kafka keeps them in sets."""
    result = assignor.assign(
        step["connectors"],
        step["running"],
        now_ms=step["now_ms"],
        generation=step["generation"],
        last_completed_generation=step["last_completed_generation"],
    )
    return {
        "assigned": {w: [[*p] for p in work] for w, work in result.assigned.items()},
        "revoked": {w: sorted([*p] for p in work) for w, work in result.revoked.items()},
        "delay_ms": result.delay_ms,
    }
