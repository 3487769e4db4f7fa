"""How much each worker should run: connectors and tasks apart, as evenly as their number allows."""

import heapq
from collections.abc import Collection, Iterable, Mapping

from ..subscribers import java_order
from .model import Piece, Running, kinds


def surplus(configured: Collection[Piece], loads: Running) -> dict[str, list[Piece]]:
    """What would have to be taken away for an even load, by worker; the first of what it has.

    Work that nobody runs yet counts too: who is below its share gets it without anyone's loss.
    """
    taken: dict[str, list[Piece]] = {}
    if not configured:
        return taken
    for kind, work in enumerate(kinds(configured)):
        of_kind = {worker: kinds(load)[kind] for worker, load in loads.items()}
        for worker, much in _surplus(len(work), of_kind):
            taken.setdefault(worker, []).extend(much)
    return taken


def _surplus(total: int, loads: Mapping[str, list[Piece]]) -> Iterable[tuple[str, list[Piece]]]:
    least, extras = divmod(total, len(loads))
    sizes = [len(load) for load in loads.values()]
    if sizes.count(least + 1) == extras and sizes.count(least) == len(sizes) - extras:
        return
    for worker, load in loads.items():
        if len(load) <= least:
            continue
        may_keep = least + 1 if extras else least
        extras = max(extras - 1, 0)
        if len(load) > may_keep:
            yield worker, load[: len(load) - may_keep]


def deal(work: Iterable[Piece], loads: Mapping[str, list[Piece]]) -> None:
    """Give each piece to a worker that has least of its kind; among equals by name, and those
    that had less to begin with before those that had more."""
    for kind, dealt in enumerate(kinds(work)):
        sizes = {worker: len(kinds(load)[kind]) for worker, load in loads.items()}
        by_load = sorted(loads, key=lambda w: (sizes[w], java_order(w)))
        heap = [(sizes[worker], place) for place, worker in enumerate(by_load)]
        for piece in dealt:
            size, place = heap[0]
            loads[by_load[place]].append(piece)
            heapq.heapreplace(heap, (size + 1, place))
