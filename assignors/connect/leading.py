"""What the leader of a group of Connect workers answers each of them."""

from collections.abc import Mapping

from .assignor import ConnectAssignor
from .protocol import CONFIG_MISMATCH, WorkerAssignment, WorkerState


def answers(
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
    """By worker. `connectors` is the configuration as the leader knows it, `config_offset` of it.

    Where a worker knows a newer one nobody is given anything, and the memory stays as it is.
    """
    newest = max(state.config_offset for state in workers.values())
    url = workers[leader].url
    if config_offset < newest:
        mismatch = WorkerAssignment(leader, url, newest, error=CONFIG_MISMATCH)
        return dict.fromkeys(workers, mismatch)
    decided = assignor.assign(
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
            tuple(decided.assigned[worker]),
            tuple(decided.revoked[worker]),
            decided.delay_ms,
        )
        for worker in workers
    }
