"""One round of Kafka Connect's rebalancing (IncrementalCooperativeAssignor, KIP-415, KIP-771).

Time is handed in, and the memory is there to be looked at: the same rounds always end the same.
"""

import math
from collections import Counter
from collections.abc import Mapping
from itertools import cycle

from ..subscribers import java_order
from .balancing import deal, surplus
from .model import LeaderMemory, Piece, Round, Running, in_order, kinds, pieces

MAX_DELAY_MS = 300_000  # Kafka's scheduled.rebalance.max.delay.ms
REVOKING_BACKOFF = 40  # ms after the first revoking round, and how much longer after each


class ConnectAssignor:
    """`max_delay_ms` is `scheduled.rebalance.max.delay.ms`; 0 holds nothing back."""

    def __init__(
        self, max_delay_ms: int = MAX_DELAY_MS, memory: LeaderMemory | None = None
    ) -> None:
        self.max_delay_ms = max_delay_ms
        self.memory = memory or LeaderMemory()

    def assign(
        self,
        connectors: Mapping[str, int],
        running: Running,
        *,
        now_ms: int,
        generation: int,
        last_completed_generation: int,
    ) -> Round:
        """`connectors` has the number of tasks of each, as configured.

        A memory of another generation than the last completed one is of no use: this worker
        has not led since.
        """
        memory = self.memory
        running = {worker: running[worker] for worker in sorted(running, key=java_order)}
        owners = Counter(piece for work in running.values() for piece in work)
        active = set(owners)
        self._trust(active, last_completed_generation)

        configured = pieces(connectors)
        deleted = memory.previous - configured
        gone = deleted | {piece for piece, workers in owners.items() if workers > 1}
        lost = memory.previous - active - deleted
        created = in_order(configured - memory.previous - active)

        revoked = {w: [p for p in work if p in gone] for w, work in running.items()}
        loads = {w: [p for p in work if p not in gone] for w, work in running.items()}
        created += self._place_lost(in_order(lost), loads, now_ms)
        for worker, taken in self._to_balance(configured, loads, now_ms).items():
            revoked[worker] += taken
            loads[worker] = [piece for piece in loads[worker] if piece not in taken]
        deal(created, loads)

        memory.revoked = {piece for work in revoked.values() for piece in work}
        memory.previous = {piece for work in loads.values() for piece in work} | lost
        memory.generation = generation
        memory.members = frozenset(running)
        assigned: dict[str, list[Piece]] = {}
        for worker, work in loads.items():
            connectors_first, tasks = kinds(work)
            had = set(running[worker])
            assigned[worker] = [p for p in connectors_first + tasks if p not in had]
        return Round(assigned, revoked, memory.delay_ms)

    def _trust(self, active: set[Piece], last_completed_generation: int) -> None:
        """What was remembered may have been overtaken."""
        memory = self.memory
        if memory.generation != last_completed_generation:
            memory.previous = set()
        if memory.revoked & active:  # the workers were not told, or have not done it
            memory.previous = set(active)

    def _place_lost(
        self, lost: list[Piece], loads: dict[str, list[Piece]], now_ms: int
    ) -> list[Piece]:
        """Hold it back, or give it to who came back; what is left is for anybody."""
        memory = self.memory
        if not lost and not memory.revoked_in_previous:
            self._end_delay()
            return []
        if memory.scheduled_ms <= 0 and memory.members <= loads.keys():
            return lost  # nobody went away: some worker did not hear of the last round
        if self.max_delay_ms == 0:
            return lost
        if 0 < memory.scheduled_ms <= now_ms:
            returned = [worker for worker in memory.candidates if worker in loads]
            self._end_delay()
            memory.revoked_in_previous = False
            if not returned:
                return lost
            for work in kinds(lost):
                for piece, worker in zip(work, cycle(returned), strict=False):
                    loads[worker].append(piece)
            return []
        idle = [worker for worker, load in loads.items() if not load]
        memory.candidates += [worker for worker in idle if worker not in memory.candidates]
        wait_ms = memory.scheduled_ms - now_ms if memory.scheduled_ms else self.max_delay_ms
        memory.delay_ms = min(wait_ms, self.max_delay_ms)
        memory.scheduled_ms = now_ms + memory.delay_ms
        return []

    def _end_delay(self) -> None:
        self.memory.candidates = []
        self.memory.scheduled_ms = 0
        self.memory.delay_ms = 0

    def _to_balance(
        self, configured: set[Piece], loads: Running, now_ms: int
    ) -> dict[str, list[Piece]]:
        """By worker what it must stop: nothing while a delay runs, and one round after another
        only after a while that grows (KIP-771)."""
        memory = self.memory
        if memory.delay_ms:
            memory.revoked_in_previous = False
            return {}
        taken = surplus(configured, loads)
        if not taken:
            if memory.revoked_in_previous:
                memory.revoking_rounds = 0
            memory.revoked_in_previous = False
        elif memory.revoked_in_previous:
            memory.revoking_rounds += 1
            memory.delay_ms = backoff_ms(memory.revoking_rounds, self.max_delay_ms)
            if memory.delay_ms:
                memory.scheduled_ms = now_ms + memory.delay_ms
                return {}
        else:
            memory.revoked_in_previous = True
        return taken


def backoff_ms(rounds: int, max_delay_ms: int) -> int:
    """40, 1600, 64000 and so on, up to the maximum; 0 where nothing is ever held back."""
    if max_delay_ms <= 1:
        return max_delay_ms
    # As Java's ExponentialBackoff: the exponent is bounded, so that no power overflows.
    exponent = min(rounds, math.log(max_delay_ms) / math.log(REVOKING_BACKOFF))
    return min(int(REVOKING_BACKOFF**exponent), max_delay_ms)
