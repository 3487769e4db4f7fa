"""Lives of a group of Connect workers, drawn by a seed and led by our assignor.

A history is what Kafka's assignor can be asked too: its rounds with all that went in. Workers
come, die, come back and do not hear; connectors come, go, grow and shrink; time goes by.
"""

import random
from typing import Any

from kohort.assignors.connect.assignor import ConnectAssignor
from kohort.assignors.connect.model import Piece, after

# Of one letter each: Java keeps those that may have returned in a hash set, and hashes of single
# letters are in the letters' order.
WORKERS = "abcdefg"
MAX_DELAYS_MS = (0, 1, 50, 5_000, 300_000, 300_000)


def history(seed: int, rounds: int = 14) -> dict[str, Any]:
    draw = random.Random(seed)
    life = _Life(draw, draw.choice(MAX_DELAYS_MS))
    return {
        "max_delay_ms": life.assignor.max_delay_ms,
        "rounds": [life.go_on() for _ in range(rounds)],
    }


def replayed(history: dict[str, Any]) -> list[dict[str, Any]]:
    """What our assignor answers to a history's rounds, whoever led when it was drawn."""
    assignor = ConnectAssignor(history["max_delay_ms"])
    answers = []
    for said in history["rounds"]:
        running = {w: [(c, t) for c, t in work] for w, work in said["running"].items()}
        answers.append(_answer(assignor, {**said, "running": running}))
    return answers


class _Life:
    def __init__(self, draw: random.Random, max_delay_ms: int) -> None:
        self.assignor = ConnectAssignor(max_delay_ms)
        self._draw = draw
        self._now_ms = 1_000_000
        self._generation = 0
        self._connectors = {"c0": draw.randint(0, 8), "c1": draw.randint(1, 6)}
        count = draw.randint(1, 4)
        self._running: dict[str, list[Piece]] = {worker: [] for worker in WORKERS[:count]}

    def go_on(self) -> dict[str, Any]:
        draw = self._draw
        last = self._generation
        self._generation += draw.choice((1, 1, 1, 2))
        said = {
            "now_ms": self._now_ms,
            "generation": self._generation,
            # Once in a while the leader was not in the round before, or not its leader.
            "last_completed_generation": last if draw.random() < 0.93 else last - 1,
            "connectors": dict(self._connectors),
            "running": {worker: list(work) for worker, work in self._running.items()},
        }
        answer = _answer(self.assignor, said)
        for worker, work in self._running.items():
            if draw.random() < 0.95:  # else it does not hear
                given, taken = answer["assigned"][worker], answer["revoked"][worker]
                self._running[worker] = after(work, [*map(tuple, given)], [*map(tuple, taken)])
        self._change(answer)
        return said

    def _change(self, answer: dict[str, Any]) -> None:
        draw = self._draw
        delay_ms = answer["delay_ms"]
        self._now_ms += delay_ms if delay_ms and draw.random() < 0.6 else draw.randint(0, 4_000)
        if any(answer["revoked"].values()) and draw.random() < 0.8:
            return  # who stopped something joins again at once, before anything else happens
        what = draw.random()
        if what < 0.25 and len(self._running) > 1:
            del self._running[draw.choice(sorted(self._running))]
        elif what < 0.55 and len(self._running) < len(WORKERS):
            self._running[draw.choice(sorted(set(WORKERS) - set(self._running)))] = []
        elif what < 0.65:
            self._running[draw.choice(sorted(self._running))] = []  # gone and back
        elif what < 0.8:
            self._connectors[draw.choice(("c0", "c1", "c2", "c10"))] = draw.randint(0, 9)
        elif what < 0.85 and len(self._connectors) > 1:
            del self._connectors[draw.choice(sorted(self._connectors))]


def _answer(assignor: ConnectAssignor, said: dict[str, Any]) -> dict[str, Any]:
    """As JSON has it; what is revoked in order, for Kafka keeps sets of it."""
    decided = assignor.assign(
        said["connectors"],
        said["running"],
        now_ms=said["now_ms"],
        generation=said["generation"],
        last_completed_generation=said["last_completed_generation"],
    )
    return {
        "assigned": {w: [[*p] for p in work] for w, work in decided.assigned.items()},
        "revoked": {w: sorted([*p] for p in work) for w, work in decided.revoked.items()},
        "delay_ms": decided.delay_ms,
    }
