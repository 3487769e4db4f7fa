"""One rebalance of Connect workers (IncrementalCooperativeAssignor, KIP-415, KIP-771).

The time is a parameter, and all state is in LeaderState, so rebalances can be replayed.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapreplace
from itertools import cycle
from typing import Final, TypeAlias

from ..ordering import java_order
from .protocol import CONFIG_MISMATCH, CONNECTOR_TASK, WorkerAssignment, WorkerState, WorkItem

MAX_DELAY_MS: Final = 300_000  # Kafka's scheduled.rebalance.max.delay.ms
# The initial delay in ms after consecutive revoking rebalances, and its growth factor.
REVOCATION_BACKOFF: Final = 40

Running: TypeAlias = Mapping[str, Sequence[WorkItem]]
"""The connectors and tasks that each worker runs, with an entry for every worker."""


@dataclass(frozen=True, slots=True)
class ClusterAssignment:
    """The result of one rebalance. All mappings contain every worker."""

    assigned: dict[str, list[WorkItem]]
    """Work to start, in addition to the work that is already running."""
    revoked: dict[str, list[WorkItem]]
    """Work to stop. The worker then rejoins immediately."""
    delay_ms: int
    """The time in ms after which all workers rejoin, or 0. It is sent to every worker."""


@dataclass(slots=True)
class LeaderState:
    """The leader's state between rebalances. A new leader starts with the defaults."""

    previous_assignment: set[WorkItem] = field(default_factory=set)
    """All work assigned at the last rebalance, including work that is held back."""
    previous_revocation: set[WorkItem] = field(default_factory=set)
    revoked_in_previous: bool = False
    """Whether the last rebalance revoked work to balance the load, or delayed doing so."""
    candidate_workers: list[str] = field(default_factory=list)
    """Workers that joined without work during the delay, and may have been restarted."""
    scheduled_rebalance_ms: int = 0
    """When the delay ends, for held-back work or for a balancing revocation; 0 without a delay."""
    delay_ms: int = 0
    previous_generation_id: int = -1
    previous_members: frozenset[str] = frozenset()
    successive_revoking_rebalances: int = 0


