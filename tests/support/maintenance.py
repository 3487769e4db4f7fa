"""A broker's upkeep without a socket: time, turns and threads are the test's (see topic_world)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from kohort.broker.maintenance import Maintenance
from kohort.broker.scheduler import SLICE_SECONDS, Scheduler
from kohort.log.log import Log
from kohort.topics.topic import Topic
from support.broker import FOLDER, World, batch
from support.log import content

DAY_MS = 24 * 3600 * 1000
BACKOFF_MS = 15_000
CHECK_MS = 300_000
PART = b"x" * 300 * 1024  # three of them and a fourth begins the next segment of 1 MiB


class UpkeepWorld(World):
    """With the upkeep's timers; a thread's work is done in a turn of its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.slices = 0
        seconds = itertools.count()
        self.scheduler = Scheduler(
            self._call_soon,
            self._outside,
            seconds=lambda: next(seconds) * SLICE_SECONDS / 2,
        )
        self.upkeep = Maintenance(self.node, self.scheduler)

    def _call_soon(self, callback: Callable[[], None]) -> None:
        self.slices += 1
        self._turns.append(callback)

    def _outside(
        self, work: Callable[[], object], done: Callable[[BaseException | None], None]
    ) -> None:
        def run() -> None:
            error: BaseException | None = None
            try:
                work()
            except OSError as raised:
                error = raised
            done(error)

        self._turns.append(run)

    def log(self, topic: str = "orders") -> Log:
        partition = self.topics.partition(topic, 0)
        assert partition is not None
        return partition.log

    def make(self, name: str, partitions: int = 1, **overrides: str) -> Topic:
        return super().make(name, partitions, segment_bytes=str(1024 * 1024), **overrides)

    def fill(self, count: int, keys: int = 2, topic: str = "orders") -> None:
        for number in range(count):
            key = b"key %d" % (number % keys)
            assert not self.produce(topic, batch(PART, at_ms=self.now_ms, key=key)).error_code

    def later(self, duration_ms: int = BACKOFF_MS) -> None:
        self.pass_time(duration_ms)
        self.turn()
        while any(timer.deadline_ms <= self.now_ms for timer in self.timers):
            self.pass_time(0)
            self.turn()

    def left(self, topic: str = "orders") -> list[int]:
        return [offset for offset, _, _ in content(self.log(topic))]


def checkpoint(world: World, name: str) -> str:
    return world.files.read_bytes(FOLDER / name).decode()
