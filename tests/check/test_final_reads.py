"""The final read of a partition ends, whatever the broker returns."""

import asyncio
from collections.abc import Iterator
from itertools import count, cycle

import pytest
from kohort.check import run
from kohort.check.cluster import Cluster
from kohort.check.history import Poll, ReadEnd
from kohort.check.reader import Reader
from kohort.check.recorder import History
from kohort.client_security import Security

END = 100


class Positions(Reader):
    """A reader whose polls move it to these positions, one after the other."""

    def __init__(self, cluster: Cluster, history: History, positions: Iterator[int]) -> None:
        super().__init__(cluster, history, "final", mode="final", is_committed=True)
        self.positions = {0: 0}
        self._next = positions

    async def end_offset(self, partition: int) -> int:
        return END

    async def poll(self, transaction: str | None = None) -> list[Poll]:
        self.positions[0] = next(self._next)
        return []


def read(positions: Iterator[int]) -> tuple[bool, list[int]]:
    """Whether the read is complete, and the ends that it recorded."""
    cluster, history = Cluster([], Security(), "topic"), History()
    reader = Positions(cluster, history, positions)
    is_complete = asyncio.run(run._FinalReads(cluster, history).read(reader))
    return is_complete, [each.offset for each in history if isinstance(each, ReadEnd)]


def test_it_reads_to_the_end() -> None:
    assert read(count(1)) == (True, [END])


def test_positions_that_were_reached_before_are_no_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "STABLE_SECONDS", 0.05)
    assert read(cycle((50, 0))) == (True, [END])


def test_the_time_of_all_final_reads_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "FINAL_SECONDS", -1.0)
    assert read(count(1)) == (False, [])