class ConnectAssignor:
    def __init__(self, max_delay_ms: int = MAX_DELAY_MS, state: LeaderState | None = None) -> None:
        """`max_delay_ms` is scheduled.rebalance.max.delay.ms; 0 disables the delay."""
        self.max_delay_ms = max_delay_ms
        self.state = state or LeaderState()

    def assign(
        self,
        connectors: Mapping[str, int],
        running: Running,
        *,
        now_ms: int,
        generation: int,
        last_completed_generation: int,
    ) -> ClusterAssignment:
        """Decide one rebalance. `connectors` contains each connector's task count. The
        previous assignment is discarded if it is not from the last completed generation, because
        another worker was the leader in the meantime."""
        state = self.state
        running = {worker: running[worker] for worker in sorted(running, key=java_order)}
        owners = Counter(item for work in running.values() for item in work)
        active = set(owners)
        if state.previous_generation_id != last_completed_generation:
            state.previous_assignment = set()
        # A worker did not receive or did not execute a revocation.
        if state.previous_revocation & active:
            state.previous_assignment = set(active)

        configured = work_items(connectors)
        deleted = state.previous_assignment - configured
        stopping = deleted | {item for item, count in owners.items() if count > 1}
        lost = state.previous_assignment - active - deleted
        created = _sorted_work(configured - state.previous_assignment - active)

        revoked = {w: [item for item in work if item in stopping] for w, work in running.items()}
        loads = {w: [item for item in work if item not in stopping] for w, work in running.items()}
        created += self._handle_lost(_sorted_work(lost), loads, now_ms)
        for worker, surplus in self._balancing_revocations(configured, loads, now_ms).items():
            revoked[worker] += surplus
            loads[worker] = [item for item in loads[worker] if item not in surplus]
        _assign_to_least_loaded(created, loads)

        state.previous_revocation = {item for work in revoked.values() for item in work}
        state.previous_assignment = {item for work in loads.values() for item in work} | lost
        state.previous_generation_id = generation
        state.previous_members = frozenset(running)
        assigned: dict[str, list[WorkItem]] = {}
        for worker, work in loads.items():
            already = set(running[worker])
            assigned[worker] = [i for kind in _by_kind(work) for i in kind if i not in already]
        return ClusterAssignment(assigned, revoked, state.delay_ms)

    def _handle_lost(
        self, lost: list[WorkItem], loads: dict[str, list[WorkItem]], now_ms: int
    ) -> list[WorkItem]:
        """Handle lost work: hold it back, or assign it to returned workers. Return the work that is
        free to assign (handleLostAssignments)."""
        state = self.state
        if not lost and not state.revoked_in_previous:
            self._end_delay()
            return []
        if state.scheduled_rebalance_ms <= 0 and state.previous_members <= loads.keys():
            return lost  # no worker has left, but a worker did not receive its last assignment
        if self.max_delay_ms == 0:
            return lost
        if 0 < state.scheduled_rebalance_ms <= now_ms:
            returned = [worker for worker in state.candidate_workers if worker in loads]
            self._end_delay()
            state.revoked_in_previous = False
            if not returned:
                return lost
            for kind in _by_kind(lost):
                for item, worker in zip(kind, cycle(returned), strict=False):
                    loads[worker].append(item)
            return []
        idle = [worker for worker, load in loads.items() if not load]
        state.candidate_workers += [w for w in idle if w not in state.candidate_workers]
        scheduled_ms = state.scheduled_rebalance_ms
        wait_ms = scheduled_ms - now_ms if scheduled_ms else self.max_delay_ms
        state.delay_ms = min(wait_ms, self.max_delay_ms)
        state.scheduled_rebalance_ms = now_ms + state.delay_ms
        return []

    def _end_delay(self) -> None:
        self.state.candidate_workers = []
        self.state.scheduled_rebalance_ms = 0
        self.state.delay_ms = 0

    def _balancing_revocations(
        self, configured: set[WorkItem], loads: Running, now_ms: int
    ) -> dict[str, list[WorkItem]]:
        """Return what each worker must revoke: nothing during a delay, and with exponential backoff
        after a revoking rebalance (KIP-771)."""
        state = self.state
        if state.delay_ms:
            state.revoked_in_previous = False
            return {}
        surplus = _work_to_revoke(configured, loads)
        if not surplus:
            if state.revoked_in_previous:
                state.successive_revoking_rebalances = 0
            state.revoked_in_previous = False
        elif state.revoked_in_previous:
            state.successive_revoking_rebalances += 1
            state.delay_ms = backoff_ms(state.successive_revoking_rebalances, self.max_delay_ms)
            if state.delay_ms:
                state.scheduled_rebalance_ms = now_ms + state.delay_ms
                return {}
        else:
            state.revoked_in_previous = True
        return surplus


def backoff_ms(rebalances: int, max_delay_ms: int) -> int:
    """Return the delay in ms after consecutive rebalances with revocations: 40, 1600, 64000, …"""
    if max_delay_ms <= 1:
        return max_delay_ms
    # As in Java's ExponentialBackoff, the exponent is limited so that the power cannot overflow.
    exponent = min(rebalances, math.log(max_delay_ms) / math.log(REVOCATION_BACKOFF))
    return min(int(REVOCATION_BACKOFF**exponent), max_delay_ms)


# --- work items and loads


def work_items(connectors: Mapping[str, int]) -> set[WorkItem]:
    """Expand connectors into connector and task work items."""
    tasks = {(name, task) for name, count in connectors.items() for task in range(count)}
    return tasks | {(name, CONNECTOR_TASK) for name in connectors}


