"""Samples from a broker: ListOffsets, of now and by time.

A broker finds the offset of a time in its index, one partition once per request. So the ticks are
not asked for one by one: where a log ends alike at two of them it did so at all in between, and an
idle topic costs no more than a few questions.
"""

import time
from collections.abc import Generator, Iterator, Sequence
from typing import Protocol

from .ends import WIRE_PERIOD_MS, Sample, Span, Ticks
from .wire_cluster import EARLIEST, LATEST, Cluster, TopicPartition

__all__ = ["ends_at", "samples_of_broker"]


class Asked(Protocol):
    """What is asked of a cluster here."""

    def offsets(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int | None]: ...


def samples_of_broker(
    bootstrap: str, topics: Sequence[str] | None, past: Span | None
) -> Iterator[Sample]:
    """Of the ticks of `past`, and of now. Raises SourceError."""
    with Cluster(bootstrap) as cluster:
        found = cluster.topics(topics)
        places = [(topic, index) for topic in sorted(found) for index in found[topic]]
        starts = cluster.offsets(dict.fromkeys(places, EARLIEST))
        ends = cluster.offsets(dict.fromkeys(places, LATEST))
        known = {
            place: (start, end)
            for place in places
            if (start := starts.get(place)) is not None and (end := ends.get(place)) is not None
        }
        now_ms = time.time_ns() // 1_000_000
        if past is not None:
            until_ms = min(past.until_ms, now_ms)
            ticks = Ticks.between(past.since_ms, until_ms, WIRE_PERIOD_MS, len(known))
            found_at = ends_at(cluster, ticks, {place: end for place, (_, end) in known.items()})
            for place, offsets in found_at.items():
                start = known[place][0]
                for number, end in enumerate(offsets):
                    # At a time before all that retention left the log ended there, or earlier.
                    if end > start or not start:
                        yield Sample(*place, None, end, ticks.at(number))
        for place, (start, end) in known.items():
            yield Sample(*place, start, end, now_ms)


def ends_at(
    cluster: Asked, ticks: Ticks, ends: dict[TopicPartition, int]
) -> dict[TopicPartition, list[int]]:
    """The offsets of each partition at the ticks, in order. `ends`: where the logs end now, which
    is what a time has that no record has come since. A partition that goes is left out."""
    found: dict[TopicPartition, list[int]] = {}
    searches = {place: _search(ticks.total) for place in ends}
    told: dict[TopicPartition, int | None] = dict.fromkeys(ends)
    while told:
        asked: dict[TopicPartition, int] = {}
        for place, offset in told.items():
            try:
                asked[place] = ticks.at(searches[place].send(offset))
            except StopIteration as stopped:
                found[place] = stopped.value
        answered = cluster.offsets(asked) if asked else {}
        told = {
            place: ends[place] if offset is None else offset for place, offset in answered.items()
        }
    return found


def _search(count: int) -> Generator[int, int | None, list[int]]:
    """Asks for the offsets of ticks by their number and is told them, until it knows all."""
    if not count:
        return []
    offsets = [0] * count
    offsets[0] = (yield 0) or 0
    offsets[-1] = (yield count - 1) or 0
    spans = [(0, count - 1)]
    while spans:
        low, high = spans.pop()
        if offsets[low] == offsets[high]:
            offsets[low:high] = [offsets[low]] * (high - low)
        elif high - low > 1:
            middle = (low + high) // 2
            offsets[middle] = (yield middle) or 0
            spans += [(low, middle), (middle, high)]
    return offsets