def work_after(
    running: Sequence[WorkItem], assigned: Sequence[WorkItem], revoked: Sequence[WorkItem]
) -> list[WorkItem]:
    """Return a worker's work after an assignment (WorkerCoordinator.onJoinComplete)."""
    return [*assigned, *(i for i in running if i not in revoked and i not in assigned)]


def _sorted_work(items: Iterable[WorkItem]) -> list[WorkItem]:
    """Sort connectors before tasks, each by name."""
    return sorted(items, key=lambda i: (i[1] != CONNECTOR_TASK, java_order(i[0]), i[1]))


def _by_kind(items: Iterable[WorkItem]) -> tuple[list[WorkItem], list[WorkItem]]:
    """Split the items into connectors and tasks, which are balanced separately."""
    work = list(items)
    return (
        [item for item in work if item[1] == CONNECTOR_TASK],
        [item for item in work if item[1] != CONNECTOR_TASK],
    )


def _work_to_revoke(configured: Collection[WorkItem], loads: Running) -> dict[str, list[WorkItem]]:
    """Return what each worker must revoke for an even load. Shares are computed from all configured
    work, because unassigned work can go to workers below their share without a revocation."""
    surplus: dict[str, list[WorkItem]] = {}
    if not configured:
        return surplus
    for kind, work in enumerate(_by_kind(configured)):
        of_kind = {worker: _by_kind(load)[kind] for worker, load in loads.items()}
        for worker, items in _surplus_of_kind(len(work), of_kind):
            surplus.setdefault(worker, []).extend(items)
    return surplus


def _surplus_of_kind(
    total: int, loads: Mapping[str, list[WorkItem]]
) -> Iterable[tuple[str, list[WorkItem]]]:
    quota, extra = divmod(total, len(loads))
    sizes = [len(load) for load in loads.values()]
    if sizes.count(quota + 1) == extra and sizes.count(quota) == len(sizes) - extra:
        return
    for worker, load in loads.items():
        if len(load) <= quota:
            continue
        keep = quota + 1 if extra else quota
        extra = max(extra - 1, 0)
        if len(load) > keep:
            yield worker, load[: len(load) - keep]


def _assign_to_least_loaded(work: Iterable[WorkItem], loads: Mapping[str, list[WorkItem]]) -> None:
    """Append each item to the worker with the fewest items of its kind. The initial load and the
    name break ties."""
    for kind, items in enumerate(_by_kind(work)):
        sizes = {worker: len(_by_kind(load)[kind]) for worker, load in loads.items()}
        by_size = sorted(sorted(loads, key=java_order), key=sizes.__getitem__)
        heap = [(sizes[worker], index, worker) for index, worker in enumerate(by_size)]
        for item in items:
            size, index, worker = heap[0]
            heapreplace(heap, (size + 1, index, worker))
            loads[worker].append(item)


# --- the leader


def worker_assignments(
    assignor: ConnectAssignor,
    leader: str,
    workers: Mapping[str, WorkerState],
    connectors: Mapping[str, int],
    *,
    config_offset: int,
    now_ms: int,
    generation: int,
    last_completed_generation: int,
) -> dict[str, WorkerAssignment]:
    """Return the assignment of each worker. `config_offset` is the offset of the configuration from
    which `connectors` was read. If a worker has read a newer configuration, nothing is assigned and
    the state does not change."""
    newest = max(state.config_offset for state in workers.values())
    url = workers[leader].url
    if config_offset < newest:
        mismatch = WorkerAssignment(leader, url, newest, error=CONFIG_MISMATCH)
        return dict.fromkeys(workers, mismatch)
    result = assignor.assign(
        connectors,
        {w: state.allocation.assigned if state.allocation else () for w, state in workers.items()},
        now_ms=now_ms,
        generation=generation,
        last_completed_generation=last_completed_generation,
    )
    return {
        worker: WorkerAssignment(
            leader,
            url,
            config_offset,
            tuple(result.assigned[worker]),
            tuple(result.revoked[worker]),
            result.delay_ms,
        )
        for worker in workers
    }
